# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._placement.report.plan_losses import Losses, ha_grade, quorums
from ansible_collections.reduced.footprint.plugins.module_utils._placement.report.plan_report import build_report
from ansible_collections.reduced.footprint.plugins.module_utils._placement.solve.plan_placement import plan_placement
from tests.support.placement import controllers, question, server, servers

MASTER = {"id": "master", "ram": 2, "cpu": 1, "roles": ["master"]}


def report(machines, vms=(), **more):
    return build_report(plan_placement(question(machines, vms, **more)))


def lost(found, name="metal1"):
    return next(one["lost"] for one in found["servers"] if one["name"] == name)


@pytest.mark.parametrize(
    ("machines", "vms", "policy", "grade"),
    [
        (servers(8), controllers(3), {}, "none"),
        (servers(8, 8), controllers(3), {}, "restart"),
        (servers(8, 8, 8), controllers(3), {}, "quorum"),
        (servers(8, 8), controllers(1), {}, "none"),
        (servers(8, 8), controllers(2), {}, "none"),
        (servers(16, 16, 16), controllers(5), {}, "quorum"),
        (servers(16, 16), controllers(5), {}, "restart"),
        (servers(8, 8, 8), [], {}, "none"),
        (servers(8, 8, 8), controllers(3), {"quorum_roles": ["database"]}, "none"),
        # the worst of several
        (servers(8, 8, 8), [*controllers(3), {"id": "q", "ram": 1, "roles": ["queue"]}], {"quorum_roles": ["controller", "queue"]}, "none"),
        # one that has no server counts for the majority and keeps nothing up
        (servers(2, 2), controllers(3), {}, "none"),
        (servers(2, 2, 2), controllers(4), {}, "none"),
        (servers(2, 2, 2, 2), controllers(5), {}, "quorum"),
        # metal counts like VMs
        ([server("metal1", roles=["virt", "controller"]), server("metal2"), server("metal3")], controllers(2), {}, "quorum"),
        ([server(f"metal{number}", roles=["controller", "compute"]) for number in (1, 2, 3)], [], {}, "quorum"),
    ],
)
def test_the_grade(machines, vms, policy, grade):
    placement = plan_placement(question(machines, vms, **policy))
    assert ha_grade(quorums(placement)) == grade
    # the grade of the search and that of the report are one
    assert placement.state.cost()[1] == ("quorum", "restart", "none").index(grade) or not placement.state.ranks


@pytest.mark.parametrize(
    ("machines", "vms", "name", "severity", "words"),
    [
        (servers(8, 8), controllers(), "metal1", "red", "controller loses its majority (1 of 3 left, 2 needed): the control plane stops until it is back"),
        (servers(8, 8), controllers(), "metal2", "green", "the quorum is kept (2 of 3 left, 2 needed)"),
        (servers(8, 8, 8), [*controllers(), MASTER], "metal1", "amber", "master is down (on no other server)"),
        (servers(3, 3, 3), controllers(), "metal1", "amber", "no other server has the capacity for c1"),
        (servers(8, 8, 8), controllers(), "metal1", "green", "other servers have the capacity to start c1 if they can access the disks"),
        (servers(8, 8, 8, 8), controllers(), "metal4", "green", "nothing stops: it carries no VM"),
        ([server(), server("metal2", hypervisors=["kvm"])], [{"id": "v", "ram": 1, "hypervisor": "lxc"}], "metal1", "amber", "server has the capacity for v"),
        ([server(), server("metal2", bridges=[])], [{"id": "v", "ram": 1, "nics": [{"bridge": "b"}]}], "metal1", "amber", "server has the capacity for v"),
        (servers(8, 8), [{"id": "v", "ram": 1, "host": "metal1"}], "metal1", "amber", "server has the capacity for v"),
        ([server("metal1", roles=["master"]), server("metal2")], [], "metal1", "amber", "master is down (on no other server)"),
        # the VM of a master that was not migrated yet is only planned
        ([server("laptop", roles=["master"]), server("metal2")], [MASTER], "laptop", "amber", "lost: master is down, unless master is running on metal2;"),
        ([server("laptop", roles=["master"]), server("metal2", runs=["master"])], [MASTER], "laptop", "green", "nothing stops"),
        # each of two machines has the role
        ([server("a", roles=["x"]), server("b", roles=["x"]), server("m")], [{"id": "v", "ram": 1, "roles": ["x"]}], "a", "green", "nothing stops"),
        # what an unmeasured server has is not known
        ([server(), {"name": "metal2"}], [{"id": "v", "ram": 1}], "metal1", "amber", "no measured server has the capacity for v; metal2 was not measured."),
        ([*servers(8, 8), {"name": "metal3"}], [{"id": "v", "ram": 1}], "metal1", "green", "the other servers that were measured have 8 GiB left for VMs"),
    ],
)
def test_what_a_loss_costs(machines, vms, name, severity, words):
    found = lost(report(machines, vms), name)
    assert (found["severity"], words in found["sentence"]) == (severity, True), found["sentence"]
    assert found["quorum_kept"] is (severity != "red")


