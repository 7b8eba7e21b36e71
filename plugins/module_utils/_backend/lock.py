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

from ansible_collections.reduced.footprint.plugins.module_utils._model import errors

_FOLDER = "reduced.footprint"


def lock_folder() -> pathlib.Path:
    """Where this user's locks stand: ``/run/lock`` for root, else a private folder."""
    if os.geteuid() == 0 and os.path.isdir("/run"):
        return pathlib.Path("/run/lock") / _FOLDER
    return pathlib.Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()) / f"{_FOLDER}-{os.geteuid()}"


@contextlib.contextmanager
def host_lock(name: str, timeout: float) -> t.Iterator[None]:
    """Hold a lock of this host; a killed holder frees it.

    :arg name: what is locked, e.g. ``domains``.
    :arg timeout: seconds to wait for another holder.
    :raises BackendError: somebody else still holds it.
    """
    folder = lock_folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"{name}.lock"
    with path.open("a", encoding="ascii") as stream:
        until = time.monotonic() + timeout
        while True:
            try:
                fcntl.flock(stream.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() >= until:
                    raise errors.BackendError(
                        f"another run has held {path} for {timeout:g} s.", mend="Wait until the other play on this host has ended, then run again."
                    ) from error
                time.sleep(0.1)
        yield
