# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import errno
import os
import signal

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, LostWriteError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases import run_worker
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.run_context import Context, vm_details
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.model_migration import parse_spec
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_journal import JournalStore
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_remote_source import Identity
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import HANDED_OVER, PARKED, PHASES, QUIESCED, SERVING, Journal

BEFORE, PAUSE = PHASES[: PHASES.index("quiesce")], PHASES[PHASES.index("quiesce") :]


class Killed(BaseException):
    """What kill -9 looks like from inside: nothing after it runs."""


class FakeSource:
    """A source that only remembers what it is."""

    address = "192.0.2.2"
    identity = Identity()
    state = SERVING
    kept = None

    def ask(self, command, given=None, timeout=0):
        assert command in ("state", "mirror", "leave")
        if command == "mirror" and given:
            self.kept = given["journal"]
        return {"state": {"state": self.state}, "kept": self.kept}


class NoLease:
    def __init__(self, *unused):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        pass


@pytest.fixture(name="world")
def fixture_world(tmp_path, monkeypatch):
    """A migration whose phases only leave a trace; ``fail`` maps a phase to what it raises."""

    class World:
        done: list = []
        fail: dict = {}
        source = FakeSource()
        clone = False
        stop_after = None
        more: dict = {}

        def context(self):
            spec = parse_spec(
                {
                    **self.more,
                    "vm": {"id": "master", "nics": [{"bridge": "b"}], "disks": [{"size": 6}]},
                    "admin": {"address": "192.0.2.2", "temporary_address": "192.0.2.3"},
                    "stop_after": self.stop_after,
                }
            )
            store = JournalStore("master", tmp_path)
            return Context(spec, vm_details(spec), store, store.read() or Journal("master"), tmp_path, self.source)

        def run(self, action=run_worker.MIGRATE):
            self.done.clear()
            context = self.context()
            run_worker.carry_out(context, action)
            return context.journal

    world = World()
    world.done, world.fail, world.source = [], {}, FakeSource()

    def phase(name):
        def work(context, lease=None):
            world.done.append(name)
            if name == "define":
                context.journal.facts["vm"] = {"disk": "/x"}
            if name == "cutover":
                world.source.state = PARKED
            if name in world.fail:
                raise world.fail[name]
            world.source.state = {"cutover": PARKED, "commit": HANDED_OVER}.get(name, world.source.state)
            if name == "cutover":
                context.journal.downtime.update(seconds=1.0, parts={"detach": 1.0, "boot": 2.0, "checks": 0.5})
            if name == "commit":
                context.journal.facts["handed_over"] = True

        return work

    def roll_back(context, reason):
        world.done.append("roll_back")
        world.source.state = SERVING
        context.journal.state, context.journal.reason = "rolled_back", reason
        context.journal.facts.pop("handed_over", None)
        context.save()

    monkeypatch.setattr(run_worker, "_BEFORE", {name: phase(name) for name in BEFORE})
    monkeypatch.setattr(run_worker, "_PAUSE", {name: phase(name) for name in PAUSE})
    monkeypatch.setattr(run_worker.run_verify, "catch_up", lambda context: None)
    monkeypatch.setattr(run_worker, "Lease", NoLease)
    monkeypatch.setattr(run_worker, "remote", lambda *unused: world.source)
    monkeypatch.setattr(run_worker.run_return, "roll_back", roll_back)
    monkeypatch.setattr(run_worker.run_copy, "stop_clone", lambda context: world.done.append("stop_clone"))
    monkeypatch.setattr(Context, "clone_running", lambda self: world.clone)
    return world


def test_all_phases_in_their_order(world):
    journal = world.run()
    assert world.done == list(PHASES)
    assert (journal.state, journal.downtime["seconds"], journal.attempt) == ("done", 1.0, 1)
    assert journal.facts["boot_seconds"] == 2.5
    assert set(journal.downtime["parts"]) == {"quiesce", "final", "fixup", "verify", "detach", "boot", "checks"}


