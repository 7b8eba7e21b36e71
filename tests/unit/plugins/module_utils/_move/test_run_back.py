# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The return of a VM when something fails; the hosts only leave a trace here, tests/move has real ones."""

from __future__ import annotations

import json
import contextlib
import types
import typing as t
from unittest import mock

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._move import io_place, run_agent, run_back, run_context, run_worker
from ansible_collections.reduced.footprint.plugins.module_utils._move.io_store import MoveStore
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_journal import CONFIRMED, MOVED, RETURNED, MoveJournal, waiting
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_move import Item, parse_spec
from ansible_collections.reduced.footprint.plugins.module_utils._move.run_context import Context
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import io_domains
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import io_owner
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.model_owner import OWNER, FORMER, Record
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import io_pool_mounts
from tests.support.records import TAKEN, away, use_folder

ITEMS = [Item("/pool/c1", "file")._asdict(), Item("/pool/images/base", "file", True)._asdict()]
VM = {"uuid": "u", "uri": "qemu:///system", "name": "c1", "autostart": True, "host": {"name": "metal1"}, "items": ITEMS, "pools": {"/pool": "vms"}}
THERE = {"paths": ["/pool/c1"], "layers": [], "snapshots": False, "saved": False}
SPEC = {"id": "c1", "cluster": "lab", "destination": {"name": "metal2", "host": "192.0.2.12"}}


class World:
    """Both hosts after a move: the VM runs at the destination, whose agent is the real one with another libvirt."""

    def __init__(self, folder: t.Any) -> None:
        self.done: list[str] = []
        self.state = "running"
        self.fails: dict[str, Exception] = {}
        self.written: t.Any = THERE
        self.given: dict[str, t.Any] = {}
        # the step at which the link is lost
        self.cut: str | None = None
        self.down = False
        self.folder = folder
        self.store = MoveStore("c1", folder)
        facts = {"vm": VM, "held": {"running": True, "autostart": True}, "running": True}
        self.store.write(MoveJournal(name="c1", state=MOVED, started=1.0, switched=True, verified=True, downtime={"seconds": 2.0}, facts=facts))
        io_owner.write(away(MOVED, "metal2")._replace(epoch=0))
        with self.on_destination():
            io_owner.write(Record("lab", "c1", "u", "c1", 1, to="metal2"))

    def on_destination(self) -> t.ContextManager[t.Any]:
        """The records are those of the destination."""
        return mock.patch.object(io_owner, "HOME", self.folder / "there")

    def records(self) -> tuple[tuple[str, int, str | None], ...]:
        """Role, epoch and state of the source, and of the destination."""
        here = io_owner.known("u")
        with self.on_destination():
            there = io_owner.known("u")
        return tuple((each.role, each.epoch, each.state) for each in (here, there))

    # libvirt at the destination

    def __enter__(self) -> World:
        return self

    def __exit__(self, *unused: object) -> None:
        """Nothing is open."""

    def domain(self, uuid: str) -> t.Any:
        """The VM there."""
        return types.SimpleNamespace(state=self.state, active=self.state == "running", persistent=True) if self.state != "gone" else None

    def set_autostart(self, uuid: str, value: bool) -> None:
        """Does nothing."""

    def shutdown(self, *unused: t.Any) -> None:
        """Shut it down."""
        self.state = "off"

    def start(self, uuid: str) -> None:
        """Start it."""
        self.state = "running"

    # what the source asks

    def ask(self, command: str, given: t.Any = None, timeout: float = 0) -> dict[str, t.Any]:
        """An answer of the destination."""
        self.done.append(command)
        self.given[command] = given
        self.lose(command)
        if command in self.fails:
            raise self.fails[command]
        if command == "written":
            return {"written": self.written}
        if command in ("undefine", "discard"):
            return {}
        with self.on_destination():
            return run_agent.answer(command, {"items": [], **(given or {})})

    def copy(self, name: str) -> None:
        """A copy from the destination, or a comparison."""
        self.done.append(name)
        assert self.store.journal().facts.get("mixed") is True
        self.lose(name)
        if name in self.fails:
            raise self.fails[name]

    def lose(self, step: str) -> None:
        """Lose the link at its step; nothing is answered from then on."""
        self.down = self.down or step == self.cut
        if self.down:
            raise CommandError(["ssh"], 255, "No route to host")

    def returns(self, work: t.Callable[[Context, str], None] = run_worker.carry_out, **params: t.Any) -> MoveJournal:
        """Return the VM as the worker does."""
        return self.works(RETURNED, work, **params)

    def works(self, action: str, work: t.Callable[[Context, str], None] = run_worker.carry_out, **params: t.Any) -> MoveJournal:
        """Do what the worker does."""
        context = Context(parse_spec(SPEC), params, self.store, self.store.journal(), t.cast(t.Any, self))
        try:
            work(context, action)
        finally:
            self.store.write(context.journal)
        return context.journal


