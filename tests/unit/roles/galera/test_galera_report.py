# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the guard reports about its server, from real files and processes."""

from __future__ import annotations

import errno
import os
import pathlib
import subprocess
import sys
import time
import typing as t

import pytest

from tests.unit.roles.galera.guard_support import CLUSTER, VIEW, A, B, load

NO_UUID = "00000000-0000-0000-0000-000000000000"
LOST = {
    "wsrep_on": "ON", "wsrep_cluster_status": "non-Primary", "wsrep_connected": "ON", "wsrep_ready": "OFF", "wsrep_local_state_comment": "Initialized",
    "wsrep_local_state_uuid": CLUSTER, "wsrep_last_committed": "41", "wsrep_local_recv_queue": "0", "wsrep_gcomm_uuid": A,
}
SYNCED = {**LOST, "wsrep_cluster_status": "Primary", "wsrep_ready": "ON", "wsrep_local_state_comment": "Synced"}


class Server:
    """A server that answers or not; its process is a real one."""

    def __init__(self) -> None:
        self.answer: dict[str, str] | None = None
        self.rows: list[tuple[str, str]] = [(A, "n1"), (B, "n2")]
        self.state = {"ActiveState": "activating", "MainPID": "0"}

    def status(self) -> dict[str, str]:
        if self.answer is None:
            raise OSError("refused")
        return self.answer

    def execute(self, *statements: str) -> list[tuple[str, str]]:
        assert "wsrep_cluster_members" in statements[-1]
        return self.rows

    def unit(self) -> dict[str, str]:
        return self.state


@pytest.fixture(name="server")
def fixture_server() -> Server:
    return Server()


