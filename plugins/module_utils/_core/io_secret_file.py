# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Secret files: created exactly once, even with concurrent callers, and never partially written."""

from __future__ import annotations

import pathlib
import stat

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import make_folder, write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def read(path: pathlib.Path) -> str | None:
    """Return the content of a file without trailing newlines, ``None`` if it does not exist."""
    try:
        return path.read_text(encoding="utf-8").rstrip("\r\n")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise BackendError(f"cannot be read: {why}.", str(path), "Make the user who runs Ansible its owner.") from error


def open_to_others(path: pathlib.Path) -> bool:
    """Whether other users than the owner have any permission on a file."""
    return bool(path.stat().st_mode & _OTHERS)


def close_to_others(path: pathlib.Path) -> None:
    """Set the mode of a file to 0600."""
    try:
        path.chmod(0o600)
    except OSError as error:
        raise BackendError("is accessible to other users, and its mode cannot be changed.", str(path), f"Run `chmod 600 {path}` as its owner.") from error


def create_once(path: pathlib.Path, text: str) -> bool:
    """Create a synced file with mode 0600; ``False`` if it already exists.

    It is renamed without replacing another one, so it is complete, and exactly one of several concurrent callers succeeds, also on NFS.
    """
    try:
        make_folder(path.parent, 0o700)
        write_atomic(path, f"{text}\n", new=True)
    except FileExistsError:
        return False
    except OSError as error:
        raise BackendError(
            f"cannot be written: {error.strerror}.", str(path), "Set footprint_secrets to a writable directory on a file system that supports hard links."
        ) from error
    return True


def replace(path: pathlib.Path, text: str) -> None:
    """Replace the content of an existing file atomically."""
    try:
        write_atomic(path, f"{text}\n")
    except OSError as error:
        raise BackendError(f"cannot be written: {error.strerror}.", str(path), "Make the user who runs Ansible the owner of it and its directory.") from error