def test_room_is_counted_once():
    # each VM alone would find room on metal2, both do not
    found = lost(report(servers(6, 3), [{"id": "a", "ram": 3}, {"id": "b", "ram": 3}, {"id": "c", "ram": 1, "host": "metal2"}]))
    assert (found["restartable"], found["stuck"]) == ([], ["a", "b"])
    found = lost(report(servers(6, 4), [{"id": "a", "ram": 3, "host": "metal2"}, {"id": "b", "ram": 1}, {"id": "c", "ram": 1}]))
    assert (found["restartable"], found["stuck"]) == (["b"], ["c"])


def test_memory_left_is_that_of_the_others():
    placement = plan_placement(question(servers(8, 8, 8), controllers()))
    assert Losses(placement).of(0).memory_left_mib == 2 * 6 * 1024


def test_availability_in_plain_words():
    assert report(servers(8, 8), controllers())["ha"] == [
        "restart: the control plane survives the loss of some servers; after the loss of another it stops until that server is back",
        "the loss of metal1 alone stops the control plane",
        "full high availability requires one controller on each of three servers, or on each of two servers and a witness",
    ]
    assert report(servers(8), [])["ha"] == ["none: no role needs a majority (quorum_roles: controller)"]


@pytest.mark.parametrize(
    ("machines", "vms", "policy", "words"),
    [
        (servers(8), [{"id": "v", "ram": 1, "hypervisor": "lxc"}], {}, "v: containers share the kernel"),
        (servers(8, hypervisors=["qemu"]), [{"id": "v", "ram": 1}], {}, "v will be refused, or emulated (slow)"),
        (servers(8), [{"id": "v", "ram": 1, "roles": ["compute"], "nested": True}], {}, "v run tenants inside a VM"),
        (servers(8, 8), controllers(2), {}, "2 members of controller tolerate no more failures than 1: use an odd number"),
        (servers(8), [{"id": "v", "ram": 1}], {}, "The usable hypervisor types of metal1 are not known"),
        (servers(8), [{"id": "v", "ram": 1, "nics": [{"bridge": "b"}]}], {}, "The bridges of metal1 are not known"),
        (servers(8), [{"id": "v", "ram": 1, "nics": [{"network": "n"}]}], {}, "The networks of metal1 are not known"),
        (servers(8), [{"id": "v", "ram": 1, "disks": [{"size": 1}]}], {}, "The size of the pools of metal1 is not known"),
        (servers(8), [{"id": "v", "ram": 1, "disks": [{"image": "debian"}]}], {}, "Disks of v take their size from an image"),
        ([server(), {"name": "metal2"}], [], {}, "metal2 was not measured"),
        ([server(runs=["foreign"])], [], {}, "metal1 has foreign, which are not in the VM details of this plan: they stay, and their memory is not counted"),
        ([server(runs=["old"], runs_memory={"old": 1})], [], {}, "they stay, and their memory is not available to the plan"),
        (servers(8), [], {"thin_ratio": 1.5}, "pools are overcommitted up to 1.5 times"),
    ],
)
def test_assumptions(machines, vms, policy, words):
    assert any(words in warning for warning in report(machines, vms, **policy)["warnings"])


def test_a_server_that_was_not_measured_is_measured_before_anything_is_bought():
    found = report([*servers(1), {"name": "metal2"}, {"name": "laptop", "roles": ["master"]}], [{"id": "v", "ram": 2}])
    assert found["advice"] == ["Measure metal2: let Ansible connect to it, or set node_capacity."] and found["changes"] == []
    # another one would not help, or is not required
    for vms in ([{"id": "v", "ram": 2, "host": "metal1"}], [{"id": "v", "ram": 1}]):
        found = report([*servers(1), {"name": "metal2"}], vms)
        assert found["advice"] == [] and bool(found["changes"]) is bool(found["unplaced"])


def test_no_assumptions():
    machines = servers(8, 8, 8, hypervisors=["kvm"], bridges=["b"], pools={"default": 100})
    vms = controllers(nics=[{"bridge": "b"}], disks=[{"size": 10}])
    assert report(machines, vms)["warnings"] == []


def test_alternative_1_is_labelled():
    both = {"name": "both", "roles": ["controller", "compute"], "host": "metal2"}
    found = report([server("metal1", roles=["controller", "compute"]), server("metal2")], wanted=[both])
    assert [label.partition(" on metal")[0] for label in found["labels"]] == [
        "alternative 1: metal1 is controller and compute",
        "alternative 1: metal2 is controller and compute",
    ]
    assert report([server(roles=["virt", "compute"])], controllers())["labels"] == []


def test_overcommit_is_reported():
    found = report([server(cpus=1, pools={"default": 10})], [{"id": "v", "ram": 1, "cpu": 3, "disks": [{"size": 15}]}], thin_ratio=2)
    assert found["overcommit"] == ["metal1: 3 vCPUs on 1 CPUs (3 per CPU)", "metal1: disks in pool default may grow to 1.5 times its capacity"]


def test_auto_becomes_what_is_proven():
    for proven, kind in ((["kvm", "qemu"], "kvm"), (["qemu"], "qemu"), (None, "auto")):
        found = report(servers(8, hypervisors=proven), [{"id": "v", "ram": 1}])
        assert found["placements"][0]["hypervisor"] == kind


def test_the_disclaimer_is_there():
    for word in ("PERFORMANCE", "ISOLATION", "AVAILABILITY"):
        assert word in report(servers(8))["disclaimer"]
