# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files in the root file system of an untrusted guest: links in it are never followed."""

from __future__ import annotations

import contextlib
import os
import stat
import typing as t

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


@contextlib.contextmanager
def folder(root: str, parts: t.Sequence[str], *, make: int | None = None) -> t.Iterator[int]:
    """Open a folder below a guest's root as a directory handle.

    :arg make: create missing folders, the last one with this mode (those above it with 0755).
    :raises OSError: the folder is missing, or is a link or a file.
    """
    handle = os.open(root, _FOLDER_FLAGS)
    try:
        for index, part in enumerate(parts):
            if make is not None:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, make if index == len(parts) - 1 else 0o755, dir_fd=handle)
            inner = os.open(part, _FOLDER_FLAGS, dir_fd=handle)
            os.close(handle)
            handle = inner
        yield handle
    finally:
        os.close(handle)


def read(directory: int, name: str, most: int) -> bytes | None:
    """Return the content of a regular file of at most ``most`` bytes; ``None`` if it is missing, larger or not a regular file.

    :raises OSError: the file cannot be read.
    """
    try:
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=directory)
    except FileNotFoundError:
        return None
    with os.fdopen(handle, "rb") as stream:
        state = os.fstat(stream.fileno())
        if not stat.S_ISREG(state.st_mode) or state.st_size > most:
            return None
        # a running guest can enlarge it meanwhile
        content = stream.read(most + 1)
        return content if len(content) <= most else None


def replace(directory: int, name: str, content: bytes, mode: int = 0o600) -> None:
    """Replace a file atomically, created with its final mode and synced; the folder is not synced.

    :raises OSError: the file cannot be written.
    """
    temporary = f".{name}.partial"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary, dir_fd=directory)
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode, dir_fd=directory)
    try:
        with os.fdopen(handle, "wb") as stream:
            os.fchmod(stream.fileno(), mode)
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except OSError:
        os.unlink(temporary, dir_fd=directory)
        raise
