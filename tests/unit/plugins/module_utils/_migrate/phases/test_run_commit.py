# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The hand-over: answers are lost, the VM is off, the disk is full."""

from __future__ import annotations

import errno
import types

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases import run_commit, run_cutover
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.run_context import Context, vm_details
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.model_migration import parse_spec
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.model_handover import ASKED, FINAL, source_after
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_journal import JournalStore
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import HANDED_OVER, HANDING_OVER, PARKED, SERVING, Journal


class FakeSource:
    """A source with the real states; ``lost`` answers and questions are taken from in their order."""

    def __init__(self, trace):
        self.state = PARKED
        self.trace = trace
        self.lost = []

    def ask(self, command, given=None, timeout=0):
        self.trace.append(command)
        how = self.lost.pop(0) if self.lost else ""
        if how != "question":
            self.state = source_after(self.state, command)
        if how:
            raise BackendError("no route to host")
        return {"state": {"state": self.state}}


class FakeLease:
    armed = True
    heard = 1.0
    lost = None

    def __init__(self, trace):
        self.trace = trace

    def arm(self):
        self.trace.append("arm")
        self.armed = True

    def take_over(self):
        self.trace.append("take over")

    def in_time(self):
        return self.lost is None

    def check(self):
        if self.lost:
            raise BackendError(self.lost)

    def end(self):
        self.lost = None
        self.trace.append("end")


class Host:
    """libvirt with one VM."""

    def __init__(self, world):
        self.world = world

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        pass

    def domain(self, uuid):
        return types.SimpleNamespace(active=self.world.runs)

    def set_autostart(self, uuid, wanted):
        self.world.trace.append(f"autostart {wanted}")

    def start(self, uuid):
        if self.world.refuses:
            self.world.refuses -= 1
            raise BackendError("libvirtd is gone")
        self.world.trace.append("start")
        self.world.runs = True


@pytest.fixture(name="world")
def fixture_world(tmp_path, monkeypatch):
    """A VM that has just answered everything."""
    spec = parse_spec(
        {
            "vm": {"id": "master", "nics": [{"bridge": "b"}], "disks": [{"size": 6}]},
            "admin": {"address": "192.0.2.2", "temporary_address": "192.0.2.3"},
        }
    )
    store = JournalStore("master", tmp_path / "migrations")
    journal = Journal("master", state="running", phase="commit", started=1.0)
    journal.downtime = {"started": 1.0, "parts": {"checks": 1.0}}
    journal.facts = {"source": {"off": True}, "vm": {"disk": "/d"}}
    trace = []
    context = Context(spec, vm_details(spec), store, journal, tmp_path, FakeSource(trace))
    context.trace, context.runs, context.refuses = trace, True, 0
    context.lease = FakeLease(trace)

    def domains(self):
        return Host(self)

    monkeypatch.setattr(Context, "domains", domains)
    monkeypatch.setattr(Context, "clone_running", lambda self: self.runs)
    monkeypatch.setattr(run_commit, "_POLL", 0.0)
    monkeypatch.setattr(run_cutover, "let_clients_in", lambda each: trace.append("clients"))
    monkeypatch.setattr(run_cutover, "await_answers", lambda *unused: trace.append("checks"))
    monkeypatch.setattr(run_cutover, "guard_vm", lambda *unused: trace.append("guard"))
    monkeypatch.setattr(run_commit.run_health, "withdraw_key", lambda each: trace.append("key"))
    return context


def commit(world):
    run_commit.commit(world, world.lease)


END = ["end", "autostart True", "clients", "checks", "key"]


def test_clients_are_admitted_after_both_hand_over_requests(world):
    commit(world)
    assert world.trace == ["hand_over", "confirm", *END]
    kept = world.store.read()
    assert kept.facts["handed_over"] and kept.facts["handing_over"] == FINAL and kept.downtime["seconds"] > 0


