# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files that survive a power loss: whole old content or whole new content, never half."""

from __future__ import annotations

import os
import pathlib
import stat
import tempfile

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors

#: What root keeps until the next boot: locks, mount points, keys of bootstrap systems.
RUN = pathlib.Path("/run/reduced.footprint")


def private_folder(path: pathlib.Path) -> pathlib.Path:
    """A folder that only this user enters, made where it is missing; its parent is there.

    A folder of this user that others may enter is closed. A symlink, and a folder somebody else made first, are refused:
    whoever owns a folder decides what the names in it lead to.

    :raises BackendError: it is not this user's own.
    """
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        pass
    except OSError as error:
        raise model_errors.BackendError(f"the folder {path} cannot be made: {error.strerror}.") from error
    handle = -1
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        found = os.fstat(handle)
        if found.st_uid == os.geteuid():
            if stat.S_IMODE(found.st_mode) & 0o077:
                os.fchmod(handle, 0o700)
            return path
        said = f"belongs to the user {found.st_uid}"
    except OSError as error:
        said = "is a link or a file" if not path.is_dir() or path.is_symlink() else str(error.strerror)
    finally:
        if handle >= 0:
            os.close(handle)
    raise model_errors.BackendError(f"{path} is not a folder of this user: it {said}.", hint="Find out who made it, remove it, and run again.")


def read_text(path: str | os.PathLike[str]) -> str | None:
    """The text of a file, ``None`` when there is none."""
    try:
        return pathlib.Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def write_atomic(path: str | os.PathLike[str], text: str, mode: int = 0o600, owner: tuple[int, int] | None = None) -> None:
    """Replace a file by way of a synced temporary file in the same directory.

    :arg owner: numbers of user and group, those of this process without.
    """
    target = pathlib.Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=str(target.parent), prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape") as stream:
            if owner:
                os.fchown(stream.fileno(), *owner)
            os.fchmod(stream.fileno(), mode)
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise
    directory = os.open(str(target.parent), os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
