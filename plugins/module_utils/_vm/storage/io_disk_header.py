# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads the headers of disk files directly, because one process per disk would dominate the duration of a run.

Only qcow2 headers are parsed; every other file counts as raw. Reading takes no lock, so it works while
a guest writes.
"""

from __future__ import annotations

import errno
import json
import os
import pathlib
import stat
import struct
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors, model_schema
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import model_storage

QCOW2_MAGIC = b"QFI\xfb"

_END = 0
_BACKING_FORMAT = 0xE2792ACA
_ATTRIBUTE = "user.footprint.image"
# maximum length of a backing chain; a longer one is a loop
_DEEPEST = 64
_LARGEST_CLUSTER = 2 * 1024 * 1024
_LONGEST_NAME = 1023
# bit of the incompatible features
_DATA_FILE = 4


class Header(t.NamedTuple):
    """``format`` is raw or qcow2, ``capacity`` in bytes, ``backing`` the absolute path of the image behind it."""

    format: str
    capacity: int
    backing: str | None
    backing_format: str | None


def read_header(path: str | os.PathLike[str], form: str | None = None) -> Header:
    """The header of a disk file.

    :arg form: ``raw`` where that is known: a raw disk must not be parsed, because the guest controls its content.
    :raises OSError: it cannot be read.
    """
    with open(path, "rb", opener=_opened) as stream:
        size = os.fstat(stream.fileno()).st_size
        head = (stream.read(4096) if form != "raw" else None) or b""
        if not head.startswith(QCOW2_MAGIC) or len(head) < 72:
            return Header("raw", size, None, None)
        version, name_at, name_length = struct.unpack(">IQI", head[4:20])
        capacity = struct.unpack(">Q", head[24:32])[0]
        backing = None
        # qcow2 requires the name within the first cluster; anything else was written by a guest
        if 0 < name_at < _LARGEST_CLUSTER and 0 < name_length <= _LONGEST_NAME:
            stream.seek(name_at)
            backing = _absolute(stream.read(name_length).decode("utf-8", "surrogateescape"), str(path))
    return Header("qcow2", capacity, backing, _extension(head, version))


def has_data_file(path: str | os.PathLike[str]) -> bool:
    """Whether a qcow2 image stores its content in another file, which its header names; false if it cannot be read."""
    try:
        with open(path, "rb", opener=_opened) as stream:
            head = stream.read(80) or b""
    except OSError:
        return False
    if not head.startswith(QCOW2_MAGIC) or len(head) < 80 or struct.unpack(">I", head[4:8])[0] < 3:
        return False
    return bool(struct.unpack(">Q", head[72:80])[0] & _DATA_FILE)


def names_foreign_base(path: str | os.PathLike[str]) -> bool:
    """Whether a qcow2 image is based on something other than a local file, which :func:`read_header` therefore leaves out."""
    try:
        with open(path, "rb", opener=_opened) as stream:
            head = stream.read(20) or b""
        if not head.startswith(QCOW2_MAGIC) or len(head) < 20:
            return False
        return any(struct.unpack(">QI", head[8:20])) and read_header(path).backing is None
    except OSError:
        return False


def chain(path: str, form: str | None = None) -> list[str]:
    """The backing files of a disk file, nearest first, as real paths; ends at the first unreadable one.

    :arg form: the format of the disk's driver, as far as known; see :func:`read_header`. That of a backing file is in the header.
    """
    found: list[str] = []
    while len(found) < _DEEPEST:
        try:
            header = read_header(path, form)
        except OSError:
            break
        if header.backing is None:
            break
        path, form = os.path.realpath(header.backing), header.backing_format
        found.append(path)
    return found


def refuse_link(path: str) -> None:
    """Refuse a symbolic link in place of a volume: writing through it could change any file of this host."""
    try:
        target = os.readlink(path)
    except OSError:
        # missing, or not a link
        return
    raise model_errors.RefusedError(
        f"{path} is a symbolic link to {target}; symbolic links are not supported as volumes.",
        hint=f"Move the file itself to {path}, or define a storage pool where it is and name that pool.",
    )


def inspect(path: str, form: str | None = None) -> model_storage.Volume:
    """Inspect a file or folder of a pool as a volume.

    :raises OSError: it cannot be read.
    """
    if os.path.isdir(path):
        return model_storage.Volume(path, "dir", "dir", None, None, origin=origin_of(path))
    header = read_header(path, form)
    return model_storage.Volume(path, "file", header.format, header.capacity, os.stat(path).st_blocks * 512, header.backing, origin_of(path))


def note_origin(path: str | os.PathLike[str], image: str, source: str) -> None:
    """Record the image a volume was created from in an extended attribute; skipped where the file system does not support them."""
    facts = image_state(source)
    if facts is None:
        return
    text = json.dumps(model_schema.VOLUME_ORIGIN.mark({"image": image, "path": source, "size": facts[0], "changed": facts[1]}))
    try:
        os.setxattr(path, _ATTRIBUTE, text.encode("utf-8"))
    except OSError:
        pass


def origin_of(path: str) -> model_storage.Origin | None:
    """The image a volume was created from, ``None`` where it was not recorded."""
    try:
        noted = model_schema.VOLUME_ORIGIN.load(os.getxattr(path, _ATTRIBUTE).decode("utf-8"), f"the attributes of {path}")
        return model_storage.Origin(str(noted["image"]), str(noted["path"]), int(noted["size"]), int(noted["changed"]))
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        # the attribute of a container's root is the guest's to change
        return None


def image_state(path: str) -> tuple[int, int] | None:
    """Size and mtime (ns) of an image, ``None`` when it is missing."""
    try:
        state = os.stat(path)
    except OSError:
        return None
    return state.st_size, state.st_mtime_ns


def _opened(path: str, flags: int) -> int:
    """Open a file or block device, and nothing else.

    A guest can write a header into its raw disk that names anything: a named pipe blocks the reader, and a watchdog that is opened and
    closed restarts the host.
    """
    kind = os.stat(path).st_mode
    if not stat.S_ISREG(kind) and not stat.S_ISBLK(kind):
        raise OSError(errno.EINVAL, "neither a file nor a block device", path)
    return os.open(path, flags | os.O_NONBLOCK)


def _absolute(name: str, path: str) -> str | None:
    """The path of a backing file; ``None`` for anything but a local file."""
    name = name[len("file:") :] if name.startswith("file:") else name
    if name.startswith("json:") or "://" in name or "\0" in name:
        return None
    return str(pathlib.Path(os.path.dirname(os.path.abspath(path))) / name)


def _extension(head: bytes, version: int) -> str | None:
    """The format of the backing file from the header extensions."""
    at = struct.unpack(">I", head[100:104])[0] if version >= 3 and len(head) >= 104 else 72
    while at + 8 <= len(head):
        kind, length = struct.unpack(">II", head[at : at + 8])
        if kind == _END:
            return None
        if kind == _BACKING_FORMAT:
            return head[at + 8 : at + 8 + length].decode("ascii", "replace")
        at += 8 + -(-length // 8) * 8
    return None