@pytest.mark.parametrize("phase", PHASES)
def test_migration_continues_after_a_kill_in_any_phase(world, phase):
    world.fail = {phase: Killed()}
    with pytest.raises(Killed):
        world.run()
    world.fail = {}
    world.clone = phase in ("cutover", "commit")
    journal = world.run()
    assert journal.state == "done"
    assert world.done[-1] == "commit" and "roll_back" not in world.done
    if phase in ("cutover", "commit"):
        assert world.done == list(PHASES[PHASES.index(phase) :])
    elif phase in BEFORE:
        assert world.done[0] == "preflight" and set(PHASES[PHASES.index(phase) :]) <= set(world.done)


@pytest.mark.parametrize("phase", BEFORE)
def test_a_failure_before_the_pause_leaves_the_source_alone(world, phase):
    world.fail = {phase: BackendError("no")}
    with pytest.raises(BackendError):
        world.run()
    assert world.done == list(PHASES[: PHASES.index(phase) + 1])


@pytest.mark.parametrize("error", [BackendError("no"), ValueError("a bug")])
@pytest.mark.parametrize("phase", PAUSE)
def test_a_failure_in_the_pause_goes_back(world, phase, error):
    world.fail = {phase: error}
    journal = world.run()
    assert world.done[-2:] == [phase, "roll_back"]
    assert journal.state == "rolled_back" and phase in journal.reason


def test_after_a_return_it_begins_again_without_a_new_disk(world):
    world.fail = {"cutover": BackendError("no")}
    world.run()
    world.fail = {}
    journal = world.run()
    assert (journal.state, journal.attempt) == ("done", 2)
    assert "partition" not in world.done and {"preflight", "precopy", "rehearse"} < set(world.done)


def test_a_return_that_was_cut_short_is_finished_first(world):
    context = world.context()
    context.journal.new_attempt(1.0)
    context.journal.facts["returning"] = "cutover: no"
    context.save()
    assert world.run().state == "rolled_back"
    assert world.done == ["roll_back"]


@pytest.mark.parametrize("phase", BEFORE)
def test_run_stops_at_stop_after_and_brings_the_copy_up_to_date(world, phase):
    world.stop_after = phase
    for _day in range(3):
        journal = world.run()
        assert (journal.state, journal.reason) == ("stopped", None)
        assert world.done[-1] == phase or phase in ("define", "prepare", "partition")
        assert not set(PAUSE) & set(world.done)
        assert ("precopy" in world.done) == (phase in ("precopy", "rehearse"))
    world.stop_after = None
    assert world.run().state == "done"
    assert world.done[0] == "preflight" and {"precopy", "rehearse", "quiesce"} < set(world.done)
    assert ("define" in world.done) == (phase == "preflight")


def test_a_stop_behind_what_was_done_undoes_nothing(world):
    world.stop_after = "rehearse"
    world.run()
    world.stop_after = "define"
    assert world.run().state == "stopped"
    assert world.done == ["preflight"]


def test_a_copy_that_lay_is_caught_up_with(world, monkeypatch):
    world.fail = {"rehearse": Killed()}
    with pytest.raises(Killed):
        world.run()
    world.fail = {}
    monkeypatch.setattr(run_worker, "_FRESH", -1.0)
    world.run()
    assert "precopy" in world.done


@pytest.mark.parametrize(("option", "value"), [("preparation_timeout", 1), ("max_pause", 60)])
def test_work_before_the_pause_ends_with_its_time(world, monkeypatch, option, value):
    world.more = {option: value}
    monkeypatch.setitem(run_worker._BEFORE, "precopy", lambda context: context.spec.preparation_timeout and (signal.pause() or signal.pause()))
    with pytest.raises(RefusedError, match=option):
        world.run()
    assert world.source.state == SERVING and not set(PAUSE) & set(world.done)
    assert signal.getsignal(signal.SIGALRM) == signal.SIG_DFL and signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


