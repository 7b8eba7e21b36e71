# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A plan with a witness: its vote in grades and losses, the advice for two servers, and what is refused."""

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._placement.report.plan_report import build_report
from ansible_collections.reduced.footprint.plugins.module_utils._placement.report.plan_text import plan_text
from ansible_collections.reduced.footprint.plugins.module_utils._placement.report.run_plan import PlanRequest, plan_footprint
from ansible_collections.reduced.footprint.plugins.module_utils._placement.solve.plan_placement import plan_placement
from tests.support.placement import controllers, question, servers

LAPTOP = {"name": "laptop", "roles": ["witness"]}


def report(machines, vms, **more):
    return build_report(plan_placement(question(machines, vms, **more)))


def test_two_servers_and_a_witness_are_a_quorum():
    found = report([*servers(8, 8), LAPTOP], controllers(2))
    assert (found["feasible"], found["ha_grade"], found["advice"]) == (True, "quorum", [])
    assert len({entry["server"] for entry in found["placements"]}) == 2
    lost = {server["name"]: server["lost"] for server in found["servers"]}
    assert all(one["quorum_kept"] for one in lost.values())
    assert lost["laptop"]["severity"] == "amber"
    assert "2 of 3 left, 2 needed" in lost["metal1"]["sentence"]


@pytest.mark.parametrize("number, roles, grade", [(2, ["master"], "none"), (3, ["master"], "restart"), (3, ["witness"], "restart"), (4, ["witness"], "quorum")])
def test_votes_on_two_servers(number, roles, grade):
    found = report([*servers(16, 16), {"name": "laptop", "roles": roles}], controllers(number))
    assert found["ha_grade"] == grade


def test_an_even_number_of_votes_is_a_warning():
    found = report([*servers(8, 8), LAPTOP], controllers(3))
    assert any("4 members of controller tolerate no more failures than 3" in text for text in found["warnings"])


@pytest.mark.parametrize("current", [None, {"c1": "metal1", "c2": "metal1", "c3": "metal2"}])
def test_a_witness_is_proposed_for_two_servers(current):
    found = report(servers(8, 8), controllers(3), current=current)
    (text,) = found["advice"]
    assert "one controller on each of them" in text and "role witness" in text and "2 GiB of memory saved" in text
    # of two on one server, one is not needed
    assert ("without c2" in text) is bool(current)
    assert any("With a witness" in line for line in plan_text({**found, "services": []}))


@pytest.mark.parametrize("current, spare", [(None, "c3"), ({"c1": "metal1", "c2": "metal1", "c3": "metal2"}, "c2")])
def test_with_a_witness_the_superfluous_controller_is_named(current, spare):
    found = report([*servers(8, 8), LAPTOP], controllers(3), current=current)
    (text,) = found["advice"]
    assert found["ha_grade"] == "restart" and "With laptop, metal1 and metal2 survive the loss of either server" in text
    assert f"without {spare} (2 GiB of memory saved)" in text and "third machine" not in text


@pytest.mark.parametrize(
    "machines, number, words",
    [
        ([*servers(8, 8), LAPTOP], 3, "without c3"),
        (servers(8, 8), 3, "With a witness, metal1 and metal2 survive"),
        (servers(8, 8, 8), 2, "Request three controller VMs"),
        (servers(8, 8, 8), 0, "Request three controller VMs"),
        (servers(16), 3, "Add servers"),
        (servers(8, 1), 2, "Add servers"),
    ],
)
def test_required_availability_names_the_right_fix(machines, number, words):
    asked = {"cluster": "lab", "servers": machines, "vms": controllers(number), "ha_required": True}
    error = plan_footprint(PlanRequest(**asked)).error
    assert error.path == "ha_required" and words in error.hint and "ha_required to false" in error.hint
    assert ("Add servers" in error.hint) is (words == "Add servers")


@pytest.mark.parametrize(
    "machines, number",
    [
        # three servers need none, one server is not helped by it
        (servers(8, 8, 8), 3),
        (servers(16), 3),
        # nothing to vote about, and no room on the second server
        (servers(8, 8), 0),
        (servers(8, 1), 3),
    ],
)
def test_a_witness_is_not_proposed_where_it_does_not_help(machines, number):
    assert report(machines, controllers(number))["advice"] == []


def test_a_virt_host_is_no_witness():
    with pytest.raises(InputError) as refused:
        question([{"name": "metal1", "memory": 8, "cpus": 4, "roles": ["virt", "witness"]}])
    assert refused.value.path == "servers[0].roles" and "third machine" in refused.value.hint


def test_a_vm_on_a_server_of_the_plan_is_no_witness():
    with pytest.raises(RefusedError) as refused:
        plan_placement(question(servers(8, 8), [*controllers(2), {"id": "w", "cpu": 1, "ram": 1, "roles": ["witness"]}]))
    assert refused.value.path.endswith(".roles") and "would be lost together" in refused.value.message
