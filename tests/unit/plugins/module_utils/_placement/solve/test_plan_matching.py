# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.reduced.footprint.plugins.module_utils._placement.solve.plan_matching import match_servers, mismatch
from tests.support.placement import question


def match(machines, wanted):
    asked = question(machines, wanted=wanted)
    return asked, match_servers(asked.servers, asked.wanted)


def sized(*memories):
    return [{"name": f"m{memory}", "memory": memory, "cpus": 4} for memory in memories]


def names(asked, found):
    return [asked.servers[one.server].name if one.server is not None else None for one in found]


@pytest.mark.parametrize(
    ("memories", "wish", "name"),
    [
        ((16, 128), {"ram": 16}, "m16"),
        ((128, 16), {"ram": 16}, "m16"),
        ((128,), {"ram": 16}, None),
        ((128,), {"ram": 16, "match": "at_least"}, "m128"),
        ((16, 128), {"ram": 16, "match": "at_least"}, "m16"),
        ((64, 128), {"ram": 16, "match": "at_least"}, "m64"),
        ((8,), {"ram": 16, "match": "at_least"}, None),
        # the kernel shows less than is built in
        (("15.6 GiB", 128), {"ram": 16}, "first"),
        (("15 GiB", 128), {"ram": 16}, None),
        ((16,), {"ram": 16, "cpu": 4}, "m16"),
        ((16,), {"ram": 16, "cpu": 2}, None),
        ((16,), {"ram": 16, "cpu": 2, "match": "at_least"}, "m16"),
        ((16,), {"arch": "arm64"}, None),
        ((16,), {"disk": 100}, None),
        ((16, 128), {"host": "m128"}, "m128"),
        ((16, 128), {"host": "m128", "ram": 16}, None),
        ((16,), {}, "m16"),
        ((), {"ram": 16}, None),
    ],
)
def test_a_wish(memories, wish, name):
    machines = [{"name": "first" if isinstance(memory, str) else f"m{memory}", "memory": memory, "cpus": 4} for memory in memories]
    asked, found = match(machines, [{"name": "w", **wish}])
    assert names(asked, found) == [name]
    assert found[0].reason


def test_reason_names_mismatch_and_alternative():
    unused, found = match(sized(128), [{"name": "w", "ram": 16}])
    assert found[0].reason == "m128 has 128 GiB memory, not exactly 16 GiB. m128 would match with match: at_least"
    unused, found = match(sized(16), [{"name": "w1", "ram": 16}, {"name": "w2", "ram": 16}])
    assert found[1].reason == "every matching server is used: m16 (by w1)"


def test_a_server_is_never_split():
    asked, found = match(sized(128), [{"name": "w", "ram": 16, "match": "at_least", "count": 3}])
    assert names(asked, found) == ["m128", None, None]


def test_who_can_take_another_one_leaves_the_only_one():
    wanted = [{"name": "any", "ram": 16, "match": "at_least"}, {"name": "small", "ram": 16}]
    asked, found = match(sized(16, 32), wanted)
    assert names(asked, found) == ["m32", "m16"]


def test_arch_and_disk():
    machines = [
        {"name": "a", "memory": 8, "cpus": 4, "arch": "arm64", "disk": "480 GB"},
        {"name": "b", "memory": 8, "cpus": 4, "arch": "x86_64", "disk": "960 GB"},
    ]
    asked, found = match(machines, [{"name": "w", "arch": "x86_64"}, {"name": "v", "disk": "480 GB"}])
    assert names(asked, found) == ["b", "a"]


def test_a_server_without_vms_is_taken_first():
    machines = [{"name": "a", "memory": 8, "cpus": 4, "vms": [{"id": 1}]}, {"name": "b", "memory": 16, "cpus": 4}]
    asked = question(machines, wanted=[{"name": "w"}])
    assert names(asked, match_servers(asked.servers, asked.wanted, frozenset([0]))) == ["b"]


_SIZES = st.sampled_from([16, 32, 64])


@given(
    st.lists(st.tuples(_SIZES, st.sampled_from([4, 8])), max_size=5),
    st.lists(st.tuples(_SIZES, st.sampled_from([None, 4, 8]), st.sampled_from(["exact", "at_least"])), min_size=1, max_size=5),
)
def test_as_many_as_possible_by_the_smallest_that_do(pool, wishes):
    machines = [{"name": f"m{index}", "memory": memory, "cpus": cpus} for index, (memory, cpus) in enumerate(pool)]
    wanted = [{"name": f"w{index}", "ram": ram, "cpu": cpu, "match": how} for index, (ram, cpu, how) in enumerate(wishes)]
    asked, found = match(machines, wanted)
    taken = [one.server for one in found if one.server is not None]
    assert len(set(taken)) == len(taken)
    assert all(mismatch(one.wanted, asked.servers[one.server]) is None for one in found if one.server is not None)
    best = (0, 0)
    for places in itertools.product([None, *range(len(machines))], repeat=len(wanted)):
        used = [place for place in places if place is not None]
        wrong = [index for index, place in enumerate(places) if place is not None and mismatch(asked.wanted[index], asked.servers[place])]
        if len(set(used)) == len(used) and not wrong:
            best = min(best, (-len(used), sum(pool[place][0] for place in used)))
    assert (-len(taken), sum(pool[place][0] for place in taken)) == best


def test_many_wishes_of_many_servers_are_quick():
    machines = [{"name": f"m{index}", "memory": 16 * (1 + index % 7), "cpus": 4} for index in range(1000)]
    wanted = [{"name": f"w{size}", "ram": 16 * size, "match": "at_least", "count": 200} for size in (1, 3, 5, 7)]
    unused, found = match(machines, wanted)
    # 142 servers of the largest size are all that fill the largest wish
    assert sum(one.server is not None for one in found if one.wanted.name.startswith("w7-")) == 142
