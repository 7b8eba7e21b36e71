# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The service of the standby, with made-up witnesses."""

from __future__ import annotations

import types

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._standby import (
    io_copies,
    io_grants,
    plan_standby,
    run_grantor,
    run_standby,
    run_standby_info,
    run_start,
    run_takeover,
)
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_lease import WAIT, Seen, Watch
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_standby import Copy

from tests.support.leases import ARMED, PARAMS, UUID, WITNESS


class Machines:
    """The witnesses, as the standby asks them."""

    def __init__(self, **answers):
        self.answers, self.asked = answers, []

    def __call__(self, watch, voter, directory):
        def ask(kind, given, timeout):
            self.asked.append((voter.name, given["do"]))
            answer = self.answers.get(voter.name, True)
            if answer is None:
                raise BackendError("cannot be reached")
            granted = answer is True or given["do"] != "claim"
            return {"granted": granted, "reason": None if granted else answer}

        return types.SimpleNamespace(ask=ask)


@pytest.fixture(name="takeover")
def fixture_takeover(clock, monkeypatch):
    """A standby with a copy that was silent for long enough."""
    copies = io_copies.CopyStore("blue", "m")
    copies.write_record({"state": "receiving"})
    copies.commit(Copy("20261124T100001Z", "m", UUID, "m", "metal1", 1.0, 1.0, False, "full", 1, 1.0, "<domain/>", {}, True, ()), {})
    it = run_takeover.Takeover("blue", "m")
    it.store.write(Watch("m", "blue", "metal2", (WITNESS, WITNESS._replace(name="w2"))))
    it.grants.keep(ARMED._replace(grantors=("metal2", "w1", "w2")))
    with it.grants.locked():
        it.grants.note(Seen(0.0, clock.now - WAIT))
    # it runs
    it.store.report()
    it.started = []

    def start(params, check_mode):
        it.started.append(params["proof"])
        copies.write_record({"state": "started", "phase": "running", "at": 5.0, "from": "metal1", "proof": params["proof"]})
        return {"copy_id": "20261124T100001Z", "lost_seconds": 1.0}

    monkeypatch.setattr(run_start, "start", start)
    return it


def step(takeover):
    return takeover.step(takeover.store.watch())


def test_all_claims_start_it(takeover, monkeypatch):
    machines = Machines()
    monkeypatch.setattr(run_takeover, "Claimant", machines)
    step(takeover)
    assert takeover.started == [{"by": "lease"}] and takeover.grants.grants().claim is not None
    step(takeover)
    assert sorted(machines.asked) == [("w1", "claim"), ("w1", "taken"), ("w2", "claim"), ("w2", "taken")]
    step(takeover)
    assert len(machines.asked) == 4
    (entry,) = run_standby_info.standbys()
    assert (entry["taken_over"], entry["automatic"], entry["automatic_problem"]) == ("1970-01-01T00:00:05Z", True, None)


@pytest.mark.parametrize("answer", [None, "its server was silent for less than 95 s"])
def test_a_claim_that_is_not_given_withdraws_all(takeover, monkeypatch, answer):
    machines = Machines(w2=answer)
    monkeypatch.setattr(run_takeover, "Claimant", machines)
    step(takeover)
    assert not takeover.started and takeover.grants.grants().claim is None
    assert [each for each in machines.asked if each[1] == "withdraw"]
    (entry,) = run_standby_info.standbys()
    assert "w2: " in entry["automatic_problem"]
    # one that does not know it gets it first, before anything is claimed again
    assert takeover.store.progress()["withdrawing"] == ([] if answer else ["w2"])
    # its server is heard again
    with takeover.grants.locked():
        takeover.grants.note(Seen(0.0, io_grants.clock()))
    step(takeover)
    (entry,) = run_standby_info.standbys()
    assert entry["automatic_problem"] is None


@pytest.mark.parametrize("change", [
    {"disarmed": 5}, {"running": False}, {"arm": 0}, {"grantors": ("metal2", "w1", "w3")},
])
def test_nothing_is_claimed_that_was_not_running_under_leases(takeover, monkeypatch, change):
    machines = Machines()
    monkeypatch.setattr(run_takeover, "Claimant", machines)
    takeover.grants.keep(takeover.grants.grants()._replace(**change))
    step(takeover)
    assert not machines.asked and not takeover.started and takeover.grants.grants().claim is None
    (entry,) = run_standby_info.standbys()
    assert entry["automatic_armed"] is False and entry["automatic_problem"]


