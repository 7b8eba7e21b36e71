# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What destroy_environment removes from a server, and what it refuses."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_destroy import Found, Known, Wanted, plan

OWN = "52:54:00:00:00:0a"
SILENT = {"unreachable": True, "msg": "timed out"}
FAILED = {"msg": "libvirt is not running"}


def copied(**more: t.Any) -> dict[str, t.Any]:
    return {"id": "notes", "part": "source", "cluster": "blue", "standby": "metal2", "state": "copied", "key_accepted_by": ["metal2", "w1"], **more}


def record(state: str = "receiving", phase: str | None = None, **more: t.Any) -> dict[str, t.Any]:
    return {"id": "notes", "part": "standby", "cluster": "blue", "state": state, "phase": phase, "key_accepted_by": [], **more}


def answer(name: str, *standbys: t.Any) -> dict[str, t.Any]:
    return {"item": name, "standbys": list(standbys)}


def vm(name: str = "notes", fate: str = "removed", **more: t.Any) -> dict[str, t.Any]:
    return {"name": name, "fate": fate, "origin": "", "roles": [], **more}


def found(*vms: t.Any, **more: t.Any) -> Found:
    """A server with the VM notes, whose copies are on metal2; w1 is a witness."""
    removal = {"removal": {"vms": list(vms) or [vm()], "lines": ["notes: is removed"]}, "actions": ["undefine notes"]}
    cards = {"ansible_facts": {"ansible_eth0": {"macaddress": OWN}, "ansible_interfaces": ["eth0"]}}
    listed = {"vms": [{"name": "notes", "macs": ["52:54:00:00:00:01"]}]}
    return Found(removal, {"standbys": [copied()]}, [answer("metal2", record()), answer("w1")], listed, cards)._replace(**more)


def why(given: Found, wanted: Wanted = Wanted("blue"), known: Known = Known("metal1", {"blue"}, ["notes"], [])) -> str:
    decided = plan(wanted, known, given).as_result()
    assert bool(decided["why"]) == bool(decided.get("failed")) == ("error" in decided) and not (decided["why"] and decided["steps"])
    return " ".join(decided["why"])


def test_steps_are_those_of_the_environment() -> None:
    standbys = [copied(automatic=True), copied(cluster="green", id="web"), record(id="wiki"), record(id="web", cluster="green")]
    decided = plan(Wanted("blue"), Known("metal1", {"blue"}, ["notes", "controller1"], ["server1"]), found(standbys={"standbys": standbys}))
    assert [tuple(step.values()) for step in decided.steps] == [
        ("disarm", "notes", "metal1"), ("leave", None, "metal2"), ("leave", None, "metal1"),
        ("forget", "notes", "metal2"), ("forget", "notes", "w1"), ("forget", "wiki", "metal1"),
    ]  # fmt: skip
    assert decided.lines == [
        "metal1: notes: is removed",
        "metal1: undefine notes",
        "metal1: remove the copies of notes on its standby",
        "metal1: remove the copies and the record of wiki on this server",
        "metal1: withdraw the key and the record of notes on metal2",
        "metal1: withdraw the key and the record of notes on w1",
    ]
    assert decided.locks == ["notes"] and decided.report == ["The services of server1, which is a server, and their data are kept."] and not decided.problems


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"removal": SILENT}, "the server does not answer: repair it, or leave it out with --limit '!metal1'."),
        ({"removal": FAILED}, "the state of the server is unknown: libvirt is not running."),
        ({"removal": {}}, "the state of the server is unknown: no result."),
        ({"standbys": FAILED}, "it is unknown whether VMs of this server run from their copies elsewhere: libvirt is not running."),
        ({"standbys": SILENT}, "it is unknown whether VMs of this server run from their copies elsewhere: it does not answer."),
        ({"vms": FAILED}, "it is unknown whether one of notes runs this playbook: libvirt is not running."),
        ({"control": FAILED}, "it is unknown whether one of notes runs this playbook: libvirt is not running."),
        ({"records": [answer("metal2", record()), {"item": "w1", **SILENT}]}, "w1 may run notes from a copy, or know that it runs: it does not answer."),
        ({"records": [answer("metal2"), {"item": "w1", **FAILED}]}, "w1 may run notes from a copy, or know that it runs: libvirt is not running."),
        ({"records": [answer("w1")]}, "metal2 may run notes from a copy, or know that it runs: it is not in the inventory."),
    ],
)
def test_what_cannot_be_read_is_unknown(given: dict[str, t.Any], words: str) -> None:
    assert words in why(found(**given))


