# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Matches disks and NICs of the details with those of the domain, and detects ambiguous edits of the lists. No I/O.

A NIC is identified by its MAC, a disk by its volume. Without a name in the details, both are derived
from the position in the list, so removing or inserting an entry shifts all entries after it.
The positions of the last apply are known; an edit is compared with them.
"""

from __future__ import annotations

import typing as t

Attributes = t.Tuple[t.Any, ...]


class Entry(t.NamedTuple):
    """A disk or NIC, wanted or applied.

    ``key`` is the MAC or the path of the volume, ``position`` the index in the list it is derived
    from (``None``: from a name). ``attributes`` are compared, ``None`` in them means unknown;
    ``outline`` is a subset of them, for a template that changed together with the list. ``fixed``: the details
    set the key itself. ``path`` is the location of a wanted entry in the user's input, ``label`` describes an applied one.
    """

    key: str
    position: int | None
    attributes: Attributes
    outline: Attributes = ()
    fixed: bool = False
    path: str = ""
    label: str = ""


class Ambiguity(t.NamedTuple):
    """A wanted entry and the applied one that it could be."""

    wanted: Entry
    applied: Entry


_CouldBe = t.Callable[[Entry, Entry], bool]


def alike(one: Attributes, other: Attributes) -> bool:
    """Whether the known attributes of two entries are the same."""
    return all(mine is None or theirs is None or mine == theirs for mine, theirs in zip(one, other))


def find_ambiguity(applied: t.Sequence[Entry], wanted: t.Sequence[Entry], could_be: _CouldBe = lambda one, other: True) -> Ambiguity | None:
    """The first indication that an edit of the list can mean something else than its positions.

    Changing an entry in place, appending entries, and removing the last ones where they differ
    from the rest are unambiguous; so are all edits of entries with a name.

    :arg could_be: whether a new entry with a name could be an applied one without a name.
    """
    existing = {entry.key: entry for entry in applied}
    requested = {entry.key for entry in wanted}
    removed = [entry for entry in applied if entry.key not in requested]
    new = [entry for entry in wanted if entry.key not in existing and not entry.fixed]
    kept = [(entry, existing[entry.key]) for entry in wanted if entry.key in existing and entry.position is not None and not entry.fixed]
    changed = [(mine, old) for mine, old in kept if not alike(mine.attributes, old.attributes)]
    unnamed_removed = [entry for entry in removed if entry.position is not None]
    for mine in new:
        for old in removed:
            if mine.position is not None or old.position is not None and could_be(mine, old):
                return Ambiguity(mine, old)
    moved = _moved(new, removed, changed, lambda entry: entry.attributes) or _moved(
        new, removed, [(mine, old) for mine, old in kept if not alike(mine.outline, old.outline)], lambda entry: entry.outline
    )
    if moved is not None:
        return moved
    if unnamed_removed and changed:
        return Ambiguity(changed[0][0], unnamed_removed[0])
    return _other_removal(kept, unnamed_removed) if unnamed_removed else None


def likely(applied: t.Sequence[Entry], wanted: t.Sequence[Entry]) -> list[Ambiguity]:
    """The most likely meaning of an ambiguous list: pairs of wanted and similar applied entries, in order."""
    requested = {entry.key for entry in wanted if entry.position is None or entry.fixed}
    rest = [entry for entry in applied if entry.key not in requested]
    existing = {entry.key for entry in applied}
    pairs = []
    begin = 0
    for mine in wanted:
        if mine.fixed or mine.position is None and mine.key in existing:
            continue
        for index in range(begin, len(rest)):
            if alike(mine.attributes, rest[index].attributes):
                pairs.append(Ambiguity(mine, rest[index]))
                begin = index + 1
                break
    return pairs


def _moved(
    new: t.Sequence[Entry], removed: t.Sequence[Entry], changed: t.Sequence[tuple[Entry, Entry]], attributes: t.Callable[[Entry], Attributes]
) -> Ambiguity | None:
    """An entry that differs from the previous one at its position and matches one at another position."""
    for mine in [*new, *(entry for entry, unused in changed)]:
        for old in [*removed, *(entry for unused, entry in changed)]:
            named = mine.position is None and old.position is None
            if mine.key != old.key and not named and attributes(mine) and alike(attributes(mine), attributes(old)):
                return Ambiguity(mine, old)
    return None


def _other_removal(kept: t.Sequence[tuple[Entry, Entry]], removed: t.Sequence[Entry]) -> Ambiguity | None:
    """Whether the remaining entries could also result from removing an earlier entry."""
    rest = sorted([*(old for unused, old in kept), *removed], key=_place)
    end = len(rest)
    for mine, unused in sorted(kept, key=lambda pair: _place(pair[0]), reverse=True):
        end = next((index for index in reversed(range(end)) if alike(mine.attributes, rest[index].attributes)), -1)
        if end < 0:
            return None
        if rest[end].key != mine.key:
            return Ambiguity(mine, rest[end])
    return None


def _place(entry: Entry) -> int:
    return -1 if entry.position is None else entry.position


__all__ = ["Ambiguity", "Entry", "alike", "find_ambiguity", "likely"]
