# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a member may be changed now."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_gate import Gate, check_gate
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_health import Wanted
from tests.support.controlplane import ADDRESS, UUID, balancer, galera, look, unit

NAMES = ["c1", "c2", "c3"]
OTHER = "99999999-2222-3333-4444-555555555555"
MEMBERS = {"galera": NAMES, "rabbitmq": NAMES, "load_balancer": NAMES}
#: What add_server demands of each host.
STRICT = Wanted({"galera": 3}, UUID, 7, tuple(NAMES))


def looks() -> dict[str, t.Any]:
    """Return healthy hosts; c1 is the writer and holds the address."""
    return {name: {**look(name == "c1"), "answers": True} for name in NAMES}


def gate(found: t.Mapping[str, t.Any], *services: str, **options: t.Any) -> Gate:
    return check_gate(MEMBERS, found, services, **options)


def test_all_that_are_well_may_be_changed() -> None:
    found = gate(looks(), wanted=STRICT)
    assert found.as_dict() == {
        "ok": True,
        "why": [],
        "sizes": {"galera": 3, "load_balancer": 3},
        "writers": {"mysql": "c1"},
        "holders": {ADDRESS: "c1"},
        "ports": {ADDRESS: {"mysql": 3306}},
        "cluster_uuid": UUID,
        "position": 7,
    }


@pytest.mark.parametrize(
    "path, value, words",
    [
        (("services", "galera"), galera(ready=False), "galera on c2: its server does not answer"),
        (("services", "galera"), galera(size=2), "galera on c2: its cluster has 2 of 3 members"),
        (("services", "galera"), galera(seqno=6), "galera on c2: it is at position 6, behind 7"),
        (("services", "galera"), galera(cluster_uuid=OTHER), f"galera: there are 2 separate clusters: {UUID}, {OTHER}"),
        (("services", "load_balancer"), balancer(haproxy="failed"), "load_balancer on c2: haproxy.service is failed"),
        (("services", "load_balancer"), balancer(down=["c3"]), "load_balancer on c2: it sends no clients of mysql to c3 (DOWN)"),
        (("services", "memcached"), {"units": {}, "facts": None}, None),
        (("answers",), False, "galera on c2: no database answers at the virtual address"),
        (("addresses",), [ADDRESS], f"load_balancer: {ADDRESS} is on c1 and c2"),
    ],
)
def test_any_problem_is_a_reason(path: tuple[str, ...], value: t.Any, words: str | None) -> None:
    found = looks()
    place: t.Any = found["c2"]
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    why = gate(found, wanted=STRICT).why
    assert (words in why) if words else (why == ())


def test_without_conditions_size_position_and_clients_do_not_matter() -> None:
    found = looks()
    for each in found.values():
        each["services"]["galera"] = galera(size=2)
    found["c2"]["services"] = {"galera": galera(size=2, seqno=6), "load_balancer": balancer(down=["c3"])}
    assert gate(found).why == ()


def test_one_that_does_not_answer_is_a_reason() -> None:
    for silent in (None, {}):
        assert "galera on c3: does not answer" in gate({**looks(), "c3": silent}).why


def test_address_without_a_holder_is_a_reason() -> None:
    found = looks()
    found["c1"]["addresses"] = []
    assert gate(found).why == (f"load_balancer: {ADDRESS} is on no host",)
    assert gate(found).holders == {}


def test_cluster_that_was_exchanged_is_a_reason() -> None:
    why = gate(looks(), wanted=Wanted(cluster_uuid=OTHER)).why
    assert [text.endswith(f"not to {OTHER}") for text in why] == [True, True, True]


def test_no_answering_host_is_a_reason() -> None:
    assert check_gate({}, {}).why == ("no host of the control plane answers",)
    assert "no host of the control plane answers" in gate({}).why
    assert gate({}).position == -1 and gate({}).cluster_uuid == ""


def test_one_under_way_may_be_there_or_not() -> None:
    found = looks()
    del found["c2"]
    for name in ("c1", "c3"):
        found[name]["services"] = {"galera": galera(size=2), "load_balancer": balancer(name == "c1", down=["c2"])}
    assert gate(found).why, "without leave it may not"
    wanted = Wanted(position=7, frontends=("c1", "c3"))
    assert gate(found, skipped=["c2"], wanted=wanted).why == ()
    found["c3"]["services"]["galera"] = galera(ready=False)
    assert gate(found, skipped=["c2"], wanted=wanted).why, "the others still count"


def test_gate_without_a_load_balancer() -> None:
    found = {name: {"addresses": [], "services": {"galera": galera()}} for name in NAMES}
    assert (gate(found).why, gate(found).holders) == ((), {})


def test_only_the_service_and_the_load_balancer_matter() -> None:
    found = looks()
    found["c2"]["services"]["memcached"] = {"units": {"memcached.service": unit("failed")}, "facts": None}
    members = {**MEMBERS, "memcached": NAMES}
    assert check_gate(members, found, ["galera"]).why == ()
    assert check_gate(members, found).why
    found["c2"]["services"]["load_balancer"] = balancer(haproxy="failed")
    # skipped for this service, but clients need the load balancer
    assert check_gate(members, found, ["galera"], ["c2"]).why == ("load_balancer on c2: haproxy.service is failed",)
    assert check_gate(members, found, ["load_balancer"], ["c2"]).why == ()


def test_frontend_without_servers_is_ignored() -> None:
    found = looks()
    frontends = found["c1"]["services"]["load_balancer"]["facts"]["frontends"]
    frontends["keystone"] = {"servers": {name: {"status": "DOWN", "sessions": 0} for name in NAMES}, "in_use": None}
    assert gate(found, wanted=STRICT).why == ()


def test_failed_member_counts_for_nothing_any_more() -> None:
    found = looks()
    found["c2"]["services"]["galera"] = galera("failed")
    assert gate(found, "galera", skipped=["c2"]).why == ()
    # two of three are left: the next one would be one too many
    assert gate(found, "galera", skipped=["c2"], spare=True).why == ("galera would have 1 of 3 members left and needs 2",)
    for name in NAMES:
        found[name]["services"]["memcached"] = {"units": {"memcached.service": unit("failed" if name == "c2" else "active")}, "facts": {"version": "1"}}
    assert check_gate({**MEMBERS, "memcached": NAMES}, found, ["memcached"], ["c2"], spare=True).why == ()
