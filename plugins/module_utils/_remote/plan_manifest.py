# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compare manifests: which files differ, in which fields, and whether that is relevant. Works on streams."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_manifest import FIELDS, NONE, Line, order, parse_own

Lines = t.Iterator[Line]

# files that an idle machine still writes: logs and the state of its init system
_LIVELY = re.compile(
    rb"^/(proc|sys|dev|run|tmp|boot)$|^/(tmp|run)/"
    rb"|^/(var/log|var/lib/systemd|var/lib/dbus|var/tmp|root/\.ansible|var/lib/chrony|var/lib/ntp|var/lib/NetworkManager)(/|$)"
    # leases of a DHCP client; those of a server are data
    rb"|^/var/lib/dhcp(/dhclient[^/]*)?$"
)
# FAT does not store the other fields, and rounds times
_PLAIN = frozenset(("size", "content", "missing", "extra"))


class Difference(t.NamedTuple):
    """One path that differs; ``what`` names the fields, or ``missing``, ``extra``, ``hard link``."""

    path: bytes
    what: tuple[str, ...]
    source: Line | None
    copy: Line | None


def excluded(patterns: t.Iterable[str], names: t.Iterable[str] = ()) -> re.Pattern[bytes]:
    """Return a regular expression for excluded paths, equivalent to rsync's patterns.

    :arg patterns: rsync patterns anchored at ``/``.
    :arg names: base names that are excluded in all folders.
    """
    parts = [_translate(pattern) for pattern in patterns]
    parts += [rb"(?:.*/)?" + re.escape(name.encode("utf-8", "surrogateescape")) for name in names]
    return re.compile(rb"(?:" + rb"|".join(parts) + rb")\Z" if parts else rb"(?!)", re.DOTALL)


def _translate(pattern: str) -> bytes:
    text = pattern.encode("utf-8", "surrogateescape")
    if text.endswith(b"/***"):
        return _glob(text[:-4]) + rb"(?:/.*)?"
    return _glob(text.rstrip(b"/"))


def _glob(text: bytes) -> bytes:
    made, at = b"", 0
    while at < len(text):
        char = text[at : at + 1]
        if text[at : at + 2] == b"**":
            made, at = made + rb".*", at + 2
            continue
        if char == b"[":
            end = text.find(b"]", at + 2)
            if end > 0:
                inner = text[at + 1 : end]
                inner = b"^" + inner[1:] if inner[:1] in b"!^" else inner
                made, at = made + b"[" + inner.replace(b"\\", b"\\\\") + b"]", end + 1
                continue
        if char == b"\\" and at + 1 < len(text):
            made, at = made + re.escape(text[at + 1 : at + 2]), at + 2
            continue
        made += {b"*": rb"[^/]*", b"?": rb"[^/]"}.get(char) or re.escape(char)
        at += 1
    return made


def paired(left: Lines, right: Lines) -> t.Iterator[tuple[Line | None, Line | None]]:
    """Iterate over two manifests in parallel; pairs the lines of the same path."""
    one, two = next(left, None), next(right, None)
    while one is not None or two is not None:
        if one is not None and two is not None and one.path == two.path:
            yield one, two
            one, two = next(left, None), next(right, None)
        elif two is None or (one is not None and order(one.path) < order(two.path)):
            yield one, None
            one = next(left, None)
        else:
            yield None, two
            two = next(right, None)


def compare(source: Lines, copy: Lines) -> t.Iterator[Difference]:
    """Iterate over the paths that differ."""
    links = _Links()
    for one, two in paired(source, copy):
        if one is None or two is None:
            yield Difference((one or two or Line(b"", b"", b"")).path, ("missing" if two is None else "extra",), one, two)
            continue
        what = () if one.same == two.same else fields_differing(one.same, two.same)
        # the link count of a directory is that of its subfolders
        if not (one.own.startswith(b"1 ") and two.own.startswith(b"1 ")) and links.differ(one, two):
            what = (*what, "hard link")
        if what:
            yield Difference(one.path, what, one, two)


def fields_differing(one: bytes, two: bytes) -> tuple[str, ...]:
    """Return the names of the fields of ``same`` that differ."""
    found = []
    for name, left, right in zip(FIELDS, one.split(b" "), two.split(b" ")):
        if left == right or (name == "time" and NONE in (left, right)):
            continue
        # a copy may have holes where its original has zeros
        if name == "sparse" and left == NONE:
            continue
        found.append(name)
    return tuple(found)


class _Links:
    """Mapping of inodes between source and copy; an entry is dropped after the last name of its inode."""

    def __init__(self) -> None:
        self.of_source: dict[tuple[int, int], list[t.Any]] = {}
        self.of_copy: dict[tuple[int, int], list[t.Any]] = {}

    def differ(self, one: Line, two: Line) -> bool:
        """Whether this name is linked to other names on the copy than on the source."""
        left, right = parse_own(one.own), parse_own(two.own)
        here, there = (left.device, left.inode), (right.device, right.inode)
        differs = _other(self.of_source, here, there, left.links)
        return _other(self.of_copy, there, here, right.links) or differs


def _other(table: dict[tuple[int, int], list[t.Any]], key: tuple[int, int], value: tuple[int, int], links: int) -> bool:
    entry = table.get(key)
    if entry is None:
        if links > 1:
            table[key] = [value, links - 1]
        return False
    entry[1] -= 1
    if entry[1] <= 0:
        del table[key]
    return bool(entry[0] != value)


def under(path: bytes, mounts: t.Iterable[str]) -> bool:
    """Whether a path is on or below one of the mount points."""
    return any(path == each.encode() or path.startswith(each.encode().rstrip(b"/") + b"/") for each in mounts)


def matters(found: Difference, changed_here: t.Collection[bytes] = (), plain: t.Collection[str] = ()) -> tuple[str, ...]:
    """Return the relevant differences of a path.

    :arg changed_here: files that the fix-ups changed on the copy.
    :arg plain: mount points of file systems that store only names and content.
    """
    if _LIVELY.search(found.path) or found.path in changed_here:
        return ()
    what = found.what
    if under(found.path, plain):
        what = tuple(each for each in what if each in _PLAIN)
    if any(each.startswith(found.path.rstrip(b"/") + b"/") for each in changed_here):
        # a replaced file changes the time of its folder, a new file may have required a new folder
        what = tuple(each for each in what if each not in ("time", "extra"))
    return what
