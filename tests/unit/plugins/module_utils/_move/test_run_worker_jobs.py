# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A job of a move is carried out once, and waits for the destination while the VM is off; the steps only leave a trace here."""

from __future__ import annotations

from unittest import mock

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError
from ansible_collections.reduced.footprint.plugins.module_utils._move import run_back, run_steps, run_worker
from ansible_collections.reduced.footprint.plugins.module_utils._move.io_store import MoveStore
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_journal import CONFIRMED, COPY_PHASES, FAILED, MOVED, RETURNED, RUNNING, waiting
from tests.support.move_world import Killed, make_world

LOST = CommandError(["ssh"], 255, "No route to host", what="The destination cannot be reached at 192.0.2.13")
LATE = CommandError(["ssh"], None, "timed out", what="The destination did not answer in time at 192.0.2.13")
# what a worker does at its end
CLEANED = ["key withdrawn", "unit removed"]


@pytest.fixture(name="world")
def fixture_world(tmp_path, monkeypatch):
    return make_world(tmp_path, monkeypatch)


@pytest.fixture(name="worker")
def fixture_worker(world, tmp_path, monkeypatch):
    """The whole worker, as systemd starts it for a job."""

    class Worker:
        store = MoveStore("c1", tmp_path)
        ends: list = []
        pauses: list = []

        def request(self, action, **params):
            self.store.write_job({"action": action, "params": params})
            return self.start()

        def start(self):
            return run_worker.main(["c1"], tmp_path)

        def clean_up(self, context):
            world.done.append("key withdrawn")
            if self.ends:
                raise self.ends.pop()

    worker = Worker()

    def open_context(store, params):
        context = world.context()
        context.params = params
        return context

    def pause(seconds):
        worker.pauses.append(worker.store.journal())

    monkeypatch.setattr(run_worker, "open_context", open_context)
    monkeypatch.setattr(run_worker, "_withdraw_key", worker.clean_up)
    monkeypatch.setattr(run_worker.io_units, "forget_at_boot", lambda unit: world.done.append("unit removed"))
    monkeypatch.setattr(run_worker.time, "sleep", pause)
    for action in (CONFIRMED, RETURNED):
        phase = run_worker._LATER[action][0]
        monkeypatch.setitem(run_worker._LATER, action, (phase, lambda context, action=action: later(context, action)))

    def later(context, action):
        world.done.append(f"to {action}")
        context.journal.going = action
        context.journal.facts["held"] = None

    return worker


def test_a_move_that_has_succeeded_is_not_carried_out_again(world, worker):
    worker.ends = [Killed()]
    with pytest.raises(Killed):
        worker.request(MOVED, new_move=True, token="1")
    world.done.clear()
    assert worker.start() == 0
    journal = worker.store.journal()
    assert (journal.state, journal.switched, journal.facts["held"]["running"]) == (MOVED, True, True)
    assert world.done == CLEANED


@pytest.mark.parametrize("action", [CONFIRMED, RETURNED])
def test_its_end_is_not_carried_out_again(world, worker, action):
    worker.request(MOVED, new_move=True, token="1")
    worker.ends = [Killed()]
    with pytest.raises(Killed):
        worker.request(action, token="2")
    world.done.clear()
    assert worker.start() == 0
    assert worker.store.journal().state == action and world.done == CLEANED


@pytest.mark.parametrize("action", [CONFIRMED, RETURNED])
def test_nor_if_it_was_killed_before_it_wrote_the_result(world, worker, monkeypatch, action):
    # a VM that was off must not be started: what is known of it has been removed
    worker.request(MOVED, new_move=True, token="1")
    write = MoveStore.write

    def killed(store, journal):
        if journal.state == action:
            raise Killed
        write(store, journal)

    with monkeypatch.context() as patch:
        patch.setattr(MoveStore, "write", killed)
        with pytest.raises(Killed):
            worker.request(action, token="2")
    assert worker.store.journal().state == RUNNING
    world.done.clear()
    assert worker.start() == 0
    assert worker.store.journal().state == action and world.done == CLEANED


def test_a_move_that_has_failed_is_not_carried_out_again(world, worker, monkeypatch):
    def roll_back(context, reason):
        context.journal.state, context.journal.reason = FAILED, reason

    monkeypatch.setattr(run_steps, "roll_back", roll_back)
    world.fail["copy"], worker.ends = BackendError("no space."), [Killed()]
    with pytest.raises(Killed):
        worker.request(MOVED, new_move=True, token="1")
    world.done.clear()
    assert worker.start() == 1
    assert worker.store.journal().reason == "copy: no space." and world.done == CLEANED


