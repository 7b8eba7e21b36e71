# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a worker does when its steps fail or it is killed; the steps themselves only leave a trace here, tests/move has the real ones."""

from __future__ import annotations

from unittest import mock

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._move import run_steps, run_worker
from ansible_collections.reduced.footprint.plugins.module_utils._move.io_store import MoveStore
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_journal import COPY_PHASES, LIVE_PHASES, MOVED
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_move import parse_spec
from ansible_collections.reduced.footprint.plugins.module_utils._move.run_context import Context


class Killed(BaseException):
    """What kill -9 looks like from inside: nothing after it runs."""


@pytest.fixture(name="world")
def fixture_world(tmp_path, monkeypatch):
    class World:
        method = "copy"
        stands = "off"
        there = "gone"
        unreachable = mock.Mock()
        fail: dict = {}

        def __init__(self):
            self.done, self.fail = [], {}

        def context(self):
            spec = parse_spec({"id": "c1", "cluster": "lab", "destination": {"host": "192.0.2.13"}})
            store = MoveStore("c1", tmp_path)
            return Context(spec, {}, store, store.journal(), self)

        def ask(self, command, given=None, timeout=0):
            assert command == "state"
            self.unreachable()
            return {"state": self.there}

        def run(self):
            context = self.context()
            try:
                run_worker.carry_out(context, MOVED)
            finally:
                context.store.write(context.journal)
            return context.journal

    world = World()

    def step(name):
        def work(context):
            world.done.append(name)
            if name == "preflight":
                context.journal.method = world.method
                context.journal.facts.update(vm={"uuid": "u", "uri": "qemu:///system", "items": [], "name": "c1"}, running=True)
            if name in ("stop", "migrate"):
                context.journal.facts["held"] = {"running": True, "autostart": True}
            if name == "switch":
                context.journal.switched = True
            if name in world.fail:
                raise world.fail.pop(name)

        return work

    monkeypatch.setattr(run_worker, "_STEPS", {name: step(name) for name in run_worker._STEPS})
    monkeypatch.setattr(run_worker.io_live, "domain_state", lambda uri, uuid: world.stands)
    monkeypatch.setattr(run_steps, "clear_there", lambda context, everything=False: world.done.append("clear there"))
    monkeypatch.setattr(run_steps, "roll_back", lambda context, reason: world.done.append(f"rolled back: {reason}"))
    monkeypatch.setattr(run_steps, "arrived", lambda context, there: world.done.append(f"arrived {there}"))
    monkeypatch.setattr(Context, "unfence", lambda self, running: world.done.append(f"runs here: {running}"))
    return world


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
    assert world.done[first : first + 3] == ["clear there", "runs here: True", "preflight"]


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
    context.params = {"destination_lost": True}
    asked.clear()
    run_worker._withdraw_key(context)
    assert asked == []
