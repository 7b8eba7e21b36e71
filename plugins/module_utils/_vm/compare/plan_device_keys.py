# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which disk or NIC of the details is which one of the domain: edits of a list that cannot be understood for certain. No I/O.

A NIC is its MAC, a disk is its volume. Where the details give neither a name nor these, both derive
from the position in the list, and an entry that is removed or inserted gives all that follow to
others. The positions at the last apply are known; here an edit is compared with them.
"""

from __future__ import annotations

import typing as t

Looks = t.Tuple[t.Any, ...]


class Entry(t.NamedTuple):
    """A disk or NIC, wanted or as it was applied.

    ``key`` is the MAC or the path of the volume, ``position`` the place in the list that it derives
    from (``None``: a name). ``looks`` are attributes to compare, ``None`` in them is unknown;
    ``outline`` are fewer of them, for a template that changed with the list. ``fixed``: the details
    give the key itself. ``path`` is where a wanted one stands in the user's input, ``label`` describes it.
    """

    key: str
    position: int | None
    looks: Looks
    outline: Looks = ()
    fixed: bool = False
    path: str = ""
    label: str = ""


class Doubt(t.NamedTuple):
    """A wanted entry and the applied one that it may stand for."""

    wanted: Entry
    applied: Entry


_CouldBe = t.Callable[[Entry, Entry], bool]


def alike(one: Looks, other: Looks) -> bool:
    """Whether two entries cannot be told apart by what is known of them."""
    return all(mine is None or theirs is None or mine == theirs for mine, theirs in zip(one, other))


def find_doubt(applied: t.Sequence[Entry], wanted: t.Sequence[Entry], could_be: _CouldBe = lambda one, other: True) -> Doubt | None:
    """The first sign that an edit of the list may mean something else than what its positions say.

    Changing an entry in its place, appending entries, and removing the last ones where they can be told
    from the rest are understood; so is everything about entries that have a name.

    :arg could_be: whether a new entry with a name could be an applied one without.
    """
    there = {entry.key: entry for entry in applied}
    asked = {entry.key for entry in wanted}
    lost = [entry for entry in applied if entry.key not in asked]
    new = [entry for entry in wanted if entry.key not in there and not entry.fixed]
    stay = [(entry, there[entry.key]) for entry in wanted if entry.key in there and entry.position is not None and not entry.fixed]
    changed = [(mine, old) for mine, old in stay if not alike(mine.looks, old.looks)]
    unnamed_lost = [entry for entry in lost if entry.position is not None]
    for mine in new:
        for old in lost:
            if mine.position is not None or old.position is not None and could_be(mine, old):
                return Doubt(mine, old)
    moved = _moved(new, lost, changed, lambda entry: entry.looks) or _moved(
        new, lost, [(mine, old) for mine, old in stay if not alike(mine.outline, old.outline)], lambda entry: entry.outline
    )
    if moved is not None:
        return moved
    if unnamed_lost and changed:
        return Doubt(changed[0][0], unnamed_lost[0])
    return _other_removal(stay, unnamed_lost) if unnamed_lost else None


def likely(applied: t.Sequence[Entry], wanted: t.Sequence[Entry]) -> list[Doubt]:
    """What a list without certainty most likely means: wanted entries with the applied ones that they look like, in order."""
    asked = {entry.key for entry in wanted if entry.position is None or entry.fixed}
    rest = [entry for entry in applied if entry.key not in asked]
    there = {entry.key for entry in applied}
    pairs = []
    begin = 0
    for mine in wanted:
        if mine.fixed or mine.position is None and mine.key in there:
            continue
        for index in range(begin, len(rest)):
            if alike(mine.looks, rest[index].looks):
                pairs.append(Doubt(mine, rest[index]))
                begin = index + 1
                break
    return pairs


def _moved(
    new: t.Sequence[Entry], lost: t.Sequence[Entry], changed: t.Sequence[tuple[Entry, Entry]], looks: t.Callable[[Entry], Looks]
) -> Doubt | None:
    """An entry that is not what stood in its place, and is what stood in another."""
    for mine in [*new, *(entry for entry, unused in changed)]:
        for old in [*lost, *(entry for unused, entry in changed)]:
            named = mine.position is None and old.position is None
            if mine.key != old.key and not named and looks(mine) and alike(looks(mine), looks(old)):
                return Doubt(mine, old)
    return None


def _other_removal(stay: t.Sequence[tuple[Entry, Entry]], lost: t.Sequence[Entry]) -> Doubt | None:
    """Whether what is left could also be left of a removal further to the front."""
    rest = sorted([*(old for unused, old in stay), *lost], key=_place)
    end = len(rest)
    for mine, unused in sorted(stay, key=lambda pair: _place(pair[0]), reverse=True):
        end = next((index for index in reversed(range(end)) if alike(mine.looks, rest[index].looks)), -1)
        if end < 0:
            return None
        if rest[end].key != mine.key:
            return Doubt(mine, rest[end])
    return None


def _place(entry: Entry) -> int:
    return -1 if entry.position is None else entry.position


__all__ = ["Doubt", "Entry", "alike", "find_doubt", "likely"]
