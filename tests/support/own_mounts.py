# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Private mounts of a test, as those of a worker.

A process that creates a mount namespace while a test has file systems mounted gets copies of these mounts, which
keep file systems and loop devices busy for the lifetime of that namespace.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import typing as t

_CLONE_NEWNS = 0x00020000


def _call(name: str, *arguments: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


@contextlib.contextmanager
def own_mounts() -> t.Iterator[None]:
    """Give the calling thread and its children private mounts, and restore the shared ones afterwards."""
    there = os.open("/proc/thread-self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    folder = os.getcwd()
    try:
        _call("unshare", _CLONE_NEWNS)
        try:
            subprocess.run(["mount", "--make-rprivate", "/"], check=True)
            yield
        finally:
            _call("setns", there, _CLONE_NEWNS)
            # entering a namespace leads to its root
            os.chdir(folder)
    finally:
        os.close(there)
