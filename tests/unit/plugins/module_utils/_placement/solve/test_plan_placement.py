# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._placement.solve.plan_placement import plan_placement
from ansible_collections.reduced.footprint.plugins.module_utils._placement.solve.plan_problem import NOWHERE
from ansible_collections.reduced.footprint.plugins.module_utils._placement.solve.plan_reasons import reason, why_unplaced
from benchmarks.placement import first_fit, raw
from tests.support.placement import controllers, question, server, servers


def plan(machines, vms=(), **more):
    return plan_placement(question(machines, vms, **more))


def why(placement, vm_id):
    index = [vm.details.id for vm in placement.question.vms].index(vm_id)
    if placement.place[index] == NOWHERE:
        return "; ".join(why_unplaced(placement.problem, placement.state, index))
    return reason(placement.problem, placement.state, index)


@pytest.mark.parametrize(
    ("machine", "vm", "words"),
    [
        ({}, {"ram": 8}, ""),
        ({}, {"ram": "8193 MiB"}, "short of 1 MiB of memory (requested 8 GiB, free 8 GiB)"),
        ({"memory_reserve": 2}, {"ram": 7}, "short of 1 GiB of memory (requested 7 GiB, free 6 GiB)"),
        ({"others_memory": 2}, {"ram": 7}, "short of 1 GiB of memory"),
        ({"memory_reserve": 9}, {"ram": 1}, "free nothing"),
        ({}, {"cpu": 16}, ""),
        ({}, {"cpu": 17}, "short of 1 vCPUs (requested 17, free 16)"),
        ({"vcpu_ratio": 1}, {"cpu": 5}, "short of 1 vCPUs"),
        ({"others_vcpus": 15}, {"cpu": 2}, "short of 1 vCPUs"),
        ({"pools": {"default": 10}}, {"disks": [{"size": 10}]}, ""),
        ({"pools": {"default": 10}}, {"disks": [{"size": 11}]}, "short of 1 GiB in pool default (requested 11 GiB, free 10 GiB)"),
        ({"pools": {"default": 10}}, {"disks": [{"size": 1, "pool": "fast"}]}, "has no pool fast"),
        ({"pools": {}}, {"disks": [{"size": 1}]}, "has no pool default"),
        ({}, {"disks": [{"size": 9999}]}, ""),
        ({"pools": {"default": None}}, {"disks": [{"size": 9999}]}, ""),
        ({"hypervisors": ["lxc"]}, {"hypervisor": "lxc"}, ""),
        ({"hypervisors": ["lxc"]}, {"hypervisor": "auto"}, "cannot run auto guests"),
        ({"hypervisors": ["qemu"]}, {"hypervisor": "auto"}, ""),
        ({"hypervisors": {"kvm": {"usable": False, "reason": "it hung"}}}, {"hypervisor": "kvm"}, "cannot run kvm guests (it hung)"),
        ({"bridges": ["br0"]}, {"nics": [{"bridge": "br0"}]}, ""),
        ({"bridges": ["br0"]}, {"nics": [{"bridge": "br0"}, {"bridge": "br1"}]}, "has no bridge br1"),
        # of Open vSwitch, which is not among those of the kernel
        ({"bridges": ["br0"]}, {"nics": [{"bridge": "br0"}, {"bridge": "br1", "vlan": 5, "virtualport": "openvswitch"}]}, ""),
        ({"bridges": []}, {"nics": [{"network": "n1"}]}, ""),
        ({"networks": []}, {"nics": [{"network": "n1"}]}, "has no network n1"),
        ({"roles": ["compute"]}, {}, "does not have the role virt"),
        ({"memory": None, "cpus": None}, {}, "was not measured"),
    ],
)
def test_what_a_server_can_carry(machine, vm, words):
    placement = plan([server(**{"name": "metal1", **machine})], [{"id": "v", "ram": 1, "cpu": 1, **vm}])
    assert placement.feasible is (not words)
    if words:
        assert words in why(placement, "v")


@pytest.mark.parametrize(
    ("pool", "policy", "sizes", "placed"),
    [
        ({"default": 100}, {}, [60, 60], 1),
        ({"default": 100}, {"thin_ratio": 1.2}, [60, 60], 2),
        ({"default": 100}, {"thin_ratio": 1.2, "pool_reserve": 1}, [60, 60], 1),
        # available bytes already exclude the existing VMs
        ({"default": {"capacity": 100, "available": 60}}, {}, [60], 1),
        ({"default": {"capacity": 100, "available": 60}}, {}, [61], 0),
        ({"default": {"capacity": 100, "available": 60}}, {"thin_ratio": 1.5}, [60, 50], 2),
        ({"default": {"capacity": 100, "available": 60}}, {"thin_ratio": 1.5}, [60, 51], 1),
        # a file system without a lasting size
        ({"default": {"capacity_bytes": 0, "available_bytes": 10 * 1024**3}}, {}, [10], 1),
    ],
)
def test_bytes_of_a_pool(pool, policy, sizes, placed):
    vms = [{"id": f"v{index}", "ram": 1, "cpu": 1, "disks": [{"size": size}]} for index, size in enumerate(sizes)]
    placement = plan([server(pools=pool)], vms, **policy)
    assert len(placement.assignment()) == placed


