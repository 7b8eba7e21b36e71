# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a worker does when its steps fail or it is killed; the steps themselves only leave a trace here, tests/move has the real ones."""

from __future__ import annotations

from unittest import mock

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._move import run_context, run_steps, run_worker
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_journal import COPY_PHASES, LIVE_PHASES, MOVED
from ansible_collections.reduced.footprint.plugins.module_utils._move.run_context import Context
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import io_owner
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.model_owner import ASK, Record
from tests.support.move_world import Killed, make_world
from tests.support.records import TAKEN, away


VM = {"uuid": "u", "name": "c1", "host": {"name": "metal1"}}


@pytest.fixture(name="world")
def fixture_world(tmp_path, monkeypatch):
    return make_world(tmp_path, monkeypatch)


@pytest.fixture(name="answers")
def fixture_answers(world, monkeypatch):
    """The VM has a standby, and this host was restarted; what happens in each pause of the worker."""
    answers = []
    monkeypatch.setattr(run_context.time, "sleep", lambda seconds: answers.pop(0)())

    def taken():
        # what the guard does when the standby answers that it has started the VM
        io_owner.revoke("u")
        io_owner.write(away(TAKEN, "metal2")._replace(start=ASK))

    world.taken, world.wait = taken, lambda: world.done.append("waits")
    io_owner.guard(Record("lab", "c1", "u", "c1"), permitted=False)
    return answers


@pytest.mark.parametrize("method, phase", [("copy", "precopy"), ("copy", "verify"), ("copy", "start"), ("live", "migrate")])
def test_after_a_power_loss_it_continues_once_the_standby_confirmed_that_the_vm_is_not_there(world, answers, method, phase):
    world.method, world.fail[phase] = method, Killed()
    world.stands = "running" if method == "live" else "off"
    io_owner.permit("u")
    with pytest.raises(Killed):
        world.run()
    io_owner.revoke("u")
    world.done.clear()
    # permitted, but not started yet
    answers += [world.wait, lambda: io_owner.permit("u", due=True), world.wait, lambda: io_owner.permit("u")]
    assert world.run().state == MOVED
    assert world.done[:2] == ["waits", "waits"] and "waits" not in world.done[2:] and not answers


@pytest.mark.parametrize("method, phase", [("copy", "precopy"), ("copy", "verify"), ("live", "migrate")])
def test_after_a_power_loss_a_vm_that_was_started_on_its_standby_is_left_there(world, answers, method, phase):
    world.method, world.fail[phase] = method, Killed()
    with pytest.raises(Killed):
        world.run()
    world.done.clear()
    answers += [world.wait, world.taken]
    journal = world.run()
    assert world.done == ["waits", "rolled back: the VM was started on its standby metal2 from a copy, so it is not moved from here."]
    # so nothing is started here by a later call
    assert journal.facts["held"] is None


def test_after_a_power_loss_a_copy_that_may_run_at_the_destination_is_not_removed(world, answers):
    world.fail["start"] = Killed()
    with pytest.raises(Killed):
        world.run()
    world.done.clear()
    answers += [world.taken]
    with pytest.raises(RefusedError, match="was started on its standby metal2"):
        world.run()
    assert world.done == []


@pytest.mark.parametrize("method, phase", [("copy", "settle"), ("live", "start")])
def test_a_vm_that_runs_at_the_destination_needs_no_answer(world, answers, method, phase):
    world.method, world.fail[phase] = method, Killed()
    with pytest.raises(Killed):
        world.run()
    assert world.run().state == MOVED and not answers


@pytest.mark.parametrize("method, phases", [("copy", COPY_PHASES), ("live", LIVE_PHASES)])
def test_all_phases_in_their_order(world, method, phases):
    world.method = method
    assert world.run().state == MOVED
    assert world.done == list(phases)


@pytest.mark.parametrize("phase", COPY_PHASES[: COPY_PHASES.index("switch")])
def test_error_before_the_switch_is_rolled_back(world, phase):
    world.fail[phase] = BackendError("no space.")
    world.run()
    assert world.done[-1] == f"rolled back: {phase}: no space."


def test_unexpected_error_before_the_switch_is_rolled_back(world):
    world.fail["copy"] = KeyError("x")
    world.run()
    assert world.done[-1].startswith("rolled back: copy:")


