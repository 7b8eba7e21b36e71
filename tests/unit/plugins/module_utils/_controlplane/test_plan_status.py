# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The report on a footprint."""

from __future__ import annotations

import copy
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_health import distance
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_status import build_status
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_status_answers import asked, read_answers
from tests.support.controlplane import UUID, galera, look, rabbitmq, unit


NAMES = ["c1", "c2", "c3"]


def controller(place: str, held: bool = False, **services: t.Any) -> dict[str, t.Any]:
    return {"reachable": True, "error": "", "place": place, "look": look(held, **services)}


HEALTHY: dict[str, t.Any] = {
    "servers": {
        "metal1": {"reachable": True, "vms": [{"name": "c1", "state": "running"}, {"name": "c2", "state": "running"}]},
        "metal2": {"reachable": True, "vms": [{"name": "c3", "state": "running"}]},
    },
    "controllers": {"c1": controller("metal1", held=True), "c2": controller("metal1"), "c3": controller("metal2")},
    "members": {"galera": NAMES, "rabbitmq": NAMES, "load_balancer": NAMES},
    "migrations": [{"name": "master", "state": "done", "phase": "commit", "downtime_seconds": 31.24, "host": "metal1"}],
}


def test_healthy_footprint() -> None:
    report = build_status(HEALTHY)
    assert report["ok"]
    assert report["ha_grade"] == "restart"
    assert report["virtual_address_holder"] == "c1"
    assert report["database_members"] == ["c1", "c2", "c3"]
    assert report["vms"] == {"running": 3, "all": 3}
    assert (report["state"], report["writer"], report["links"]) == ("ok", "c1", ["mysql://192.0.2.20:3306"])
    # services that are neither installed nor requested are left out
    assert list(report["services"]) == ["galera", "load_balancer"]
    assert report["lines"][-1] == "ok   migration master: done, on metal1, 31.2 s of downtime"


def test_the_placement_names_what_runs_where_and_what_a_loss_means() -> None:
    found = breakage("servers", "metal1", "reachable", value=False)
    found["servers"]["metal1"]["vms"] = []
    found["controllers"]["c4"] = controller("c4")
    found["servers"]["metal2"]["vms"] = [{"name": "c3", "state": "running", "memory_mib": 2048, "cpu": 2, "hypervisor": "lxc", "drift": [{"path": "vcpu"}]}]
    places = {place["name"]: place for place in build_status(found)["placement"]}
    assert list(places) == ["c4", "metal1", "metal2"]
    assert places["metal1"]["error"] == "does not answer"
    assert [(vm["name"], vm["state"]) for vm in places["metal1"]["vms"]] == [("c1", "unknown"), ("c2", "unknown")]
    assert places["metal1"]["loss"] == "without metal1 (c1, c2) 1 of 3 remain and 2 are needed: the control plane stops until it is back"
    assert places["metal2"]["vms"] == [
        {
            "name": "c3", "state": "running", "memory_mib": 2048, "cpu": 2, "hypervisor": "lxc", "services": ["galera", "load_balancer"],
            "drift": ["vcpu"], "pending": [], "moved": "",
        }
    ]  # fmt: skip
    # a controller that is a physical server
    assert (places["c4"]["error"], places["c4"]["vms"], places["c4"]["loss"]) == ("", [], "")


def standby(part: str = "source", **more: t.Any) -> dict[str, t.Any]:
    entry = {"id": "master", "part": part, "standby": "metal2" if part == "source" else None, "state": "copied" if part == "source" else "receiving"}
    return {**entry, "problem": None, "age_seconds": 45.2, "duration_seconds": 3.21, "used_bytes": 2 << 30, "copied": "2026-11-24T10:00:00Z", **more}


CLAIMED = standby("standby", state="started", age_seconds=None, copied=None)


