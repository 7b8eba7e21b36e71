# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The next step with the key repositories of several members; no token is ever rejected, wherever a run is killed."""

from __future__ import annotations

import itertools
import random
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._keystone.plan_fernet import decide, finished, primary, promotion, surplus

OLD = {0: "s", 1: "a", 2: "b"}
NEW = {0: "t", 1: "a", 2: "b", 3: "s"}
HALF = {0: "s", 1: "a", 2: "b", 3: "s"}


@pytest.mark.parametrize(
    ("members", "rotate", "action", "leader", "followers", "rotated"),
    [
        # a new cloud, a new member, no difference
        ({"a": {}, "b": {}, "c": {}}, False, "create", "a", ["b", "c"], False),
        ({"a": {}, "b": OLD, "c": OLD}, False, "none", "b", ["a"], False),
        ({"a": OLD, "b": OLD, "c": OLD}, False, "none", "a", [], False),
        ({"a": OLD}, True, "promote", "a", [], True),
        # a rotation from its beginning to its end
        ({"a": OLD, "b": OLD, "c": OLD}, True, "promote", "a", ["b", "c"], True),
        ({"a": HALF, "b": OLD, "c": OLD}, True, "restage", "a", ["b", "c"], True),
        ({"a": NEW, "b": OLD, "c": OLD}, True, "none", "a", ["b", "c"], True),
        ({"a": NEW, "b": HALF, "c": OLD}, True, "none", "a", ["b", "c"], True),
        ({"a": NEW, "b": NEW, "c": OLD}, True, "none", "a", ["c"], True),
        # the same without a requested rotation: the role completes an interrupted one
        ({"a": OLD, "b": HALF, "c": OLD}, False, "restage", "b", ["a", "c"], False),
        ({"a": OLD, "b": NEW, "c": HALF}, False, "none", "b", ["a", "c"], False),
        # interrupted creation: a primary key alone
        ({"a": {1: "a"}, "b": {}, "c": {}}, False, "restage", "a", ["b", "c"], False),
        # the first is new: it gets the keys before a rotation starts, and this is not the rotation
        ({"a": {}, "b": OLD, "c": OLD}, True, "none", "b", ["a"], False),
        # one was away while the others rotated, another staged key under the same primary: the most common one
        ({"a": {**NEW, 0: "u"}, "b": NEW, "c": NEW}, False, "none", "b", ["a"], False),
        # one does not answer: the others may get the same keys if one of them has keys
        ({"a": NEW, "b": OLD, "c": None}, False, "none", "a", ["b"], False),
    ],
)
def test_the_next_step(members: t.Any, rotate: bool, action: str, leader: str, followers: list[str], rotated: bool) -> None:
    decision = decide(members, rotate).as_dict()
    assert (decision["action"], decision["leader"], decision["followers"], decision["rotated"]) == (action, leader, followers, rotated), decision


@pytest.mark.parametrize(
    ("members", "rotate", "source", "words"),
    [
        ({}, False, None, ["no members"]),
        ({"a": OLD, "b": OLD, "c": None}, True, None, ["c does not answer", "group"]),
        ({"a": {}, "b": None}, False, None, ["b does not answer", "may have them"]),
        ({"a": OLD, "b": {0: "x", 1: "y"}}, False, None, ["b encrypts", "keystone_keys_from"]),
        ({"a": {0: "x", 7: "y"}, "b": OLD, "c": OLD}, True, None, ["b, c encrypts", "keystone_keys_from"]),
        ({"a": OLD, "b": {}}, False, "b", ["b", "has no keys"]),
        ({"a": OLD, "b": None}, False, "b", ["b", "does not answer"]),
        ({"a": OLD}, False, "z", ["z", "is not among the members"]),
    ],
)
def test_what_is_refused(members: t.Any, rotate: bool, source: str | None, words: list[str]) -> None:
    decision = decide(members, rotate, source)
    assert decision.action == "refuse"
    assert all(word in f"{decision.reason} {decision.hint}" for word in words), decision


def test_source_overrides_unknown_keys() -> None:
    decision = decide({"a": {0: "x", 7: "y"}, "b": OLD, "c": OLD}, source="b")
    assert (decision.action, decision.leader, decision.followers) == ("none", "b", ("a",))


