# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._placement.request.plan_facts import master_vm, servers_from_variables
from tests.support.placement import GIB, question

RECORD = {
    "capacity": {"memory_mib": 16000, "cpus": 8, "memory_reserve_mib": 2048, "vcpu_ratio": 2.0, "arch": "x86_64", "pools": {"default": {"path": "/srv/pool"}}},
    "hypervisors": {"kvm": {"usable": False, "reason": "hung"}, "lxc": {"usable": True}},
}
FACTS = {
    "memtotal_mb": 15900,
    "processor_vcpus": 8,
    "processor_nproc": 6,
    "architecture": "x86_64",
    "interfaces": ["lo", "br-admin", "eno1", "br_other"],
    "br_admin": {"device": "br-admin", "type": "bridge"},
    "br_other": {"device": "br_other", "type": "bridge"},
    "eno1": {"device": "eno1", "type": "ether"},
    "mounts": [
        {"mount": "/", "size_total": 50 * GIB, "size_available": 20 * GIB},
        {"mount": "/srv", "size_total": 200 * GIB, "size_available": 150 * GIB},
        {"mount": "/srv/poo", "size_total": 1, "size_available": 1},
    ],
    "ansible_local": {"reduced_footprint": RECORD},
}
FOUND = [
    {
        "id": "c1", "cluster": "lab", "state": "running", "memory_mib": 1024, "cpu": 1,
        "volumes": [{"name": "c1-disk0", "pool": "default", "capacity_bytes": 5, "allocation_bytes": 4}],
    },  # fmt: skip
    {"id": "x", "cluster": "other", "state": "running", "memory_mib": 512, "cpu": 2, "volumes": [{"name": "x-disk0", "pool": "default", "capacity_bytes": 5}]},
    {"id": None, "cluster": None, "state": "shutdown", "memory_mib": 4096, "cpu": 4},
]


def entry(vms_there=False, node=None, **variables):
    return servers_from_variables({"metal1": {"footprint_cluster": "lab", **variables}}, ["metal1"], {"metal1": vms_there}, {"metal1": node or {}})[0]


def test_everything_that_is_known():
    vms = [{"id": "c1", "ram": 1}]
    found = entry(FOUND, node_roles=["virt", "compute"], ansible_facts=FACTS, vms=vms, virt_host_bridges=[{"name": "br-new", "port": "eno2"}])
    assert found["roles"] == ["virt", "compute"] and found["vms"] == vms
    assert (found["memory"], found["cpus"], found["arch"]) == ("15900 MiB", 6, "x86_64")
    assert found["bridges"] == ["br-admin", "br-new", "br_other"]
    assert found["pools"]["default"]["capacity"] == f"{200 * GIB} B"
    assert [volume["name"] for volume in found["pools"]["default"]["volumes"]] == ["c1-disk0"]
    assert (found["runs"], found["others_memory"], found["others_vcpus"]) == (["c1"], "512 MiB", 2)
    asked = question([found]).servers[0]
    assert asked.capacity.memory_for_vms_mib == 15900 - 2048 - 512
    assert asked.capacity.vcpus_for_vms == 12 - 2
    assert asked.hypervisors == {"lxc"} and asked.credits == {"default"}


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"ansible_facts": {}},
        {"ansible_facts": {"ansible_local": {"reduced_footprint": "error loading facts"}}},
    ],
)
def test_nothing_is_known(variables):
    found = entry(**variables)
    assert found == {"name": "metal1"}
    assert question([found]).servers[0].capacity is None


def test_recorded_facts_alone_are_enough():
    asked = question([entry(ansible_local={"reduced_footprint": RECORD})]).servers[0]
    assert asked.capacity.memory_for_vms_mib == 16000 - 2048
    assert asked.pools == {"default"} and asked.sized == frozenset()


def test_node_capacity_overrides_facts():
    asked = question([entry(ansible_facts=FACTS, node_capacity={"memory": 64, "cpus": 32, "hypervisors": ["kvm"], "pools": {"default": 1000}})]).servers[0]
    assert asked.memory_mib == 64 * 1024 and asked.hypervisors == {"kvm"}
    assert asked.capacity.pools["default"].capacity == 1000 * GIB


@pytest.mark.parametrize("state, holds", [("running", True), ("paused", True), ("suspended", True), ("crashed", True), ("shutdown", False)])
def test_memory_of_a_stopped_or_paused_guest(state, holds):
    found = entry([{"id": None, "cluster": None, "state": state, "memory_mib": 512, "cpu": 2}])
    assert found.get("others_memory") == ("512 MiB" if holds else None)


def test_moved_vm_is_not_counted():
    vms = [{"id": "c1", "cluster": "lab", "state": "shutdown", "moved": "metal3"}, {"id": "c2", "cluster": "lab", "state": "running", "moved": None}]
    assert entry(vms)["runs"] == ["c2"]


