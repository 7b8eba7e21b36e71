# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The file system of the journals is full while a move decides which copy is the VM; the file system is real, the hosts only leave a trace."""

from __future__ import annotations

import contextlib
import os
import subprocess

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._move import run_back, run_steps, run_worker
from ansible_collections.reduced.footprint.plugins.module_utils._move.io_store import MoveStore
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_journal import COPY_PHASES, MOVED, RETURNED, MoveJournal
from ansible_collections.reduced.footprint.plugins.module_utils._move.run_context import Context
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import io_owner
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.model_owner import Operation, Record
from tests.support.move_world import make_world
from tests.support.records import away

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
HERE = ["rolled back", "runs here: True"]


def record(asked, given):
    """The record of the destination, which has the VM until it hands it back."""
    owner = Record("lab", "c1", "u", "c1", 1, to="192.0.2.13")
    operation = Operation("move", (given["record"]["operation"] or {}).get("token", ""), "metal1")
    return (owner._replace(role="former", to="metal1", operation=operation) if "hand_back" in asked else owner).values()


class Disk:
    """A file system of 8 MiB."""

    def __init__(self, folder):
        self.folder = folder

    def fill(self):
        """Use all free space, which is not the reserve."""
        with contextlib.suppress(OSError), open(self.folder / "others", "ab", buffering=0) as stream:
            while True:
                stream.write(bytes(4096))

    def fill_completely(self):
        """Use the reserve as well."""
        (self.folder / "c1" / "reserve").unlink(missing_ok=True)
        self.fill()

    def free(self):
        """Free all of it."""
        (self.folder / "others").unlink()


@pytest.fixture(name="disk")
def fixture_disk(tmp_path):
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8M", "none", str(tmp_path)], check=True)
    yield Disk(tmp_path)
    subprocess.run(["umount", str(tmp_path)], check=True)


@pytest.fixture(name="world")
def fixture_world(disk, tmp_path, monkeypatch):
    """A worker whose switch and decisions are real."""
    world = make_world(tmp_path, monkeypatch)
    world.events = {}
    traced = dict(run_worker._STEPS)

    def step(name):
        def work(context):
            # before its own work
            world.events.pop(name, lambda: None)()
            if name in ("preflight", "stop"):
                context.store.reserve()
            if name == "start" and world.there == "broken":
                run_back.start(context)
            elif name == "switch":
                run_steps.switch(context)
            else:
                traced[name](context)

        return work

    def roll_back(context, reason):
        world.done.append("rolled back")
        context.release(True)
        context.journal.facts["held"] = None
        context.journal.state, context.journal.reason = "failed", reason
        context.save()

    def open_context(store, params):
        context = world.context()
        context.params = params
        return context

    monkeypatch.setattr(run_worker, "_STEPS", {name: step(name) for name in traced})
    monkeypatch.setattr(run_steps, "roll_back", roll_back)
    monkeypatch.setattr(run_back, "roll_back", roll_back)
    monkeypatch.setattr(Context, "keep_off", lambda self: world.done.append("kept off"))
    monkeypatch.setattr(run_worker, "open_context", open_context)
    monkeypatch.setattr(run_worker, "_withdraw_key", lambda context: world.done.append("key withdrawn"))
    monkeypatch.setattr(run_worker.io_units, "forget_at_boot", lambda unit: world.done.append("unit removed"))
    world.store = MoveStore("c1", tmp_path)
    world.store.write_job({"action": MOVED, "params": {"token": "1"}})
    world.pauses = []
    monkeypatch.setattr(run_worker.time, "sleep", lambda seconds: world.pauses.append(seconds) or disk.free())
    return world


def run(tmp_path):
    return run_worker.main(["c1"], tmp_path)


def test_the_reserve_is_enough_for_the_rest_of_a_move(world, disk, tmp_path):
    world.events["switch"] = disk.fill
    assert run(tmp_path) == 0
    journal = world.store.journal()
    assert (journal.state, journal.switched) == (MOVED, True) and "rolled back" not in world.done
    # nothing keeps the space of a move that has ended
    assert not (tmp_path / "c1" / "reserve").exists()


def test_without_space_for_the_reserve_nothing_begins(world, disk, tmp_path):
    disk.fill()
    os.truncate(tmp_path / "others", os.stat(tmp_path / "others").st_size - (1 << 20))
    assert run(tmp_path) == 1
    journal = world.store.journal()
    assert "No space for the journal" in journal.reason and "stop" not in world.done


