# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide the next step with keystone's key repositories, without I/O, so that no valid token is ever rejected.

A repository maps numbers to keys. The highest number is the *primary* key, which encrypts; all keys decrypt; ``0`` is the
*staged* key, the next primary. One rule keeps every token readable on every member: **all members have each member's primary
key**. So all members have the staged key before one of them promotes it. One member, the leader, changes its keys first
(``create``, ``promote``, ``restage``), the others follow one by one, and no member promotes again before all have the same keys.

The repositories are the only state. If a run is killed, the next run derives the missing steps from them. A promotion
copies the staged key to the next number, writes a new staged key, then removes surplus keys. If it is killed in between, the
repository contains the staged key twice; this marks an unfinished promotion.

This module handles fingerprints only, never keys.
"""

from __future__ import annotations

import dataclasses
import typing as t

STAGED = 0
#: With fewer keys, a token of the previous primary key could not be decrypted.
FEWEST_KEYS = 3

# Number → fingerprint.
Repository = t.Mapping[int, str]


@dataclasses.dataclass(frozen=True)
class Decision:
    """The decision.

    :arg action: on the leader: ``create`` a first repository, ``promote`` the staged key, ``restage`` (write a new staged key
        after an interrupted promotion), ``none``, or ``refuse``.
    :arg leader: member whose repository all members get.
    :arg followers: members that get it afterwards, one by one in this order.
    :arg missing: members that do not answer.
    :arg rotated: whether this decision completes the requested rotation.
    """

    action: str
    reason: str
    leader: str | None = None
    followers: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    rotated: bool = False
    hint: str | None = None

    def as_dict(self) -> dict[str, t.Any]:
        """Return plain values for Ansible."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in dataclasses.asdict(self).items()}


def primary(repository: Repository) -> int:
    """Return the number of the primary key; 0 if there is only a staged key, -1 for an empty repository."""
    return max(repository, default=-1)


def finished(repository: Repository) -> bool:
    """Return whether a repository has a primary key and a different staged key."""
    staged = repository.get(STAGED)
    return primary(repository) > STAGED and staged is not None and sum(key == staged for key in repository.values()) == 1


def decide(members: t.Mapping[str, Repository | None], rotate: bool = False, source: str | None = None) -> Decision:
    """Decide the next step.

    :arg members: all members that share the keys, in order; ``None`` if a member does not answer, an empty mapping if it has no keys.
    :arg rotate: whether a new primary key is requested. An interrupted rotation is completed instead, and counts as the requested one.
    :arg source: member whose keys the operator declares to be the valid ones.
    """
    missing = tuple(name for name, repository in members.items() if repository is None)
    known = {name: repository for name, repository in members.items() if repository is not None}
    filled = {name: repository for name, repository in known.items() if repository}
    refused = _refusal(members, missing, filled, rotate, source)
    if refused:
        return refused
    if not filled:
        first = next(iter(known))
        return Decision("create", f"no member has keys; {first} creates them.", first, tuple(name for name in known if name != first))
    leader = source or _leader(filled)
    unknown = () if source else _unknown_primaries(filled, filled[leader])
    if unknown:
        return Decision(
            "refuse",
            f"{', '.join(unknown)} encrypts with a key that {leader} does not have: removing it would invalidate the tokens encrypted with it.",
            leader,
            missing=missing,
            hint="Set keystone_keys_from to the member whose keys are valid.",
        )
    others = tuple(name for name in known if name != leader)
    equal = all(known[name] == known[leader] for name in others)
    if not finished(filled[leader]):
        return Decision("restage", f"a rotation was interrupted on {leader}.", leader, others, missing, rotated=rotate)
    if equal and rotate:
        return Decision("promote", f"all members have the same keys; {leader} promotes the staged key.", leader, others, rotated=True)
    behind = tuple(name for name in others if known[name] != known[leader])
    if not behind:
        return Decision("none", "all members have the same keys.", leader, missing=missing)
    # a new member without keys is not a sign of an interrupted rotation
    rotated = rotate and any(known[name] for name in behind)
    return Decision("none", f"{leader} has the newest keys.", leader, behind, missing, rotated)


def _refusal(
    members: t.Mapping[str, Repository | None],
    missing: t.Sequence[str],
    filled: t.Mapping[str, Repository],
    rotate: bool,
    source: str | None,
) -> Decision | None:
    if not members:
        return Decision("refuse", "keystone has no members.", hint="Add hosts to the inventory group of keystone.")
    if source and source not in filled:
        why = "has no keys" if members.get(source) is not None else "does not answer" if source in members else "is not among the members"
        return Decision("refuse", f"keystone_keys_from is {source}, which {why}.", hint="Set keystone_keys_from to another member, or unset it.")
    if missing and rotate:
        return Decision(
            "refuse",
            f"{', '.join(missing)} does not answer: after a second rotation it would not have the primary key of the others.",
            missing=tuple(missing),
            hint="Start that member, or remove it from the inventory group of keystone.",
        )
    if missing and not filled:
        return Decision(
            "refuse",
            f"no member that answers has keys, and {', '.join(missing)} does not answer: it may have them.",
            missing=tuple(missing),
            hint="Start that member, or remove it from the inventory group of keystone.",
        )
    return None


def _leader(filled: t.Mapping[str, Repository]) -> str:
    """Return the member with the newest repository; of several a finished one, then the most common one, then the first."""
    alike = {name: sum(other == repository for other in filled.values()) for name, repository in filled.items()}
    order = list(filled)
    return max(filled, key=lambda name: (primary(filled[name]), finished(filled[name]), alike[name], -order.index(name)))


def _unknown_primaries(filled: t.Mapping[str, Repository], newest: Repository) -> tuple[str, ...]:
    """Return the members whose primary key is not in the newest repository."""
    keys = set(newest.values())
    return tuple(name for name, repository in filled.items() if repository[primary(repository)] not in keys)


@dataclasses.dataclass(frozen=True)
class Promotion:
    """Changes of a repository whose staged key becomes the primary key.

    :arg number: number of the new primary key.
    :arg surplus: numbers of keys to remove.
    """

    number: int
    surplus: tuple[int, ...]


def promotion(written: t.Mapping[int, float], now: float, most: int, keep: float) -> Promotion:
    """Return the changes of a promotion.

    :arg written: number → modification time of the file, in seconds.
    :arg most: maximum number of keys, including the staged one.
    :arg keep: seconds for which a former primary key may still be needed. It is kept that long even if there are more keys, so that
        frequent rotations do not invalidate tokens.
    """
    number = primary(written) + 1
    return Promotion(number, surplus({**written, number: now}, now, most, keep))


def surplus(written: t.Mapping[int, float], now: float, most: int, keep: float) -> tuple[int, ...]:
    """Return the numbers of keys beyond the limit that no valid token can need, oldest first."""
    encrypted = sorted(number for number in written if number != STAGED)
    too_many = max(0, len(encrypted) + 1 - max(most, FEWEST_KEYS))
    # after the leader has promoted the next key, the others still encrypt with this one; it is certain that no member does once the key
    # after the next one is written, because no member promotes before all have the same keys
    return tuple(number for number, certain in zip(encrypted[:too_many], encrypted[2:]) if now - written[certain] >= keep)
