# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The state of each service of the control plane."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_controlplane import (
    answers,
    environments_of,
    evaluate,
    members_of,
    reports_of,
    table,
    worst,
)
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_health import SERVICES
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from tests.support.controlplane import balancer, galera, look, rabbitmq, unit


NAMES = ["c1", "c2", "c3"]


def standing(name: str, *parts: t.Any, held: int | None = 0) -> tuple[str, list[str]]:
    """State and problems of a service whose members are these; ``None`` is one that does not answer."""
    looks = {
        host: None if part is None else {"addresses": ["192.0.2.20"] if held == number else [], "services": {name: part}}
        for number, (host, part) in enumerate(zip(NAMES, parts))
    }
    report = evaluate({name: NAMES[: len(parts)]}, looks)[name]
    return report.state, [*report.why, *(member.text for member in report.members if member.state != "ok")]


MEMCACHED: dict[str, t.Any] = {"units": {"memcached.service": unit()}, "facts": {"version": "1.6.18"}}
SILENT: dict[str, t.Any] = {"units": {"memcached.service": unit()}, "facts": None}
ABSENT: dict[str, t.Any] = {"units": {}, "facts": None}
#: It starts, and its guard leaves it to a person, or has restarted it too often.
REFUSED, TRIED = (
    {**galera("activating"), "guard": {"age_seconds": 0.4, "action": action, "reason": "two clusters", "isolated": False, "failed": failed}}
    for action, failed in (("refuse", None), ("none", "it did not rejoin"))
)
#: What runs before its start waits for others, or for a person.
LATER, NEVER = ({**rabbitmq(state="activating"), "waits": {"reason": "waiting for rabbit@c2", "person": person}} for person in (False, True))
WAITS = "c3: rabbitmq-server.service is activating, its guard does not let it start: waiting for rabbit@c2"
#: It ends soon after each start.
AGAIN: dict[str, t.Any] = {"units": {"mariadb.service": {**unit("activating"), "sub": "auto-restart"}}, "facts": None}
JOINER = galera(ready=False, local_state="Joining: receiving State Transfer", primary=True, problems=["it joins"])

CASES = [
    ("galera", (galera(), galera(), galera()), "ok", []),
    ("galera", (galera(), galera(), galera("inactive")), "degraded", ["c3: mariadb.service is inactive"]),
    ("galera", (galera(), galera("failed"), None), "down", ["c2: mariadb.service is failed", "c3: does not answer"]),
    ("galera", (galera(), galera(), galera("activating")), "wip", ["c3: mariadb.service is activating"]),
    ("galera", (galera(), galera(), JOINER), "wip", ["c3: it joins"]),
    (
        "galera", (galera(), galera(), REFUSED), "degraded",
        ["c3: mariadb.service is activating, its guard leaves the decision to recover_database: two clusters"],
    ),
    ("galera", (galera(), galera(), TRIED), "degraded", ["c3: mariadb.service is activating, its guard gave up: it did not rejoin"]),
    ("galera", (galera(), galera(), AGAIN), "degraded", ["c3: mariadb.service failed, and is started again"]),
    ("galera", (galera(), galera(), ABSENT), "degraded", ["c3: it is not installed"]),
    (
        "galera",
        (
            galera(primary=True, node="1", view=["1"], size=1, configuration=7, seqno=30),
            galera(primary=True, node="2", view=["2", "3"], size=2, configuration=6, seqno=21),
            galera(primary=True, node="3", view=["2", "3"], size=2, configuration=6, seqno=21),
        ),
        "down",
        [
            "there are 2 Primary Components of the cluster 11111111-2222-3333-4444-555555555555 at once: c1 (size 1, configuration 7, position 30) and "
            "c2, c3 (size 2, configuration 6, position 21); that of c1 has committed more (see docs/database.md for how to keep one)"
        ],
    ),
    ("galera", (galera(), galera(), galera(cluster_uuid="9")), "down", ["there are 2 separate clusters: 11111111-2222-3333-4444-555555555555, 9"]),
    ("galera", (galera(ready=False, standalone=True),), "down", ["c1: its server runs without replication"]),
    ("galera", (None, None, None), "unknown", ["c1: does not answer", "c2: does not answer", "c3: does not answer"]),
    ("rabbitmq", (rabbitmq(), rabbitmq(), rabbitmq()), "ok", []),
    ("rabbitmq", (rabbitmq(NAMES[:2]), rabbitmq(NAMES[:2]), rabbitmq(state="inactive")), "degraded", ["c3: rabbitmq-server.service is inactive"]),
    ("rabbitmq", (rabbitmq(), rabbitmq(), LATER), "wip", [WAITS]),
    ("rabbitmq", (rabbitmq(), rabbitmq(), NEVER), "degraded", [WAITS]),
    ("rabbitmq", (rabbitmq(), rabbitmq(), rabbitmq(partitions={"c1": ["c2"]})), "degraded", ["c3: c1 does not reach c2"]),
    ("rabbitmq", (rabbitmq(), rabbitmq(), rabbitmq(alarms=["memory"])), "degraded", ["c3: alarm memory"]),
    ("rabbitmq", (rabbitmq(NAMES[:2]), rabbitmq(NAMES[:2]), rabbitmq(["c3"])), "down", ["a part of the cluster is partitioned: c3"]),
    ("memcached", (MEMCACHED, MEMCACHED, MEMCACHED), "ok", []),
    ("memcached", (MEMCACHED, SILENT, None), "degraded", ["c2: it does not answer", "c3: does not answer"]),
    ("memcached", (SILENT, SILENT, SILENT), "down", ["c1: it does not answer", "c2: it does not answer", "c3: it does not answer"]),
    ("load_balancer", (balancer(True), balancer(), balancer()), "ok", []),
    ("load_balancer", (balancer(True), balancer(haproxy="failed"), balancer()), "degraded", ["c2: haproxy.service is failed"]),
    (
        "load_balancer",
        (balancer(True), balancer(), balancer(vrrp="FAULT")),
        "degraded",
        ["c3: its VRRP instance footprint is in FAULT and cannot take over the virtual address (check journalctl -u keepalived)"],
    ),
    (
        "load_balancer",
        (balancer(True), balancer(), balancer(vrrp="INIT")),
        "degraded",
        ["c3: its VRRP instance footprint is in INIT and cannot take over the virtual address (check journalctl -u keepalived)"],
    ),
]


