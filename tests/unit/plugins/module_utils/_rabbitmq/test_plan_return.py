# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which member of a stopped cluster starts first."""

from __future__ import annotations

import itertools
import random

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._rabbitmq.plan_return import First, Saved, add_group, first_member, has_majority

ALL = ("a", "b", "c")


def saved(seen: str, *served: str, known: str = "abc") -> Saved:
    """What a member has saved; each group as the letters of its nodes."""
    return Saved(tuple(known), tuple(seen), tuple(tuple(group) for group in served))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (saved("abc", "abc", "ab"), ("abc",)),
        (saved("ab", "abc"), ("abc", "ab")),
        (saved("c", "abc"), ("abc",)),
        (saved("bc"), ("bc",)),
        # each group once, in the order of its last time
        (saved("ab", "abc", "ab", "ac"), ("abc", "ac", "ab")),
        # a node that the cluster has forgotten does not count
        (saved("ac", "abc", "ab", known="ab"), ("abc", "ab")),
        (saved("a", known="ab"), ()),
        (saved("a", known="a"), ("a",)),
    ],
)
def test_groups_since_all_were_running(before: Saved, after: tuple[str, ...]) -> None:
    assert add_group(before).served == tuple(tuple(group) for group in after)


@pytest.mark.parametrize(
    ("members", "first", "missing"),
    [
        # all lost power at once; two of three are enough, because the third one cannot have served alone
        ({"a": saved("abc"), "b": saved("abc"), "c": saved("abc")}, "a", ""),
        ({"a": saved("abc"), "b": saved("abc"), "c": None}, "a", "c"),
        ({"a": None, "b": saved("abc"), "c": saved("abc")}, "b", "a"),
        ({"a": saved("abc"), "b": None, "c": None}, None, "bc"),
        # a was disconnected and paused, the others served and stopped: it is not first, also without another one
        ({"a": saved("a", "abc"), "b": saved("bc", "abc"), "c": saved("bc", "abc")}, "b", ""),
        ({"a": saved("a", "abc"), "b": saved("bc", "abc"), "c": None}, "b", "c"),
        # ... also if it lost power before it noticed
        ({"a": saved("abc"), "b": saved("bc", "abc"), "c": saved("bc", "abc")}, "b", ""),
        # ... also if it noticed that one is missing before the other
        ({"a": saved("a", "abc", "ac"), "b": saved("bc", "abc"), "c": saved("bc", "abc")}, "b", ""),
        ({"a": saved("a", "abc"), "b": None, "c": None}, None, "bc"),
        # the one that ran for longer is first
        ({"a": saved("abc"), "b": saved("bc", "abc"), "c": saved("c", "abc", "bc")}, "c", ""),
        # all are paused: first a, then b and c were disconnected from each other
        ({"a": saved("a", "abc"), "b": saved("b", "abc", "bc"), "c": saved("c", "abc", "bc")}, "b", ""),
        # all links were cut, each noticed it in another order: nothing was changed since all were running
        ({"a": saved("a", "abc", "ab"), "b": saved("b", "abc", "bc"), "c": saved("c", "abc", "ac")}, "a", ""),
        # a and b served, then b and c, in which order is known by b only
        ({"a": saved("ab", "abc"), "b": saved("bc", "abc", "ab"), "c": saved("bc", "abc")}, "b", ""),
        ({"a": saved("ab", "abc"), "b": None, "c": saved("bc", "abc")}, None, "b"),
        # c had seen b for longer than a before all of this; b was in a later group, too
        ({"a": None, "b": saved("bc", "abc", "ab"), "c": saved("c", "abc", "bc")}, "b", "a"),
        # one has lost its record, or its disk
        ({"a": saved("a"), "b": saved("abc"), "c": saved("abc")}, "b", "a"),
        ({"a": saved("a"), "b": saved("abc"), "c": None}, None, "ac"),
        ({"a": saved("", "abc", known=""), "b": saved("abc"), "c": None}, None, "ac"),
        ({"a": saved("a", "abc", known="a"), "b": saved("abc"), "c": saved("abc")}, "b", "a"),
        # a node that no list has, but the cluster
        ({"a": saved("abcd", known="abcd"), "b": saved("abcd", known="abcd"), "c": None}, None, "cd"),
    ],
)
def test_who_is_first(members: dict[str, Saved | None], first: str | None, missing: str) -> None:
    found = first_member(members)
    assert (found.node, found.missing) == (first, tuple(missing))


def test_no_member_is_first_if_two_orders_contradict() -> None:
    members = {"a": saved("ab", "ac", "ab"), "b": saved("bc", "ab", "bc"), "c": saved("ac", "bc", "ac")}
    assert first_member(members) == First(None)


def test_a_witness_is_first_only_if_no_other_member_is_as_good() -> None:
    whole = saved("abc")
    assert first_member({"a": whole, "b": whole, "c": whole}, ["a"]).node == "b"
    assert first_member({"a": saved("ac", "abc"), "b": whole, "c": None}, ["a"]).node == "a"


def run(seed: int, steps: int = 14) -> tuple[dict[str, Saved | None], dict[str, int], int]:
    """Random faults, one after the other, to three members that pause without a majority; the counter stands for their metadata.

    Each connected group with a majority changes the metadata; a member that joins it copies them. At the end all members are stopped.
    """
    rnd = random.Random(seed)
    state: dict[str, int] = dict.fromkeys(ALL, 0)
    found: dict[str, Saved] = dict.fromkeys(ALL, add_group(saved("abc")))
    newest = 0
    group: frozenset[str] = frozenset(ALL)
    for unused in range(steps):
        alone = rnd.choice([*ALL, "", "all"])
        now = frozenset(ALL) if not alone else frozenset() if alone == "all" else frozenset(ALL) - {alone}
        if not now & group:
            # no member serves: the one that the decision names starts, if it is among those that are connected
            first = first_member({node: found[node] if node in now else None for node in ALL}).node
            if first is None:
                continue
            assert state[first] == newest
            source = first
        else:
            source = min(now & group)
        if len(now) == 2 and len(now & group) == 1 and group != frozenset(ALL) and len(group) == 2:
            # the only common member has the state
            assert state[source] == newest
        for node in ALL:
            seen = "".join(sorted(now)) if node in now else rnd.choice([node, "".join(found[node].seen)])
            found[node] = add_group(found[node]._replace(seen=tuple(seen)))
        if now:
            newest += 1
            for node in now:
                state[node] = newest
        group = now
    return dict(found), state, newest


def test_random_faults_never_name_a_member_that_is_behind() -> None:
    """With all members, and with each one missing."""
    decided = 0
    for seed in range(3000):
        members, state, newest = run(seed)
        for gone in ("", *ALL):
            first = first_member({node: None if node == gone else one for node, one in members.items()}).node
            decided += first is not None
            assert first is None or state[first] == newest, (seed, gone, members, state)
    assert decided > 3000 * 3


def test_majority() -> None:
    for size in range(1, 4):
        for seen in itertools.combinations(ALL, size):
            assert has_majority(Saved(ALL, seen)) == (size > 1)
