# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where the resource agent starts a VM, and where it refuses that, whatever Pacemaker asks for; the start itself is that of test_run_start."""

from __future__ import annotations

import types
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_machine import Machine
from ansible_collections.reduced.footprint.plugins.module_utils._standby import io_copies, io_store, run_resource
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_standby import Job, job_data
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import io_owner
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.model_owner import CONFIRMED, MOVED, MOVING
from tests.support.records import away

UUID = "6a1f3c6e-0000-4000-8000-000000000001"
METAL2 = Machine("metal2", "192.0.2.12", 22, ("ssh-ed25519 AAAA",))
JOB = Job("m", "lab", "m", UUID, "qemu:///system", METAL2, (METAL2._replace(name="w1"),), 900, 2, 0, "metal1", automatic=True)
TAKEN = {"state": "started", "phase": "running", "at": 1.0, "copy": "c", "uuid": UUID}


class Server:
    """A server of the cluster: ``events`` are what was done, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.events: list[str] = []
        self.name, self.online, self.quorum = "metal2", {"metal2"}, True
        self.owner: str | None = "metal1"
        self.domain: types.SimpleNamespace | None = None
        self.answers: list[dict[str, t.Any] | None] = [{"state": "receiving"}]
        cluster = run_resource.io_cluster
        monkeypatch.setattr(cluster, "here", lambda: self.name)
        monkeypatch.setattr(cluster, "owner", lambda vm_id: self.owner)
        monkeypatch.setattr(cluster, "partition", lambda: frozenset(self.online))
        monkeypatch.setattr(cluster, "set_owner", self._own)
        monkeypatch.setattr(run_resource, "DomainHost", lambda uri: _Host(self))
        monkeypatch.setattr(run_resource.run_start, "start", self._start_copy)
        monkeypatch.setattr(run_resource.run_guard, "records", lambda job, store: self.answers)
        monkeypatch.setattr(run_resource.run_taken, "give_up", lambda job, store: self.events.append("given up"))
        for name, value in run_resource.Vm("m", "lab", UUID, "m")._asdict().items():
            monkeypatch.setenv(f"OCF_RESKEY_{name}", value)

    def _own(self, vm_id: str, name: str) -> None:
        if not self.quorum:
            raise BackendError("this server has no majority.")
        self.owner = name
        self.events.append("owner")

    def _start_copy(self, params: dict[str, t.Any], *, check_mode: bool) -> None:
        assert params["proof"] == {"by": "fenced"} and not check_mode
        self.events.append("disks")
        if io_copies.CopyStore("lab", "m").record()["state"] != "started":
            params["own"]()
        self.events.append("started from the copy")

    def has(self, active: bool = False) -> None:
        """Define the domain on this server."""
        self.domain = types.SimpleNamespace(active=active)

    # of DomainHost

    def start(self, uuid: str) -> None:
        assert io_owner.is_clustered(uuid) and io_owner.is_permitted(uuid)
        self.events.append("started")

    def shutdown(self, uuid: str, timeout: float, force: bool) -> None:
        self.events.append(f"shut down within {timeout:.0f} s, {'then by force' if force else 'never by force'}")
        self.domain = types.SimpleNamespace(active=False)


class _Host:
    """What the agent sees of libvirt."""

    def __init__(self, server: Server) -> None:
        self._server, self.start, self.shutdown = server, server.start, server.shutdown

    def __enter__(self) -> _Host:
        return self

    def __exit__(self, *unused: object) -> None:
        """Nothing is open."""

    def domain(self, uuid: str) -> types.SimpleNamespace | None:
        assert uuid == UUID
        return self._server.domain


@pytest.fixture(name="server")
def fixture_server(monkeypatch: pytest.MonkeyPatch) -> Server:
    return Server(monkeypatch)


def run(action: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = run_resource.main([action])
    return code, capsys.readouterr().err


def test_a_lost_server_is_replaced_after_it_was_recorded(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("start", capsys) == (0, "") and server.events == ["disks", "owner", "started from the copy"] and server.owner == "metal2"


def test_the_copy_is_not_started_while_the_server_with_the_disks_is_online(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    server.online = {"metal1", "metal2"}
    code, said = run("start", capsys)
    assert code == 5 and "ocf-exit-reason:metal1 is in the cluster, and has the valid disks of m." in said and not server.events
    # whatever is recorded here
    io_copies.CopyStore("lab", "m").write_record(TAKEN)
    server.has()
    assert run("start", capsys)[0] == 5 and not server.events


@pytest.mark.parametrize("has", [True, False])
def test_without_a_record_of_the_valid_disks_nothing_is_started(server: Server, has: bool, capsys: pytest.CaptureFixture[str]) -> None:
    server.owner = None
    if has:
        server.has()
    code, said = run("start", capsys)
    assert code == 5 and "not recorded which server" in said and not server.events


def test_without_a_majority_nothing_is_started(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    server.quorum = False
    code, said = run("start", capsys)
    assert code == 1 and "no majority" in said and server.events == ["disks"] and server.owner == "metal1"


def test_its_own_server_starts_its_own_disks(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    server.name, server.online = "metal1", {"metal1"}
    server.has()
    io_store.StandbyStore("m").write_job(job_data(JOB))
    # silence does not count: the majority has recorded that the disks are here
    server.answers = [None]
    assert run("start", capsys) == (0, "") and server.events == ["started"]


@pytest.mark.parametrize("online", [True, False])
def test_a_server_that_returns_does_not_start_old_disks(server: Server, online: bool, capsys: pytest.CaptureFixture[str]) -> None:
    server.name, server.owner, server.online = "metal1", "metal2", {"metal1", "metal2"} if online else {"metal1"}
    server.has()
    code, said = run("start", capsys)
    assert code == 5 and ("is in the cluster" if online else "are older than those on metal2") in said and not server.events


def test_a_start_by_a_person_is_known_to_the_server_that_returns(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    server.name, server.online = "metal1", {"metal1"}
    server.has()
    io_store.StandbyStore("m").write_job(job_data(JOB))
    server.answers = [{"state": "started", "at": 1.0}]
    code, said = run("start", capsys)
    assert code == 5 and "was started on metal2 by a person" in said and server.events == ["given up", "owner"] and server.owner == "metal2"


@pytest.mark.parametrize("phase", ["claimed", "running"])
def test_its_new_server_continues_after_a_restart(server: Server, phase: str, capsys: pytest.CaptureFixture[str]) -> None:
    io_copies.CopyStore("lab", "m").write_record({**TAKEN, "phase": phase})
    server.has()
    # it was recorded here and the agent killed, before or after the majority knew
    assert run("start", capsys) == (0, "")
    assert server.events == (["owner", "started"] if phase == "running" else ["disks", "started from the copy", "owner"])


@pytest.mark.parametrize("state", [MOVING, MOVED, CONFIRMED])
def test_a_vm_that_is_moved_or_was_moved_is_not_started(server: Server, state: str, capsys: pytest.CaptureFixture[str]) -> None:
    server.name, server.owner, server.online = "metal1", "metal1", {"metal1"}
    server.has()
    before = away(state, "metal3", "m", uuid=UUID)
    io_owner.write(before)
    code, said = run("start", capsys)
    assert code == 5 and "metal3" in said and not server.events and io_owner.known(UUID) == before


def test_a_running_vm_is_left_as_it_is(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    server.name, server.online = "metal1", {"metal1"}
    server.has(active=True)
    assert run("start", capsys) == (0, "") and not server.events and io_owner.is_clustered(UUID)


def test_a_stop_takes_the_permit(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    server.has(active=True)
    io_owner.permit(UUID)
    assert run("stop", capsys) == (0, "") and server.events == ["shut down within 60 s, then by force"] and not io_owner.is_permitted(UUID)
    # again, and without the domain
    assert run("stop", capsys) == (0, "")
    server.domain = None
    assert run("stop", capsys) == (0, "") and len(server.events) == 1


def test_other_calls_are_errors(server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("promote", capsys)[0] == 3
    monkeypatch.delenv("OCF_RESKEY_uuid")
    assert run("start", capsys)[0] == 2
