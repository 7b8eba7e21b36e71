# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Exclusive locks of a host, released when the process ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import tempfile
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import io_files, model_errors

_FOLDER = "reduced.footprint"


def lock_folder() -> pathlib.Path:
    """Return the lock folder of this user: below ``/run`` for root, because only root can create folders there, else a private one."""
    if os.geteuid() == 0 and os.path.isdir("/run"):
        return io_files.RUN / "locks"
    return pathlib.Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()) / f"{_FOLDER}-{os.geteuid()}"


@contextlib.contextmanager
def host_lock(name: str, timeout: float) -> t.Iterator[None]:
    """Hold a lock of this host; the lock of a killed process is released."""
    folder = lock_folder()
    if folder.parent == io_files.RUN:
        io_files.private_folder(io_files.RUN)
    with file_lock(io_files.private_folder(folder) / f"{name}.lock", timeout):
        yield


@contextlib.contextmanager
def file_lock(path: pathlib.Path, timeout: float) -> t.Iterator[None]:
    """Hold the lock of a file, created if missing; for data that several hosts or containers share, the file is next to the data.

    :arg path: of the lock file; only its owner may write to its folder.
    """
    try:
        # O_NOFOLLOW: a link could lead to any file
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise model_errors.BackendError(
            f"the lock file {path} cannot be opened: {error.strerror}.", hint="Remove it, and run again."
        ) from error
    try:
        until = time.monotonic() + timeout
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() >= until:
                    raise model_errors.BackendError(
                        f"another run has held {path} for {timeout:g} s.", hint="Wait until the other play on this host has finished, then run again."
                    ) from error
                time.sleep(0.1)
        yield
    finally:
        os.close(handle)
