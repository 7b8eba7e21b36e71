# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError

from tests.support.placement import GIB, question, server


def only(entry, **more):
    return question([entry], **more).servers[0]


def test_what_is_given():
    found = only(
        server(memory="16 GiB", cpus="8", arch="x86_64", disk=500, pools={"default": 100}, hypervisors=["kvm"], bridges=["br0"], networks=[], roles="virt")
    )
    assert (found.memory_mib, found.cpus, found.arch, found.disk) == (16384, 8, "x86_64", 500 * GIB)
    assert found.capacity.pools["default"].capacity == found.capacity.pools["default"].available == 100 * GIB
    assert found.credits == frozenset() and found.sized == {"default"}
    assert (found.hypervisors, found.bridges, found.networks, found.roles) == ({"kvm"}, {"br0"}, frozenset(), ("virt",))


def test_missing_values_are_unknown():
    found = only({"name": "metal1"})
    assert found.capacity is None and found.roles == ("virt",)
    assert (found.hypervisors, found.bridges, found.networks, found.pools, found.arch, found.disk) == (None,) * 6


def test_what_virt_node_returns():
    measured = {
        "memory_mib": 24105, "memory_reserve_mib": 2048, "memory_for_vms_mib": 23081, "others_mib": 100, "cpus": 8, "vcpu_ratio": 2.0, "vcpus_for_vms": 15,
        "others_vcpus": 1, "arch": "x86_64", "cpu_model": "AMD EPYC", "kernel": "6.1", "qemu_version": "7.2.9",
        "pools": {"default": {"path": "/p", "capacity_bytes": 100 * GIB, "available_bytes": 90 * GIB}, "recorded": {"path": "/q"}},
    }  # fmt: skip
    proofs = {"kvm": {"usable": False, "reason": "hung"}, "lxc": {"usable": True, "reason": "ran", "cached": True}}
    found = only({"name": "metal1", "capacity": measured, "hypervisors": proofs}, memory_reserve=9, vcpu_ratio=9)
    assert found.capacity.memory_for_vms_mib == 24105 - 2048 - 100
    assert found.capacity.vcpus_for_vms == 15
    assert found.capacity.pools["default"].available == 90 * GIB
    assert found.credits == {"default"}, "free bytes that were measured lack what VMs take already"
    assert found.pools == {"default", "recorded"} and found.sized == {"default"}
    assert found.hypervisors == {"lxc"} and found.hypervisor_reasons == {"kvm": "hung"}


def test_given_values_override_measured_ones():
    found = only({"name": "m", "capacity": {"memory_mib": 1, "cpus": 1, "arch": "arm64"}, "memory": 4, "cpus": 2, "memory_reserve": "0 MiB", "vcpu_ratio": 1})
    assert (found.capacity.memory_for_vms_mib, found.capacity.vcpus_for_vms, found.arch) == (4096, 2, "arm64")


def test_three_spellings_of_servers_are_one():
    listed = [server("a"), server("b")]
    named = {entry["name"]: {key: value for key, value in entry.items() if key != "name"} for entry in listed}
    assert question(listed).servers == question(json.dumps(listed)).servers == question(named).servers


def test_where_vms_stand_now():
    machines = [server("a", vms=[{"id": 0}, {"id": 1}, {"id": 2}]), server("b", runs=[1, "foreign"]), server("c")]
    asked = question(machines, [{"id": 3}], current={"2": "c"})
    assert {vm.details.id: vm.current for vm in asked.vms} == {"0": "a", "1": "b", "2": "c", "3": None}


def test_volumes_as_vm_info_lists_them():
    volumes = [{"name": "x" * 80, "capacity_bytes": 10 * GIB, "allocation_bytes": None, "target": "vda", "path": "/p/x", "pool": "default"}]
    found = only(server(pools={"default": {"capacity": 100, "available": 50, "volumes": volumes}}))
    assert found.capacity.pools["default"].volumes == {"x" * 80: (10 * GIB, 0)}


def test_a_vm_that_is_not_in_the_plan_keeps_its_memory():
    # removed from the list, which never stops a VM
    there = server(memory=8, runs=["c1", "old", "off"], runs_memory={"c1": "2 GiB", "old": "3 GiB"}, runs_vcpus={"c1": 1, "old": 2})
    asked = question([there, server("metal2", 8)], vms=[{"id": "c1", "ram": 2}])
    assert [one.capacity.memory_for_vms_mib for one in asked.servers] == [5 * 1024, 8 * 1024]
    assert (asked.servers[0].capacity.others_mib, asked.servers[0].capacity.others_vcpus) == (3 * 1024, 2)
    assert question([{"name": "metal1", "runs": ["old"], "runs_memory": {"old": 1}}]).servers[0].capacity is None
    for value, path in (({"old": "much"}, "servers[0].runs_memory.old"), (["old"], "servers[0].runs_memory")):
        with pytest.raises(InputError) as caught:
            question([server(runs_memory=value)])
        assert caught.value.path == path


def test_a_digit_that_is_no_number_is_refused_with_its_path():
    with pytest.raises(InputError) as caught:
        question([server(cpus="²")])
    assert caught.value.path == "servers[0].cpus"