def test_an_error_after_the_switch_leaves_it_there(world):
    world.fail["start"] = BackendError("the destination is gone.")
    with pytest.raises(BackendError):
        world.run()
    assert world.run().state == MOVED
    assert world.done[-3:] == ["start", "start", "settle"]


@pytest.mark.parametrize("phase", ["copy", "verify", "place"])
def test_killed_worker_is_resumed_while_the_vm_is_off(world, phase):
    world.fail[phase] = Killed()
    with pytest.raises(Killed):
        world.run()
    assert world.run().state == MOVED
    assert world.done[-len(COPY_PHASES[COPY_PHASES.index(phase) :]) :] == list(COPY_PHASES[COPY_PHASES.index(phase) :])


def test_killed_after_a_whole_migration_it_is_let_run_there(world):
    world.method, world.stands, world.there = "live", "left", "paused"
    world.fail["migrate"] = Killed()
    with pytest.raises(Killed):
        world.run()
    assert world.run().state == MOVED
    assert world.done[-4:] == ["arrived paused", "switch", "start", "settle"]


@pytest.mark.parametrize("stands, there", [("running", "gone"), ("halted", "paused"), ("off", "paused"), ("left", BackendError("no answer."))])
def test_killed_in_an_unfinished_migration_it_is_the_one_here(world, stands, there):
    world.method, world.stands = "live", stands
    if isinstance(there, Exception):
        world.unreachable = mock.Mock(side_effect=there)
    else:
        world.there = there
    world.fail["migrate"] = Killed()
    with pytest.raises(Killed):
        world.run()
    assert world.run().state == MOVED
    first = world.done.index("clear there")
    assert world.done[first - 1 : first + 2] == ["runs here: True", "clear there", "preflight"]


@pytest.mark.parametrize("away", [0, 1, 99])
def test_the_key_ends_with_the_worker_whatever_the_destination_says(world, tmp_path, monkeypatch, away):
    monkeypatch.setattr(run_worker.run_jobs, "_PAUSE", 0.0)
    asked = []

    def ask(command, given=None, timeout=0):
        asked.append((command, given))
        if len(asked) <= away:
            raise BackendError("no answer.")

    context = world.context()
    context.store.directory.mkdir(exist_ok=True, parents=True)
    context.remote = mock.Mock(ask=ask)
    context.remote.name = "move-c1"
    for name in ("id_ed25519", "id_ed25519.pub", "known_hosts"):
        (context.store.directory / name).touch()
    run_worker._withdraw_key(context)
    assert asked[-1] == ("forget_key", {"marker": "reduced.footprint-migrate-move-c1"}) and len(asked) == min(away + 1, 3)
    assert not list(context.store.directory.glob("id_*")) and not list(context.store.directory.glob("known_*"))
    context.params = {"destination_lost": "192.0.2.13"}
    asked.clear()
    run_worker._withdraw_key(context)
    assert asked == []


@pytest.mark.parametrize("waited", [True, False])
def test_the_state_of_a_vm_is_read_after_its_guard_has_started_it(world, monkeypatch, waited):
    found = [{**VM, "active": False}, {**VM, "active": True}]
    monkeypatch.setattr(run_steps.io_look, "find", lambda *given: ("qemu:///system", mock.Mock(uuid="u")))
    monkeypatch.setattr(run_steps.io_look, "describe", lambda uri, uuid: found.pop(0))
    monkeypatch.setattr(Context, "await_permit", lambda self: waited)
    monkeypatch.setattr(Context, "ask", lambda self, command, **given: {"domain": None})
    monkeypatch.setattr(run_steps.plan_move, "arriving", lambda there: False)
    monkeypatch.setattr(run_steps.plan_move, "find_problems", lambda *given: [])
    monkeypatch.setattr(run_steps.plan_move, "live_blockers", lambda *given: [])
    context = world.context()
    run_steps.preflight(context)
    assert context.journal.facts["running"] is waited


def test_nothing_is_asked_without_the_private_key(world):
    context = world.context()
    context.remote = mock.Mock()
    context.remote.name = "move-c1"
    run_worker._withdraw_key(context)
    context.remote.ask.assert_not_called()