@pytest.mark.parametrize(
    ("standbys", "line", "state"),
    [
        ({"metal1": [standby()]}, "ok   standby master: copy on metal2, 45 s old, made in 3.2 s, 2 GiB there", "ok"),
        ({"metal1": [standby()], "metal2": [standby("standby")]}, "ok   standby master: copy on metal2, 45 s old, made in 3.2 s, 2 GiB there", "ok"),
        # a move that is not confirmed yet
        ({"metal1": [standby(state="moved")], "metal3": [standby(standby="metal4")]}, "ok   standby master: copy on metal4, 45 s old", "ok"),
        ({"metal1": [standby(problem="its last copy is 4000 s old")]}, "DEGRADED standby master: its last copy is 4000 s old; copy on metal2", "degraded"),
        ({"metal1": [standby(age_seconds=None, problem="x")]}, "DEGRADED standby master: x", "degraded"),
        ({"metal2": [standby("standby")]}, "DEGRADED standby master: its server does not report it; copy on metal2, 45 s old", "degraded"),
        (
            # a witness that is a virt host has no copy
            {"metal1": [standby(state="taken", problem="y")], "metal2": [standby("standby", state="started", phase="running")], "metal3": [CLAIMED]},
            "NOTE standby master: was started on metal2 from",
            "ok",
        ),
        ({"metal0": [{**CLAIMED, "state": "receiving"}], "metal2": [standby("standby")]}, "DEGRADED standby master: its server does not", "degraded"),
        (
            # moved from its standby to a third server, which copies it to another one
            {"metal2": [standby("standby", state="started", phase="running", copies=[{"source": "metal1"}])], "metal3": [standby(standby="metal4")]},
            "ok   standby master: copy on metal4, 45 s old",
            "ok",
        ),
        (
            {"metal1": [standby()], "metal2": [standby("standby", state="started", phase="running", copies=[{"source": "metal1"}])]},
            "NOTE standby master: was started on metal2 from",
            "ok",
        ),
        ({"metal1": [standby(automatic=True)]}, "ok   standby master: copy on metal2, 45 s old, made in 3.2 s, 2 GiB there, is started there by itself", "ok"),
        (
            {"metal1": [standby(automatic=True, automatic_problem="the witness does not vote")]},
            "DEGRADED standby master: would not be started by itself: the witness does not vote; copy on metal2, 45 s old, made in 3.2 s, 2 GiB there",
            "degraded",
        ),
        (
            {"metal2": [standby("standby", state="started", phase="running", taken_over="2026-11-27T23:47:22Z")]},
            "NOTE standby master: was started on metal2 by itself at 2026-11-27T23:47:22Z from",
            "ok",
        ),
        ({"metal3": [CLAIMED]}, "NOTE standby master: was started on its standby, as metal3 has recorded as a witness", "ok"),
    ],
)
def test_copies_of_vms(standbys: dict[str, t.Any], line: str, state: str) -> None:
    report = build_status({**HEALTHY, "standbys": standbys})
    assert report["state"] == state
    assert [each for each in report["lines"] if "standby" in each][0].startswith(line)
    assert len(report["standbys"]) == 1


def test_drift_and_pending_restart_are_notes() -> None:
    vms = [{"name": "c3", "state": "running", "drift": [{"path": "vcpu"}, {"path": "memory"}], "pending": ["memory"]}]
    report = build_status(breakage("servers", "metal2", "vms", value=vms))
    assert report["ok"]
    assert "NOTE VM c3: changed outside of this collection (vcpu, memory); spawn_vms restores it" in report["lines"]
    assert "NOTE VM c3: requires a restart (memory)" in report["lines"]


def breakage(*path: str, value: t.Any) -> dict[str, t.Any]:
    found = copy.deepcopy(HEALTHY)
    place = found
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return found


BROKEN = [
    (("servers", "metal2", "reachable"), False, "DOWN server metal2: does not answer"),
    (("servers", "metal2", "error"), "no libvirt", "UNKNOWN server metal2: failed to list its VMs: no libvirt"),
    (("servers", "metal2", "vms"), [{"name": "c3", "state": "shutoff"}], "DOWN server metal2: 0 of 1 VMs running (c3 is shutoff)"),
    (("controllers", "c2", "reachable"), False, "DOWN controller c2: does not answer (on metal1)"),
    (("controllers", "c2", "error"), "Timed out after 90 s", "UNKNOWN controller c2: failed to list its services: Timed out after 90 s (on metal1)"),
    (
        ("controllers", "c2", "look", "services", "galera"),
        galera("failed"),
        "DEGRADED controller c2: 1 of 2 services healthy (galera: mariadb.service is failed)",
    ),
    (("controllers", "c2", "look", "services", "galera"), galera("failed"), f"DEGRADED galera: 2/3 (c2: mariadb.service is failed) at {UUID}:7"),
    (("controllers", "c3", "look", "services", "galera"), galera(ready=False), f"DEGRADED galera: 2/3 (c3: its server does not answer) at {UUID}:7"),
    (("controllers", "c3", "look", "addresses"), ["192.0.2.20"], "DOWN virtual address: 192.0.2.20 is on c1 and c3"),
    (("controllers", "c1", "look", "addresses"), [], "DOWN virtual address: 192.0.2.20 is on no controller"),
    (("migrations",), [{"name": "m", "state": "failed", "phase": "precopy", "host": "metal1"}], "DOWN migration m: failed in phase precopy on metal1"),
    (
        ("migrations",),
        [{"name": "m", "state": "interrupted", "phase": "precopy", "host": "metal1"}],
        "DEGRADED migration m: interrupted in phase precopy on metal1. Run migrate_master again to continue it, or rollback_master",
    ),
]