@pytest.mark.parametrize("phase", COPY_PHASES[COPY_PHASES.index("stop") : COPY_PHASES.index("start")])
def test_what_is_not_on_the_disk_is_not_switched(world, disk, tmp_path, phase):
    world.events[phase] = disk.fill_completely
    assert run(tmp_path) == 1
    # the VM runs here, and the disk has no other opinion
    assert world.done[-2:] == HERE and not world.store.journal().switched
    assert "key withdrawn" not in world.done and "start" not in world.done
    disk.free()
    world.stands = "running"
    world.done.clear()
    assert run(tmp_path) == 0 and world.store.journal().switched and "rolled back" not in world.done


def test_a_vm_that_does_not_start_at_the_destination_waits_for_space(world, disk, tmp_path):
    """Neither copy may be started before the disk has it."""
    world.there = "broken"
    there = []

    def ask(command, given=None, timeout=0):
        there.append(command)
        return {"error": "no emulator.", "ran": False, "state": "off", "record": record(there, given)}

    world.ask = ask
    world.events["start"] = disk.fill_completely
    assert run(tmp_path) == 1 and world.pauses
    journal = world.store.journal()
    assert world.done[-4:-2] == HERE and (journal.state, journal.switched) == ("failed", False)


def test_the_journal_says_why_a_worker_waits(world, tmp_path, monkeypatch):
    def broken():
        raise OSError(5, "Input/output error")

    world.events["start"] = broken
    reasons = []
    monkeypatch.setattr(run_worker.time, "sleep", lambda seconds: reasons.append(world.store.journal().reason))
    assert run(tmp_path) == 0 and len(reasons) == 1 and "waiting to try again: [Errno 5] Input/output error" in reasons[0]
    assert world.store.journal().reason is None


def test_a_paused_guest_is_resumed_where_the_disk_says(world, disk, tmp_path, monkeypatch):
    waits = []
    monkeypatch.setattr(run_steps.time, "sleep", waits.append)
    context = world.context()
    context.journal.facts["vm"], context.journal.method = {"uuid": "u", "name": "c1", "host": {"name": "metal1"}}, "live"
    context.change("begun", token="1", to=context.spec.destination.name, live=True)
    context.save()
    disk.fill_completely()
    monkeypatch.setattr(run_steps.time, "monotonic", lambda: float(len(waits)))
    with pytest.raises(OSError):
        run_steps._decide_paused(context)
    assert len(waits) > 5 and not context.journal.switched and not world.store.journal().switched
    monkeypatch.setattr(run_steps.time, "sleep", lambda seconds: disk.free())
    run_steps._decide_paused(context)
    assert world.store.journal().switched and context.record.role == "former"


def to_be_returned(world):
    """A VM that was moved, and the job of its return."""
    facts = {"vm": {"uuid": "u", "uri": "qemu:///system", "items": [], "name": "c1", "autostart": True, "host": {"name": "metal1"}}, "held": {"running": True}}
    world.store.write(MoveJournal(name="c1", state=MOVED, started=1.0, switched=True, verified=True, downtime={"seconds": 2.0}, facts=facts))
    world.store.write_job({"action": RETURNED, "params": {"token": "2"}})
    io_owner.write(away(MOVED, "192.0.2.13")._replace(epoch=0))


def test_without_space_for_the_reserve_no_return_begins(world, disk, tmp_path):
    """The destination would keep the note that the VM is leaving it."""
    to_be_returned(world)
    disk.fill()
    os.truncate(tmp_path / "others", os.stat(tmp_path / "others").st_size - (1 << 20))
    there = []
    world.ask = lambda command, given=None, timeout=0: there.append(command) or {"written": None, "state": "running"}
    assert run(tmp_path) == 1
    assert "No space for the journal" in world.store.journal().reason and "hold" not in there


@pytest.mark.parametrize("full", [False, True])
def test_a_vm_that_returned_runs_where_the_disk_says(world, disk, tmp_path, monkeypatch, full):
    to_be_returned(world)
    monkeypatch.setattr(run_back, "_fetch", lambda context: disk.fill_completely() if full else disk.fill())
    there = []

    def ask(command, given=None, timeout=0):
        there.append(command)
        return {"written": None, "state": "running" if "stop" not in there else "off", "error": None, "ran": True, "record": record(there, given)}

    world.ask = ask
    assert run(tmp_path) == (1 if full else 0)
    journal = world.store.journal()
    assert journal.switched is full
    if full:
        assert there[-2:] == ["run", "settle"] and "runs here: True" not in world.done
    else:
        assert "runs here: True" in world.done and "run" not in there and journal.state == RETURNED
