# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The order of a deployment, as tables."""

from __future__ import annotations

import itertools

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._topology.model_services import parse_services
from ansible_collections.reduced.footprint.plugins.module_utils._topology.plan_deploy_order import (
    components,
    graph,
    memory,
    order,
    plan,
    without_witness,
    with_leaving,
    witnesses_of,
)

THREE = {"controller": ["c1", "c2", "c3"]}
HEAT = {
    "role": "my.cloud.heat",
    "depends": ["database", "rpc", "keystone"],
    "once": [{"name": "db-sync"}, {"name": "register", "tasks_from": "endpoints", "when": "after"}],
}


def steps(declared=None, groups=None, wanted=(), **options):
    services = parse_services(declared)
    return [step.name for step in plan(services, THREE if groups is None else groups, components(wanted, services), **options)]


def test_the_whole_control_plane():
    assert steps() == ["galera", "rabbitmq", "memcached", "load_balancer", "keystone"]


def test_a_witness_comes_after_the_database_and_is_a_member_of_rabbitmq():
    services = parse_services(None)
    found = plan(services, {"controller": ["c1", "c2"], "witness": ["w"]})
    assert [(step.name, step.hosts) for step in found][:3] == [("galera", ("c1", "c2")), ("rabbitmq", ("c1", "c2", "w")), ("witness", ("w",))]
    assert all("w" not in step.hosts for step in found[3:])
    # 512 MiB are sufficient
    assert memory("w", found)["needed"] <= 400
    alone = plan(without_witness(services, ["rabbitmq"]), {"controller": ["c1", "c2"], "witness": ["w"]})
    assert next(step.hosts for step in alone if step.name == "rabbitmq") == ("c1", "c2")


@pytest.mark.parametrize("hosts, witnesses, found", [(2, 1, 1), (3, 1, 0), (4, 1, 1), (3, 2, 2), (2, 2, 0), (1, 1, 0), (1, 2, 0), (2, 0, 0)])
def test_witnesses_join_where_they_make_the_votes_odd(hosts, witnesses, found):
    service = parse_services(None)["rabbitmq"]
    assert len(witnesses_of(service, [f"c{number}" for number in range(hosts)], [f"w{number}" for number in range(witnesses)])) == found


def test_a_witness_that_leaves_is_a_member_until_then():
    service = with_leaving(parse_services(None), True)["rabbitmq"]
    assert witnesses_of(service, ["c1", "c2", "c3"], ["w"]) == ("w",)
    # never as many as the members with data
    assert witnesses_of(service, ["c1"], ["w"]) == ()
    assert witnesses_of(with_leaving(parse_services(None), False)["rabbitmq"], ["c1", "c2", "c3"], ["w"]) == ()
    # its role never has an even number of members
    assert witnesses_of(with_leaving(parse_services(None), True)["ovn_database"], ["c1", "c2", "c3"], ["w"]) == ()


def test_a_witness_is_not_a_controller():
    assert [step.name for step in plan(parse_services(None), {"controller": ["c1"]}) if step.service.name == "witness"] == []
    with pytest.raises(InputError, match="witness has no host"):
        plan(parse_services(None), {"controller": ["c1"]}, ["witness"])


def test_every_step_comes_after_what_it_waits_for():
    declared = {"heat": HEAT, "ui": {"role": "my.cloud.ui", "depends": ["heat", "memcached"]}}
    found = steps(declared)
    for step, needs in graph(parse_services(declared)).items():
        if step in found:
            assert all(found.index(need) < found.index(step) for need in needs)
    assert found[-4:] == ["heat/db-sync", "heat", "heat/register", "ui"]


@pytest.mark.parametrize("names", list(itertools.permutations(("a", "b", "c", "d"))))
def test_the_order_does_not_hang_on_how_it_is_written(names):
    depends = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}
    found = [name for name in steps({name: {"role": "x.y.z", "depends": depends[name]} for name in names}) if name in depends]
    assert (found[0], found[-1]) == ("a", "d")


def test_a_step_may_wait_for_more_than_its_service():
    declared = {
        "a": {"role": "x.y.a", "once": [{"name": "register", "when": "after", "depends": ["b"]}]},
        "b": {"role": "x.y.b"},
        "c": {"role": "x.y.c", "depends": ["a"]},
    }
    assert steps(declared)[-4:] == ["a", "b", "a/register", "c"]


def test_steps_of_one_service_keep_their_order():
    declared = {"a": {"role": "x.y.a", "once": [{"name": "two"}, {"name": "one"}, {"name": "late", "when": "after"}]}}
    assert steps(declared)[-4:] == ["a/two", "a/one", "a", "a/late"]


@pytest.mark.parametrize(
    "depends, circle",
    [
        ({"a": ["a"]}, "a → a"),
        ({"a": ["b"], "b": ["a"]}, "a → b → a"),
        ({"x": ["c"], "a": ["b"], "b": ["c"], "c": ["a"]}, "a → b → c → a"),
        ({"galera": ["keystone"]}, "galera → keystone → load_balancer → galera"),
        ({"memcached": ["rpc"], "rabbitmq": ["memcached"]}, "rabbitmq → memcached → rabbitmq"),
    ],
)
def test_a_circle_is_named_whole(depends, circle):
    declared = {name: {"role": "x.y.z", "depends": needs} for name, needs in depends.items()}
    with pytest.raises(InputError) as error:
        steps(declared)
    assert f": {circle}." in str(error.value)
    assert error.value.path == f"services.{circle.split()[0]}.depends"


def test_a_circle_through_a_step():
    declared = {"a": {"role": "x.y.a", "once": [{"name": "first", "depends": ["b"]}]}, "b": {"role": "x.y.b", "depends": ["a"]}}
    with pytest.raises(InputError) as error:
        steps(declared)
    assert "a → a/first → b → a" in str(error.value)


