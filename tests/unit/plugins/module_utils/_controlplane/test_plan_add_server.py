# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Growth: the gate in front of each move, and the moves in order."""

from __future__ import annotations

import copy
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_add_server import Wanted, evaluate, listed_elsewhere, problems, steps

UUID = "11111111-2222-3333-4444-555555555555"
OTHER = "99999999-2222-3333-4444-555555555555"
VIRTUAL = "192.0.2.20"
CLUSTER = "lab"


def controller(**change: t.Any) -> dict[str, t.Any]:
    """A controller that is well; ``change`` goes to its database, or with ``outer`` to itself."""
    servers = {name: {"status": "UP", "sessions": 0} for name in ("c1", "c2", "c3")}
    return {
        "galera": {"ready": True, "size": 3, "cluster_uuid": UUID, "seqno": 100, "problems": [], "unit": "active", **change},
        "services": {"mariadb": "active", "haproxy": "active", "keepalived": "active"},
        "addresses": ["192.0.2.101"],
        "frontends": {"mysql": {"in_use": "c1", "servers": servers}},
        "answers": True,
    }


def plane() -> dict[str, dict[str, t.Any] | None]:
    """Three that are well; the first holds the virtual address."""
    looks: dict[str, dict[str, t.Any] | None] = {name: controller() for name in ("c1", "c2", "c3")}
    t.cast("dict[str, t.Any]", looks["c1"])["addresses"].append(VIRTUAL)
    return looks


def test_three_that_are_well_may_be_touched() -> None:
    gate = evaluate(plane(), VIRTUAL).as_dict()
    assert gate == {"ok": True, "why": [], "uuid": UUID, "position": 100, "holder": "c1", "writers": ["c1"], "size": 3}


@pytest.mark.parametrize(
    "path, value, words",
    [
        (("galera", "ready"), False, "c2: its database is not ready: the server is active"),
        (("galera", "size"), 2, "c2: its cluster has 2 members, not 3"),
        (("galera", "cluster_uuid"), OTHER, "the members belong to 2 clusters"),
        (("services", "keepalived"), "inactive", "c2: keepalived is inactive"),
        (("frontends",), None, "c2: its load balancer does not answer"),
        (("frontends", "mysql", "servers", "c3", "status"), "DOWN 1/2", "c2: its load balancer reports for mysql: c3 is DOWN 1/2"),
        (("frontends", "mysql", "servers", "c3", "status"), "MAINT", "c3 is MAINT"),
        (("answers",), False, "c2: the database does not answer at the virtual address"),
        (("addresses",), [VIRTUAL], "the virtual address 192.0.2.20 is on c1 and c2"),
    ],
)
def test_gate_is_closed_by_any_problem(path: tuple[str, ...], value: t.Any, words: str) -> None:
    looks = plane()
    place: t.Any = looks["c2"]
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    gate = evaluate(looks, VIRTUAL)
    assert words in "; ".join(gate.why)


def test_frontend_without_servers_hints_at_footprint_components() -> None:
    looks = plane()
    looks["c2"]["frontends"]["keystone"] = {"servers": {name: {"status": "DOWN"} for name in ("c1", "c2", "c3")}, "in_use": None}
    [why] = evaluate(looks, VIRTUAL).why
    assert why.startswith("c2: its load balancer has no healthy server for keystone (c1 is DOWN, c2 is DOWN, c3 is DOWN)")
    assert "footprint_components" in why


def test_one_that_does_not_answer_closes_the_gate() -> None:
    assert "c3: does not answer" in evaluate({**plane(), "c3": None}, VIRTUAL).why


def test_gate_is_closed_without_a_holder_of_the_virtual_address() -> None:
    assert "the virtual address 192.0.2.21 is on no controller" in evaluate(plane(), "192.0.2.21").why


def test_a_cluster_that_was_exchanged_closes_the_gate() -> None:
    assert [f"not to {OTHER}" in text for text in evaluate(plane(), VIRTUAL, uuid=OTHER).why] == [True, True, True]


def test_gate_is_closed_without_controllers() -> None:
    assert evaluate({}, VIRTUAL).why


@pytest.mark.parametrize("there", [False, True])
def test_one_under_way_may_be_there_or_not(there: bool) -> None:
    looks = plane()
    if not there:
        looks["c2"] = None
        for name in ("c1", "c3"):
            seen = t.cast("dict[str, t.Any]", looks[name])
            seen["galera"]["size"] = 2
            seen["frontends"]["mysql"]["servers"]["c2"]["status"] = "DOWN"
        assert evaluate(looks, VIRTUAL).why, "without leave it may not"
    gate = evaluate(looks, VIRTUAL, absent=["c2"])
    assert (gate.why, gate.size) == ((), None)
    t.cast("dict[str, t.Any]", looks["c3"])["galera"]["ready"] = False
    assert evaluate(looks, VIRTUAL, absent=["c2"]).why, "the others are still asked"


