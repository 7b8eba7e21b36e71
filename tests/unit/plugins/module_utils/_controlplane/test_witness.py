# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A witness in the state, the gates, the plans and the grade of the control plane."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_add_server import steps
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_controlplane import evaluate, members_of
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_gate import check_gate
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_rolling import parse_request, plan
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_status import build_status
from tests.support.controlplane import galera, look, rabbitmq, unit

MEMBERS = {"galera": ["c1", "c2"], "rabbitmq": ["c1", "c2", "w"], "witness": ["w"]}


def voting(state: str = "active", connected: bool = True) -> dict[str, t.Any]:
    return {"units": {"garbd@lab.service": unit(state)}, "facts": {"members": ["192.0.2.11:4567"], "connected": ["192.0.2.11:4567"] if connected else []}}


def looks(c1: t.Any = True, c2: t.Any = True, w: t.Any = True) -> dict[str, t.Any]:
    """All three are healthy, except for what is given; ``None`` does not answer."""
    data = {"galera": galera(), "rabbitmq": rabbitmq(["c1", "c2", "w"])}
    plain = {"c1": data, "c2": data, "w": {"rabbitmq": rabbitmq(["c1", "c2", "w"]), "witness": voting()}}
    services = {host: None if given is None else plain[host] if given is True else {**plain[host], **given} for host, given in zip(plain, (c1, c2, w))}
    return {host: {"addresses": [], "services": found} if found else None for host, found in services.items()}


@pytest.mark.parametrize(
    "found, states",
    [
        (looks(), {"galera": "ok", "rabbitmq": "ok", "witness": "ok"}),
        # any one may be lost
        (looks(w=None), {"galera": "ok", "rabbitmq": "degraded", "witness": "degraded"}),
        (looks(c1=None), {"galera": "degraded", "rabbitmq": "degraded", "witness": "ok"}),
        (looks(w={"witness": voting("failed")}), {"galera": "ok", "witness": "degraded"}),
        (looks(w={"witness": voting("activating")}), {"galera": "ok", "witness": "wip"}),
        (looks(w={"witness": voting(connected=False)}), {"galera": "ok", "witness": "degraded"}),
        (looks(w={"witness": {"units": {}, "facts": None}}), {"galera": "ok"}),
        # two may not
        (looks(c1=None, w=None), {"galera": "down", "rabbitmq": "down", "witness": "degraded"}),
        (looks(c1=None, c2=None), {"galera": "down", "rabbitmq": "down", "witness": "ok"}),
    ],
)
def test_the_vote_counts(found: t.Any, states: dict[str, str]) -> None:
    reports = evaluate(MEMBERS, found)
    assert {name: reports[name].state for name in states} == states


def test_without_a_witness_two_members_are_both_needed() -> None:
    found = looks(c1=None)
    assert evaluate({"galera": ["c1", "c2"]}, found)["galera"].state == "down"


def test_a_lost_witness_is_degraded_and_the_grade_stays() -> None:
    controllers = {host: {"reachable": seen is not None, "place": place, "look": seen} for (host, seen), place in zip(looks(w=None).items(), ("m1", "m2", "w"))}
    report = build_status({"controllers": controllers, "members": MEMBERS})
    assert (report["state"], report["ok"], report["ha_grade"]) == ("degraded", False, "quorum")
    assert "DEGRADED witness w: does not answer (on w)" in report["lines"]
    assert not [line for line in report["lines"] if line.startswith("DOWN")]


def test_the_gate_requires_the_vote() -> None:
    assert check_gate(MEMBERS, looks(), ["galera"], spare=True).why == ()
    assert check_gate(MEMBERS, looks(), ["galera"]).sizes["galera"] == 3
    assert check_gate(MEMBERS, looks(w={"witness": voting("failed")}), ["galera"]).why == ("galera on w: garbd@lab.service is failed",)
    # nor may the vote be taken away while a member is down
    assert "galera on c1: does not answer" in check_gate(MEMBERS, looks(c1=None), ["witness"]).why


def test_a_rolling_restart_needs_no_consent_and_includes_the_witness() -> None:
    found = plan(parse_request("restart", []), MEMBERS, looks())
    assert found.why == ()
    assert [f"{step.component} {step.host}" for step in found.steps if step.host == "w"] == ["rabbitmq w", "witness w"]
    assert "be interrupted" in plan(parse_request("restart", "galera"), {"galera": ["c1", "c2"]}, looks()).why[0]
    assert plan(parse_request("restart", "galera"), MEMBERS, looks(w=None)).why == ("galera is without a witness: w: does not answer",)
    assert "galera is degraded: c1: does not answer" in plan(parse_request("restart", "witness"), MEMBERS, looks(c1=None)).why


@pytest.mark.parametrize(
    "groups, variables, members",
    [
        ({"controller": ["c1", "c2"], "witness": ["w"]}, {}, {**MEMBERS, "memcached": ["c1", "c2"], "keystone": ["c1", "c2"]}),
        ({"controller": ["c1", "c2"]}, {}, {"galera": ["c1", "c2"], "rabbitmq": ["c1", "c2"], "witness": []}),
        ({"controller": ["c1", "c2"], "witness": ["w"]}, {"rabbitmq_witness": False}, {"rabbitmq": ["c1", "c2"], "witness": ["w"]}),
        # RabbitMQ has an odd number of members already
        ({"controller": ["c1", "c2"], "rabbitmq": ["q1", "q2", "q3"], "witness": ["w"]}, {}, {"rabbitmq": ["q1", "q2", "q3"], "galera": ["c1", "c2"]}),
    ],
)
def test_members(groups: t.Any, variables: t.Any, members: dict[str, list[str]]) -> None:
    found = members_of(groups, {"c1": variables})
    assert {name: found[name] for name in members} == members


def test_the_grades_of_added_and_removed_servers() -> None:
    vms = {"m1": [{"name": "c1", "id": "c1", "cluster": "lab", "uuid": "1"}], "m2": [{"name": "c2", "id": "c2", "cluster": "lab", "uuid": "2"}]}
    assert steps({}, vms, {}, ["c1", "c2"], "lab", ["w"])["before"] == "quorum"
    assert steps({}, vms, {}, ["c1", "c2"], "lab")["before"] == "none"


def test_the_look_of_a_controller_is_unchanged() -> None:
    assert evaluate({"galera": ["c1", "c2", "c3"]}, {name: look() for name in ("c1", "c2", "c3")})["galera"].state == "ok"
