# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What systemd, configuration files and services say of the control plane."""

from __future__ import annotations

import http.server
import json
import os
import pathlib
import socket
import threading
import time
import types
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._certificate import io_certificates
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import io_listeners, io_plane
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import Completed
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import CommandError

SHOWN = """Id=mariadb.service
LoadState=loaded
ActiveState=active
SubState=running
MainPID=635
ActiveEnterTimestamp=@1795314328
InvocationID=12e3
FragmentPath=/lib/systemd/system/mariadb.service

Id=nosuch.service
LoadState=not-found
ActiveState=inactive
MainPID=0
ActiveEnterTimestamp=
InvocationID=

Id=old.service
LoadState=loaded
ActiveState=failed
SubState=failed
MainPID=0
ActiveEnterTimestamp=
InvocationID=
FragmentPath=/run/systemd/generator.late/old.service
SourcePath=/etc/init.d/old
"""

CLUSTER: dict[str, t.Any] = {
    "disk_nodes": ["rabbit@c1", "rabbit@c2"],
    "ram_nodes": [],
    "running_nodes": ["rabbit@c1"],
    "partitions": {"rabbit@c1": ["rabbit@c2"]},
    "alarms": [],
    "versions": {"rabbit@c1": {"rabbitmq_version": "3.10.8"}},
}


def test_the_expiry_of_a_certificate(tmp_path, monkeypatch):
    authority = io_certificates.make_authority("test", 1_700_000_000, 10)
    (tmp_path / "edge.pem").write_text(authority.certificate + authority.key, "ascii")
    assert abs(io_plane.expiry(str(tmp_path / "edge.pem")) - (1_700_000_000 + 10 * 86400)) <= 86400
    (tmp_path / "broken.pem").write_text("no certificate", "ascii")
    assert io_plane.expiry(str(tmp_path / "broken.pem")) is None and io_plane.expiry(str(tmp_path / "missing.pem")) is None and io_plane.expiry("") is None
    path, longer = tmp_path / "certificate.pem", io_certificates.make_authority("test", 1_700_000_000, 99)
    path.write_text(longer.certificate, "ascii")
    # the members do not accept each other once their authority has expired; of two, the other one may be valid
    for text, days in ((authority.certificate, 10), (longer.certificate, 99), (authority.certificate + longer.certificate, 99)):
        (tmp_path / "ca.pem").write_text(text, "ascii")
        assert io_plane.expiry(str(path)) == 1_700_000_000 + days * 86400
    monkeypatch.setenv("PATH", str(tmp_path))
    assert io_plane.expiry(str(tmp_path / "edge.pem")) is None


def test_units_are_returned_in_the_order_of_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(io_plane, "run", lambda argv, timeout: Completed(tuple(argv), 0, SHOWN, ""))
    found = io_plane.units(["mariadb.service", "nosuch.service", "old.service"])
    assert list(found) == ["mariadb.service", "old.service"]
    assert found["mariadb.service"] == {
        "state": "active", "sub": "running", "pid": 635, "since": "2026-11-22T02:25:28Z", "invocation": "12e3", "path": "/lib/systemd/system/mariadb.service",
    }  # fmt: skip
    assert (found["old.service"]["path"], found["old.service"]["since"]) == ("/etc/init.d/old", None)
    assert io_plane.units([]) == {}


def test_virtual_addresses_are_read_from_the_configuration(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "keepalived.conf"
    path.write_text(
        "# virtual_ipaddress { 192.0.2.9 }\nvrrp_instance a {\n virtual_ipaddress {\n  192.0.2.20/32 dev eno1 # the admin's\n  192.0.2.21\n }\n}\n"
        "vrrp_instance b {\n virtual_ipaddress {\n  198.51.100.20/24\n }\n}\n",
        encoding="utf-8",
    )
    assert io_plane.virtual_addresses(path) == ["192.0.2.20", "192.0.2.21", "198.51.100.20"]
    assert io_plane.virtual_addresses(tmp_path / "none") == []


JOURNAL = """(footprint): entering FAULT state (src address not configured)
(footprint) Entering FAULT STATE
(footprint_public) Entering BACKUP STATE (init)
(footprint_public) Entering MASTER STATE
"""
STARTED = "Starting VRRP child process, pid=65\n"
KEEPALIVED = "Id=keepalived.service\nLoadState=loaded\nActiveState={state}\nSubState=running\nMainPID=635\nInvocationID={invocation}\n"


@pytest.mark.parametrize(
    "state, invocation, rc, journal, expected",
    [
        ("active", "12e3", 0, JOURNAL, {"footprint": "FAULT", "footprint_public": "MASTER"}),
        ("active", "12e3", 0, STARTED + JOURNAL, {"footprint": "FAULT", "footprint_public": "MASTER"}),
        # keepalived 2.2 logs nothing when its first check fails, and may stay in that state
        ("active", "12e3", 0, STARTED, {"footprint": "INIT", "footprint_public": "INIT"}),
        ("active", "12e3", 1, "", {}),
        ("active", "12e3", 2, JOURNAL, {}),
        ("active", "", 0, JOURNAL, {}),
        ("failed", "12e3", 0, JOURNAL, {}),
    ],
    ids=["said", "said since the start", "only the start", "nothing said", "no journal", "old systemd", "not running"],
)
def test_what_keepalived_said_last_counts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, state: str, invocation: str, rc: int, journal: str, expected: dict[str, str]
) -> None:
    def run(argv: t.Sequence[str], timeout: float, ok: t.Sequence[int] = (0,)) -> Completed:
        if argv[0] == "systemctl":
            return Completed(tuple(argv), 0, KEEPALIVED.format(state=state, invocation=invocation), "")
        assert f"_SYSTEMD_INVOCATION_ID={invocation}" in argv
        if rc not in ok:
            raise CommandError(argv, rc, "no journal files were found")
        return Completed(tuple(argv), rc, journal, "")

    monkeypatch.setattr(io_plane, "run", run)
    path = tmp_path / "keepalived.conf"
    path.write_text("# vrrp_instance not {\nvrrp_instance footprint {\n}\nvrrp_instance footprint_public {\n}\n", encoding="utf-8")
    assert io_plane.vrrp_states(path=path) == expected