def test_a_key_stays_until_no_token_needs_it() -> None:
    written = {0: 900.0, 1: 0.0, 2: 500.0, 3: 900.0}
    # no member encrypted with 1 any more when 3 was written, at 900; with 2 a member may have until now
    assert promotion(written, now=1000, most=3, keep=100).surplus == (1,)
    assert promotion(written, now=1000, most=3, keep=101).surplus == ()
    assert promotion(written, now=1000, most=5, keep=0).surplus == ()
    assert promotion(written, now=1000, most=3, keep=0).surplus == (1, 2)
    # the previous primary key is always kept
    assert promotion(written, now=1000, most=1, keep=0).surplus == (1, 2)
    assert promotion(written, now=1000, most=3, keep=0).number == 4
    assert surplus({0: 1.0, 1: 0.0}, 1000, 3, 0) == ()


class World:
    """Members that continuously issue tokens, each with its primary key; every token must be readable by every member."""

    def __init__(self, size: int, chance: random.Random) -> None:
        self.chance, self.fresh, self.clock = chance, itertools.count(), 0.0
        self.members: dict[str, dict[int, str]] = {f"m{number}": {} for number in range(size)}
        self.written: dict[str, dict[int, float]] = {name: {} for name in self.members}
        self.tokens: list[tuple[float, str]] = []
        self.life = 300.0

    def put(self, name: str, number: int, key: str) -> None:
        self.members[name][number], self.written[name][number] = key, self.clock
        self.tick()

    def drop(self, name: str, number: int) -> None:
        del self.members[name][number], self.written[name][number]
        self.tick()

    def tick(self) -> None:
        """Time passes, every member issues a token and reads all valid tokens."""
        self.clock += self.chance.choice([1, 1, 1, 40])
        self.tokens = [token for token in self.tokens if self.clock - token[0] < self.life]
        serving = {name: keys for name, keys in self.members.items() if primary(keys) > 0}
        for keys in serving.values():
            self.tokens.append((self.clock, keys[primary(keys)]))
        for when, key in self.tokens:
            for name, keys in serving.items():
                assert key in keys.values(), f"{name} cannot read a token of {when} at {self.clock}: {self.members}"

    def run(self, rotate: bool, budget: int) -> bool:
        """One run of the plays, killed after so many changes of a file."""
        changes = 0

        def may() -> bool:
            nonlocal changes
            changes += 1
            return changes <= budget

        decision = decide(self.members, rotate)
        assert decision.action != "refuse", decision
        leader = decision.leader or ""
        steps: list[tuple[t.Any, ...]] = []
        keys = self.members[leader]
        if decision.action == "create":
            steps = [(1, f"k{next(self.fresh)}"), (0, f"k{next(self.fresh)}")]
        elif decision.action == "restage":
            steps = [(0, f"k{next(self.fresh)}"), *[(number,) for number in surplus(self.written[leader], self.clock, 3, self.life)]]
        elif decision.action == "promote":
            change = promotion(self.written[leader], self.clock, 3, self.life)
            steps = [(change.number, keys[0]), (0, f"k{next(self.fresh)}"), *[(number,) for number in change.surplus]]
        todo = [(leader, steps)]
        for name in decision.followers:
            todo.append((name, []))
        for name, planned in todo:
            if name != leader:
                have, want = self.members[name], self.members[leader]
                planned = [(number, key) for number, key in sorted(want.items()) if number and have.get(number) != key]
                planned += [(0, want[0])] if have.get(0) != want[0] else []
                planned += [(number,) for number in sorted(have) if number not in want]
            for step in planned:
                if not may():
                    return False
                self.put(name, *step) if len(step) == 2 else self.drop(name, *step)
        assert all(self.members[name] == self.members[leader] for name in self.members)
        assert finished(self.members[leader])
        return True


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", range(12))
def test_no_token_is_refused_wherever_runs_are_killed(size: int, seed: int) -> None:
    chance = random.Random(seed * 10 + size)
    world = World(size, chance)
    while not world.run(rotate=False, budget=chance.randrange(1, 12)):
        pass
    for _rotation in range(12):
        before = primary(world.members["m0"])
        while not world.run(rotate=True, budget=chance.randrange(1, 3 + 4 * size)):
            pass
        assert primary(world.members["m0"]) > before
    # keys do not pile up for ever
    for _hour in range(3):
        world.clock += world.life
        world.tokens = []
        world.run(rotate=True, budget=10**6)
    assert len(world.members["m0"]) <= 5


def test_the_world_would_notice() -> None:
    """The same world with a wrong order: a new staged key is promoted before any other member has it."""
    world = World(2, random.Random(1))
    world.run(rotate=False, budget=100)
    with pytest.raises(AssertionError, match="cannot read a token"):
        for name in ("m0", "m0"):
            change = promotion(world.written[name], world.clock, 3, 0)
            world.put(name, change.number, world.members[name][0])
            world.put(name, 0, f"k{next(world.fresh)}")
