# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a controller or witness may leave, and what stops on it."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_controller_removal import Found, Wanted, plan
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_plan import Plan
from tests.support.controlplane import balancer, galera, look, rabbitmq, unit

THREE = ("c1", "c2", "c3")


def members(data: t.Sequence[str] = THREE, witnesses: t.Sequence[str] = ()) -> dict[str, list[str]]:
    return {"galera": [*data], "rabbitmq": [*data, *witnesses], "witness": [*witnesses], "load_balancer": [*data], "keystone": []}


def looks(data: t.Sequence[str] = THREE, witnesses: t.Sequence[str] = (), silent: t.Sequence[str] = ()) -> dict[str, t.Any]:
    votes = [*data, *witnesses]
    found: dict[str, t.Any] = {name: look(name == data[0], galera=galera(size=len(votes)), rabbitmq=rabbitmq(votes)) for name in data}
    voting = {"units": {"garbd@lab.service": unit()}, "facts": {"members": ["a"], "connected": ["a"]}}
    found |= {name: {"addresses": [], "services": {"witness": voting, "rabbitmq": rabbitmq(votes)}} for name in witnesses}
    return {**found, **dict.fromkeys(silent)}


def planned(
    name: str = "c3", data: t.Sequence[str] = THREE, witnesses: t.Sequence[str] = (), silent: t.Sequence[str] = (), confirm: str | None = None,
    lost: bool = False, answering: bool = False, leaving: bool = False, **changed: t.Any,
) -> Plan:  # fmt: skip
    found = Found({**looks(data, witnesses, silent), **changed}, "No route to host", answering)
    return plan(Wanted(name, name if confirm is None else confirm, lost), members(data, witnesses), found, leaving)


def why(*given: t.Any, **options: t.Any) -> str:
    return " ".join(str(problem) for problem in planned(*given, **options).problems)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"witnesses": ["w"], "leaving": True},
        {"name": "w", "witnesses": ["w"], "leaving": True},
        {"name": "w", "data": THREE[:2], "witnesses": ["w"]},
        {"silent": ["c3"], "lost": True},
        # of an interrupted run
        {
            "c3": {
                "addresses": [],
                "services": {"galera": galera("inactive"), "load_balancer": balancer(haproxy="inactive"), "rabbitmq": rabbitmq((), "failed")},
            }
        },
    ],
)
def test_one_that_the_others_do_not_need_may_leave(given: dict[str, t.Any]) -> None:
    assert why(**given) == ""


@pytest.mark.parametrize(
    "given, words",
    [
        # silence is not health
        ({"silent": ["c2"]}, "galera on c2: does not answer"),
        ({"c2": look(galera=galera("failed"))}, "galera on c2: mariadb.service is failed"),
        ({"name": "w", "data": THREE[:2], "witnesses": ["w"], "silent": ["c1"]}, "galera on c1: does not answer"),
        ({"witnesses": ["w"], "silent": ["w"], "leaving": True}, "witness on w: does not answer"),
        ({"name": "c2", "data": THREE[:2]}, "without c2 galera has 1 of 2 votes and needs 2"),
        ({"name": "c1", "data": ["c1"]}, "remove_controller_name: c1 is the last member of galera, rabbitmq, load_balancer"),
        ({"name": "c2", "data": THREE[:2], "witnesses": ["w"]}, "witness: w: 1 witnesses (w) for 1 members with data (c1) could outvote the data"),
        ({"name": "c3", "data": [*THREE, "c4"], "witnesses": ["w"]}, "3 members with data (c1, c2, c4) and 1 witnesses (w) have 4 votes"),
        ({"silent": ["c3"]}, "remove_controller_lost: c3 does not answer (No route to host), so it cannot leave. Start it, or set"),
        ({"lost": True}, "remove_controller_lost: c3 answers, so it is not lost. Run again without remove_controller_lost"),
        ({"silent": ["c3"], "lost": True, "answering": True}, "c3 is not off: its ssh port answers, so it is not lost. Power it off"),
        ({"confirm": ""}, "remove_controller_confirm: Without c3, 2 votes remain (c1, c2), and 2 are needed: the loss of any server stops the control plane"),
        ({"confirm": "c2", "witnesses": ["w"], "leaving": True}, "3 votes remain (c1, c2, w), and 2 are needed: the loss of one server is tolerated"),
    ],
)
def test_what_would_cost_the_majority_is_refused_with_the_reason(given: dict[str, t.Any], words: str) -> None:
    assert words in why(**given)


def test_the_effect_is_not_asked_for_beside_a_reason_against_it() -> None:
    assert "remove_controller_confirm" not in why(silent=["c2"], confirm="")


def test_a_name_that_is_not_a_member_is_refused() -> None:
    with pytest.raises(InputError, match="remove_controller_name: c33 is neither a controller nor a witness. Did you mean c3"):
        planned("c33")


def test_clients_leave_before_the_database_does() -> None:
    services = ("galera", "rabbitmq", "load_balancer", "memcached", "keystone", "ovn_database", "nova")
    every = {**dict.fromkeys(services, THREE), "witness": []}
    units = list(plan(Wanted("c3", "c3"), every, Found(looks())).values["units"])
    assert units[:2] == ["keepalived.service", "haproxy.service"]
    order = [
        "haproxy.service", "nova-scheduler.service", "ovn-northd.service", "ovn-ovsdb-server-nb.service", "footprint-keystone.service", "memcached.service",
        "footprint-galera-check.socket", "footprint-galera-guard.service", "mariadb.service",
    ]  # fmt: skip
    assert [unit for unit in units if unit in order] == order and units[-1] == "mariadb.service"
    assert planned(silent=["c3"], lost=True).values["units"] == []
    assert planned("w", THREE[:2], ["w"]).values["units"] == []
