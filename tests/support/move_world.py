# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A worker of a move whose steps only leave a trace."""

from __future__ import annotations

import contextlib
import pathlib
import typing as t
from unittest import mock

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import CommandError
from ansible_collections.reduced.footprint.plugins.module_utils._move import run_context, run_steps, run_worker
from ansible_collections.reduced.footprint.plugins.module_utils._move.io_store import MoveStore
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_journal import MOVED
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_move import parse_spec
from ansible_collections.reduced.footprint.plugins.module_utils._move.run_context import Context
from tests.support.records import use_folder


VM = {"uuid": "u", "uri": "qemu:///system", "items": [], "name": "c1", "autostart": True, "host": {"name": "metal1"}}


class Killed(BaseException):
    """What kill -9 looks like from inside: nothing after it runs."""


def make_world(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> t.Any:
    """Return the world of one worker; ``fail`` are the errors of its steps, ``done`` is what it did."""

    class World:
        method = "copy"
        stands = "off"
        there = "gone"
        unreachable = mock.Mock()
        silence: list = []
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
                context.journal.facts.update(vm=VM, running=True)
                context.change("begun", token="1", to=context.spec.destination.name, live=world.method == "live")
            if name in ("stop", "migrate"):
                context.journal.facts["held"] = {"running": True, "autostart": True}
            if name == "stop":
                context.change("stopped", running=False)
            if name == "place":
                record = context.record
                there = record._replace(role="incoming", operation=record.operation._replace(step="arrived"))
                context.journal.facts["there"] = there.values()
            if name == "switch":
                context.journal.switched = True
            if name == "start" and name not in world.fail:
                context.journal.downtime["seconds"] = 3.0
            if name in world.fail:
                error = world.fail.pop(name)
                if isinstance(error, CommandError):
                    # the request of this step
                    world.unreachable = mock.Mock(side_effect=[error, *world.silence, None])
                    context.ask("state")
                raise error

        return work

    monkeypatch.setattr(run_worker, "_STEPS", {name: step(name) for name in run_worker._STEPS})
    monkeypatch.setattr(run_worker.io_live, "domain_state", lambda uri, uuid: world.stands)
    monkeypatch.setattr(run_steps, "clear_there", lambda context: world.done.append("clear there"))
    monkeypatch.setattr(run_steps, "roll_back", lambda context, reason: world.done.append(f"rolled back: {reason}"))
    monkeypatch.setattr(run_steps, "arrived", lambda context, there: world.done.append(f"arrived {there}"))
    monkeypatch.setattr(Context, "release", lambda self, running: world.done.append(f"runs here: {running}"))
    use_folder(tmp_path, monkeypatch)
    monkeypatch.setattr(run_context, "host_lock", lambda *unused: contextlib.nullcontext())
    return world