def test_running_vms_have_a_size():
    states = {"c1": "running", "old": "paused", "off": "shutdown"}
    vms = [{"id": name, "cluster": "lab", "state": state, "memory_mib": 512, "cpu": 2} for name, state in states.items()]
    found = entry(vms, node_capacity={"memory": 4, "cpus": 4, "memory_reserve": 0})
    assert (found["runs"], found["runs_memory"]) == (["c1", "old", "off"], {"c1": "512 MiB", "old": "512 MiB"})
    assert question([found], vms=[{"id": "c1", "ram": 1}]).servers[0].capacity.memory_for_vms_mib == 4096 - 512


@pytest.mark.parametrize("vms", [[{"id": "c1", "ram": 1}, {"id": 2, "name": "c2"}], '[{"id": "c1", "ram": 1}, {"id": 2, "name": "c2"}]'])
def test_roles_that_a_topology_gives_a_vm_count(vms):
    hostvars = {
        "metal1": {"vms": vms, "footprint_topology": {"roles": []}},
        "c1": {"node_roles": ["controller"]},
        "c2": {"node_roles": ["controller", "db"]},
        "metal2": {"vms": '[{"id": "c1"}', "footprint_topology": {}},
    }
    (found,) = servers_from_variables(hostvars, ["metal1"], {}, {})
    assert [vm.details.roles for vm in question([found]).vms] == [("controller",), ("controller", "db")]
    # without a topology the details have all roles; the module reports a text that is not valid
    hostvars["metal1"].pop("footprint_topology")
    assert [one["vms"] for one in servers_from_variables(hostvars, ["metal1", "metal2"], {}, {})] == [vms, '[{"id": "c1"}']


LOGICAL = {"capacity": {"memory_mib": 16000, "cpus": 8, "pools": {"fast": {"path": "/dev/vg0", "type": "logical", "source": "vg0", "reserve_bytes": GIB}}}}


@pytest.mark.parametrize(
    "measured, live, free",
    [
        # the recorded measurement; current values of libvirt override it
        ({"pools": {"fast": {"capacity_bytes": 10 * GIB, "available_bytes": 8 * GIB}}}, {}, 7),
        ({"pools": {"fast": {"capacity_bytes": 10 * GIB, "available_bytes": 8 * GIB}}}, {"fast": {"capacity_bytes": 10 * GIB, "available_bytes": 3 * GIB}}, 2),
    ],
)
def test_a_volume_group_is_on_no_file_system(measured, live, free):
    facts = {"ansible_local": {"reduced_footprint": {**LOGICAL, "measured": measured}}, "mounts": FACTS["mounts"]}
    found = entry(node={"libvirt": True, "networks": [], "pools": live}, ansible_facts=facts)
    server = question([found], vms=[{"id": "a", "disks": [{"size": free, "pool": "fast"}]}]).servers[0]
    assert server.capacity.pools["fast"].available - server.capacity.pools["fast"].reserve == free * GIB


def test_networks_of_libvirt():
    node = {"libvirt": True, "networks": [{"name": "br-admin", "active": True}, {"name": "off", "active": False}], "pools": {}}
    assert entry(node=node, virt_host_networks=[{"bridge": "br-new"}])["networks"] == ["br-admin", "br-new"]
    assert "networks" not in entry(node={"libvirt": False}) and "networks" not in entry()


# The master's VM

MASTER = [{"id": "master", "cluster": "lab", "state": "running", "memory_mib": 2048, "cpu": 2}]
MIGRATION = {"footprint_cluster": "lab", "master_migrate_temporary_address": "192.0.2.9", "master_migrate_ram": 4, "virt_host_pool": "fast"}


@pytest.mark.parametrize(
    "variables, found, wanted",
    [
        ({"footprint_cluster": "lab"}, [], []),
        ({"footprint_cluster": "lab"}, MASTER, ["master"]),
        ({"footprint_cluster": "other"}, MASTER, []),
        (MIGRATION, False, ["master"]),
        ({**MIGRATION, "master_migrate_name": "boss"}, [], ["boss"]),
        ({**MIGRATION, "vms": [{"id": "master"}]}, MASTER, []),
        ({**MIGRATION, "vms": '[{"id": "master"}]'}, MASTER, []),
    ],
)
def test_the_master_counts_if_it_exists_or_is_about_to(variables, found, wanted):
    assert [vm["id"] for vm in master_vm({"metal1": variables}, ["metal1"], {"metal1": found})] == wanted


def test_the_master_has_the_size_of_its_role():
    (vm,) = master_vm({"metal1": {**MIGRATION, "master_migrate_vm_extra": {"cpu": 8}}}, ["metal1"], {}, "metal1")
    assert (vm["cpu"], vm["ram"], vm["host"], vm["roles"]) == (8, 4, "metal1", ["master"])
    assert vm["disks"] == [{"size": "40GiB", "pool": "fast"}]


def test_which_vms_exist_is_unknown_without_a_measurement():
    assert "runs" not in entry(False)
    assert entry([])["runs"] == []
