# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import CapacityError, InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._placement.report.run_plan import PlanRequest, hidden_values, plan_footprint, shown_parameters
from tests.support.placement import controllers, servers


def plan(**more):
    return plan_footprint(PlanRequest(cluster="lab", **more))


def test_a_plan():
    result = plan(servers=servers(8, 8, 8), vms=controllers(), svg=True)
    assert result.error is None
    returned = result.as_dict()
    assert returned["changed"] is False and returned["ha_grade"] == "quorum" and returned["feasible"]
    assert returned["svg"].startswith("<svg ") and returned["text"][0].startswith("Plan for cluster lab")
    assert returned["assumptions"] != [] and "warnings" not in returned
    json.dumps(returned)


def test_the_picture_is_drawn_when_asked_for():
    assert plan().report["svg"] is None


def test_what_is_short_by_how_much_and_what_would_help():
    result = plan(servers=servers(8), vms=[{"id": "v", "ram": 10}])
    assert isinstance(result.error, CapacityError)
    message = result.as_dict()["msg"]
    assert "vms: VM v has no server (metal1 is short of 2 GiB of memory (requested 10 GiB, free 8 GiB))" in message
    assert "A change that is sufficient: add 2 GiB of memory to metal1." in message
    assert result.as_dict()["unplaced"][0]["id"] == "v"
    assert plan(servers=servers(8), vms=[{"id": "v", "ram": 10}], unplaced="report").error is None


def test_an_unmeasured_server_is_no_reason_to_add_one():
    result = plan(servers=[{"name": "metal1"}, {"name": "metal2"}], vms=[{"id": "v", "ram": 1}])
    assert str(result.error).endswith("are not known). Measure metal1 and metal2: let Ansible connect to them, or set node_capacity.")
    assert "add a server" not in "\n".join(result.report["text"])


def test_a_wish_without_a_server():
    result = plan(servers=servers(128), wanted=[{"name": "compute1", "ram": 16}])
    assert result.error.path == "wanted" and "match: at_least" in str(result.error)


@pytest.mark.parametrize(("number", "refused"), [(1, True), (2, True), (3, False)])
def test_full_availability_required(number, refused):
    result = plan(servers=servers(*[64] * number), vms=controllers(), ha_required=True)
    assert (result.error is not None) is refused
    if refused:
        assert isinstance(result.error, RefusedError) and result.error.path == "ha_required"
        assert "the loss of metal1 alone stops the control plane" in str(result.error)


def test_profiles():
    reduced = plan(servers=servers(64, 64, 64), profile="reduced")
    assert [entry["id"] for entry in reduced.report["placements"]] == ["controller1", "controller2", "controller3", "master"]
    own = plan(servers=servers(64), vms=[{"id": "mine", "ram": 1, "roles": ["controller"]}], profile="reduced")
    assert [entry["id"] for entry in own.report["placements"]] == ["mine", "controller1", "controller2", "master"]
    large = plan(servers=servers(*[64] * 30), profile="1000")
    assert large.error is None and len(large.report["wanted"]) == 30 and len(large.report["services"]) == 25
    with pytest.raises(InputError) as caught:
        plan(wanted=[{"name": "a"}], profile="100")
    assert caught.value.path == "profile"


def test_secrets_are_found_to_be_hidden():
    params = {"vms": json.dumps([{"id": 1, "password": "hunter2"}]), "servers": {"m": {"vms": [{"id": 2, "api_token": "abc"}]}}}
    assert hidden_values(params) == {"hunter2", "abc"}
    assert hidden_values({"vms": "{"}) == set()


@pytest.mark.parametrize("form", [list, json.dumps, lambda vms: {vm["id"]: vm for vm in vms}])
def test_cloud_init_data_is_not_in_the_parameters(form):
    vms = form([{"id": "c1", "ram": 1, "user_data": "#cloud-config\npassword: canary"}])
    for servers_ in ([{"name": "metal1", "vms": vms}], {"metal1": {"vms": vms}, "metal2": None}, json.dumps({"metal1": {"vms": vms}})):
        assert "canary" not in json.dumps(shown_parameters({"cluster": "lab", "vms": vms, "servers": servers_}))


def test_secrets_are_not_in_the_report():
    returned = json.dumps(plan(servers=servers(8), vms=[{"id": "v", "ram": 1, "password": "hunter2"}], svg=True).as_dict())
    assert "hunter2" not in returned