def test_only_vms_that_are_removed_can_run_the_playbook() -> None:
    assert not why(found(vm(fate="foreign"), vms=FAILED))


@pytest.mark.parametrize(
    ("lost", "records", "words"),
    [
        (["w1"], [answer("metal2")], ""),
        (["w1"], [answer("metal2"), {"item": "w1", **SILENT}], ""),
        (["w1", "metal2"], [], ""),
        (["w1"], [answer("metal2"), answer("w1")], "destroy_environment_lost: w1 answers, so it is not lost."),
        (["metal3"], [answer("metal2")], "then set destroy_environment_lost=w1."),
    ],
)
def test_lost_machines_are_not_asked(lost: list[str], records: list[t.Any], words: str) -> None:
    wanted = Wanted("blue", lost=lost)
    refused = why(found(records=records), wanted)
    assert words in refused and bool(refused) == bool(words)
    steps = plan(wanted, Known("metal1", {"blue"}, [], []), found(records=records)).steps
    assert not {step["host"] for step in steps} & set(lost)


@pytest.mark.parametrize(
    ("where", "entry", "words"),
    [
        ("metal2", record("started", "running"), "notes on metal2"),
        ("metal2", record("started", "claimed"), "notes on metal2"),
        ("metal2", record("receiving", "starting"), "notes on metal2"),
        ("w1", record("started"), "notes on w1"),
        ("metal1", record("started", id="wiki"), "wiki on metal1"),
        # of another environment, or of a VM of another server
        ("metal2", record("started", cluster="green"), ""),
        ("metal2", record("started", id="wiki"), ""),
    ],
)
def test_a_vm_that_runs_from_its_copy_is_refused(where: str, entry: t.Any, words: str) -> None:
    records = [answer(name, record(), *([entry] if name == where else [])) for name in ("metal2", "w1")]
    standbys = [copied(), *([entry] if where == "metal1" else [])]
    refused = why(found(records=records, standbys={"standbys": standbys}))
    assert bool(refused) == bool(words) and (not words or f"the start of a copy is recorded: {words}. The VM may run there" in refused)


@pytest.mark.parametrize(
    ("one", "wanted", "words"),
    [
        (vm(), Wanted("blue"), ""),
        (vm(fate="protected"), Wanted("blue"), "destroy_environment_keep_protected: notes is protected. Remove protected from its VM details"),
        (vm(fate="protected"), Wanted("blue", keep_protected=True), ""),
        (vm(origin="migration"), Wanted("blue"), "destroy_environment_remove_master: notes was created for the master."),
        (vm(roles=["master"]), Wanted("blue", keep_protected=True), "destroy_environment_remove_master: notes was created for the master."),
        (vm(roles=["master"]), Wanted("blue", remove_master=True), ""),
        (vm(fate="foreign", roles=["master"]), Wanted("blue"), ""),
    ],
)
def test_masters_and_protected_vms_need_an_option(one: t.Any, wanted: Wanted, words: str) -> None:
    refused = why(found(one), wanted)
    assert words in refused and bool(refused) == bool(words)


@pytest.mark.parametrize(("mac", "fate", "refused"), [(OWN.upper(), "removed", True), (OWN, "foreign", False), ("52:54:00:00:00:99", "removed", False)])
def test_the_vm_that_runs_the_playbook_is_refused(mac: str, fate: str, refused: bool) -> None:
    given = found(vm(fate=fate), vms={"vms": [{"name": "notes", "macs": ["52:54:00:00:00:98", mac]}]})
    assert ("notes runs this playbook, which would end with it" in why(given)) == refused


def test_options_of_the_module_are_those_of_the_playbook() -> None:
    error = {"message": "metal1 has instances of the cloud.", "path": "leave_instances", "hint": "Delete them, or set leave_instances: true to leave them."}
    decided = plan(Wanted("blue"), Known("metal1", {"blue"}, [], []), found(removal={"msg": "", "error": error})).as_result()
    name = "destroy_environment_leave_instances"
    assert decided["error"] == {**error, "path": name, "hint": f"Delete them, or set {name}=true to leave them."}
    assert decided["msg"] == f"Nothing was changed: {name}: {error['message']} {decided['error']['hint']}"


def test_all_reasons_are_reported_at_once() -> None:
    refused = why(found(vm(fate="protected")), known=Known("metal1", {"green", "blue"}, [], []))
    assert "the servers are those of several clusters (blue, green). Select the servers of one with --limit." in refused and "notes is protected" in refused
