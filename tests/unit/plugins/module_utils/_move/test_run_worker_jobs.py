# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A job of a move is carried out once; the steps only leave a trace here."""

from __future__ import annotations

from unittest import mock

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._move import run_steps, run_worker
from ansible_collections.reduced.footprint.plugins.module_utils._move.io_store import MoveStore
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_journal import CONFIRMED, COPY_PHASES, FAILED, MOVED, RETURNED, RUNNING
from tests.support.move_world import Killed, make_world

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

    monkeypatch.setattr(run_worker, "open_context", open_context)
    monkeypatch.setattr(run_worker, "_withdraw_key", worker.clean_up)
    monkeypatch.setattr(run_worker.io_units, "forget_at_boot", lambda unit: world.done.append("unit removed"))
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