@pytest.mark.parametrize(("phase", "when"), [("precopy", "before"), ("rehearse", "after"), ("quiesce", "before"), ("cutover", "after")])
def test_hooks_run_around_their_phase(world, tmp_path, phase, when):
    seen = tmp_path / "seen"
    world.more = {"hooks": [{"phase": phase, "when": when, "command": ["touch", str(seen)]}]}
    monkey = run_worker._BEFORE if phase in BEFORE else run_worker._PAUSE
    work, there = monkey[phase], []
    monkey[phase] = lambda *given: (there.append(seen.exists()), work(*given))
    assert world.run().state == "done"
    assert seen.exists() and there == [when == "before"]


def test_a_hook_on_the_source_is_run_by_its_agent(world, monkeypatch):
    asked = []
    world.more = {"hooks": [{"phase": "quiesce", "on": "source", "command": ["drain", "a b"], "command_timeout": 7}]}
    monkeypatch.setattr(FakeSource, "ask", lambda self, *given, **more: asked.append((given, more)) or {"state": {"state": self.state}, "kept": None})
    assert world.run().state == "done"
    wanted = (("run", {"command": ["drain", "a b"], "timeout": 7}), {"timeout": 37, "once": True})
    assert [each for each in asked if each[0][0] != "mirror"] == [(("state",), {"timeout": 20}), wanted]


def test_the_source_keeps_the_journal_too(world):
    world.run()
    assert world.source.kept["journal"]["state"] == "running"
    assert world.source.kept["journal"]["phase"] == "rehearse" and world.source.kept["journal"]["name"] == "master"
    assert "source_facts" not in world.source.kept["journal"]["facts"]


def test_a_source_that_another_host_moves_is_let_alone(world):
    world.stop_after = "precopy"
    world.run()
    assert world.source.kept["journal"]["state"] == "stopped"
    world.source.kept = {**world.source.kept, "host": "metal9", "host_id": "another"}
    world.source.kept["journal"]["state"] = "running"
    with pytest.raises(RefusedError, match="metal9"):
        world.run()
    assert not world.done


def test_a_hook_that_fails_fails_its_phase(world):
    world.more = {"hooks": [{"phase": "precopy", "command": ["false"]}]}
    with pytest.raises(BackendError, match="before precopy on the destination") as caught:
        world.run()
    assert caught.value.path == "hooks[0]"
    world.more = {"hooks": [{"phase": "verify", "when": "after", "command": ["false"]}]}
    assert world.run().state == "rolled_back"


def test_a_source_that_came_back_meanwhile_gets_its_clone_stopped(world):
    world.fail = {"cutover": Killed()}
    with pytest.raises(Killed):
        world.run()
    world.fail, world.clone, world.source.state = {}, True, SERVING
    assert world.run().state == "done"
    assert world.done[:2] == ["stop_clone", "preflight"]


def test_after_the_hand_over_nothing_goes_back(world):
    world.fail = {"commit": Killed()}
    with pytest.raises(Killed):
        world.run()
    world.source.state = HANDED_OVER
    context = world.context()
    context.journal.facts["handed_over"] = True
    context.save()
    world.fail = {"commit": BackendError("autostart")}
    with pytest.raises(BackendError):
        world.run()
    assert "roll_back" not in world.done


class FakeDisk:
    """A disk that lost something, or did not."""

    lost = False

    def settle(self):
        if self.lost:
            raise LostWriteError("full", "pool")


@pytest.mark.parametrize("lost", [False, True])
def test_copy_with_a_lost_write_is_created_again_by_the_next_run(world, monkeypatch, lost):
    disk = FakeDisk()
    disk.lost = lost
    monkeypatch.setattr(Context, "disk", lambda self: disk)
    context = world.context()
    context.image = disk
    # the cause of the failure is reported only on request
    world.fail = {"precopy": BackendError("chroot ended with exit code 126")}
    with pytest.raises(BackendError, match="full" if lost else "126"):
        run_worker.carry_out(context, run_worker.MIGRATE)
    context.journal.state = "failed"
    context.save()
    world.fail = {}
    journal = world.run()
    assert world.done[0] == "preflight" and ("partition" in world.done) == lost
    assert journal.state == "done"