@pytest.mark.parametrize("path, value, line", BROKEN, ids=[row[2][:40] for row in BROKEN])
def test_each_failure_is_reported(path: tuple[str, ...], value: t.Any, line: str) -> None:
    report = build_status(breakage(*path, value=value))
    assert not report["ok"]
    assert line in report["lines"]


@pytest.mark.parametrize(
    ("seen", "line"),
    [
        ({"state": "retired", "phase": "commit", "downtime_seconds": 31.24}, "ok   migration m: done, on metal1, 31.2 s of downtime; the source is retired"),
        (
            {"state": "running", "phase": "rehearse", "progress": {"cutover_at": "2026-12-24T01:00:00Z"}},
            "NOTE migration m: the copy is kept up to date on metal1; the source serves until 2026-12-24T01:00:00Z",
        ),
        ({"state": "stopped", "phase": "rehearse"}, "NOTE migration m: stopped by stop_after in phase rehearse on metal1: the source serves"),
    ],
)
def test_a_migration_that_ended_as_requested_is_no_failure(seen: dict[str, t.Any], line: str) -> None:
    report = build_status(breakage("migrations", value=[{"name": "m", "host": "metal1", **seen}]))
    assert report["ok"] and line in report["lines"]


def test_a_copy_that_cannot_be_updated_until_the_pause_is_reported() -> None:
    seen = {"name": "m", "state": "running", "phase": "rehearse", "host": "metal1", "progress": {"cutover_at": "2026-12-24T01:00:00Z", "problem": "no route"}}
    report = build_status(breakage("migrations", value=[seen]))
    assert report["state"] == "degraded"
    assert any("which waits until 2026-12-24T01:00:00Z, cannot be updated: no route" in line for line in report["lines"])


def test_a_migration_that_runs_is_no_failure() -> None:
    report = build_status(breakage("migrations", value=[{"name": "m", "state": "running", "phase": "cutover", "host": "metal1"}]))
    assert (report["ok"], report["state"]) == (True, "wip")
    assert "wip  migration m: running in phase cutover on metal1" in report["lines"]


def test_what_starts_right_now_is_no_failure() -> None:
    part = {"units": {"mariadb.service": unit("activating")}, "facts": None, "problems": ["mariadb.service is activating"]}
    report = build_status(breakage("controllers", "c2", "look", "services", "galera", value=part))
    assert report["ok"]
    assert report["state"] == "wip"
    assert f"wip  galera: 2/3 (c2: mariadb.service is activating) at {UUID}:7" in report["lines"]


def test_two_of_three_databases_lost_is_down() -> None:
    found = breakage("controllers", "c2", "reachable", value=False)
    found["controllers"]["c3"]["reachable"] = False
    report = build_status(found)
    assert (report["state"], report["services"]["galera"]["state"]) == ("down", "down")
    assert report["services"]["galera"]["members"]["c2"] == {"state": "down", "why": ["does not answer"]}


@pytest.mark.parametrize(
    ("days", "line", "state"),
    [
        ({"c1": 400, "c2": 30, "c3": 31}, "", "ok"),
        ({"c1": 400, "c2": 29, "c3": 29}, "DEGRADED certificate of galera: expires in 29 days on c2, c3. Run deploy_controllers", "degraded"),
        ({"c1": 3, "c2": -1, "c3": 400}, "DOWN certificate of galera: expired on c2; expires in 3 days on c1.", "down"),
    ],
)
def test_certificates_that_expire_soon(days: dict[str, int], line: str, state: str) -> None:
    found = copy.deepcopy(HEALTHY)
    for name, left in days.items():
        found["controllers"][name]["look"]["services"]["galera"]["certificate"] = {"expires": "2027-01-01T00:00:00Z", "days": left}
    report = build_status(found)
    assert report["state"] == state
    found_lines = [text for text in report["lines"] if "certificate" in text]
    assert len(found_lines) == bool(line) and all(line in text for text in found_lines)