@pytest.mark.parametrize("name, parts, state, words", CASES, ids=[f"{row[0]}-{row[2]}-{number}" for number, row in enumerate(CASES)])
def test_states(name: str, parts: t.Any, state: str, words: list[str]) -> None:
    assert standing(name, *parts) == (state, words)


@pytest.mark.parametrize("held, words", [(None, "192.0.2.20 is on no host"), (0, None)])
def test_virtual_address_without_a_holder_is_down(held: int | None, words: str | None) -> None:
    state, found = standing("load_balancer", balancer(), balancer(), balancer(), held=held)
    assert (state, found) == (("down", [words]) if words else ("ok", []))


def test_service_without_installations_is_omitted() -> None:
    looks = {name: look(name == "c1") for name in NAMES}
    assert list(evaluate(dict.fromkeys(SERVICES, NAMES), looks)) == ["galera", "load_balancer"]
    looks["c2"]["services"]["memcached"] = MEMCACHED
    report = evaluate(dict.fromkeys(SERVICES, NAMES), looks)["memcached"]
    assert (report.state, report.healthy) == ("degraded", 1)


def test_members_follow_the_rule_of_the_roles() -> None:
    groups = {"controller": ["c1", "c2"], "galera": ["d1"], "bus": ["b1"], "rabbitmq": []}
    found = members_of(groups, {"c1": {"memcached_group": "bus"}, "c2": {}})
    both = ["c1", "c2"]
    # without footprint_cloud no service of the cloud has members
    named = {name: hosts for name, hosts in found.items() if hosts}
    assert named == {"galera": ["d1"], "rabbitmq": both, "memcached": ["b1"], "load_balancer": both, "keystone": both}
    assert members_of({}, {}) == dict.fromkeys(SERVICES, [])


def environment(name: str, **variables: t.Any) -> dict[str, t.Any]:
    return {"footprint_environment": name, **{f"{service}_group": f"{name}_{service}" for service in ("galera", "rabbitmq", "witness")}, **variables}


def test_each_environment_of_an_inventory_has_its_own_members() -> None:
    groups = {f"{name}_{service}": [f"{name}-{service}1", f"{name}-{service}2"] for name in ("red", "blue") for service in ("galera", "rabbitmq")}
    groups |= {"red_witness": ["red-w"], "blue_witness": ["blue-w"]}
    hostvars = {host: environment(group.partition("_")[0]) for group, hosts in groups.items() for host in hosts}
    hostvars["red-galera1"] |= {"rabbitmq_witness": False, "footprint_cloud": True}
    # first in the inventory, and in no environment
    hostvars = {"metal1": {}, **hostvars}
    for name, brokers in (("red", ["red-rabbitmq1", "red-rabbitmq2"]), ("blue", ["blue-rabbitmq1", "blue-rabbitmq2", "blue-w"])):
        for asking in ([f"{name}-galera1"], [f"{name}-w", "metal1", f"{name}-rabbitmq2", "unknown"]):
            found = members_of(groups, hostvars, asking)
            assert (found["galera"], found["witness"], found["rabbitmq"]) == (groups[f"{name}_galera"], [f"{name}-w"], brokers)
    with pytest.raises(InputError, match=r"several environments \(blue, red\), which have members of their own. Limit the run to one"):
        members_of(groups, hostvars, ["red-w", "blue-w"])
    # a server of no environment asks about that of the inventory
    alone = {host: variables for host, variables in hostvars.items() if not host.startswith("red")}
    assert members_of(groups, alone, ["metal1"])["galera"] == members_of(groups, alone)["galera"] == groups["blue_galera"]