@pytest.fixture(name="world")
def fixture_world(tmp_path, monkeypatch):
    use_folder(tmp_path, monkeypatch)
    world = World(tmp_path)
    monkeypatch.setattr(run_agent, "DomainHost", lambda uri: world)
    monkeypatch.setattr(run_agent, "_STEADY", 0.0)
    for module in (run_agent, run_context):
        monkeypatch.setattr(module, "host_lock", lambda *unused: contextlib.nullcontext())
    done = types.SimpleNamespace(seconds=1, files=1, bytes=1)
    copier = types.SimpleNamespace(pull=lambda item, progress: world.copy("pull") or done, compare=lambda item, target: world.copy("compare"))
    monkeypatch.setattr(Context, "copier", copier)
    monkeypatch.setattr(Context, "keep_off", lambda self: world.done.append("kept off"))
    monkeypatch.setattr(Context, "release", lambda self, running: world.done.append(f"runs here: {running}"))
    monkeypatch.setattr(io_place, "sync_path", lambda path: world.copy(f"synced: {path}"))
    monkeypatch.setattr(io_pool_mounts, "STATE", tmp_path / "pool-mounts.json")
    return world


def test_it_runs_here_after_all_data_was_copied_back(world):
    journal = world.returns()
    before = ["written", "state", "settle", "hold", "stop"]
    # nothing is removed there, or started here, before the data would survive a power loss
    assert world.done == [*before, "pull", "compare", "synced: /pool/c1", "synced: /pool", "hand_back", "runs here: True", "undefine", "discard", "settle"]
    assert not world.given["undefine"]["keep"]
    assert (journal.state, journal.switched, journal.facts["mixed"]) == (RETURNED, False, False)
    assert world.records() == ((OWNER, 2, None), (FORMER, 1, "confirmed"))


@pytest.mark.parametrize("step", ["pull", "compare", "synced: /pool/c1"])
def test_it_runs_at_the_destination_again_if_its_data_cannot_be_copied_back(world, step):
    world.fails[step] = BackendError("no space.")
    with pytest.raises(BackendError, match="no space"):
        world.returns()
    assert world.done[-3:] == ["run", "settle", "kept off"]
    journal = world.store.journal()
    # the move is as before, and can be confirmed or returned
    assert (world.state, journal.switched, journal.going, journal.downtime) == ("running", True, MOVED, {"seconds": 2.0})
    assert world.records() == ((FORMER, 0, "moved"), (OWNER, 1, None))
    # but the old disks are no longer what they were
    assert journal.facts["mixed"] is True
    world.fails.clear()
    assert world.returns().facts["mixed"] is False


def test_without_an_answer_the_next_run_continues_the_return(world):
    world.fails.update(pull=BackendError("link lost."), run=BackendError("link lost."))
    with pytest.raises(BackendError):
        world.returns()
    assert world.store.journal().going == RETURNED
    world.fails.clear()
    assert world.returns().state == RETURNED


@pytest.mark.parametrize("cut", ["stop", "pull", "compare"])
def test_while_it_is_off_on_both_hosts_its_worker_waits_for_an_answer(world, monkeypatch, cut):
    waited = []
    world.cut = cut

    def pause(seconds):
        waited.append(waiting(world.store.journal()))
        if len(waited) == 2:
            world.cut, world.down = None, False

    monkeypatch.setattr(run_worker.time, "sleep", pause)
    journal = world.returns(work=run_worker._complete)
    assert (journal.state, journal.facts["mixed"]) == (RETURNED, False) and world.done.count("runs here: True") == 1
    assert len(waited) == 2 and all("waiting for metal2" in each for each in waited)


@pytest.mark.parametrize("cut", ["state", "hold", "undefine"])
def test_while_it_runs_on_one_of_them_the_return_fails(world, cut):
    world.cut = cut
    with pytest.raises(CommandError, match="No route to host"):
        world.returns(work=run_worker._complete)
    assert world.store.journal().going == (RETURNED if cut == "undefine" else MOVED)


def test_it_was_off_at_the_destination_and_stays_off(world):
    world.state, world.fails["pull"] = "off", BackendError("no space.")
    with pytest.raises(BackendError):
        world.returns()
    assert "run" not in world.done


def test_a_vm_that_was_moved_on_from_there_is_not_touched(world):
    world.fails["hold"] = RefusedError("the VM is not there any more.")
    with pytest.raises(RefusedError):
        world.returns()
    assert world.done == ["written", "state", "settle", "hold"]
    # so the old copy is neither started here, nor in the way of a confirmation
    assert world.store.journal().going == MOVED


@pytest.mark.parametrize("lost", [False, True])
def test_a_vm_with_a_standby_may_start_here_once_it_is_off_at_the_destination(world, lost):
    # this host was restarted since the move, and the standby has not answered
    io_owner.guard(Record("lab", "c1", "u", "c1"), permitted=False)
    assert world.returns(destination_lost="metal2" if lost else None, discard_changes=lost).state == RETURNED
    # of a lost destination only its guard can know
    assert io_owner.is_permitted("u") is not lost
    # one that was lost is the owner of epoch 1, if it comes back
    assert world.records()[0] == (OWNER, 2, None)