@pytest.mark.parametrize(
    ("lost", "asked"),
    [
        (["answer"], ["hand_over", "hand_over", "confirm"]),
        (["question"], ["hand_over", "hand_over", "confirm"]),
        (["", "answer"], ["hand_over", "confirm", "state"]),
        (["", "question"], ["hand_over", "confirm", "state", "confirm"]),
        (["", "answer", "answer", "question"], ["hand_over", "confirm", "state", "state", "state"]),
    ],
)
def test_an_answer_that_is_lost_is_asked_for_again(world, lost, asked):
    world.source.lost = lost
    commit(world)
    assert world.trace == [*asked, *END] and world.source.state == HANDED_OVER


def test_request_is_written_to_the_journal_before_it_is_sent(world):
    known = []
    ask = world.source.ask
    world.source.ask = lambda *given, **more: (known.append(world.store.read().facts["handing_over"]), ask(*given, **more))[1]
    commit(world)
    assert known == [ASKED, FINAL]


def test_confirmation_is_not_sent_without_a_journal_entry(world, monkeypatch):
    def full(self, journal):
        if journal.facts["handing_over"] == FINAL:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(JournalStore, "write", full)
    with pytest.raises(OSError):
        commit(world)
    assert world.trace == ["hand_over"] and world.journal.facts["handing_over"] == ASKED


def test_once_the_source_let_go_nothing_waits_for_the_journal(world, monkeypatch):
    def full(self, journal):
        if world.source.state == HANDED_OVER:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(JournalStore, "write", full)
    commit(world)
    assert world.trace == ["hand_over", "confirm", *END]


def test_vm_stopped_while_the_source_did_not_answer_is_started_again(world):
    world.source.lost = ["", "answer", "question"]
    ask = world.source.ask

    def then_it_stops(command, *given, **more):
        if command == "state":
            world.runs, world.lease.lost = False, "the source did not answer for 24 s"
        return ask(command, *given, **more)

    world.source.ask = then_it_stops
    commit(world)
    assert world.trace == ["hand_over", "confirm", "state", "state", "end", "autostart True", "start", "clients", "checks", "key"]


@pytest.mark.parametrize("known", [True, False])
def test_after_a_power_loss_of_the_host_the_vm_is_started_and_asked_before_it_is_done(world, known):
    # another worker's cutover, and the source let go
    world.lease.armed, world.runs, world.source.state = False, False, HANDED_OVER
    world.journal.facts.update(handing_over=FINAL, **({"handed_over": True} if known else {}))
    commit(world)
    first = [] if known else ["take over", "state"]
    assert world.trace == [*first, "end", "autostart True", "start", "clients", "checks", "key"]


def test_the_pause_of_a_vm_that_had_to_be_started_ends_when_it_answers(world, monkeypatch):
    world.runs, world.journal.facts["handed_over"] = False, True
    monkeypatch.setattr(run_cutover, "await_answers", lambda *unused: world.trace.append(world.journal.downtime.get("ended")))
    commit(world)
    assert None in world.trace and world.journal.downtime["ended"]


def test_a_libvirtd_that_comes_back_is_waited_for(world):
    world.runs, world.refuses, world.journal.facts["handed_over"] = False, 2, True
    commit(world)
    assert world.trace.count("start") == 1 and world.runs


@pytest.mark.parametrize(
    ("state", "said", "runs", "lost"),
    [(SERVING, None, True, None), (SERVING, FINAL, True, None), (HANDING_OVER, FINAL, False, None), (PARKED, None, False, None)]
    + [(PARKED, None, True, "not heard")],
)
def test_a_source_that_did_not_let_go_gets_everything_back(world, state, said, runs, lost):
    world.lease.armed, world.source.state, world.runs, world.lease.lost = False, state, runs, lost
    world.journal.facts["handing_over"] = said
    with pytest.raises(BackendError):
        commit(world)
    assert "clients" not in world.trace and "confirm" not in world.trace and "autostart True" not in world.trace


def test_another_workers_vm_is_guarded_before_it_is_given_anything(world):
    world.lease.armed = False
    commit(world)
    assert world.trace == ["arm", "guard", "state", "hand_over", "confirm", *END]