def test_order_of_a_bare_graph():
    assert order({"b": ["a"], "a": [], "c": ["elsewhere"]}) == ["a", "b", "c"]


# Named components


@pytest.mark.parametrize(
    "wanted, found",
    [
        ([], ["galera", "rabbitmq", "memcached", "load_balancer", "keystone"]),
        ("", ["galera", "rabbitmq", "memcached", "load_balancer", "keystone"]),
        (["keystone", "galera"], ["galera", "keystone"]),
        ("keystone,galera", ["galera", "keystone"]),
        (" keystone  galera, ", ["galera", "keystone"]),
        ("database rpc notifications", ["galera", "rabbitmq"]),
        ("keystone", ["keystone"]),
    ],
)
def test_only_what_is_named_is_deployed(wanted, found):
    assert steps(wanted=wanted) == found


def test_dependencies_on_request():
    assert steps(wanted="keystone", with_dependencies=True) == ["galera", "memcached", "load_balancer", "keystone"]
    assert steps(wanted="memcached", with_dependencies=True) == ["memcached"]


@pytest.mark.parametrize("wanted, path", [("keystone,heat", "components[1]"), (["etcd"], "components[0]")])
def test_an_unknown_component_lists_the_known(wanted, path):
    with pytest.raises(InputError) as error:
        steps(wanted=wanted)
    assert error.value.path == path
    assert all(name in str(error.value) for name in ("database", "galera", "keystone", "load_balancer", "memcached", "notifications", "rabbitmq", "rpc"))


@pytest.mark.parametrize("wanted", [7, [7], {"galera": 1}])
def test_components_are_names(wanted):
    with pytest.raises(InputError, match="components: expected a list of names"):
        steps(wanted=wanted)


def test_switching_rpc_moves_what_depends_on_it():
    declared = {"zmq": {"role": "x.y.zmq", "depends": ["memcached"]}, "rpc": {"service_def": "zmq"}, "heat": HEAT}
    assert steps(declared, wanted="heat", with_dependencies=True)[-4:] == ["zmq", "heat/db-sync", "heat", "heat/register"]
    assert "rabbitmq" not in steps(declared, wanted="heat", with_dependencies=True)
    mapped = {**declared, "rpc": {"service_def": "rabbitmq"}, "rpc-heat": {"service_def": "zmq"}, "heat": {**HEAT, "mapping": {"rpc": "rpc-heat"}}}
    assert "zmq" in steps(mapped, wanted="heat", with_dependencies=True)


# Where


def where(groups, wanted=(), **options):
    services = parse_services(options.pop("declared", None))
    return {step.name: " ".join(step.hosts) for step in plan(services, groups, components(wanted, services), **options)}


def test_all_services_on_the_controllers_one_on_each_or_mixed():
    assert set(where(THREE).values()) == {"c1 c2 c3"}
    own = {"galera": ["a"], "rabbitmq": ["b"], "memcached": ["c"], "load_balancer": ["d"], "keystone": ["e"]}
    assert where(own) == {name: hosts[0] for name, hosts in own.items()}
    assert where({**THREE, "galera": ["db1"]}) == {
        "galera": "db1", "rabbitmq": "c1 c2 c3", "memcached": "c1 c2 c3", "load_balancer": "c1 c2 c3", "keystone": "c1 c2 c3"
    }  # fmt: skip


def test_services_without_hosts_are_left_out_unless_they_are_named():
    assert where({"galera": ["db1"]}) == {"galera": "db1"}
    with pytest.raises(InputError, match="components: keystone has no host. Add hosts to the group keystone or controller."):
        where({"galera": ["db1"]}, "keystone")
    with pytest.raises(InputError, match="group queues[.]"):
        where(THREE, "rabbitmq", chosen={"rabbitmq": "queues"})


def test_a_role_may_use_another_group():
    assert where({**THREE, "db": ["d1"]}, "galera", chosen={"galera": "db"}) == {"galera": "d1"}
    assert where({**THREE, "heat_api": ["h1"]}, "heat-api", declared={"heat-api": {"role": "x.y.z"}}) == {"heat-api": "h1"}


def test_what_the_playbook_gets():
    services = parse_services({"heat": HEAT})
    found = [step.as_dict("blue") for step in plan(services, THREE, ("heat", "load_balancer"))]
    assert found[0] == {
        "name": "load_balancer", "service": "load_balancer", "role": "reduced.footprint.load_balancer", "hosts": ["c1", "c2", "c3"],
        "tasks_from": "main", "once": False, "marker": "", "check": True, "compared": "base",
    }  # fmt: skip
    assert [(step["name"], step["tasks_from"], step["once"], step["marker"]) for step in found[1:]] == [
        ("heat/db-sync", "db_sync", True, "blue.heat.db-sync"),
        ("heat", "main", False, ""),
        ("heat/register", "endpoints", True, "blue.heat.register"),
    ]


# Memory


def test_what_a_host_needs_is_the_sum_of_its_services():
    services = parse_services({"galera": {"memory": 400}})
    whole = plan(services, {**THREE, "galera": ["d1"]})
    assert memory("d1", whole) == {"needed": 550, "shares": "the system 150, galera 400"}
    assert memory("c1", whole) == {"needed": 700, "shares": "the system 150, rabbitmq 160, memcached 80, load_balancer 60, keystone 250"}


def test_a_key_without_a_value_is_not_set():
    heat = parse_services({"heat": {**HEAT, "group": None, "frontend": None, "scheme": None}})["heat"]
    assert (heat.group_name, heat.frontend, heat.scheme) == ("heat", "", "http")