def test_a_service_that_does_not_run_is_reported(takeover, clock, monkeypatch):
    renewal = {"do": "renew", "arm": 5, "running": True, "grantors": ["metal2", "w1", "w2"]}

    def said():
        (entry,) = run_standby_info.standbys()
        return entry["automatic_armed"], bool(entry["automatic_problem"]), "idle" in run_grantor.answer("lease", "blue", "m", renewal)

    assert said() == (True, False, False)
    takeover.store.forget_report()
    assert said() == (False, True, True)
    monkeypatch.setattr(takeover, "step", lambda watch: takeover.store.directory.joinpath("job.json").unlink() or 0.0)
    watch = takeover.store.watch()
    takeover.run()
    takeover.store.write(watch)
    assert said() == (True, False, False)
    clock.now += 91
    assert said() == (False, True, True)
    # during a start it has no time
    takeover.grants.keep(takeover.grants.grants()._replace(claim=9, claimed_by="metal2"))
    assert said()[:2] == (True, False)
    # a witness starts nothing
    assert run_standby.apply({**PARAMS, "state": "unwatched"}, check_mode=False)["changed"] and "idle" not in run_grantor.answer("lease", "blue", "m", renewal)


def test_a_note_that_cannot_be_written_prevents_no_start(takeover, monkeypatch):
    def report(self):
        raise OSError("no space left")

    steps = []
    monkeypatch.setattr(io_grants.WatchStore, "report", report)
    monkeypatch.setattr(takeover, "step", lambda watch: steps.append(watch) or takeover.store.directory.joinpath("job.json").unlink() or 0.0)
    takeover.run()
    assert len(steps) == 1


def test_nothing_is_claimed_before_the_waiting_time(takeover, clock, monkeypatch):
    monkeypatch.setattr(run_takeover, "Claimant", Machines())
    clock.now -= 1
    step(takeover)
    assert not takeover.started and takeover.grants.grants().claim is None


def test_claims_of_a_killed_instance_are_withdrawn(takeover, monkeypatch):
    machines = Machines()
    monkeypatch.setattr(run_takeover, "Claimant", machines)
    takeover.store.write_progress({"number": 9, "claiming": True})
    takeover.grants.keep(takeover.grants.grants()._replace(claim=9, claimed_by="metal2"))
    step(takeover)
    assert not takeover.started and takeover.grants.grants().claim is None and sorted(machines.asked) == [("w1", "withdraw"), ("w2", "withdraw")]


@pytest.mark.parametrize(("recorded", "kept"), [(False, False), (True, True)])
def test_a_start_that_fails(takeover, monkeypatch, recorded, kept):
    """Before it is recorded the claims are withdrawn; afterwards the VM belongs to the standby."""
    machines = Machines()
    monkeypatch.setattr(run_takeover, "Claimant", machines)

    def start(params, check_mode):
        if recorded:
            takeover.copies.write_record({"state": "started", "phase": "claimed", "at": 5.0, "from": "metal1", "proof": params["proof"]})
        raise BackendError("the copy is damaged.")

    monkeypatch.setattr(run_start, "start", start)
    step(takeover)
    assert (takeover.grants.grants().claim is not None) is kept and takeover.store.progress()["problem"] == "the copy is damaged."
    assert bool([each for each in machines.asked if each[1] == "withdraw"]) is not kept


def test_a_start_by_a_person_meanwhile_withdraws_the_claims(takeover, monkeypatch):
    machines = Machines()
    monkeypatch.setattr(run_takeover, "Claimant", machines)
    takeover.store.write_progress({"number": 9, "claiming": True})
    takeover.copies.write_record({"state": "started", "phase": "running", "proof": {"by": "person"}})
    step(takeover)
    assert not takeover.started and sorted(machines.asked) == [("w1", "withdraw"), ("w2", "withdraw")]


def test_the_claim_of_a_standby_that_is_lost_for_good(takeover):
    takeover.grants.keep(takeover.grants.grants()._replace(claim=9, claimed_by="metal2"))
    given = {**PARAMS, "state": "returned"}
    assert not run_standby.apply(given, check_mode=False)["changed"] and takeover.grants.grants().claim == 9
    assert run_standby.apply({**given, "confirmed": "metal2"}, check_mode=False)["changed"] and takeover.grants.grants().claim is None


def test_only_the_service_has_the_proof(monkeypatch):
    copy = Copy("20261124T100001Z", "m", UUID, "m", "metal1", 1.0, 1.0, False, "full", 1, 1.0, "<domain/>", {}, True, ())
    assert plan_standby.check_start("m", [copy], None, None, None, run_takeover.PROOF) is copy
    from ansible_collections.reduced.footprint.plugins.modules import vm_standby

    assert vm_standby.arguments()["proof"]["options"]["by"]["choices"] == ["bmc"]
