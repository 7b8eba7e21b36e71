# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A file with a secret that is written once, whoever comes first, and never half."""

from __future__ import annotations

import contextlib
import os
import pathlib
import stat
import tempfile

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def read(path: pathlib.Path) -> str | None:
    """What a file holds without the end of its last line, ``None`` when there is none.

    :raises BackendError: it cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8").rstrip("\r\n")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise BackendError(f"cannot be read: {why}.", str(path), "Let the user who runs Ansible own it.") from error


def open_to_others(path: pathlib.Path) -> bool:
    """Whether somebody else than its owner may read or write a file."""
    return bool(path.stat().st_mode & _OTHERS)


def close_to_others(path: pathlib.Path) -> None:
    """Let only its owner read a file.

    :raises BackendError: it is somebody else's.
    """
    try:
        path.chmod(0o600)
    except OSError as error:
        raise BackendError("may be read by others, and is not ours to change.", str(path), f"Run `chmod 600 {path}` as its owner.") from error


def create_once(path: pathlib.Path, text: str) -> bool:
    """Write a file that is not there yet, synced and with mode 0600; whether it was this call that did.

    A link makes it appear: it is whole, and of many that try at once exactly one succeeds, also over NFS.

    :raises BackendError: it cannot be written.
    """
    try:
        _directories(path.parent)
        handle, temporary = tempfile.mkstemp(dir=str(path.parent), prefix=".new-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(f"{text}\n")
                stream.flush()
                os.fsync(stream.fileno())
            try:
                os.link(temporary, path)
            except FileExistsError:
                return False
        finally:
            os.unlink(temporary)
        directory = os.open(str(path.parent), os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except OSError as error:
        raise BackendError(
            f"cannot be written: {error.strerror}.", str(path), "Point footprint_secrets to a directory of yours on a file system with hard links."
        ) from error
    return True


def replace(path: pathlib.Path, text: str) -> None:
    """Write another text into a file that is there; whoever reads it meanwhile gets the old one or the new one, whole.

    :raises BackendError: it cannot be written.
    """
    try:
        handle, temporary = tempfile.mkstemp(dir=str(path.parent), prefix=".new-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(f"{text}\n")
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise BackendError(f"cannot be written: {error.strerror}.", str(path), "Let the user who runs Ansible own it and its directory.") from error


def _directories(path: pathlib.Path) -> None:
    """The directory and its parents; those that are made are nobody else's."""
    if path.is_dir():
        return
    _directories(path.parent)
    with contextlib.suppress(FileExistsError):  # another fork was faster
        path.mkdir(mode=0o700)