def test_the_cluster_of_rabbitmq_is_read() -> None:
    found = io_plane.read_cluster(CLUSTER)
    assert found == {
        "members": ["rabbit@c1", "rabbit@c2"], "running": ["rabbit@c1"], "partitions": {"rabbit@c1": ["rabbit@c2"]}, "alarms": [], "maintenance": {},
        "version": "3.10.8",
    }  # fmt: skip
    states = {"rabbit@c1": "under maintenance", "rabbit@c2": "not under maintenance"}
    assert io_plane.read_cluster({**CLUSTER, "maintenance_status": states})["maintenance"] == states


@pytest.mark.parametrize("said", [None, "no JSON", "[]", "{}"])
def test_a_rabbitmq_that_says_nothing_of_use_does_not_answer(monkeypatch: pytest.MonkeyPatch, said: str | None) -> None:
    def run(argv: t.Sequence[str], timeout: float) -> Completed:
        if said is None:
            raise CommandError(argv, None, "no end")
        return Completed(tuple(argv), 0, said, "")

    monkeypatch.setattr(io_plane, "run", run)
    assert io_plane.rabbitmq() is None


def test_listeners_of_a_process() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert ("127.0.0.1", port) in io_listeners.listeners_of(os.getpid())
        assert ("127.0.0.1", port) not in io_listeners.listeners_of(os.getppid())
    assert io_listeners.listeners_of(0) == []


def test_listeners_are_those_of_the_kernel() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        found = io_listeners.listeners()
        assert ("127.0.0.1", port) in found
        assert io_listeners.reachable_at(port, found) == "127.0.0.1"
        assert io_listeners.reachable_at(port, found, avoid=["127.0.0.1"]) is None
    assert io_listeners.reachable_at(5000, [("0.0.0.0", 5000)]) == "127.0.0.1"


def test_kernel_tables_are_read(tmp_path: pathlib.Path) -> None:
    head = "  sl  local_address rem_address   st\n"
    # written by a little-endian processor, as all are that this is run on
    (tmp_path / "tcp").write_text(head + "   0: 0B02000A:1388 00000000:0000 0A 0\n   1: 0B02000A:1F90 0100007F:1000 01 0\n", encoding="ascii")
    (tmp_path / "tcp6").write_text(head + "   0: 00000000000000000000000000000000:0CEA 0000:0000 0A 0\n", encoding="ascii")
    assert io_listeners.listeners(tmp_path) == [("10.0.2.11", 5000), ("::", 3306)]
    assert io_listeners.connections(tmp_path) == [(("10.0.2.11", 8080), ("127.0.0.1", 4096))]


def test_members_of_a_witness(tmp_path: pathlib.Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "garbd.cfg").write_text("# managed\naddress = gcomm://10.0.0.1:4567, 10.0.0.2:4567\ngroup = home\n", encoding="ascii")
    assert io_plane.witness_members("home", tmp_path) == ["10.0.0.1:4567", "10.0.0.2:4567"]
    assert io_plane.witness_members("work", tmp_path) is None
    assert io_plane.witness_members("", tmp_path) is None


class _Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:  # noqa: N802
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"version": {"id": "v3.14"}}')

    def do_HEAD(self) -> None:  # noqa: N802
        self.send_response(200)
        self.end_headers()

    def log_message(self, *unused: t.Any) -> None:
        pass


def test_what_is_spoken_is_found_out() -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_address[1]
        assert io_listeners.scheme_of("127.0.0.1", port) == "http"
        assert io_listeners.http_json("127.0.0.1", port, "/v3") == {"version": {"id": "v3.14"}}
        server.shutdown()
    assert io_listeners.scheme_of("127.0.0.1", port, 0.5) is None
    assert io_listeners.http_json("127.0.0.1", port, "/v3", timeout=0.5) is None