@pytest.fixture(name="report")
def fixture_report(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> t.Any:
    (report,) = load(monkeypatch, "galera_report")
    monkeypatch.setattr(report, "DATA", tmp_path)
    monkeypatch.setattr(report, "KEPT", tmp_path / "kept.json")
    monkeypatch.setattr(report, "ISOLATED", tmp_path / "isolated.json")
    monkeypatch.setattr(report, "INCOMPLETE", tmp_path / "incomplete")
    return report


@pytest.fixture(name="starting")
def fixture_starting(server: Server) -> t.Iterator[t.Callable[..., None]]:
    """Start a process with the arguments of a server."""
    processes = []

    def start(*arguments: str) -> None:
        processes.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", *arguments]))
        server.state["MainPID"] = str(processes[-1].pid)
        while "python" not in pathlib.Path(f"/proc/{processes[-1].pid}/cmdline").read_text("utf-8"):
            time.sleep(0.01)

    yield start
    for process in processes:
        process.kill()
        process.wait()


def grastate(folder: pathlib.Path, uuid: str = CLUSTER, seqno: int = -1) -> None:
    (folder / "grastate.dat").write_text(f"# GALERA saved state\nversion: 2.1\nuuid:    {uuid}\nseqno:   {seqno}\nsafe_to_bootstrap: 0\n", "utf-8")


def test_a_member_that_serves(report: t.Any, server: Server, tmp_path: pathlib.Path) -> None:
    (tmp_path / "gvwstate.dat").write_text(VIEW, "utf-8")
    (tmp_path / "gvwstate.dat.last").write_text(VIEW, "utf-8")
    server.answer = SYNCED
    found = report.Observer("n1", server).look()
    assert not (tmp_path / "gvwstate.dat.last").exists(), "it would be the view after a graceful stop"
    assert (found.state, found.primary, found.ready, found.isolated, found.position, found.node) == ("running", True, True, False, 41, A)
    assert (found.view.id, found.view.seq, found.view.members) == (f"3 {A} 7", 7, (A, B))
    assert (dict(found.names), found.caught_up) == ({A: "n1", B: "n2"}, f"3 {A} 7")
    # the record survives the guard and its host
    server.answer = None
    server.state["ActiveState"] = "failed"
    grastate(tmp_path)
    kept = report.Observer("n1", server).look()
    assert (dict(kept.names), kept.caught_up, kept.state) == ({A: "n1", B: "n2"}, f"3 {A} 7", "stopped")


@pytest.mark.parametrize("script", ["exit 1", "exec sleep 60"], ids=["failed", "slow"])
def test_nothing_is_recorded_before_all_data_are_on_the_disk(
    report: t.Any, server: Server, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    (tmp_path / "gvwstate.dat").write_text(VIEW, "utf-8")
    sync = tmp_path / "sync"
    sync.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
    sync.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(report, "PATIENCE", 0.2)
    server.answer = SYNCED
    observer = report.Observer("n1", server)
    for _look in range(2):
        began = time.monotonic()
        assert observer.look().ready and not report.KEPT.exists()
        assert time.monotonic() - began < 5, "meanwhile the other members get no report"
    # the next one succeeds, and is not skipped
    if observer.flush:
        observer.flush[1].kill()
        observer.flush[1].wait()
    sync.write_text("#!/bin/sh\n", "utf-8")
    for _look in range(2):
        observer.look()
    assert report.Observer("n1", server).caught_up == f"3 {A} 7"


def test_a_full_disk_ends_no_guard(report: t.Any, server: Server, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gvwstate.dat").write_text(VIEW, "utf-8")
    monkeypatch.setattr(report, "KEPT", tmp_path / "cannot be written" / "kept.json")
    server.answer = SYNCED
    assert dict(report.Observer("n1", server).look().names) == {A: "n1", B: "n2"}


@pytest.mark.parametrize("changed", [{"wsrep_local_recv_queue": "3"}, {"wsrep_local_state_comment": "Donor/Desynced"}])
def test_a_member_that_lags_has_not_caught_up(report: t.Any, server: Server, tmp_path: pathlib.Path, changed: dict[str, str]) -> None:
    (tmp_path / "gvwstate.dat").write_text(VIEW, "utf-8")
    server.answer = {**SYNCED, **changed}
    found = report.Observer("n1", server).look()
    assert found.ready and found.caught_up is None and dict(found.names) == {A: "n1", B: "n2"}


def test_the_position_of_a_member_without_component_must_be_final(report: t.Any, server: Server) -> None:
    observer = report.Observer("n1", server)
    seen = []
    for server.answer in [
        LOST,
        {**LOST, "wsrep_local_recv_queue": "2"},
        {**LOST, "wsrep_last_committed": "42"},
        {**LOST, "wsrep_last_committed": "43"},
        {**LOST, "wsrep_last_committed": "43"},
        {**LOST, "wsrep_last_committed": "nonsense"},
    ]:
        seen.append(observer.look().position)
    assert seen == [None, None, None, None, 43, None]


def test_an_isolated_member(report: t.Any, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    statements: list[str] = []
    real = report.Server("")
    monkeypatch.setattr(real, "execute", statements.append)
    server.answer = LOST
    observer = report.Observer("n1", server)
    assert not observer.look().isolated
    real.isolate(A)
    # also after the guard was restarted; another process of the server has another id, and is not isolated
    assert report.Observer("n1", server).look().isolated
    server.answer = {**LOST, "wsrep_gcomm_uuid": B}
    assert not observer.look().isolated
    server.answer = LOST
    real.connect()
    assert not observer.look().isolated
    assert [each.partition("'")[2] for each in statements] == ["gmcast.isolate=1'", "gmcast.isolate=0'"]
    # it left the cluster
    server.answer = {**LOST, "wsrep_connected": "OFF"}
    assert observer.look().isolated


@pytest.mark.parametrize(("state", "primary"), [("0", False), ("1", True), ("2", True)])
def test_a_member_that_receives_changes_is_in_a_component(report: t.Any, server: Server, state: str, primary: bool) -> None:
    server.answer = {**LOST, "wsrep_local_state": state}
    found = report.Observer("n1", server).look()
    assert found.primary is primary and not found.ready


@pytest.mark.parametrize("state", [{"ActiveState": "active", "MainPID": "1"}, {"ActiveState": "deactivating"}, {}])
def test_a_server_that_hangs_is_unknown(report: t.Any, server: Server, tmp_path: pathlib.Path, state: dict[str, str]) -> None:
    grastate(tmp_path, seqno=7)
    server.state = state
    assert report.Observer("n1", server).look() is None


@pytest.mark.parametrize("name", ["gvwstate.dat", "gvwstate.dat.last", "grastate.dat"])
def test_a_server_whose_files_cannot_be_read_is_unknown(report: t.Any, server: Server, starting: t.Any, tmp_path: pathlib.Path, name: str) -> None:
    grastate(tmp_path)
    starting(f"--wsrep_start_position={CLUSTER}:77")
    assert report.Observer("n1", server).look() is not None
    # any error but that it is missing
    (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / name).mkdir()
    assert report.Observer("n1", server).look() is None


def test_a_record_that_cannot_be_read_ends_no_guard(report: t.Any, server: Server) -> None:
    report.KEPT.mkdir()
    observer = report.Observer("n1", server)
    assert (observer.names, observer.caught_up) == ({}, None)


def test_an_identity_that_cannot_be_read_is_not_replaced(report: t.Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report.subprocess, "run", lambda *unused, **more: pytest.fail("the server was started"))
    grastate(tmp_path)
    before = (tmp_path / "grastate.dat").read_bytes()

    def fails(*unused: t.Any, **more: t.Any) -> str:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(pathlib.Path, "read_text", fails)
        with pytest.raises(OSError, match="Input/output error"):
            report.Server("").bootstrap(CLUSTER)
    assert (tmp_path / "grastate.dat").read_bytes() == before


def test_a_server_without_replication_is_unknown(report: t.Any, server: Server) -> None:
    server.answer = {**SYNCED, "wsrep_on": "OFF"}
    assert report.Observer("n1", server).look() is None


@pytest.mark.parametrize("option", ["--wsrep_start_position", "--wsrep-start-position"])
def test_a_starting_server(report: t.Any, server: Server, starting: t.Any, tmp_path: pathlib.Path, option: str) -> None:
    grastate(tmp_path)
    (tmp_path / "gvwstate.dat.last").write_text(VIEW, "utf-8")
    starting(f"{option}={CLUSTER}:77")
    observer = report.Observer("n1", server)
    found = observer.look()
    assert (found.state, found.uuid, found.position, found.joined, found.view.seq, observer.bootstraps) == ("starting", CLUSTER, 77, False, 7, False)
    # it is in a component now
    (tmp_path / "gvwstate.dat").write_text(VIEW.replace(f"{A} 7", f"{A} 8"), "utf-8")
    found = observer.look()
    assert (found.joined, found.view.seq) == (True, 8)


def test_a_server_that_starts_the_cluster(report: t.Any, server: Server, starting: t.Any, tmp_path: pathlib.Path) -> None:
    grastate(tmp_path)
    starting("--wsrep-new-cluster", f"--wsrep_start_position={CLUSTER}:77")
    observer = report.Observer("n1", server)
    found = observer.look()
    assert (found.position, found.primary, observer.bootstraps) == (77, False, True)
    # it has formed the component
    (tmp_path / "gvwstate.dat").write_text(VIEW, "utf-8")
    found = observer.look()
    assert (found.state, found.primary, found.ready, found.joined) == ("starting", True, True, True)
    # later, it has lost it
    server.answer = LOST
    observer.look()
    assert not observer.bootstraps


def test_data_of_another_member_that_is_incomplete_does_not_count(report: t.Any, server: Server, starting: t.Any, tmp_path: pathlib.Path) -> None:
    grastate(tmp_path)
    starting(f"--wsrep_start_position={CLUSTER}:77")
    (tmp_path / ".sst").mkdir()
    found = report.Observer("n1", server).look()
    assert (found.uuid, found.position) == (None, None)


def test_the_position_of_a_server_that_left_before_it_had_all_changes_does_not_count(
    report: t.Any, server: Server, starting: t.Any, tmp_path: pathlib.Path
) -> None:
    """Seen with 11.8: the copy of all data succeeded, the changes since did not arrive, and the server saved the position of the cluster."""
    grastate(tmp_path)
    starting(f"--wsrep_start_position={CLUSTER}:7")
    observer, left = report.Observer("n1", server), {**LOST, "wsrep_connected": "OFF", "wsrep_cluster_status": "Disconnected"}
    assert observer.look().position == 7
    server.answer = left
    found = observer.look()
    assert (found.state, found.uuid, found.isolated) == ("running", None, True) and (tmp_path / "incomplete").exists()
    # it was killed: neither it nor its guard believes the position that was recovered
    server.answer = None
    starting(f"--wsrep_start_position={CLUSTER}:41")
    found = report.Observer("n1", server).look()
    assert (found.uuid, found.position) == (None, None)
    server.answer = SYNCED
    assert observer.look().uuid == CLUSTER and not (tmp_path / "incomplete").exists()
    # one that was complete
    server.answer = left
    assert observer.look().uuid == CLUSTER and not (tmp_path / "incomplete").exists()


def test_a_server_that_left_before_its_guard_was_started_keeps_its_position(report: t.Any, server: Server, tmp_path: pathlib.Path) -> None:
    server.answer = {**LOST, "wsrep_connected": "OFF"}
    assert report.Observer("n1", server).look().uuid == CLUSTER and not (tmp_path / "incomplete").exists()


def test_a_member_without_data_and_one_that_does_not_know_yet(report: t.Any, server: Server, starting: t.Any, tmp_path: pathlib.Path) -> None:
    # its position is being recovered: the file has none while a table definition is changed
    grastate(tmp_path, NO_UUID)
    assert report.Observer("n1", server).look() is None
    starting(f"--wsrep_start_position={NO_UUID}:-1")
    found = report.Observer("n1", server).look()
    assert (found.state, found.uuid, found.position) == ("starting", None, None)


@pytest.mark.parametrize(("seqno", "position"), [(12, 12), (-1, None)])
def test_a_stopped_server(report: t.Any, server: Server, tmp_path: pathlib.Path, seqno: int, position: int | None) -> None:
    server.state["ActiveState"] = "inactive"
    grastate(tmp_path, seqno=seqno)
    found = report.Observer("n1", server).look()
    assert (found.state, found.uuid, found.position) == ("stopped", CLUSTER, position)


@pytest.mark.parametrize("text", ["", "my_uuid: x\n", "\x00" * 200, VIEW.replace("#vwend\n", ""), VIEW.replace(" 7\n", " -7\n")])
def test_a_damaged_view_is_none(report: t.Any, text: str) -> None:
    assert report.galera_return.read_view(text)[0] is None


@pytest.mark.parametrize("text", ["", "[]", "{", '{"names": []}', '{"names": {}}', "null"])
def test_a_damaged_record_is_empty(report: t.Any, text: str) -> None:
    assert report.galera_return.read_kept(text) == ({}, None)


# ---------------------------------------------------------------- other members


@pytest.mark.parametrize("uuid", [CLUSTER, NO_UUID])
def test_a_server_that_starts_the_cluster_keeps_its_identity(report: t.Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, uuid: str) -> None:
    commands: list[list[str]] = []
    monkeypatch.setattr(report.subprocess, "run", lambda argv, **unused: commands.append(argv))
    grastate(tmp_path, uuid)
    report.Server("").bootstrap(CLUSTER)
    text = (tmp_path / "grastate.dat").read_text("utf-8")
    assert f"uuid:    {CLUSTER}" in text and "safe_to_bootstrap: 1" in text
    start = ["systemctl", "start", "--no-block", "mariadb.service"]
    # once, and connected to no other member meanwhile
    assert commands == [["systemctl", "set-environment", "_WSREP_NEW_CLUSTER=--wsrep-new-cluster --wsrep-cluster-address=gcomm://"], start]
    report.Server("").start()
    assert commands[2:] == [["systemctl", "unset-environment", "_WSREP_NEW_CLUSTER"], start]
