# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keystone's key repositories, decided: what the next step is so that no token is ever refused.

A repository maps numbers to keys. The highest number is the *primary*, which encrypts; all keys decrypt; ``0`` is the
*staged* one, which will be the next primary. One rule keeps every token readable everywhere: **a member's primary is
known to all other members**. So the staged key is on all members before one of them promotes it, one member promotes it
(``create``, ``promote``, ``restage``), the others follow one by one, and nobody promotes again before all are level.

All of it is read from the repositories themselves; there is no other memory. A run that was killed anywhere leaves
repositories from which the next run reads what is missing. A promotion on a member is: the staged key also under the next
number, then a new staged key, then the surplus removed. Killed in between, the staged key has a twin: that is how such a
repository is told from a finished one.

Keys never come here, only fingerprints.
"""

from __future__ import annotations

import dataclasses
import typing as t

STAGED = 0
#: Below this a token of the last primary could not be read.
FEWEST_KEYS = 3

# Number → fingerprint.
Repository = t.Mapping[int, str]


@dataclasses.dataclass(frozen=True)
class Decision:
    """What is to happen.

    :arg action: on the leader: ``create`` a first repository, ``promote`` the staged key, ``restage`` (a new staged key,
        for a promotion that was cut short), ``none``, or ``refuse``.
    :arg leader: whose repository all are to have.
    :arg followers: who takes it over afterwards, one by one in this order.
    :arg missing: members that do not answer.
    :arg rotated: whether this decision gives them the new primary that was asked for.
    """

    action: str
    reason: str
    leader: str | None = None
    followers: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    rotated: bool = False
    hint: str | None = None

    def as_dict(self) -> dict[str, t.Any]:
        """Plain values, for Ansible."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in dataclasses.asdict(self).items()}


def primary(repository: Repository) -> int:
    """The number of the key that encrypts; 0 when there is none but a staged one, -1 for an empty repository."""
    return max(repository, default=-1)


def finished(repository: Repository) -> bool:
    """Whether it has a primary and a staged key of its own."""
    staged = repository.get(STAGED)
    return primary(repository) > STAGED and staged is not None and sum(key == staged for key in repository.values()) == 1


def decide(members: t.Mapping[str, Repository | None], rotate: bool = False, source: str | None = None) -> Decision:
    """The next step.

    :arg members: all that share the keys, in order; ``None`` for one that does not answer, an empty mapping for one without.
    :arg rotate: whether a new primary is wanted. A rotation that was cut short is completed instead, and counts as it.
    :arg source: the member whose keys an operator declares to be the right ones.
    """
    missing = tuple(name for name, repository in members.items() if repository is None)
    known = {name: repository for name, repository in members.items() if repository is not None}
    filled = {name: repository for name, repository in known.items() if repository}
    refused = _refusal(members, missing, filled, rotate, source)
    if refused:
        return refused
    if not filled:
        first = next(iter(known))
        return Decision("create", f"nobody has keys; {first} makes them.", first, tuple(name for name in known if name != first))
    leader = source or _leader(filled)
    strangers = () if source else _strangers(filled, filled[leader])
    if strangers:
        return Decision(
            "refuse",
            f"{', '.join(strangers)} encrypts with a key that {leader} does not know: taking it away would end the tokens made with it.",
            leader,
            missing=missing,
            hint="Name the member whose keys are the right ones in keystone_keys_from.",
        )
    others = tuple(name for name in known if name != leader)
    level = all(known[name] == known[leader] for name in others)
    if not finished(filled[leader]):
        return Decision("restage", f"a rotation was cut short on {leader}.", leader, others, missing, rotated=rotate)
    if level and rotate:
        return Decision("promote", f"all are level; {leader} promotes the staged key.", leader, others, rotated=True)
    behind = tuple(name for name in others if known[name] != known[leader])
    if not behind:
        return Decision("none", "all have the same keys.", leader, missing=missing)
    # one that had none before is a newcomer; no rotation was under way for its sake
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
        return Decision("refuse", "there are no members.", hint="Put hosts into the group of keystone.")
    if source and source not in filled:
        why = "has no keys" if members.get(source) is not None else "does not answer" if source in members else "is not among the members"
        return Decision("refuse", f"the keys are to come from {source}, which {why}.", hint="Name another one in keystone_keys_from, or none.")
    if missing and rotate:
        return Decision(
            "refuse",
            f"{', '.join(missing)} does not answer: after a second rotation it would not know the key of the others.",
            missing=tuple(missing),
            hint="Bring it back, or take it out of the group of keystone.",
        )
    if missing and not filled:
        return Decision(
            "refuse",
            f"nobody who answers has keys, and {', '.join(missing)} does not answer: it may have them.",
            missing=tuple(missing),
            hint="Bring it back, or take it out of the group of keystone.",
        )
    return None


def _leader(filled: t.Mapping[str, Repository]) -> str:
    """The newest repository; of several the finished one, then the one most members have, then the first."""
    alike = {name: sum(other == repository for other in filled.values()) for name, repository in filled.items()}
    order = list(filled)
    return max(filled, key=lambda name: (primary(filled[name]), finished(filled[name]), alike[name], -order.index(name)))


def _strangers(filled: t.Mapping[str, Repository], newest: Repository) -> tuple[str, ...]:
    """Members whose primary would be unknown once they have the newest repository."""
    keys = set(newest.values())
    return tuple(name for name, repository in filled.items() if repository[primary(repository)] not in keys)


@dataclasses.dataclass(frozen=True)
class Promotion:
    """How a repository changes when its staged key becomes the primary.

    :arg number: of the new primary.
    :arg surplus: numbers that go.
    """

    number: int
    surplus: tuple[int, ...]


def promotion(written: t.Mapping[int, float], now: float, most: int, keep: float) -> Promotion:
    """The change.

    :arg written: number → when its file was written, in seconds.
    :arg most: how many keys there are to be, the staged one included.
    :arg keep: seconds for which a key that ceased to encrypt may still be needed. It stays that long whatever their number,
        so frequent rotations log nobody out.
    """
    number = primary(written) + 1
    return Promotion(number, surplus({**written, number: now}, now, most, keep))


def surplus(written: t.Mapping[int, float], now: float, most: int, keep: float) -> tuple[int, ...]:
    """Numbers of keys that are too many and that no living token can need, oldest first."""
    encrypted = sorted(number for number in written if number != STAGED)
    too_many = max(0, len(encrypted) + 1 - max(most, FEWEST_KEYS))
    # the others still encrypt with a key after the leader has promoted its successor; that all have ceased to is certain
    # when the successor's successor comes, because nobody promotes before all are level
    return tuple(number for number, certain in zip(encrypted[:too_many], encrypted[2:]) if now - written[certain] >= keep)
