# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The moves by which a server is added, in order."""

from __future__ import annotations

import copy
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_add_server import listed_elsewhere, report, steps

CLUSTER = "lab"


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


def test_the_plan_is_shown_with_what_it_leaves() -> None:
    todo = steps({"moves": [MOVE, {**MOVE, "id": "web", "name": "web"}], "ha": ["metal1: quorum"]}, FOUND, {}, CONTROLLERS, CLUSTER)
    assert todo["lines"] == [
        "high availability is restart now, and will be quorum", todo["steps"][0]["text"], "web is not a controller and is not moved", "metal1: quorum"
    ]  # fmt: skip
    assert steps({}, FOUND, {}, CONTROLLERS, CLUSTER)["lines"][1:] == ["no controller has to be moved"]


@pytest.mark.parametrize(("lost", "text"), [(0, "0 lost"), (None, "an unknown number of lost")])
def test_the_report_has_the_moves_and_what_clients_noticed(lost: t.Any, text: str) -> None:
    (step,) = steps({"moves": [MOVE]}, FOUND, {}, CONTROLLERS, CLUSTER)["steps"]
    written = {"rows": 9, "seconds": 4.5, "rows_lost": lost, "largest_gap_seconds": 1.25, "largest_gap_at": "2026-01-01T00:00:00Z"}
    moved = {"method": "live", "downtime_seconds": 0.26, "bytes": 7}
    listed = listed_elsewhere({"c2": "metal3"}, {"c2": "metal1"})
    result = {"before": "quorum", "listed": listed}
    assert report(result, "restart", [[{"step": step, "moved": moved}], [{"step": step, "moved": {}}]], written) == [
        "c2 moved from metal1 to metal3 (live, 0.3 s down, 7 bytes)",
        "c2 moved from metal1 to metal3 (?, 0.0 s down, 0 bytes)",
        "high availability was restart and is quorum",
        f"clients: 9 rows written in 4.5 s, {text}, largest write gap 1.25 s at 2026-01-01T00:00:00Z",
        listed[0]["text"],
    ]
    for without in ({}, {**written, "largest_gap_seconds": None}, None):
        assert report({"before": "quorum", "listed": []}, "quorum", [[]], without) == ["high availability was quorum and is quorum"]