def test_a_killed_new_move_continues(world, worker):
    worker.request(MOVED, new_move=True, token="1")
    worker.request(RETURNED, token="2")
    world.fail["verify"] = Killed()
    with pytest.raises(Killed):
        worker.request(MOVED, new_move=True, token="3")
    world.done.clear()
    assert worker.start() == 0 and world.done[0] == "verify"


@pytest.mark.parametrize("token", [{"token": "2"}, {}])
def test_the_next_move_of_a_vm_that_has_come_back_is_carried_out(world, worker, token):
    # without a token, the job is that of an earlier version
    worker.request(MOVED, new_move=True, **({"token": "1"} if token else {}))
    world.done.clear()
    assert worker.request(MOVED, new_move=True, **token) == 0
    assert world.done == [*COPY_PHASES, *CLEANED]


def test_a_job_that_has_begun_is_running(world, worker, monkeypatch):
    world.fail["settle"] = BackendError("no space.")
    assert worker.request(MOVED, new_move=True, token="1") == 1
    seen = []
    monkeypatch.setattr(run_worker, "_may_continue", lambda context: seen.append(worker.store.journal()) or True)
    assert worker.request(MOVED, token="2") == 0
    # not as the one before has ended: it may wait for a standby now
    assert [(each.state, each.ended, each.reason) for each in seen] == [(RUNNING, None, None)]


@pytest.mark.parametrize("error", [LOST, LATE])
def test_a_vm_that_is_off_on_both_hosts_waits_for_the_destination(world, worker, error):
    world.fail["start"], world.silence = error, [LOST, LOST]
    assert worker.request(MOVED, new_move=True, token="1") == 0
    # which keeps its key and its unit meanwhile
    assert world.done == [*COPY_PHASES[:-1], "start", "settle", *CLEANED]
    assert len(worker.pauses) == 3
    for journal in worker.pauses:
        assert journal.progress == {"phase": "start", "waiting_for": "192.0.2.13"} and journal.ended is None
        assert "No route to host" in waiting(journal) or error is LATE and "timed out" in waiting(journal)
        assert "The worker continues as soon as 192.0.2.13 answers" in waiting(journal) and "destination_lost: 192.0.2.13" in waiting(journal)
    journal = worker.store.journal()
    assert (journal.state, journal.reason, waiting(journal)) == (MOVED, None, None)


def test_it_waits_again_after_a_restart_of_this_host(world, worker, monkeypatch):
    world.fail["start"] = LOST
    with monkeypatch.context() as patch:
        patch.setattr(run_worker.time, "sleep", mock.Mock(side_effect=Killed()))
        with pytest.raises(Killed):
            worker.request(MOVED, new_move=True, token="1")
    assert waiting(worker.store.journal()) and not set(CLEANED) & set(world.done)
    world.done.clear()
    world.fail["start"] = LOST
    assert worker.start() == 0
    assert world.done == ["start", "start", "settle", *CLEANED] and len(worker.pauses) == 1


def test_an_error_at_the_destination_ends_the_wait(world, worker):
    world.fail["start"], world.silence = LOST, [BackendError("On the destination: libvirt does not run.")]
    assert worker.request(MOVED, new_move=True, token="1") == 0 and len(worker.pauses) == 1


@pytest.mark.parametrize("phase, error", [("start", BackendError("it does not start.")), ("settle", LOST), ("start", CommandError(["ssh"], 127, "x"))])
def test_nothing_waits_while_the_vm_runs_or_the_destination_answers(world, worker, phase, error):
    world.fail[phase] = error
    assert worker.request(MOVED, new_move=True, token="1") == 1
    journal = worker.store.journal()
    assert (journal.state, worker.pauses, world.done[-2:]) == (FAILED, [], CLEANED) and journal.ended and waiting(journal) is None


def test_a_confirmation_does_not_wait(world, worker, monkeypatch):
    worker.request(MOVED, new_move=True, token="1")
    world.unreachable = mock.Mock(side_effect=LOST)
    monkeypatch.setitem(run_worker._LATER, CONFIRMED, ("confirm", run_back.confirm))
    journal = worker.store.journal()
    journal.verified = True
    worker.store.write(journal)
    assert worker.request(CONFIRMED, token="2") == 1
    assert worker.store.journal().state == FAILED and not worker.pauses