def test_a_loss_in_the_log_of_a_database() -> None:
    found = copy.deepcopy(HEALTHY)
    found["controllers"]["c2"]["look"]["services"]["galera"]["reversed"] = "2026-01-01T00:00:00Z"
    report = build_status(found)
    (line,) = [text for text in report["lines"] if "Reversing history" in text]
    assert line.startswith("DEGRADED database c2: its log has 'Reversing history' at 2026-01-01T00:00:00Z") and report["state"] == "degraded"


def test_a_log_that_cannot_be_read_is_reported() -> None:
    found = copy.deepcopy(HEALTHY)
    found["controllers"]["c2"]["look"]["services"]["galera"]["reversed"] = "unknown"
    report = build_status(found)
    assert report["ok"] and any("database c2: its journal cannot be searched for lost rows" in text for text in report["lines"])


def test_an_empty_footprint_is_no_failure() -> None:
    report = build_status({})
    assert report["ok"]
    assert report["ha"] == []


def read(members: t.Any, parts: t.Mapping[str, t.Any], servers: t.Sequence[str], vm_hosts: t.Mapping[str, str]) -> dict[str, t.Any]:
    """What is found with these parts of the answers of hosts; ``None`` does not answer, a text is why it cannot."""
    answers = {}
    for host, own in parts.items():
        values = {name: {"value": value} for name, value in own.items()} if isinstance(own, dict) else {}
        answers[host] = {"reachable": own is not None, "reason": own if isinstance(own, str) else "", "parts": values}
    return read_answers(asked(members, servers, {}), answers, members, vm_hosts)


@pytest.mark.parametrize(("state", "counted"), [("done", True), ("retired", True), ("rolled_back", False), ("stopped", False), ("running", False)])
def test_the_vm_of_a_master_that_serves_from_its_source_is_not_down(state: str, counted: bool) -> None:
    """It is defined long before the pause, and stays after a rollback."""
    vms = [{"name": "c1", "state": "running", "uuid": "u1"}, {"name": "master", "state": "shutoff", "uuid": "u2"}]
    migrations = [{"name": "master", "state": state, "phase": "rehearse", "host": "metal1", "vm": {"uuid": "u2"}}]
    found = read({}, {"metal1": {"vms": vms, "migrations": migrations}}, ["metal1"], {})
    assert [vm["name"] for vm in found["servers"]["metal1"]["vms"]] == ["c1", *(["master"] if counted else [])]
    lines = build_status(found)["lines"]
    assert ("DOWN server metal1: 1 of 2 VMs running (master is shutoff)" in lines) is counted
    # a VM that runs is always shown
    vms[1]["state"] = "running"
    assert len(read({}, {"metal1": {"vms": vms, "migrations": migrations}}, ["metal1"], {})["servers"]["metal1"]["vms"]) == 2


def test_answers_of_hosts_are_read() -> None:
    servers = [f"metal{number}" for number in range(1, 5)]
    parts: dict[str, t.Any] = {
        "metal1": {"vms": [{"name": "c1", "state": "running"}], "migrations": [{"name": "master"}], "standbys": [{"id": "m"}],
                   "memory": {"size_bytes": 8, "free_bytes": 4}},
        "metal2": None,
        "metal3": "python3-libvirt is missing",
        "c1": {"controlplane": {"addresses": ["192.0.2.20"], "services": {}}},
        "c2": None,
        "c3": "Timed out",
    }
    found = read({"galera": [*NAMES, "c4"], "rabbitmq": NAMES}, parts, servers, {"c1": "metal1", "c2": "", "c3": ""})
    seen = {"reachable": True, "error": "", "why": "", "memory": {"size_bytes": 8, "free_bytes": 4}, "pools": None}
    assert found["servers"]["metal1"] == {**seen, "vms": [{"name": "c1", "state": "running"}]}
    assert not found["servers"]["metal2"]["reachable"] and not found["servers"]["metal4"]["reachable"]
    assert found["servers"]["metal3"]["error"] == "python3-libvirt is missing"
    assert found["controllers"]["c1"] == {
        "reachable": True,
        "place": "metal1",
        "error": "",
        "why": "",
        "look": {"addresses": ["192.0.2.20"], "services": {}},
    }
    assert found["controllers"]["c2"]["place"] == "c2"
    assert not found["controllers"]["c2"]["reachable"] and not found["controllers"]["c4"]["reachable"]
    assert found["controllers"]["c3"]["error"] == "Timed out"
    assert found["members"]["rabbitmq"] == NAMES and found["standbys"]["metal1"] == [{"id": "m"}]
    assert found["migrations"] == [{"name": "master"}]


