# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One at a time on a host: a lock that dies with its process."""

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
    """The folder of this user's locks: below ``/run`` for root, where only root makes folders, else one of the user's own."""
    if os.geteuid() == 0 and os.path.isdir("/run"):
        return io_files.RUN / "locks"
    return pathlib.Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()) / f"{_FOLDER}-{os.geteuid()}"


@contextlib.contextmanager
def host_lock(name: str, timeout: float) -> t.Iterator[None]:
    """Hold a lock of this host; a killed holder frees it.

    :arg name: what is locked, e.g. ``domains``.
    :arg timeout: seconds to wait for another holder.
    :raises BackendError: somebody else still holds it, or the folder of the locks is not this user's own.
    """
    folder = lock_folder()
    if folder.parent == io_files.RUN:
        io_files.private_folder(io_files.RUN)
    path = io_files.private_folder(folder) / f"{name}.lock"
    try:
        # no file of somebody else, wherever a link leads
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise model_errors.BackendError(
            f"{path} cannot be opened: {error.strerror}.", hint="Remove it; it is a lock file and nothing else belongs there."
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
                        f"another run has held {path} for {timeout:g} s.", hint="Wait until the other play on this host has ended, then run again."
                    ) from error
                time.sleep(0.1)
        yield
    finally:
        os.close(handle)
