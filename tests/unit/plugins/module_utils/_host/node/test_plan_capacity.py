# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import CapacityError
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_node import (
    CapacityPolicy,
    HostCapacity,
    HostFacts,
    PoolCapacity,
)
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_vm import parse_vms
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.plan_capacity import (
    pool_demand,
    refuse_shortage,
    shortages,
)

GIB = 1024**3


def host(memory_mib=16384, cpus=4, reserve=1024, ratio=4.0, others=(0, 0), pools=None, pool_reserve=0):
    facts = HostFacts(memory_mib, cpus, "x86_64", "6.1", "CPU", "0x1", "7.2")
    return HostCapacity(facts, CapacityPolicy(reserve, ratio, pool_reserve), others[0], others[1], pools or {})


def pool(available, capacity=100 * GIB, volumes=None, name="default"):
    return {name: PoolCapacity(name, "/pool", capacity, available, volumes or {})}


def details(*entries):
    return parse_vms([dict({"id": index}, **entry) for index, entry in enumerate(entries)], cluster="lab")


@pytest.mark.parametrize(
    "entries, capacity, what, short",
    [
        ([], host(), [], []),
        ([{"ram": 15}], host(), [], []),
        ([{"ram": "15361 MiB"}], host(), ["memory"], [1024**2]),
        ([{"ram": 8}, {"ram": 8}], host(), ["memory"], [GIB]),
        ([{"ram": 15}], host(others=(1024, 0)), ["memory"], [GIB]),
        ([{"cpu": 16, "ram": 1}], host(), [], []),
        ([{"cpu": 17, "ram": 1}], host(), ["vCPUs"], [1]),
        ([{"cpu": 16, "ram": 1}], host(others=(0, 3)), ["vCPUs"], [3]),
        ([{"cpu": 4, "ram": 1}], host(cpus=3, ratio=1.5), [], []),
        ([{"cpu": 5, "ram": 1}], host(cpus=3, ratio=1.5), ["vCPUs"], [1]),
        ([{"ram": 1, "disks": [{"size": 10}]}], host(pools=pool(10 * GIB)), [], []),
        ([{"ram": 1, "disks": [{"size": 10}]}], host(pools=pool(9 * GIB)), ["pool default"], [GIB]),
        ([{"ram": 1, "disks": [{"size": 10}]}], host(pools=pool(10 * GIB), pool_reserve=GIB), ["pool default"], [GIB]),
        # a thin volume that is there already only needs what it may still grow
        ([{"ram": 1, "disks": [{"size": 10}]}], host(pools=pool(4 * GIB, volumes={"0-disk0.img": (10 * GIB, 6 * GIB)})), [], []),
        ([{"ram": 1, "disks": [{"size": 10}]}], host(pools=pool(3 * GIB, volumes={"0-disk0.img": (10 * GIB, 6 * GIB)})), ["pool default"], [GIB]),
        ([{"ram": 99, "cpu": 99, "disks": [{"size": 99}]}], host(pools=pool(GIB)), ["memory", "vCPUs", "pool default"], [84 * GIB, 83, 98 * GIB]),
        # a pool without measurements is checked elsewhere
        ([{"ram": 1, "disks": [{"size": 10, "pool": "fast"}]}], host(pools=pool(GIB)), [], []),
    ],
)
def test_shortages(entries, capacity, what, short):
    found = shortages(details(*entries), capacity, "default")
    assert [one.what for one in found] == what
    assert [one.short for one in found] == short


def test_the_refusal_names_the_numbers():
    capacity = host(memory_mib=4096, reserve=1024, others=(512, 0))
    with pytest.raises(CapacityError) as caught:
        refuse_shortage("metal1", shortages(details({"ram": 2}, {"ram": 2}), capacity, "default"))
    text = str(caught.value)
    for words in ("metal1", "requested 4 GiB", "available 2.5 GiB", "4 GiB minus 1 GiB reserve", "512 MiB of guests", "missing 1.5 GiB"):
        assert words in text
    assert caught.value.path == "vms" and caught.value.hint


def test_demand_per_pool():
    vms = details({"ram": 1, "disks": [{"size": 1}, {"size": 2, "pool": "fast"}]}, {"ram": 1, "disks": [{"size": 4}]})
    assert pool_demand(vms, {}, "default") == {"default": 5 * GIB, "fast": 2 * GIB}


@given(
    st.lists(st.tuples(st.integers(1, 64), st.integers(1, 64)), max_size=8),
    st.integers(1, 256),
    st.integers(0, 8),
    st.integers(1, 64),
)
def test_what_is_let_through_fits(sizes, memory_gib, reserve_gib, cpus):
    capacity = host(memory_gib * 1024, cpus, reserve_gib * 1024)
    vms = details(*({"ram": ram, "cpu": cpu} for ram, cpu in sizes))
    fits = sum(ram for ram, _cpu in sizes) + reserve_gib <= memory_gib or not sizes
    fits = fits and sum(cpu for _ram, cpu in sizes) <= cpus * 4
    assert fits == (not shortages(vms, capacity, "default"))
