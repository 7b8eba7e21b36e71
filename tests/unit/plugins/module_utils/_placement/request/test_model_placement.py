# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError, InputError
from ansible_collections.reduced.footprint.plugins.module_utils._placement.request.model_placement import (
    as_list,
    parse_bytes,
    parse_placement_policy,
    parse_wanted,
)
from tests.support.placement import question, server


@pytest.mark.parametrize(
    ("value", "path", "words"),
    [
        ("{", "wanted", "not valid JSON"),
        (5, "wanted", "expected a list, got a number"),
        ({"a": 5}, "wanted.a", "expected a mapping"),
        ([5], "wanted[0]", "mapping"),
        ([{"ram": 16}], "wanted[0].name", "not a valid name"),
        ([{"name": "a", "memry": 5}], "wanted[0].memry", "Did you mean memory?"),
        ([{"name": "a", "x": 5}], "wanted[0].x", "not a known key"),
        ([{"name": "a", "ram": -1}], "wanted[0].ram", "negative"),
        ([{"name": "a", "ram": 0}], "wanted[0].ram", "not greater than 0"),
        ([{"name": "a", "ram": "9999 TiB"}], "wanted[0].ram", "1 PiB"),
        ([{"name": "a", "ram": 4, "memory": 5}], "wanted[0].memory", "differs from ram"),
        ([{"name": "a", "cpu": 0}], "wanted[0].cpu", "between 1 and"),
        ([{"name": "a", "cpu": 1.5}], "wanted[0].cpu", "whole number"),
        ([{"name": "a", "cpu": True}], "wanted[0].cpu", "whole number"),
        ([{"name": "a", "disk": "big"}], "wanted[0].disk", "not a size"),
        ([{"name": "a", "match": "roughly"}], "wanted[0].match", "exact, at_least"),
        ([{"name": "a", "count": 0}], "wanted[0].count", "between 1 and"),
        ([{"name": "a", "count": 2, "host": "m"}], "wanted[0].host", "cannot be used for 2 servers"),
        ([{"name": "a", "roles": 1.5}], "wanted[0].roles", "expected a list of names"),
        ([{"name": "a"}, {"name": "a"}], "wanted[1].name", "already used at wanted[0].name"),
        ([{"name": "a", "count": 2}, {"name": "a-2"}], "wanted[1].name", "already used at wanted[0].name"),
    ],
)
def test_bad_wishes(value, path, words):
    with pytest.raises(InputError) as caught:
        parse_wanted(value)
    assert caught.value.path == path
    assert words in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("policy", "path"),
    [
        ({"memory_reserve": "x"}, "memory_reserve"),
        ({"vcpu_ratio": 0}, "vcpu_ratio"),
        ({"thin_ratio": 0.5}, "thin_ratio"),
        ({"thin_ratio": "a"}, "thin_ratio"),
        ({"thin_ratio": True}, "thin_ratio"),
        ({"pool": "a/b"}, "pool"),
        ({"quorum_roles": ["a b"]}, "quorum_roles[0]"),
        ({"apart_roles": {"a": 1}}, "apart_roles"),
        ({"strict_groups": [None]}, "strict_groups[0]"),
    ],
)
def test_bad_policies(policy, path):
    with pytest.raises(InputError) as caught:
        parse_placement_policy(**policy)
    assert caught.value.path == path


@pytest.mark.parametrize(
    ("machines", "vms", "current", "path", "words"),
    [
        ("[", [], None, "servers", "not valid JSON"),
        ([server(memory=None)], [], None, "servers[0].memory", "missing"),
        ([server(cpus=None)], [], None, "servers[0].cpus", "missing"),
        ([server(memory="-4")], [], None, "servers[0].memory", "negative"),
        ([server(cpus=0)], [], None, "servers[0].cpus", "between 1"),
        ([server(memroy=4)], [], None, "servers[0].memroy", "Did you mean memory"),
        ([server(name="")], [], None, "servers[0].name", "not a valid name"),
        ([server(), server()], [], None, "servers[1].name", "already used at servers[0].name"),
        ([server(pools=5)], [], None, "servers[0].pools", "expected a mapping"),
        ([server(pools={"a": {"size": 5}})], [], None, "servers[0].pools.a.size", "not a known key"),
        ([server(pools={"a": {"capacity": 5, "available": 6}})], [], None, "servers[0].pools.a.available", "exceeds the capacity of the pool"),
        ([server(pools={"a": {"capacity": 5, "volumes": {}}})], [], None, "servers[0].pools.a.volumes", "expected a list"),
        ([server(pools={"a": "many"})], [], None, "servers[0].pools.a", "not a size"),
        ([server(hypervisors=["xen"])], [], None, "servers[0].hypervisors", "not a valid hypervisor type"),
        ([server(hypervisors={"kvm": 5})], [], None, "servers[0].hypervisors.kvm", "expected a mapping, got 5"),
        ([server(capacity=5)], [], None, "servers[0].capacity", "expected a mapping"),
        ([server(others_vcpus=-1)], [], None, "servers[0].others_vcpus", "between 0"),
        ([server(vcpu_ratio=0)], [], None, "servers[0].vcpu_ratio", "between 0 and 1000"),
        ([server(roles=["compute"], vms=[{"id": 1}])], [], None, "servers[0].vms", "not the role virt"),
        ([server(vms=[{"id": 1, "ram": "x"}])], [], None, "servers[0].vms[0].ram", "not a size"),
        ([server(vms=[{"id": 1}])], [{"id": 1}], None, "vms[0].id", "already used at servers[0].vms[0].id"),
        ([server()], [{"id": 1}, {"id": 2, "name": "1"}], None, "vms[1].name", "already used"),
        ([server()], [{"cpu": 1}], None, "vms[0].id", "missing"),
        ([server()], [{"id": 1, "host": "metal9"}], None, "vms[0].host", "not a server of this plan"),
        ([server()], [{"id": 1, "anti_affinity": "a b"}], None, "vms[0].anti_affinity[0]", "not a valid name"),
        ([server()], [{"id": 1, "nested": "perhaps"}], None, "vms[0].nested", "neither true nor false"),
        ([server()], [{"id": 1}], {"2": "metal1"}, "current.2", "no VM of this plan"),
        ([server()], [{"id": 1}], {"1": "metal9"}, "current.1", "not a server of this plan"),
        ([server()], [{"id": 1}], [1], "current", "expected a mapping"),
        ([], [{"id": 1, "host": "metal1"}], None, "vms[0].host", "there are no servers"),
    ],
)
def test_bad_questions(machines, vms, current, path, words):
    with pytest.raises(FootprintError) as caught:
        question(machines, vms, current=current)
    assert caught.value.path == path
    assert words in str(caught.value)
    assert caught.value.hint


def test_wishes_are_counted():
    found = parse_wanted([{"name": "a", "ram": "16 GiB", "cpus": "4", "disk": 100, "count": 2, "roles": "compute"}, {"name": "b"}])
    assert [(one.name, one.cpus, one.memory_mib, one.disk, one.match) for one in found] == [
        ("a-1", 4, 16384, 100 * 1024**3, "exact"),
        ("a-2", 4, 16384, 100 * 1024**3, "exact"),
        ("b", None, None, None, "exact"),
    ]


@pytest.mark.parametrize("value", [None, "", " ", [], {}])
def test_nothing_is_nothing(value):
    assert as_list(value, "x") == []


@pytest.mark.parametrize("value", [0, "0", "0 MiB", "0.0", "0GiB", " 0 B"])
def test_no_bytes_are_a_number_of_bytes(value):
    assert parse_bytes(value, "x") == 0