def test_copy_with_a_lost_write_in_the_pause_is_never_used(world, monkeypatch):
    world.fail = {"verify": Killed()}
    with pytest.raises(Killed):
        world.run()
    context = world.context()
    context.journal.facts["spoilt"] = True
    context.save()
    world.fail, world.source.state = {}, QUIESCED
    journal = world.run()
    assert world.done == ["roll_back"]
    assert "write to the copy was lost" in journal.reason
    # the source serves, and the copy is made from the file systems on
    world.run()
    assert world.done[:2] == ["preflight", "partition"], world.done


@pytest.mark.parametrize(
    ("number", "pool", "words"), [(errno.ENOSPC, "full", "pool is full"), (errno.ENOSPC, None, "No space"), (errno.EIO, "full", "Input/output")]
)
def test_full_pool_is_reported_for_a_failed_phase(world, monkeypatch, number, pool, words):
    monkeypatch.setattr(run_worker, "full_pool", lambda image: BackendError(f"the pool is full beside {image}", "pool") if pool else None)
    world.fail = {"rehearse": OSError(number, os.strerror(number))}
    with pytest.raises((BackendError, OSError), match=words):
        world.run()


def killed_in(world, monkeypatch, phase):
    """A worker that was killed in a phase, a minute ago for the last time."""
    monkeypatch.setattr(run_worker.io_worker_starts, "clock", lambda: 60.0)
    world.fail = {phase: Killed()}
    with pytest.raises(Killed):
        world.run()
    world.fail = {}
    return world.done.clear() or world.context()


@pytest.mark.parametrize("phase", ["quiesce", "verify", "cutover", "commit"])
def test_repeatedly_killed_worker_rolls_back_in_the_pause(world, monkeypatch, phase):
    context = killed_in(world, monkeypatch, phase)
    run_worker.carry_out(context, run_worker.MIGRATE, [0.0] * 6)
    assert world.done == ["roll_back"] and "killed 5 times" in context.journal.reason


def test_a_worker_that_is_killed_again_and_again_before_the_pause_says_so(world, monkeypatch):
    context = killed_in(world, monkeypatch, "precopy")
    with pytest.raises(BackendError, match="killed 5 times"):
        run_worker.carry_out(context, run_worker.MIGRATE, [0.0] * 6)


@pytest.mark.parametrize("facts", [{"handing_over": "final"}, {"handed_over": True}])
def test_worker_continues_after_the_confirmation_despite_many_kills(world, monkeypatch, facts):
    context = killed_in(world, monkeypatch, "commit")
    context.journal.facts.update(facts)
    world.source.state = HANDED_OVER
    run_worker.carry_out(context, run_worker.MIGRATE, [0.0] * 6)
    assert world.done == ["commit"] and context.journal.state == "done"


@pytest.mark.parametrize(
    ("facts", "code", "kept"),
    [({}, 1, False), ({"handing_over": "asked"}, 1, False), ({"handing_over": "final"}, 75, True), ({"handing_over": "final", "handed_over": True}, 1, False)],
)
def test_worker_is_restarted_after_the_confirmation(world, monkeypatch, tmp_path, facts, code, kept):
    context = world.context()
    context.store.write_job({"action": run_worker.MIGRATE, "params": {}})
    forgotten = []

    def fails(context, action, starts):
        context.journal.facts.update(facts)
        raise BackendError("no")

    monkeypatch.setattr(run_worker, "open_context", lambda *unused: context)
    monkeypatch.setattr(run_worker, "carry_out", fails)
    monkeypatch.setattr(run_worker, "_release", lambda context: None)
    monkeypatch.setattr(run_worker.io_worker_starts, "note", lambda name: [0.0])
    monkeypatch.setattr(run_worker.io_units, "forget_at_boot", forgotten.append)
    assert run_worker.main(["master"], tmp_path) == code
    assert bool(forgotten) != kept and context.store.read().state == "failed"
