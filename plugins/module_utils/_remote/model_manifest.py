# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A manifest: one line per file, in the order of a walk, so that a million files are compared without keeping them in memory.

A line is ``path TAB same TAB own``. ``same`` holds what a faithful copy shares with its original, ``own`` what
tells one machine's file from its earlier self (inode, time of change) and is never compared between machines.
Paths are bytes; a line feed, a tab or a backslash in one is written as ``\\n``, ``\\t``, ``\\\\``.
"""

from __future__ import annotations

import typing as t

MAGIC = b"reduced.footprint manifest 1"
END = b"end"

# the fields of ``same`` in their order
FIELDS = ("mode", "owner", "group", "size", "time", "device", "flags", "sparse", "attributes", "content")
# a field that does not apply, or that one side cannot know
NONE = b"-"
# FS_IMMUTABLE_FL and FS_APPEND_FL
IMMUTABLE = 0x10
APPEND = 0x20

_ESCAPES = ((b"\\", b"\\\\"), (b"\n", b"\\n"), (b"\t", b"\\t"))


class Line(t.NamedTuple):
    """One file: its path as bytes, the shared fields joined by spaces, the machine's own."""

    path: bytes
    same: bytes
    own: bytes

    def encode(self) -> bytes:
        """The line as it is written."""
        return escape(self.path) + b"\t" + self.same + b"\t" + self.own + b"\n"


class Own(t.NamedTuple):
    """What belongs to one machine's file alone.

    :arg racy: it was read while it may still have been written to, without a trace in its times.
    """

    links: int
    device: int
    inode: int
    changed_ns: int
    racy: bool

    def encode(self) -> bytes:
        """The field as it is written; the number of links comes first, it decides what must be looked at."""
        return b"%d %d %d %d %d" % self


def parse_own(text: bytes) -> Own:
    """The field from its text."""
    links, device, inode, changed, racy = text.split(b" ")
    return Own(int(links), int(device), int(inode), int(changed), racy == b"1")


def parse_line(raw: bytes) -> Line:
    """A line from its text.

    :raises ValueError: it is none.
    """
    path, same, own = raw.rstrip(b"\n").split(b"\t")
    return Line(unescape(path), same, own)


def escape(path: bytes) -> bytes:
    """A path without the bytes that end a field."""
    for plain, escaped in _ESCAPES:
        if plain in path:
            path = path.replace(plain, escaped)
    return path


def unescape(text: bytes) -> bytes:
    """A path from what :func:`escape` made."""
    if b"\\" not in text:
        return text
    parts = text.split(b"\\\\")
    return b"\\".join(part.replace(b"\\n", b"\n").replace(b"\\t", b"\t") for part in parts)


def order(path: bytes) -> bytes:
    """What paths are sorted by: a directory, then all that is in it, then its next neighbour."""
    return path.replace(b"/", b"\0")


def printable(path: bytes) -> str:
    """A path for people: what is no text in it is escaped, never lost."""
    return path.decode("utf-8", "backslashreplace").replace("\n", "\\n").replace("\t", "\\t")


class Header(t.NamedTuple):
    """First line of a manifest.

    :arg identity: names this one manifest, so that another machine can say which it has.
    :arg settled_ns: nothing that changed before this moment (by the clock of its machine) could go on changing unseen.
    """

    identity: str
    settled_ns: int

    def encode(self) -> bytes:
        """The line as it is written."""
        return b"%s %s %d\n" % (MAGIC, self.identity.encode("ascii"), self.settled_ns)


def parse_header(raw: bytes) -> Header:
    """The header from the first line.

    :raises ValueError: this is no manifest of this version.
    """
    if not raw.startswith(MAGIC + b" "):
        raise ValueError("not a manifest")
    identity, settled = raw[len(MAGIC) + 1 :].split()
    return Header(identity.decode("ascii"), int(settled))


def merged(before: t.Iterator[Line], changes: t.Iterator[tuple[bytes, Line]]) -> t.Iterator[Line]:
    """A manifest brought up to date.

    :arg changes: in the same order, ``b"+"`` with a line that is new or other, ``b"-"`` with one that is gone.
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
