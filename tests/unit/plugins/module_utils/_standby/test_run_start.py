# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The start from a copy and its end on the first server, after runs that were interrupted."""

from __future__ import annotations

import base64
import contextlib
import pathlib
import shutil
import types
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_machine import Machine
from ansible_collections.reduced.footprint.plugins.module_utils._standby import io_copies, io_store, plan_standby, run_agent, run_guard
from ansible_collections.reduced.footprint.plugins.module_utils._standby import run_standby, run_start, run_taken
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_standby import Copy, CopyDisk, Job, job_data
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import io_owner
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.model_owner import ARRIVING, CONFIRMED, MOVED
from tests.support.records import away

UUID = "6a1f3c6e-0000-4000-8000-000000000001"
COPY = Copy("20261124T100001Z", "m", UUID, "m", "metal1", 1.0, 1.0, False, "full", 1, 1.0, "<domain/>", {}, True, ())
STANDBY, WITNESS = Machine("metal2", "192.0.2.12", 22, ()), Machine("w", "192.0.2.13", 22, ())
JOB = Job("m", "lab", "m", UUID, "qemu:///system", STANDBY, (WITNESS,), 900, 2, 0, "metal1")


class Host(contextlib.AbstractContextManager["Host"]):
    """A libvirt host with one domain."""

    def __init__(self, state: str) -> None:
        self.record = types.SimpleNamespace(state=state, active=state == "running", config_xml="<domain/>")

    def __exit__(self, *unused: t.Any) -> None: ...

    def domain(self, _uuid: str) -> t.Any:
        return self.record