def test_moved_controller_is_on_its_new_server_and_its_old_copy_is_a_note() -> None:
    old = {"name": "c2", "state": "shutdown", "moved": "metal3"}
    parts: dict[str, t.Any] = {
        "metal3": {"vms": [{"name": "c2", "state": "running"}]},
        "metal2": {"vms": [{"name": "c3", "state": "running"}]},
        "metal1": {"vms": [{"name": "c1", "state": "running", "moved": None}, old]},
    }
    # the inventory does not know yet
    vm_hosts = {name: "metal2" if name == "c3" else "metal1" for name in NAMES}
    report = build_status(read({"galera": NAMES}, parts, list(parts), vm_hosts))
    assert report["ha_grade"] == "quorum"
    assert "ok   server metal1: 1 of 1 VMs running" in report["lines"]
    assert "NOTE VM c2: moved to metal3; the old copy is kept until the move is confirmed" in report["lines"]
    assert report["vms"] == {"running": 3, "all": 3}


def witnessed(**parts: t.Any) -> dict[str, t.Any]:
    """Two servers with a controller each and a witness; ``parts`` are changed controllers."""
    votes = ["c1", "c2", "w"]
    looks = {name: look(galera=galera(), rabbitmq=rabbitmq(votes, members=votes)) for name in votes[:2]}
    vote = {"garbd@lab.service": unit()}
    arbitrator = {"units": vote, "facts": {"connected": ["192.0.2.11"]}}
    looks["w"] = {"addresses": ["192.0.2.3"], "services": {"witness": arbitrator, "rabbitmq": rabbitmq(votes, members=votes)}}
    hosts = {name: {"reachable": True, "error": "", "place": name, "look": seen} for name, seen in looks.items()}
    return {"controllers": {**hosts, **parts}, "members": {"galera": votes[:2], "rabbitmq": votes, "witness": ["w"]}}


GONE = {"reachable": False, "error": "", "place": "w", "look": None}


def test_the_grade_now_is_the_configured_one_while_all_votes_are_there() -> None:
    report = build_status(witnessed())
    assert (report["ha_grade"], report["ha_grade_now"]) == ("quorum", "quorum"), report["lines"]
    assert report["ha"][0] == "quorum: the control plane survives the loss of any one server"


@pytest.mark.parametrize("gone", ["w", "c2"])
def test_the_grade_now_is_that_of_the_votes_that_are_there(gone: str) -> None:
    report = build_status(witnessed(**{gone: {**GONE, "place": gone}}))
    assert (report["ha_grade"], report["ha_grade_now"]) == ("quorum", "none")
    assert report["ha"][0] == f"none: the control plane does not survive the loss of a server (now, without the votes of {gone}; with them: quorum)"
    assert "without c1 (c1) 1 of 3 remain and 2 are needed: the control plane stops until it is back" in report["ha"]
    assert {place["name"]: place["loss"] for place in report["placement"]}["c1"] == report["ha"][1]


def test_a_distant_witness_is_no_problem_but_its_price_is_shown() -> None:
    found = witnessed()
    found["controllers"]["w"]["look"]["services"]["witness"]["facts"]["distance"] = distance(0.0021)
    report = build_status(found)
    [line] = [line for line in report["lines"] if "round trip" in line]
    assert line.startswith("NOTE witness w: its round trip to the servers is 2 ms, and each commit waits for it: about 136 rows per second")
    assert report["state"] == "ok"


@pytest.mark.parametrize(
    ("seconds", "words"), [(None, ""), (0.0, ""), (0.002, ""), (0.05, "50 ms, and each commit waits for it: about 14 rows"), (0.15, "about 5 rows")]
)
def test_the_price_of_a_distance_is_the_measured_one(seconds: float | None, words: str) -> None:
    assert words in distance(seconds) and bool(words) == bool(distance(seconds))


def test_a_broker_without_its_third_vote_lowers_the_grade_as_well() -> None:
    found = witnessed()
    found["controllers"]["w"]["look"]["services"]["rabbitmq"] = rabbitmq(state="failed")
    report = build_status(found)
    assert (report["ha_grade"], report["ha_grade_now"]) == ("quorum", "none")