@pytest.mark.parametrize(
    ("volumes", "placed"),
    [
        (None, True),  # volumes unknown: assumed to be fully allocated
        ([{"name": "v-disk0.img", "capacity_bytes": 60 * 1024**3, "allocation_bytes": 55 * 1024**3}], True),
        ([{"name": "v-disk0.img", "capacity_bytes": 60 * 1024**3, "allocation_bytes": 40 * 1024**3}], False),
    ],
)
def test_a_disk_that_is_there_needs_what_it_may_still_grow(volumes, placed):
    pool = {"capacity": 100, "available": 5, "volumes": volumes}
    placement = plan([server(pools={"default": pool}, vms=[{"id": "v", "ram": 1, "disks": [{"size": 60}]}])])
    assert placement.feasible is placed


@pytest.mark.parametrize(("number", "grades"), [(1, [3]), (2, [1, 2]), (3, [1, 1, 1]), (4, [0, 1, 1, 1])])
def test_controllers_stand_apart(number, grades):
    placement = plan(servers(*[8] * number), controllers())
    assert sorted(len(on) for on in placement.state.on) == grades


def test_the_members_of_a_group_by_name_stand_apart():
    vms = [{"id": index, "ram": 1, "anti_affinity": "shard"} for index in range(3)] + [{"id": "big", "ram": 4}]
    placement = plan(servers(8, 8, 4), vms)
    assert len({placement.assignment()[str(index)] for index in range(3)}) == 3


def test_strict_group_leaves_a_member_without_server():
    placement = plan(servers(8, 8), controllers(), strict_groups=["controller"])
    assert len(placement.assignment()) == 2
    assert "already carries another member of controller" in why(placement, "c3")


def test_a_controller_on_metal_counts():
    placement = plan([server("metal1", roles=["virt", "controller"]), server("metal2"), server("metal3")], controllers(2))
    assert set(placement.assignment().values()) == {"metal2", "metal3"}
    assert why(placement, "c1") == "on a different server than c2 and metal1"


def test_a_pin_is_kept_and_nothing_else_is_worth_breaking_it():
    vms = controllers(host="metal1")
    placement = plan(servers(8, 8, 8), vms)
    assert set(placement.assignment().values()) == {"metal1"}
    assert why(placement, "c1") == "pinned by host"
    full = plan(servers(2, 8), vms)
    assert len(full.assignment()) == 1
    assert why(full, "c3") == "metal1 is short of 2 GiB of memory (requested 2 GiB, free nothing); metal2 is not metal1, to which host pins the VM"


def test_what_runs_stays_although_another_server_is_empty():
    vms = [{"id": index, "ram": 1} for index in range(4)]
    placement = plan(servers(8, 8), vms, current={str(index): "metal1" for index in range(4)})
    assert set(placement.assignment().values()) == {"metal1"}
    assert why(placement, "0") == "stays on its current server"


@pytest.mark.parametrize(
    ("machines", "vms", "current", "mover", "words"),
    [
        (servers(8, 8), controllers(2), {"c1": "metal1", "c2": "metal1"}, "c2", "moves away from c1 on metal1"),
        (servers(3, 8), [{"id": "a", "ram": 2}, {"id": "b", "ram": 2}], {"a": "metal1", "b": "metal1"}, "b", "moves because metal1 is short of 1 GiB"),
        ([server("metal1", bridges=[]), server("metal2")], [{"id": "a", "ram": 1, "nics": [{"bridge": "b"}]}], {"a": "metal1"}, "a", "has no bridge b"),
        (
            [server("metal1", 4, hypervisors=["lxc"]), server("metal2", 4, hypervisors=["kvm", "lxc"])],
            [{"id": "a", "ram": 4, "hypervisor": "lxc"}, {"id": "b", "ram": 4, "hypervisor": "kvm"}],
            {"a": "metal2"},
            "a",
            "moves because metal2 is short of 4 GiB of memory",
        ),
    ],
)
def test_a_move_has_a_cause(machines, vms, current, mover, words):
    placement = plan(machines, vms, current=current)
    assert placement.feasible
    moved = [vm.details.id for vm in placement.question.vms if vm.current and placement.assignment()[vm.details.id] != vm.current]
    assert moved == [mover]
    assert words in why(placement, mover)


def test_no_moves_when_they_are_not_allowed():
    placement = plan(servers(8, 8), controllers(), current={"c1": "metal1", "c2": "metal1", "c3": "metal1"}, allow_moves=False)
    assert set(placement.assignment().values()) == {"metal1"}
    # a pin overrides allow_moves
    placement = plan(servers(8, 8), [{"id": "a", "ram": 1, "host": "metal2"}], current={"a": "metal1"}, allow_moves=False)
    assert placement.assignment() == {"a": "metal2"}