@pytest.fixture(name="started")
def fixture_started(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> t.Callable[[str, str], io_copies.CopyStore]:
    """A standby on which the start of the VM has reached a phase."""
    monkeypatch.setattr(io_copies, "HOME", tmp_path / "copies")

    def begin(phase: str, state: str) -> io_copies.CopyStore:
        store = io_copies.CopyStore("lab", "m")
        store.write_record({"state": "started", "phase": phase, "at": 1.0, "copy": COPY.id, "uuid": UUID})
        store.commit(COPY, {})
        monkeypatch.setattr(run_start, "DomainHost", lambda *_args: Host(state))
        return store

    return begin


def test_a_vm_that_was_moved_away_again_is_not_started_twice(started: t.Any, tmp_path: pathlib.Path) -> None:
    started("running", "shutdown")
    io_owner.write(away(MOVED, "metal1", "m", UUID))
    for check_mode in (True, False):
        with pytest.raises(RefusedError, match="was started here, and then moved to another server"):
            run_start.start({"id": "m", "cluster": "lab"}, check_mode=check_mode)


def test_a_start_that_was_killed_at_its_end_is_recorded_by_the_next_run(started: t.Any) -> None:
    store = started("claimed", "running")
    assert not run_start.start({"id": "m", "cluster": "lab"}, check_mode=True)["changed"] and store.record()["phase"] == "claimed"
    assert not run_start.start({"id": "m", "cluster": "lab"}, check_mode=False)["changed"] and store.record()["phase"] == "running"


def received(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, copy: Copy = COPY) -> io_copies.CopyStore:
    """A store with one copy of m, which has not been started."""
    monkeypatch.setattr(io_copies, "HOME", tmp_path / "copies")
    store = io_copies.CopyStore("lab", "m")
    store.write_record({"state": "receiving", "at": 1.0})
    store.commit(copy, {})
    return store


def test_what_would_prevent_a_start_is_known_before(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(_uuid: str) -> t.Any:
        raise BackendError("libvirt does not answer.")

    host = Host("shut off")
    host.record = None
    monkeypatch.setattr(run_start, "DomainHost", lambda *_args: host)
    assert run_agent.answer("check", "lab", "none", {}) == {"obstacle": None}
    received(tmp_path, monkeypatch)
    assert run_agent.answer("check", "lab", "m", {}) == {"obstacle": None}
    # the way back was not confirmed
    host.record = Host("shut off").record
    io_owner.write(away(MOVED, "metal1", "m", UUID))
    obstacle = run_agent.answer("check", "lab", "m", {})["obstacle"]
    assert obstacle.startswith("the move of m to metal1 is not confirmed") and "move_vm_state=confirmed" in obstacle
    io_owner.write(away(CONFIRMED, "metal1", "m", UUID))
    assert "is already on this server, shut off" in run_agent.answer("check", "lab", "m", {})["obstacle"]
    monkeypatch.setattr(host, "domain", silent)
    assert run_agent.answer("check", "lab", "m", {})["obstacle"] == "libvirt does not answer."


def test_the_first_server_learns_of_a_start_before_it_is_recorded(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = received(tmp_path, monkeypatch)
    host = Host("shutdown")
    host.record = None
    seen: list[t.Any] = []

    def look(*_unused: t.Any) -> None:
        seen.append(run_agent.answer("look", "lab", "m", {})["record"].get("starting"))

    def make_disks(*_unused: t.Any) -> None:
        look()
        raise BackendError("the copy is damaged")

    monkeypatch.setattr(run_start, "DomainHost", lambda *_args: host)
    monkeypatch.setattr(run_start, "_make_disks", make_disks)
    look()
    with pytest.raises(BackendError, match="damaged"):
        run_start.start({"id": "m", "cluster": "lab", "confirmed": "metal1"}, check_mode=False)
    look()
    # the lock of a copy is none
    with store.locked():
        look()
    assert seen == [None, True, None, None]


@pytest.fixture(name="disk")
def fixture_disk(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> CopyDisk:
    """The disk of the copy; domain and content are not real."""
    monkeypatch.setattr(run_start, "_run", lambda *_unused: [])
    monkeypatch.setattr(run_start, "_fill", lambda *_unused: None)
    monkeypatch.setattr(run_start, "DomainHost", lambda *_unused: host)
    host = Host("shutdown")
    host.record = None
    (tmp_path / "pool" / "standby").mkdir(parents=True)
    it = CopyDisk("vda", str(tmp_path / "pool" / "m-disk0"), "qcow2", 1 << 20, str(tmp_path / "pool" / "standby" / "vda.qcow2"))
    pathlib.Path(it.file).write_bytes(b"")
    monkeypatch.setattr(io_copies.CopyStore, "layers", staticmethod(lambda path: []))
    monkeypatch.setattr(io_copies.CopyStore, "digests", lambda *_unused: [b""])
    nvram = base64.b64encode(b"variables").decode("ascii")
    copy = COPY._replace(disks=(it,), files={str(tmp_path / "nvram" / "m_VARS.fd"): nvram})
    received(tmp_path, monkeypatch, copy)
    return it


OTHER = b"the only copy of something else"
START = {"id": "m", "cluster": "lab", "confirmed": "metal1"}


@pytest.mark.parametrize("late", [False, True], ids=["while the disks are made", "after the record"])
def test_a_disk_of_another_vm_that_was_created_meanwhile_is_not_replaced(disk: CopyDisk, late: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    store, final = io_copies.CopyStore("lab", "m"), pathlib.Path(disk.path)
    with monkeypatch.context() as patched:
        where = "_claim" if late else "_fill"
        work = getattr(run_start, where)

        def meanwhile(*given: t.Any) -> t.Any:
            found = work(*given)
            final.write_bytes(OTHER)
            return found

        patched.setattr(run_start, where, meanwhile)
        with pytest.raises(RefusedError, match="was created on this server while" if late else "already exists"):
            run_start.start(START, check_mode=False)
    assert final.read_bytes() == OTHER and (store.record()["state"] == "started") is late
    # nothing is left of a start that may not take place
    assert (sorted(each.name for each in final.parent.iterdir()) == ["m-disk0", "standby"]) is not late
    if late:
        with pytest.raises(RefusedError, match="was created on this server while"):
            run_start.start(START, check_mode=False)
    final.unlink()
    assert run_start.start(START, check_mode=False)["changed"] and final.read_bytes()[:3] == b"QFI"
    assert store.record()["phase"] == "running"


def test_small_files_of_another_vm_are_not_used(disk: CopyDisk, tmp_path: pathlib.Path) -> None:
    nvram = tmp_path / "nvram" / "m_VARS.fd"
    nvram.parent.mkdir()
    nvram.write_bytes(OTHER)
    for check_mode in (True, False):
        with pytest.raises(RefusedError, match="m_VARS.fd already exists on this server, with other content"):
            run_start.start(START, check_mode=check_mode)
    assert nvram.read_bytes() == OTHER and not pathlib.Path(disk.path).exists()
    nvram.write_bytes(b"variables")
    assert run_start.start(START, check_mode=False)["changed"] and nvram.read_bytes() == b"variables"


@pytest.mark.parametrize(
    ("to", "at", "state", "good"),
    [
        # it was started here before, and moved back to its first server
        ("metal1", "2026-11-26T10:00:00Z", CONFIRMED, True),
        ("metal1", "2026-11-26T10:00:00Z", MOVED, False),
        # it left this server for another one, then reached its first server, where it was copied; or it was copied before
        ("metal3", "1970-01-01T00:00:00Z", CONFIRMED, True),
        ("metal3", "2026-11-26T10:00:00Z", CONFIRMED, False),
        # that of a note that cannot be read
        ("another host", "", CONFIRMED, False),
        ("metal2", "1970-01-01T00:00:00Z", ARRIVING, False),
    ],
)
def test_a_vm_that_had_left_the_standby_before_is_started_there_again(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, to: str, at: str, state: str, good: bool
) -> None:
    received(tmp_path, monkeypatch)
    host = Host("shutdown")
    host.record = None
    monkeypatch.setattr(run_start, "DomainHost", lambda *_args: host)
    for name in ("_make_disks", "_place"):
        monkeypatch.setattr(run_start, name, lambda *unused: None)
    monkeypatch.setattr(run_start, "_run", lambda *unused: [])
    io_owner.write(away(state, to, "m", UUID, at=at))
    given = {"id": "m", "cluster": "lab", "confirmed": "metal1"}
    if not good:
        with pytest.raises(RefusedError, match="has a record that m was moved from or to it|move of m to metal1 is not confirmed"):
            run_start.start(given, check_mode=False)
        return
    assert run_start.start(given, check_mode=True)["changed"] and io_owner.known(UUID) is not None
    assert run_start.start(given, check_mode=False)["changed"] and io_owner.known(UUID) is None


def test_a_witness_of_a_start_does_not_start_the_vm_as_well(started: t.Any) -> None:
    # it has older copies, because it was the standby before
    store = started("running", "shutdown")
    store.write_record({"state": "started", "at": 2.0, "from": "metal1"})
    with pytest.raises(RefusedError, match="recorded as a witness that m was started on another one") as refused:
        run_start.start({"id": "m", "cluster": "lab", "confirmed": "metal1"}, check_mode=False)
    assert "state: returned" in str(refused.value.hint)


def test_two_starts_at_once_make_the_disks_once(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # two persons in an emergency; the second one waits for the lock, and would replace the disks of the running VM by those of the copy
    store = received(tmp_path, monkeypatch)
    host = Host("running")
    there, host.record = host.record, None
    other = {"state": "started", "phase": "running", "at": 2.0, "copy": COPY.id, "uuid": UUID}
    locked = io_copies.CopyStore.locked

    @contextlib.contextmanager
    def late(self: io_copies.CopyStore, **given: t.Any) -> t.Iterator[None]:
        with locked(self, **given):
            store.write_record(other)
            host.record = there
            yield

    monkeypatch.setattr(io_copies.CopyStore, "locked", late)
    monkeypatch.setattr(run_start, "DomainHost", lambda *_args: host)
    monkeypatch.setattr(run_start, "_make_disks", lambda *_args: pytest.fail("it makes disks"))
    with pytest.raises(RefusedError, match="was started here by another run meanwhile"):
        run_start.start({"id": "m", "cluster": "lab", "confirmed": "metal1"}, check_mode=False)
    assert store.record()["phase"] == "running"
    monkeypatch.setattr(io_copies.CopyStore, "locked", locked)
    assert not run_start.start({"id": "m", "cluster": "lab", "confirmed": "metal1"}, check_mode=False)["changed"]


@pytest.mark.parametrize(
    ("standby", "witness", "words"),
    [
        # the start was recorded on the witness, then the copy was damaged
        ({"state": "receiving"}, {"state": "started"}, "metal2 does not confirm"),
        (None, {"state": "started"}, "metal2 does not confirm"),
        ({"state": "started", "phase": "claimed"}, {"state": "started"}, "was interrupted before it ran there"),
        ({"state": "started", "phase": "running"}, None, ""),
    ],
)
def test_old_disks_are_removed_only_if_the_vm_ran_on_its_standby(
    standby: t.Any, witness: t.Any, words: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = {"metal2": standby, "w": witness}
    removed: list[Job] = []
    monkeypatch.setattr(io_store.StandbyStore, "job", lambda self: JOB)
    monkeypatch.setattr(run_guard, "records", lambda job, store: [answers[each.name] for each in (job.standby, *job.witnesses)])
    monkeypatch.setattr(run_standby, "DomainHost", lambda *_args: Host("shutdown"))
    monkeypatch.setattr(run_standby, "_remove_vm", lambda host, job, params: removed.append(job))
    monkeypatch.setattr(run_standby, "_absent", lambda params, check_mode: {})
    if words:
        with pytest.raises(RefusedError, match=words):
            run_standby.apply({"id": "m", "cluster": "lab", "state": "released"}, check_mode=False)
    else:
        run_standby.apply({"id": "m", "cluster": "lab", "state": "released"}, check_mode=False)
    assert removed == ([] if words else [JOB])


def test_a_start_is_not_noted_again_while_the_old_vm_is_removed(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker and the guard ask the standby themselves, and may use the answer a little later."""
    host = Host("shutdown")
    host.record.persistent = False
    store = io_store.StandbyStore("m", tmp_path / "standby")
    job = JOB._replace(standby=STANDBY._replace(host_keys=("ssh-ed25519 AAAA",)), witnesses=())
    store.write_job(job_data(job))
    monkeypatch.setattr(io_store, "HOME", tmp_path / "standby")
    monkeypatch.setattr(run_taken.io_owner, "revoke", lambda name: None)
    for module in (run_standby, run_taken):
        monkeypatch.setattr(module, "host_lock", lambda *_args: contextlib.nullcontext())
        monkeypatch.setattr(module, "DomainHost", lambda *_args: host)
    monkeypatch.setattr(run_guard, "records", lambda job, store: [{"state": "started", "phase": "running"}])

    def learned(*_unused: t.Any) -> None:
        run_taken.give_up(job, store)

    def absent(*_unused: t.Any) -> dict[str, t.Any]:
        learned()
        shutil.rmtree(store.directory)
        learned()
        return {}

    monkeypatch.setattr(run_standby, "_remove_vm", learned)
    monkeypatch.setattr(run_standby, "_absent", absent)
    learned()
    assert io_owner.known(UUID) is not None
    assert run_standby.apply({"id": "m", "cluster": "lab", "state": "released"}, check_mode=False)["changed"]
    assert io_owner.known(UUID) is None


@pytest.mark.parametrize("keep", [False, True])
def test_the_removal_of_the_old_vm_is_completed_after_a_kill(keep: bool, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = tmp_path / "m-vda.qcow2"
    disk.write_text("old", "utf-8")
    host = Host("shutdown")
    host.record.config_xml = f"<domain><name>m</name><devices><disk><source file='{disk}'/><target dev='vda'/></disk></devices></domain>"
    left: list[bool] = []
    monkeypatch.setattr(Host, "undefine", lambda self, uuid: left.append(disk.exists()), raising=False)
    monkeypatch.setattr(run_standby, "host_lock", lambda *_args: contextlib.nullcontext())
    monkeypatch.setattr(run_standby, "VolumeStore", lambda host: types.SimpleNamespace(refresh=lambda: None))
    # without its domain the next run would not know the disks, and the VM could not be moved back
    run_standby._remove_vm(host, JOB, {"keep_disks": keep})
    run_standby._remove_vm(host, JOB, {"keep_disks": keep})
    assert left == [False, False] and len(list(tmp_path.glob("*.lost-*"))) == keep


def test_the_disk_of_the_lost_server_on_shared_storage_is_not_to_be_removed(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = tmp_path / "m.qcow2"
    disk.write_bytes(b"newer than the copy")
    copy = COPY._replace(disks=(CopyDisk("vda", str(disk), "qcow2", 1, str(tmp_path / "copy")),))
    with pytest.raises(RefusedError) as refused:
        run_start._refuse_obstacles(copy, None, run_start.URI)
    assert "shares its storage with metal1, it is the disk itself: do not remove it" in str(refused.value)


@pytest.mark.parametrize(
    ("phase", "confirmed", "key", "words"),
    [
        ("running", "metal1", None, ""),
        ("claimed", "metal1", None, "m was not started on this server, or that was interrupted"),
        (None, "metal1", None, "m was not started on this server, or that was interrupted"),
        ("running", "", None, "no one confirmed the server that never returns: metal1"),
        ("running", "metal2", None, "'metal2' is not the name of the server that never returns: metal1"),
        ("running", "metal1", "m@lab", "metal1 can still ask this server whether it may start m"),
        # those of other VMs
        ("running", "metal1", "m@green", ""),
        ("running", "metal1", "am@lab", ""),
    ],
)
def test_a_vm_is_kept_only_when_its_first_server_cannot_start_it(
    phase: str | None, confirmed: str, key: str | None, words: str, started: t.Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_standby.io_authorized_keys, "PATH", tmp_path / "authorized_keys")
    (tmp_path / "authorized_keys").write_text(f"ssh-ed25519 AAAA reduced.footprint-migrate-standby-{key}\n" if key else "", "utf-8")
    store = started(phase, "running")
    store.write_record({**store.record(), "from": "metal1"})
    given = {"id": "m", "cluster": "lab", "state": "kept", "confirmed": confirmed}
    if words:
        with pytest.raises(RefusedError, match=words):
            run_standby.apply(given, check_mode=False)
        assert store.copies() and store.record()["state"] == "started"
        # in check mode the key was not withdrawn
        if key:
            assert run_standby.apply(given, check_mode=True)["changed"]
        return
    assert run_standby.apply(given, check_mode=True)["changed"] and store.copies()
    assert run_standby.apply(given, check_mode=False)["changed"] and not store.directory.exists()
    assert not run_standby.apply(given, check_mode=False)["changed"]


def test_without_an_answer_the_first_server_keeps_its_old_vm_off() -> None:
    # what a withdrawn key means for the guard, whatever was recorded before
    assert plan_standby.boot_verdict([None, None, None]) == plan_standby.WAIT


@pytest.mark.parametrize(
    ("record", "refused"), [({"state": "started", "phase": "running"}, True), ({"state": "started"}, False), ({"state": "receiving"}, False)]
)
def test_a_vm_that_runs_from_its_copy_is_not_copied_on(
    record: dict[str, str], refused: bool, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # its first server, and witnesses, know of that start: after a restart of this server they would keep it off
    monkeypatch.setattr(io_copies, "HOME", tmp_path / "copies")
    monkeypatch.setattr(io_store, "HOME", tmp_path / "standby")
    monkeypatch.setattr(run_standby.io_look, "find", lambda *given: ("qemu:///system", types.SimpleNamespace(name="m", uuid=UUID)))
    monkeypatch.setattr(run_standby, "_refuse_unfit", lambda uri, uuid: None)
    io_copies.CopyStore("lab", "m").write_record(record)
    standby = {"name": "metal3", "host": "192.0.2.13", "port": 22, "host_keys": ["ssh-ed25519 AAAA"]}
    given = {"id": "m", "cluster": "lab", "state": "present", "standby": standby, "interval_seconds": 900, "copies": 2}
    with pytest.raises(RefusedError, match="was started on this server from its copy" if refused else "the key of the copies does not exist"):
        run_standby.apply(given, check_mode=False)