@pytest.mark.parametrize("says, version", [(b"VERSION 1.6.18\r\n", "1.6.18"), (b"ERROR\r\n", None), (b"", None)])
def test_version_of_memcached_is_read(says: bytes, version: str | None) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            stream, unused = server.accept()
            with stream:
                stream.recv(100)
                stream.sendall(says)

        threading.Thread(target=serve, daemon=True).start()
        assert io_listeners.memcached_version("127.0.0.1", server.getsockname()[1], 2) == version


def test_the_guard_of_the_database(tmp_path: pathlib.Path) -> None:
    unit, state = tmp_path / "unit", tmp_path / "state"
    assert io_plane.galera_guard(unit, state) is None
    unit.touch()
    late = '{"at": "x", "report": {}, "step": {"action": "", "reason": "", "waits_for": []}}'
    for text in ("", "{", "[]", "{}", '{"at": 1, "report": null, "step": {}}', late):
        state.write_text(text, "utf-8")
        assert io_plane.galera_guard(unit, state) == {"age_seconds": None}
    step = {"action": "wait", "reason": "c2 does not answer", "waits_for": ["c2"]}
    state.write_text(json.dumps({"at": time.monotonic() - 3, "report": {"isolated": True, "failed": None}, "step": step}), "utf-8")
    found = io_plane.galera_guard(unit, state)
    assert found and 3 <= found.pop("age_seconds") < 60 and found == {**step, "isolated": True, "failed": None}
    # the server hangs
    state.write_text(json.dumps({"at": time.monotonic(), "report": None, "step": step}), "utf-8")
    assert (io_plane.galera_guard(unit, state) or {})["isolated"] is False


@pytest.mark.parametrize(
    ("output", "expected"),
    [("", None), ('{"__REALTIME_TIMESTAMP": "1767225600000000", "MESSAGE": "x"}\n', "2026-01-01T00:00:00Z"), ("nonsense", "unknown"), (None, "unknown")],
)
def test_a_loss_in_the_log_of_the_database(monkeypatch: pytest.MonkeyPatch, output: str | None, expected: str | None) -> None:
    def run(argv: list[str], **unused: t.Any) -> t.Any:
        assert "--grep=Reversing history" in argv and "--unit=mariadb.service" in argv
        if output is None:
            raise CommandError(["journalctl"], 2, "no journal")
        return types.SimpleNamespace(stdout=output)

    monkeypatch.setattr(io_plane, "run", run)
    assert io_plane.galera_reversed() == expected


def test_round_trips_are_those_that_the_kernel_has_measured() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        accepted, _address = server.accept()
        with accepted:
            client.sendall(b"x")
            assert accepted.recv(1) == b"x"
            found = io_listeners.round_trips(server.getsockname()[1])
            assert list(found) == ["127.0.0.1"] and 0 <= found["127.0.0.1"] < 0.5
        assert io_listeners.round_trips(1) == {}


def test_the_shortest_round_trip_to_an_address_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        "0 0 10.0.0.3:4567 10.0.0.1:40000 cubic rtt:71.2/30 minrtt:50.1 snd_wnd:1",
        "0 0 10.0.0.3:40000 10.0.0.1:4567 cubic rtt:49.2/30 minrtt:49 snd_wnd:1",
        "0 0 [::ffff:10.0.0.3]:4567 [::ffff:10.0.0.2]:40000 cubic rtt:1/1 minrtt:0.25",
        # not measured yet
        "0 0 10.0.0.3:4567 10.0.0.4:40000 cubic rto:200",
    ]
    monkeypatch.setattr(io_listeners, "run", lambda argv, timeout: types.SimpleNamespace(stdout="\n".join(lines)))
    assert io_listeners.round_trips(4567) == {"10.0.0.1": 0.049, "10.0.0.2": 0.00025}


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ('{"MESSAGE": "waiting for rabbit@c2", "PRIORITY": "4"}\n', {"reason": "waiting for rabbit@c2", "person": False}),
        ('{"MESSAGE": "run deploy_controllers", "PRIORITY": "3"}\n', {"reason": "run deploy_controllers", "person": True}),
        ("", None), ("nonsense", None), ("[]", None), ('{"MESSAGE": "x"}', None), (None, None),
    ],
)  # fmt: skip
def test_why_a_unit_waits_before_its_start(monkeypatch: pytest.MonkeyPatch, output: str | None, expected: dict[str, t.Any] | None) -> None:
    """The journal is of the test: what runs the tests may have none."""

    def run(argv: list[str], **unused: t.Any) -> t.Any:
        assert "_SYSTEMD_INVOCATION_ID=0f3a" in argv and "--lines=1" in argv
        if output is None:
            raise CommandError(["journalctl"], 2, "no journal")
        return types.SimpleNamespace(stdout=output)

    monkeypatch.setattr(io_plane, "run", run)
    unit = {"state": "activating", "sub": "start-pre", "invocation": "0f3a"}
    assert io_plane.waits(unit) == expected
    # it does not wait, or it is unknown
    assert io_plane.waits({**unit, "sub": "start"}) is io_plane.waits({**unit, "invocation": ""}) is io_plane.waits({}) is None