def test_a_member_behind_the_position_is_not_well() -> None:
    assert problems(controller(seqno=99), Wanted(3, UUID, 100)) == ["it is at position 99, behind 100"]
    assert problems(controller(seqno=100), Wanted(3, UUID, 100)) == []


def test_gate_without_a_load_balancer() -> None:
    looks = {name: {**controller(), "frontends": None, "answers": None} for name in ("c1", "c2", "c3")}
    assert evaluate(looks, None).why == ()


def vm(name: str, **more: t.Any) -> dict[str, t.Any]:
    return {"id": name, "name": name, "uuid": f"uuid-{name}", "cluster": CLUSTER, **more}


FOUND: dict[str, list[dict[str, t.Any]]] = {"metal1": [vm("c1"), vm("c2"), vm("web")], "metal2": [vm("c3")], "metal3": []}
CONTROLLERS = ["c1", "c2", "c3"]
MOVE = {"id": "c2", "name": "c2", "previous": "metal1", "server": "metal3", "reason": "moves away from c1 on metal1"}


def note(name: str, state: str, to: str = "metal3") -> dict[str, str]:
    return {"id": name, "name": name, "uuid": f"uuid-{name}", "cluster": CLUSTER, "to": to, "at": "", "state": state}


def test_the_plan_becomes_steps_and_the_grade_rises() -> None:
    todo = steps({"moves": [MOVE]}, FOUND, {}, CONTROLLERS, CLUSTER)
    assert todo["steps"] == [
        {"id": "c2", "name": "c2", "source": "metal1", "destination": "metal3", "reason": "moves away from c1 on metal1", "begun": False,
         "text": "c2 moves from metal1 to metal3: moves away from c1 on metal1"}
    ]  # fmt: skip
    assert (todo["before"], todo["after"], todo["why"]) == ("restart", "quorum", [])


def test_moves_of_tenants_are_reported_only() -> None:
    move = {**MOVE, "id": "web", "name": "web"}
    todo = steps({"moves": [move]}, FOUND, {}, CONTROLLERS, CLUSTER)
    assert (todo["steps"], [one["name"] for one in todo["others"]]) == ([], ["web"])


@pytest.mark.parametrize("state", ["moving", "moved"])
def test_unfinished_move_comes_first_and_once(state: str) -> None:
    other = {**MOVE, "id": "c1", "name": "c1", "server": "metal2"}
    found = copy.deepcopy(FOUND)
    if state == "moved":
        found["metal3"].append(vm("c2"))
    todo = steps({"moves": [other, MOVE]}, found, {"metal1": [note("c2", state)]}, CONTROLLERS, CLUSTER)
    assert [(step["name"], step["begun"]) for step in todo["steps"]] == [("c2", True), ("c1", False)]
    assert todo["places"]["c2"] == ("metal3" if state == "moved" else "metal1")


def test_the_old_copy_is_no_place_whatever_server_comes_last() -> None:
    found = {"metal3": [vm("c2")], "metal2": [vm("c3")], "metal1": [vm("c1"), vm("c2")]}
    todo = steps({"moves": []}, found, {"metal1": [note("c2", "moved")]}, CONTROLLERS, CLUSTER)
    assert todo["places"] == {"c1": "metal1", "c2": "metal3", "c3": "metal2"}
    assert todo["before"] == "quorum"


@pytest.mark.parametrize("state", ["confirmed", "arriving"])
def test_what_is_done_or_another_server_s_business_is_no_step(state: str) -> None:
    assert steps({"moves": []}, FOUND, {"metal3": [note("c2", state)]}, CONTROLLERS, CLUSTER)["steps"] == []


def test_start_is_refused_for_an_unknown_server_and_two_unfinished_moves() -> None:
    notes = {"metal1": [note("c2", "moving", "metal9")], "metal2": [note("c3", "moved")]}
    why = steps({"moves": []}, FOUND, notes, CONTROLLERS, CLUSTER)["why"]
    assert "c2 is being moved from metal1 to metal9, which is not a server of the inventory" in why
    assert any("2 moves are unfinished" in text for text in why)


def test_vms_of_other_clusters_are_ignored() -> None:
    found = {"metal1": [vm("c1", cluster="other")], "metal2": [], "metal3": []}
    assert steps({}, found, {}, ["c1"], CLUSTER)["places"] == {"c1": "c1"}


def test_outdated_inventory_is_reported() -> None:
    places = {"c1": "metal1", "c2": "metal3", "metal4": "metal4"}
    [found] = listed_elsewhere(places, {"c1": "metal1", "c2": "metal1", "metal4": None})
    assert found["text"] == "inventory: move the entry of c2 from the vms of metal1 to the vms of metal3, where it runs"
