# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One controller relieved of its clients; the host is a stand-in, the load balancer answers over a real socket."""

from __future__ import annotations

import pathlib
import socket
import threading

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import run_add_server
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.run_add_server import HandoverRequest, hand_over, parse_ports
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._loadbalancer.io_haproxy import HaProxy
from tests.support.records import away

VIRTUAL = "192.0.2.20"
# Output of HAProxy 2.6 without unused columns.
STAT = """# pxname,svname,qcur,qmax,scur,smax,status,
stats,FRONTEND,,,0,0,OPEN,
mysql,FRONTEND,,,1,2,OPEN,
mysql,c1,0,0,0,1,{c1},
mysql,c2,0,0,1,1,UP,
mysql,BACKEND,0,0,1,2,UP,

"""
TABLES = "# table: footprint-other, type: ip, size:1, used:0\n# table: mysql, type: ip, size:1, used:1\n\n"
TABLE = "# table: mysql, type: ip, size:1, used:1\n0x55: key=192.0.2.20 use=0 exp=0 server_id=2 server_key={in_use}\n\n"


class Balancer:
    """Speaks HAProxy's side of the admin socket."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = str(path)
        self.in_use, self.c1, self.stubborn, self.heard = "c2", "UP", False, list[str]()
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(self.path)
        self._server.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                client, _peer = self._server.accept()
            except OSError:
                return
            with client:
                client.sendall(self._answer(client.recv(1000).decode().strip()).encode())

    def _answer(self, command: str) -> str:
        self.heard.append(command)
        if command == "set server mysql/c2 health down":
            self.in_use = self.in_use if self.stubborn else "c1"
            return "\n"
        answers = {"show stat": STAT.format(c1=self.c1), "show table": TABLES, "show table mysql": TABLE.format(in_use=self.in_use)}
        return answers.get(command, "Unknown command.\n")


@pytest.fixture
def balancer(tmp_path: pathlib.Path) -> Balancer:
    return Balancer(tmp_path / "haproxy.sock")


class Host:
    """Stands in for systemd and the network."""

    def __init__(self) -> None:
        self.mine, self.restarted, self.touched = ["192.0.2.102", VIRTUAL], list[str](), 0
        self.peers = True

    def addresses(self) -> list[str]:
        return list(self.mine)

    def touch(self, _address: str, _port: int) -> bool:
        self.touched += 1
        return self.peers

    def restart(self, unit: str) -> None:
        self.restarted.append(unit)
        if self.peers:
            self.mine.remove(VIRTUAL)


class Clock:
    """A clock that advances with each sleep."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def handed(balancer: Balancer, host: Host, here: bool, check_mode: bool = False, member: str = "c2") -> list[str]:
    clock = Clock()
    request = HandoverRequest(member, here, VIRTUAL, {"mysql": 3306}, wait_timeout=10)
    return hand_over(request, HaProxy(balancer.path), check_mode, host, clock.sleep, clock)


def test_servers_of_the_load_balancer_and_the_active_one_are_read(balancer: Balancer) -> None:
    servers = {"c1": {"status": "UP", "sessions": 0}, "c2": {"status": "UP", "sessions": 1}}
    assert HaProxy(balancer.path).frontends() == {"mysql": {"servers": servers, "in_use": "c2"}}


def test_missing_balancer_is_reported(tmp_path: pathlib.Path) -> None:
    with pytest.raises(BackendError, match="HAProxy does not answer"):
        HaProxy(str(tmp_path / "none.sock")).frontends()


def test_the_clients_go_to_another_member(balancer: Balancer) -> None:
    host = Host()
    assert handed(balancer, host, here=False) == ["writer of mysql"]
    assert balancer.in_use == "c1"
    assert host.touched == 1
    assert handed(balancer, host, here=False) == [], "a second time there is nothing left to hand over"


def test_check_mode_reports_the_hand_over_and_changes_nothing(balancer: Balancer) -> None:
    host = Host()
    assert handed(balancer, host, here=False, check_mode=True) == ["writer of mysql"]
    assert handed(balancer, host, here=True, check_mode=True) == ["address"]
    assert not [command for command in balancer.heard if command.startswith("set")]
    assert host.restarted == []


def test_handover_is_refused_without_another_member(balancer: Balancer) -> None:
    balancer.c1 = "DOWN"
    with pytest.raises(RefusedError, match="c2 is the only healthy member of mysql"):
        handed(balancer, Host(), here=False)
    assert not [command for command in balancer.heard if command.startswith("set")]


def test_handover_that_has_no_effect_fails(balancer: Balancer) -> None:
    balancer.stubborn = True
    with pytest.raises(BackendError, match="still sends clients of mysql to c2 after 10 s"):
        handed(balancer, Host(), here=False)


def test_the_virtual_address_goes_to_a_peer(balancer: Balancer) -> None:
    host = Host()
    assert handed(balancer, host, here=True) == ["address"]
    assert host.restarted == ["keepalived.service"]
    assert handed(balancer, host, here=True) == []


def test_virtual_address_without_a_new_holder_fails(balancer: Balancer) -> None:
    host = Host()
    host.peers = False
    with pytest.raises(BackendError, match="no peer took over the virtual address"):
        handed(balancer, host, here=True)


@pytest.mark.parametrize("port", [0, 65536, "mysql", -1, "3306.0", None])
def test_a_port_that_is_none_is_named(port: object) -> None:
    with pytest.raises(InputError) as caught:
        parse_ports({"mysql": 3306, "http": port})
    assert caught.value.path == "ports.http"


@pytest.mark.parametrize("uuid, waits", [("u", "waiting for metal3."), ("another cluster's", None)])
def test_a_worker_that_waits_for_the_destination_is_seen(uuid: str, waits: str | None, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make = run_add_server.io_store.MoveStore
    monkeypatch.setattr(run_add_server.io_store, "HOME", tmp_path)
    monkeypatch.setattr(run_add_server.io_store, "MoveStore", lambda name: make(name, tmp_path))
    note = away("moved", "metal3", "c2", uuid)
    monkeypatch.setattr(run_add_server.io_owner, "read_all", lambda: {uuid: note})
    store = make("c2", tmp_path)
    journal = store.journal()
    journal.state, journal.reason, journal.progress, journal.facts["vm"] = "running", "waiting for metal3.", {"waiting_for": "metal3"}, {"uuid": "u"}
    store.write(journal)
    assert [(each["id"], each["waiting"]) for each in run_add_server.departures()] == [("c2", waits)]
    journal.progress = {"phase": "start"}
    store.write(journal)
    assert run_add_server.departures()[0]["waiting"] is None
