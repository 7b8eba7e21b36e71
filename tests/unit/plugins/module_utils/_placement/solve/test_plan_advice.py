# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._placement.solve.plan_advice import changes
from ansible_collections.reduced.footprint.plugins.module_utils._placement.solve.plan_placement import plan_placement
from tests.support.placement import controllers, question, server, servers


def hint(machines, vms, **more):
    return {change.kind: change for change in changes(plan_placement(question(machines, vms, **more)))}


@pytest.mark.parametrize(
    ("machines", "vms", "policy", "kind", "text"),
    [
        (servers(8), [{"id": "v", "ram": 9}], {}, "memory", "add 1 GiB of memory to metal1"),
        # the VM that fits in the larger server needs the smaller one no larger
        (servers(8, 4), [{"id": "a", "ram": 8}, {"id": "b", "ram": 5}], {}, "memory", "add 1 GiB of memory to metal2"),
        # placed VMs may move: with 8 GiB each, less is missing than the VM requests
        (servers(4, 4), [{"id": "a", "ram": 3}, {"id": "b", "ram": 3}, {"id": "c", "ram": 2}], {}, "memory", "add 1 GiB of memory to metal1"),
        (servers(8), [{"id": "v", "ram": 9}], {}, "smaller_vm", "reduce the memory of v from 9 GiB to 8 GiB"),
        (servers(8), [{"id": "v", "ram": 9}], {}, "server", "add a server with at least 10 GiB of memory and 1 CPU"),
        (servers(8), [{"id": "v", "ram": 1, "cpu": 18}], {}, "vcpu_ratio", "increase vcpu_ratio to 4.5"),
        ([server(pools={"default": 10})], [{"id": "v", "ram": 1, "disks": [{"size": 25}]}], {}, "pool", "add 15 GiB to the pool default of metal1"),
        ([server(pools={})], [{"id": "v", "ram": 1, "disks": [{"size": 25}]}], {}, "pool", "add the pool default to metal1"),
        ([server(bridges=["a"])], [{"id": "v", "ram": 1, "nics": [{"bridge": "b"}]}], {}, "bridge", "add the bridge b to metal1"),
        ([server(networks=[])], [{"id": "v", "ram": 1, "nics": [{"network": "n"}]}], {}, "network", "add the network n to metal1"),
        ([server(hypervisors=["lxc"])], [{"id": "v", "ram": 1, "hypervisor": "kvm"}], {}, "hypervisor", "make kvm usable on metal1"),
        (servers(2, 8), [{"id": "v", "ram": 4, "host": "metal1"}], {}, "host", "do not pin v to metal1"),
        (servers(8, 8), controllers(), {"strict_groups": ["controller"]}, "strict_groups", "remove strict_groups"),
        (
            servers(8, 8),
            [{"id": "a", "ram": 3}, {"id": "b", "ram": 3}, {"id": "c", "ram": 8}],
            {"allow_moves": False, "current": {"a": "metal1", "b": "metal2"}},
            "allow_moves",
            "set allow_moves: true",
        ),
    ],
)
def test_the_smallest_change(machines, vms, policy, kind, text):
    found = hint(machines, vms, **policy)
    assert kind in found and text in found[kind].text and found[kind].least


def test_no_change_if_every_vm_has_a_server():
    assert hint(servers(8), [{"id": "v", "ram": 1}]) == {}


def test_less_than_the_change_is_not_enough():
    vms = [{"id": index, "ram": 3} for index in range(5)]
    change = hint(servers(8, 8), vms)["memory"]
    enough, less = (servers(8, 8)[:1] + [server("metal2", f"{8 * 1024 + amount} MiB")] for amount in (change.amount, change.amount - 256))
    assert {change.target} <= {"metal1", "metal2"}
    assert plan_placement(question(enough, vms)).feasible
    assert not plan_placement(question(less, vms)).feasible


def test_change_that_is_not_sufficient_alone_is_omitted():
    found = hint([server(memory=2, hypervisors=["lxc"])], [{"id": "v", "ram": 4, "hypervisor": "kvm"}])
    assert set(found) == {"server"}


def test_change_names_moves_and_availability():
    vms = [*controllers(2, 2), {"id": "large", "ram": 10}]
    found = hint(servers(8, 8), vms, current={"c1": "metal1", "c2": "metal2"})
    assert found["memory"].text == "add 2 GiB of memory to metal1 (then 1 VM moves)"
    vms = [*controllers(3, 2), {"id": "large", "ram": 10}]
    found = hint(servers(6, 6, 6), vms)
    assert found["memory"].text == "add 4 GiB of memory to metal1 (then high availability becomes restart)"
    # what keeps the availability comes first
    assert next(iter(found)) == "server" and found["server"].ha_grade == "quorum" and found["memory"].ha_grade == "restart"


def test_a_large_question_gets_an_answer_that_fits():
    machines = servers(*[8] * 100)
    vms = [{"id": index, "ram": 8, "cpu": 1} for index in range(102)]
    found = hint(machines, vms)
    assert set(found) == {"server"} and not found["server"].least
    more = server("more", f"{int(found['server'].amount)} MiB", memory_reserve="1 GiB")
    assert plan_placement(question([*machines, more], vms)).feasible
