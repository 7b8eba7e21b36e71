# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files that survive a power loss: whole old content or whole new content, never half."""

from __future__ import annotations

import os
import pathlib
import tempfile


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