def test_environments_of_an_inventory() -> None:
    groups = {"red_galera": ["r1"], "blue_galera": ["b1", "b2"], "controller": ["c1"]}
    hostvars = {"metal1": {}, "r1": environment("red"), "b1": environment("blue"), "b2": environment("blue")}
    found = environments_of(groups, hostvars)
    assert {name: members["galera"] for name, members in found.items()} == {"blue": ["b1", "b2"], "red": ["r1"]}
    assert environments_of(groups, {"metal1": {}, "c1": {}}) == {"": members_of(groups, {"c1": {}})}
    # an address of the other one is not a problem of both, and only one of several is named
    looks = {"r1": look(False), "b1": look(True), "b2": look(False)}
    members = {"red": {"load_balancer": ["r1"]}, "blue": {"load_balancer": ["b1", "b2"]}}
    assert {name: report.state for name, report in reports_of(members, looks)} == {"red: load_balancer": "down", "blue: load_balancer": "ok"}
    assert [name for name, _report in reports_of({"blue": members["blue"]}, looks)] == ["load_balancer"]


def test_a_witness_that_leaves_is_a_member_of_rabbitmq_until_then():
    groups = {"controller": ["c1", "c2", "c3"], "witness": ["w"]}
    assert members_of(groups, {"c1": {}})["rabbitmq"] == ["c1", "c2", "c3"]
    assert members_of(groups, {"c1": {"footprint_witness_leaves": "true"}})["rabbitmq"] == ["c1", "c2", "c3", "w"]
    assert members_of(groups, {"c1": {"footprint_witness_leaves": True}})["galera"] == ["c1", "c2", "c3"]


def test_writer_is_reported_by_the_balancer_with_the_virtual_address() -> None:
    looks = {"c1": look(False, load_balancer=balancer(in_use="c3")), "c2": look(True, load_balancer=balancer(True, in_use="c2"))}
    reports = evaluate({"galera": NAMES[:2], "load_balancer": NAMES[:2]}, looks)
    assert reports["galera"].writer == {"mysql": "c2"}
    lines = table(reports)
    assert lines[1].startswith("galera         2/2      ok     mysql is served by c2 only")
    assert lines[2] == "load_balancer  2/2      ok     192.0.2.20 is on c2"


def test_the_worst_counts() -> None:
    assert worst(["ok", "degraded", "wip"]) == "degraded"
    assert worst([]) == "ok"
    assert table({}) == []


@pytest.mark.parametrize(
    ("name", "part", "clear"),
    [
        ("galera", galera(tls="on"), ""),
        ("galera", galera(tls="both"), ""),
        ("galera", galera(tls="off"), "plain text with its members (docs/database.md, Encryption)"),
        ("rabbitmq", rabbitmq(tls="on", internode_tls="off"), ""),
        ("rabbitmq", rabbitmq(tls="both", internode_tls="on"), "plain text with clients (docs/messaging.md, Encryption)"),
        ("rabbitmq", rabbitmq(tls="off", internode_tls="off"), "plain text with clients (docs/messaging.md, Encryption)"),
    ],
)
def test_plain_text_is_reported_and_not_a_problem(name: str, part: t.Any, clear: str) -> None:
    report = evaluate({name: NAMES}, {host: {"addresses": [], "services": {name: part}} for host in NAMES})[name]
    assert (report.state, report.clear, report.as_dict()["clear"]) == ("ok", clear, clear)
    assert not clear or clear in table({name: report})[1]


DOWN = {"item": "metal2", "unreachable": True, "msg": "timed out"}
FAILED = {"item": "metal2", "failed": True, "msg": "no libvirt"}
THERE = {"item": "metal2", "identity": {"here": 1}}


@pytest.mark.parametrize(
    ("identity", "vms", "partly", "found", "error"),
    [
        (THERE, {"item": "metal2", "vms": []}, "", {"identity": {"here": 1}, "vms": []}, None),
        (THERE, FAILED, "", {}, "no libvirt"),
        (THERE, FAILED, "metal2", {"identity": {"here": 1}, "vms": []}, "no libvirt"),
        (DOWN, FAILED, "metal2", {}, "timed out"),
        (DOWN, {"item": "metal2", "vms": []}, "", {}, "timed out"),
    ],
)
def test_a_host_that_does_not_answer_every_question_is_unknown(identity: t.Any, vms: t.Any, partly: str, found: t.Any, error: str | None) -> None:
    result = answers({"identity": [{"item": "metal1", "identity": {}}, identity], "vms": [{"item": "metal1", "vms": [1]}, vms]}, partly)
    assert result["found"] == {"metal1": {"identity": {}, "vms": [1]}, "metal2": found}
    assert result["errors"] == ({"metal2": error} if error else {})
