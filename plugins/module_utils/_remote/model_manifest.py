# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A manifest: one line per file in directory order, so that millions of files are compared without keeping them in memory.

A line is ``path TAB same TAB own``. ``same`` has the properties that a copy shares with its original, ``own`` those
that detect changes on one machine (inode, time of change) and are never compared between machines.
Paths are bytes; a line feed, a tab or a backslash in one is written as ``\\n``, ``\\t``, ``\\\\``.
"""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_schema import MANIFEST

MAGIC = b"reduced.footprint manifest %d" % MANIFEST.number
END = b"end"

# the fields of ``same`` in order
FIELDS = ("mode", "owner", "group", "size", "time", "device", "flags", "sparse", "attributes", "content")
# value of a field that does not apply or is unknown
NONE = b"-"
# FS_IMMUTABLE_FL and FS_APPEND_FL
IMMUTABLE = 0x10
APPEND = 0x20

_ESCAPES = ((b"\\", b"\\\\"), (b"\n", b"\\n"), (b"\t", b"\\t"))


class Line(t.NamedTuple):
    """One file: its path, the shared fields joined by spaces, the machine's own fields."""

    path: bytes
    same: bytes
    own: bytes

    def encode(self) -> bytes:
        """Return the line as bytes."""
        return escape(self.path) + b"\t" + self.same + b"\t" + self.own + b"\n"


class Own(t.NamedTuple):
    """The fields specific to one machine.

    :arg racy: the file was read while writes may not have changed its times.
    """

    links: int
    device: int
    inode: int
    changed_ns: int
    racy: bool

    def encode(self) -> bytes:
        """Return the field as bytes; the number of links comes first, because it decides what is compared."""
        return b"%d %d %d %d %d" % self


def parse_own(text: bytes) -> Own:
    """Parse the field."""
    links, device, inode, changed, racy = text.split(b" ")
    return Own(int(links), int(device), int(inode), int(changed), racy == b"1")


def parse_line(raw: bytes) -> Line:
    """Parse a line."""
    path, same, own = raw.rstrip(b"\n").split(b"\t")
    return Line(unescape(path), same, own)


def escape(path: bytes) -> bytes:
    """Escape the bytes of a path that end a field."""
    for plain, escaped in _ESCAPES:
        if plain in path:
            path = path.replace(plain, escaped)
    return path


def unescape(text: bytes) -> bytes:
    """Reverse :func:`escape`."""
    if b"\\" not in text:
        return text
    parts = text.split(b"\\\\")
    return b"\\".join(part.replace(b"\\n", b"\n").replace(b"\\t", b"\t") for part in parts)


def order(path: bytes) -> bytes:
    """The sort key of a path: a directory, then its content, then its next sibling."""
    return path.replace(b"/", b"\0")


def printable(path: bytes) -> str:
    """Return a path for messages; invalid text is escaped."""
    return path.decode("utf-8", "backslashreplace").replace("\n", "\\n").replace("\t", "\\t")


class Header(t.NamedTuple):
    """First line of a manifest.

    :arg identity: unique ID of the manifest, so that another machine can name the one it has.
    :arg settled_ns: files last changed before this time (by the machine's clock) cannot change further without a new time.
    """

    identity: str
    settled_ns: int

    def encode(self) -> bytes:
        """Return the line as bytes."""
        return b"%s %s %d\n" % (MAGIC, self.identity.encode("ascii"), self.settled_ns)


def parse_header(raw: bytes) -> Header:
    """Parse the first line."""
    if not raw.startswith(MAGIC + b" "):
        raise ValueError("not a manifest")
    identity, settled = raw[len(MAGIC) + 1 :].split()
    return Header(identity.decode("ascii"), int(settled))


def merged(before: t.Iterator[Line], changes: t.Iterator[tuple[bytes, Line]]) -> t.Iterator[Line]:
    """Apply changes to a manifest.

    :arg changes: in the same order, ``b"+"`` with a new or changed line, ``b"-"`` with a removed one.
    """
    old = next(before, None)
    for sign, line in changes:
        key = order(line.path)
        while old is not None and order(old.path) < key:
            yield old
            old = next(before, None)
        if old is not None and old.path == line.path:
            old = next(before, None)
        if sign == b"+":
            yield line
    while old is not None:
        yield old
        old = next(before, None)