def test_vms_on_an_unmeasured_server_stay():
    machines = [{"name": "metal1", "vms": controllers(2)}, server("metal2"), server("metal3")]
    placement = plan(machines, [{"id": "c3", "ram": 2, "cpu": 1, "roles": ["controller"]}])
    assert placement.assignment()["c1"] == placement.assignment()["c2"] == "metal1"
    assert placement.assignment()["c3"] != "metal1"


def test_a_third_server_moves_one_controller_and_nothing_else():
    vms = [*controllers(), {"id": "master", "ram": 2, "cpu": 1}]
    placement = plan(servers(8, 8, 8), vms, current={"c1": "metal1", "c2": "metal1", "c3": "metal2", "master": "metal2"})
    moved = {vm.details.id for vm in placement.question.vms if placement.assignment()[vm.details.id] != vm.current}
    assert len(moved) == 1 and moved < {"c1", "c2"}
    assert len({placement.assignment()[name] for name in ("c1", "c2", "c3")}) == 3


def test_a_role_is_spread_but_moves_nothing():
    vms = [{"id": index, "ram": 1, "roles": ["web"]} for index in range(4)]
    placement = plan(servers(8, 8), vms)
    assert sorted(len(on) for on in placement.state.on) == [2, 2]
    placement = plan(servers(8, 8), vms, current={str(index): "metal1" for index in range(4)})
    assert sorted(len(on) for on in placement.state.on) == [0, 4]


def test_memory_is_used_evenly():
    placement = plan(servers(8, 16), [{"id": index, "ram": 1} for index in range(12)])
    assert placement.state.memory == [4096, 8192]


def test_compute_stays_on_metal():
    with pytest.raises(RefusedError) as caught:
        plan(servers(8), [{"id": "n", "ram": 1, "roles": ["compute"]}])
    assert caught.value.path == "vms[0].roles" and "nested: true" in caught.value.hint
    assert plan(servers(8), [{"id": "n", "ram": 1, "roles": ["compute"], "nested": True}]).feasible


def test_a_server_wanted_whole_carries_no_vms_unless_it_is_to():
    wish = {"name": "compute1", "ram": 16}
    placement = plan([server("small", 16), server("large", 64)], [{"id": "v", "ram": 1}], wanted=[wish])
    assert placement.assignment() == {"v": "large"}
    placement = plan([server("small", 16)], [{"id": "v", "ram": 1}], wanted=[{**wish, "roles": ["compute", "virt"]}])
    assert placement.assignment() == {"v": "small"}
    placement = plan([server("small", 16)], [{"id": "v", "ram": 1}], wanted=[wish])
    assert not placement.feasible and "assigned as a whole server" in why(placement, "v")


def test_a_large_vm_finds_room_when_a_small_one_moves_over():
    vms = [{"id": "s1", "ram": 3}, {"id": "s2", "ram": 3}, {"id": "big", "ram": 8}]
    placement = plan(servers(8, 8), vms, current={"s1": "metal1", "s2": "metal2"})
    assert placement.feasible
    assert placement.state.moves == 1


def test_of_too_many_the_most_are_placed():
    placement = plan(servers(8), [{"id": "big", "ram": 8}, *({"id": f"s{index}", "ram": 2} for index in range(4))])
    assert set(placement.assignment()) == {"s0", "s1", "s2", "s3"}


def test_no_vms_and_no_servers():
    assert plan([]).feasible
    assert not plan([], [{"id": "v"}]).feasible
    assert plan(servers(8)).feasible


def test_reasons_of_many_servers_are_summed_up():
    machines = [server(f"metal{index}", 1 if index % 2 else 2) for index in range(40)]
    found = why(plan(machines, [{"id": "v", "ram": 4}]), "v")
    assert found.count("and 39 more servers") == 1 and len(found) < 200


@pytest.mark.parametrize(("number", "fill"), [(10, 0.97), (100, 0.97), (178, 0.97), (100, 1.05)])
def test_no_fewer_are_placed_than_by_first_fit(number, fill):
    machines, vms = raw(number, number * 5, fill)
    asked = question(machines, [{**vm, "hypervisor": "kvm"} for vm in vms])
    memory = [host.capacity.memory_for_vms_mib for host in asked.servers]
    place = first_fit(memory, [host.capacity.vcpus_for_vms for host in asked.servers], [(vm.details.memory_mib, vm.details.cpu) for vm in asked.vms])
    assert plan_placement(asked).state.unplaced <= place.count(-1)


def test_a_large_vm_stays_out_when_two_small_ones_fit_instead():
    vms = [{"id": f"large{index}", "ram": 8} for index in range(30)] + [{"id": f"small{index}", "ram": 2} for index in range(8)]
    placement = plan(servers(*[8] * 30), vms)
    assert placement.state.unplaced == 2
