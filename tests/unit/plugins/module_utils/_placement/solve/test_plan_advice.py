# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._placement.solve.plan_advice import changes
from ansible_collections.reduced.footprint.plugins.module_utils._placement.solve.plan_placement import plan_placement
from tests.support.placement import controllers, question, server, servers


def hint(machines, vms, **more):
    return changes(plan_placement(question(machines, vms, **more)))


@pytest.mark.parametrize(
    ("machines", "vms", "policy", "text"),
    [
        (servers(8), [{"id": "v", "ram": 9}], {}, "add 1 GiB of memory to metal1"),
        # placed VMs may move: with 8 GiB each, less is missing than the VM requests
        (servers(4, 4), [{"id": "a", "ram": 3}, {"id": "b", "ram": 3}, {"id": "c", "ram": 2}], {}, "add 1 GiB of memory to metal1"),
        (servers(8), [{"id": "v", "ram": 9}], {}, "add a server with at least 10 GiB of memory and 1 CPU"),
        (servers(8), [{"id": "v", "ram": 1, "cpu": 18}], {}, "increase vcpu_ratio to 4.5"),
        ([server(pools={"default": 10})], [{"id": "v", "ram": 1, "disks": [{"size": 25}]}], {}, "add 15 GiB to the pool default of metal1"),
        ([server(pools={})], [{"id": "v", "ram": 1, "disks": [{"size": 25}]}], {}, "add the pool default to metal1"),
        ([server(bridges=["a"])], [{"id": "v", "ram": 1, "nics": [{"bridge": "b"}]}], {}, "add the bridge b to metal1"),
        ([server(networks=[])], [{"id": "v", "ram": 1, "nics": [{"network": "n"}]}], {}, "add the network n to metal1"),
        ([server(hypervisors=["lxc"])], [{"id": "v", "ram": 1, "hypervisor": "kvm"}], {}, "make kvm usable on metal1"),
        (servers(2, 8), [{"id": "v", "ram": 4, "host": "metal1"}], {}, "do not pin v to metal1"),
        (servers(8, 8), controllers(), {"strict_groups": ["controller"]}, "remove strict_groups"),
        (
            servers(8, 8),
            [{"id": "a", "ram": 3}, {"id": "b", "ram": 3}, {"id": "c", "ram": 8}],
            {"allow_moves": False, "current": {"a": "metal1", "b": "metal2"}},
            "set allow_moves: true",
        ),
    ],
)
def test_a_change_that_would_help(machines, vms, policy, text):
    assert [change for change in hint(machines, vms, **policy) if change.startswith(text)]


def test_no_change_if_every_vm_has_a_server():
    assert hint(servers(8), [{"id": "v", "ram": 1}]) == ()


def test_the_amount_is_sufficient():
    vms = [{"id": index, "ram": 3} for index in range(5)]
    (change,) = (change for change in hint(servers(8, 8), vms) if "of memory to metal" in change)
    amount, name = re.fullmatch(r"add (\d+) GiB of memory to (metal\d)", change).groups()
    more = {name: int(amount)}
    larger = [server(each, 8 + more.get(each, 0)) for each in ("metal1", "metal2")]
    assert plan_placement(question(larger, vms)).feasible


def test_change_that_is_not_sufficient_alone_is_omitted():
    assert hint([server(memory=2, hypervisors=["lxc"])], [{"id": "v", "ram": 4, "hypervisor": "kvm"}]) == (
        "add a server with at least 5 GiB of memory and 1 CPU",
    )


def test_a_change_that_lowers_the_availability_comes_last():
    current = {"c1": "metal1", "c2": "metal2", "c3": "metal3"}
    found = hint(servers(6, 6, 6), [*controllers(3, 3), {"id": "large", "ram": 6}], allow_moves=False, current=current)
    assert "add a server with at least 7 GiB of memory and 1 CPU" in found[:-1]
    assert found[-1].startswith("set allow_moves: true") and found[-1].endswith("(then high availability becomes restart)")


def test_a_large_question_gets_an_answer_that_fits():
    machines = servers(*[8] * 100)
    vms = [{"id": index, "ram": 8, "cpu": 1} for index in range(102)]
    assert hint(machines, vms) == ("add a server with at least 17 GiB of memory and 1 CPU",)
    assert plan_placement(question([*machines, server("more", 17, memory_reserve="1 GiB")], vms)).feasible
