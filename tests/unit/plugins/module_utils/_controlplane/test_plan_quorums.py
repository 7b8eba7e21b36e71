# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The members of each quorum: health in every service with a majority counts, not only that of the database."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_quorums import quorums, quorums_of
from ansible_collections.reduced.footprint.plugins.module_utils._host.removal.model_removal import parse_quorums
from tests.support.controlplane import galera, look, rabbitmq, unit

NAMES = ["c1", "c2", "c3"]
GROUPS = {"controller": NAMES, "virt": ["metal1", "metal2", "metal3"]}
MEMBERS = {"galera": NAMES, "rabbitmq": NAMES, "load_balancer": NAMES, "witness": []}
PLACES = {"c1": "metal1", "c2": "metal2", "c3": "metal3"}
WITNESS = {"services": {"witness": {"units": {"garbd@footprint.service": unit()}, "facts": {"connected": ["192.0.2.11:4567"]}}}}


def looks(**changed: t.Any) -> dict[str, t.Any]:
    return {**{name: look(rabbitmq=rabbitmq()) for name in NAMES}, **changed}


def alive(found: t.Mapping[str, t.Sequence[t.Mapping[str, t.Any]]], quorum: str = "controller") -> dict[str, bool]:
    return {one["name"]: one["alive"] for one in found[quorum]}


def test_members_and_their_servers() -> None:
    found = quorums(looks(), GROUPS, ["controller", "missing"], MEMBERS, PLACES)
    assert found == {"controller": [{"name": name, "server": PLACES[name], "alive": True} for name in NAMES]}
    assert parse_quorums(found)["controller"][0].alive
    # a controller that is a server itself
    assert quorums(looks(), GROUPS, ["controller"], MEMBERS, {})["controller"][0]["server"] == "c1"


def test_a_member_is_alive_only_if_each_service_with_a_majority_is_healthy() -> None:
    seen = looks(
        c1=look(rabbitmq=rabbitmq(state="inactive")),
        c2=look(galera=galera(ready=False), rabbitmq=rabbitmq()),
        c3={},
    )
    assert alive(quorums(seen, GROUPS, ["controller"], MEMBERS, PLACES)) == {"c1": False, "c2": False, "c3": False}
    # one without any of them only has to answer
    more = {"controller": [*NAMES, "c4", "c5"]}
    assert alive(quorums({**looks(), "c4": {"services": {}}}, more, ["controller"], MEMBERS, PLACES)) == {**dict.fromkeys(NAMES, True), "c4": True, "c5": False}


def test_a_service_with_voters_of_its_own_is_a_quorum_of_its_own() -> None:
    members = {**MEMBERS, "rabbitmq": ["q1", "q2", "q3"]}
    queues = {name: {"services": {"rabbitmq": rabbitmq()}} for name in ("q1", "q2")}
    seen = {**{name: look() for name in NAMES}, **queues}
    found = quorums(seen, GROUPS, ["controller"], members, {**PLACES, "q1": "metal1"})
    assert set(found) == {"controller", "rabbitmq"}
    assert alive(found, "rabbitmq") == {"q1": True, "q2": True, "q3": False} and found["rabbitmq"][0]["server"] == "metal1"


def test_a_witness_votes() -> None:
    groups, members = {"controller": ["c1", "c2"], "witness": ["w"]}, {"galera": ["c1", "c2"], "rabbitmq": ["c1", "c2", "w"], "witness": ["w"]}
    seen = {name: look(galera=galera(size=3), rabbitmq=rabbitmq(["c1", "c2", "w"])) for name in ("c1", "c2")}
    both = {"services": {**WITNESS["services"], "rabbitmq": rabbitmq(["c1", "c2", "w"])}}
    assert alive(quorums({**seen, "w": both}, groups, ["controller"], members, {})) == {"c1": True, "c2": True, "w": True}
    assert alive(quorums({**seen, "w": {}}, groups, ["controller"], members, {})) == {"c1": True, "c2": True, "w": False}
    stopped = {"services": {**WITNESS["services"], "rabbitmq": rabbitmq(state="inactive")}}
    assert alive(quorums({**seen, "w": stopped}, groups, ["controller"], members, {}))["w"] is False


def test_each_environment_has_its_own_quorums() -> None:
    blue = ["b1", "b2", "b3"]
    seen = {**looks(), **{name: look() for name in blue[:2]}}
    environments = {"blue": {"galera": blue}, "red": MEMBERS}
    found = quorums_of(seen, {"controller": NAMES}, ["controller"], environments, {**PLACES, "b1": "metal1"})
    assert set(found) == {"blue: galera", "red: controller"}
    assert alive(found, "blue: galera") == {"b1": True, "b2": True, "b3": False} and found["blue: galera"][0]["server"] == "metal1"
    assert alive(found, "red: controller") == dict.fromkeys(NAMES, True)
    assert quorums_of(looks(), GROUPS, ["controller"], {"red": MEMBERS}, PLACES) == quorums(looks(), GROUPS, ["controller"], MEMBERS, PLACES)
