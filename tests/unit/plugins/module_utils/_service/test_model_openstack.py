# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The registry of OpenStack services, and what is derived from it."""

from __future__ import annotations

import pathlib

import pytest
import yaml
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import plan_controlplane, plan_health
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._service import model_openstack, plan_allow_list
from ansible_collections.reduced.footprint.plugins.module_utils._service.model_openstack import OPENSTACK, Api, OpenStackService
from ansible_collections.reduced.footprint.plugins.module_utils._topology import plan_deploy_order
from ansible_collections.reduced.footprint.plugins.module_utils._topology.model_services import BUILT_IN, Service

ROLES = pathlib.Path(model_openstack.__file__).resolve().parents[3] / "roles"
CLOUD = Service("dns", "reduced.footprint.dns", cloud=True)
GROUPS = {"controller": ["c1", "c2"]}


def test_cloud_service_is_on_controllers_only_if_asked_for() -> None:
    assert plan_deploy_order.members(CLOUD, GROUPS) == ()
    assert plan_deploy_order.members(CLOUD, GROUPS, cloud=True) == ("c1", "c2")


def test_own_group_is_enough() -> None:
    assert plan_deploy_order.members(CLOUD, {**GROUPS, "dns": ["c3"]}) == ("c3",)


def test_hint_names_the_switch() -> None:
    with pytest.raises(InputError) as error:
        plan_deploy_order.plan({"dns": CLOUD}, GROUPS, ["dns"])
    assert "footprint_cloud: true" in str(error.value)
    assert [step.hosts for step in plan_deploy_order.plan({"dns": CLOUD}, GROUPS, ["dns"], cloud=True)] == [("c1", "c2")]


def test_frontends_of_a_service() -> None:
    one = OpenStackService("dns", 1, ("dns.service",), (Api("dns", "dns_port:9001"), Api("dns_admin", "dns_admin_port:9002", settings={"balance": "source"})))
    found = model_openstack.frontends("dns", "controller", {"dns_port": "9100"}, {"dns": one})
    assert [(item["name"], item["port"], item["address_variable"], item["tls"]) for item in found] == [
        ("dns", 9100, "dns_address", True),
        ("dns_admin", 9002, "dns_address", True),
    ]
    assert found[1]["balance"] == "source"


def test_answers_decide_about_health() -> None:
    seen = {"units": {"dns.service": {"state": "active"}}, "facts": {"apis": {"dns": "503 database: timed out", "dns_admin": ""}}}
    assert plan_health._openstack(seen, plan_health.ANY) == ["dns: 503 database: timed out"]


@pytest.mark.parametrize("name", sorted(OPENSTACK))
def test_entry_is_complete(name: str) -> None:
    one = OPENSTACK[name]
    assert BUILT_IN[name].cloud and BUILT_IN[name].memory == one.memory > 0
    assert name in plan_health.SERVICES and {unit for choice in plan_health.SERVICES[name].units for unit in choice} == set(one.units)
    assert not one.apis or name in plan_allow_list.SERVICES
    defaults = yaml.safe_load((ROLES / name / "defaults" / "main.yml").read_text("utf-8"))
    for api in one.apis:
        assert defaults[api.port_variable] == api.default_port


def test_ports_are_used_once() -> None:
    ports = [api.default_port for one in OPENSTACK.values() for api in one.apis]
    assert len(ports) == len(set(ports))


def test_members_of_the_cloud_are_shown_only_with_it() -> None:
    names = set(OPENSTACK)
    without = plan_controlplane.members_of(GROUPS, {"c1": {}})
    having = plan_controlplane.members_of(GROUPS, {"c1": {"footprint_cloud": "true"}})
    assert not any(without[name] for name in names)
    assert {name for name in names if having[name] != ["c1", "c2"]} == {name for name in names if OPENSTACK[name].optional}


@pytest.mark.parametrize("groups, variables", [(GROUPS, {"cinder_group": "controller"}), ({**GROUPS, "cinder": ["c1", "c2"]}, {})])
def test_volumes_are_there_only_if_they_are_requested(groups: dict[str, list[str]], variables: dict[str, str]) -> None:
    cloud = {"footprint_cloud": "true"}
    assert plan_controlplane.members_of(GROUPS, {"c1": cloud})["cinder"] == []
    assert plan_controlplane.members_of(groups, {"c1": {**cloud, **variables}})["cinder"] == ["c1", "c2"]
    assert "cinder" not in {step.name for step in plan_deploy_order.plan(BUILT_IN, GROUPS, cloud=True)}
    steps = [step.name for step in plan_deploy_order.plan(BUILT_IN, groups, chosen={"cinder": variables.get("cinder_group", "")}, cloud=True)]
    assert steps.index("nova") < steps.index("cinder")
    with pytest.raises(InputError, match="cinder has no host. Add hosts to the group cinder, or set cinder_group: controller"):
        plan_deploy_order.plan(BUILT_IN, GROUPS, ["cinder"], cloud=True)