def test_an_interrupted_return_is_completed(world):
    world.fails["undefine"] = BackendError("link lost.")
    with pytest.raises(BackendError, match="link lost"):
        world.returns()
    world.fails.clear()
    assert world.returns().state == RETURNED


def test_a_vm_that_was_started_on_its_standby_does_not_return(world):
    io_owner.write(away(TAKEN, "metal9"))
    with pytest.raises(RefusedError, match="was started on its standby metal9"):
        world.returns()
    assert world.done == []


OTHER = {
    "/pool/c1-data": {**THERE, "paths": ["/pool/c1", "/pool/c1-data"]},
    "new /pool/c1.snap; missing /pool/c1.": {**THERE, "paths": ["/pool/c1.snap"]},
    "missing /pool/c1.": {**THERE, "paths": []},
    "has snapshots on metal2": {**THERE, "snapshots": True},
    "managed save image on metal2": {**THERE, "saved": True},
}


@pytest.mark.parametrize("words", OTHER)
def test_data_that_would_not_be_copied_back_is_not_left_behind(world, words):
    world.written = OTHER[words]
    with pytest.raises(RefusedError) as error:
        world.returns()
    assert words in str(error.value)
    # it runs there as before
    journal = world.store.journal()
    assert world.done == ["written"] and (journal.going, journal.switched) == (MOVED, True)


@pytest.mark.parametrize("words", OTHER)
def test_files_that_were_added_there_are_kept_with_the_others(world, words):
    world.written = OTHER[words]
    journal = world.returns(discard_changes=True)
    assert "discard" not in world.done and world.given["undefine"]["keep"]
    added = sorted({*world.written["paths"]} - {"/pool/c1"})
    assert journal.facts["kept"] == ["metal2:/pool/c1", *(f"metal2:{path}" for path in added)]


def test_added_files_are_listed_after_an_interruption(world):
    world.written, world.fails["undefine"] = OTHER["/pool/c1-data"], BackendError("link lost.")
    with pytest.raises(BackendError):
        world.returns(discard_changes=True)
    world.fails.clear()
    assert world.returns(discard_changes=True).facts["kept"] == ["metal2:/pool/c1", "metal2:/pool/c1-data"]


def test_a_vm_that_was_undefined_there_returns_with_the_files_that_were_moved(world):
    world.written, world.state = None, "gone"
    assert world.returns().state == RETURNED
    assert "pull" in world.done


@pytest.mark.parametrize("action", [RETURNED, CONFIRMED])
def test_nothing_is_written_or_removed_below_a_mount_point(world, tmp_path, action):
    (tmp_path / "pool-mounts.json").write_text(json.dumps({"schema": 1, "/pool": "/pool"}), "utf-8")
    with pytest.raises(RefusedError, match=r"state: the storage pool vms of \S+ at /pool is on the file system of /pool, which is not mounted. Mount it"):
        world.works(action)
    journal = world.store.journal()
    assert world.done == [] and (journal.going, journal.switched) == (MOVED, True)
    # declared as not required
    (tmp_path / "pool-mounts.json").write_text(json.dumps({"schema": 1, "/pool": None}), "utf-8")
    assert world.returns().state == RETURNED


class Drivers:
    """The drivers of a host: one with another VM, and one that the host does not have."""

    fails: t.ClassVar[set[str]] = set()

    def __init__(self, uri: str) -> None:
        if uri in self.fails:
            raise io_domains.DriverMissing("cannot connect.")
        if "connection" in self.fails and uri == "lxc:///system":
            raise BackendError("the connection was lost.")
        self.uri = uri

    def __enter__(self) -> Drivers:
        return self

    def __exit__(self, *unused: object) -> None:
        """Nothing is open."""

    def domains(self) -> list[t.Any]:
        if "domains" in self.fails:
            raise BackendError("cannot read the domains: connection reset by peer.")
        disk = "<disk type='file' device='disk'><driver type='raw'/><source file='/pool/data'/><target dev='vdb'/></disk>"
        return [types.SimpleNamespace(uuid="other", config_xml=f"<domain><devices>{disk}</devices></domain>", live_xml=None)]


@pytest.mark.parametrize(
    ("fails", "known"), [(set(), True), ({"lxc:///system"}, True), ({"qemu:///system"}, False), ({"connection"}, False), ({"domains"}, False)]
)
def test_what_other_vms_need_is_not_unknown(monkeypatch, fails, known):
    monkeypatch.setattr(io_domains, "DomainHost", Drivers)
    monkeypatch.setattr(Drivers, "fails", fails)
    if known:
        assert "/pool/data" in run_back._needed_by_others("u", "qemu:///system")
    else:
        with pytest.raises(BackendError):
            run_back._needed_by_others("u", "qemu:///system")
