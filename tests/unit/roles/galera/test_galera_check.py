# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The check of a member over real connections. A file takes the place of the database; without it, the server does not answer."""

from __future__ import annotations

import contextlib
import json
import pathlib
import shutil
import socket
import struct
import subprocess
import sys
import time
import typing as t

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[4]
REQUEST = b"GET / HTTP/1.0\r\n\r\n"


#: A database whose status is in a file; it answers nothing as long as the status is empty.
DATABASE = """
import json, pathlib, time
MySQLError = ValueError
class Connection:
    def __init__(self, path):
        self.path = path
        self.fetchall()
    def __enter__(self): return self
    def __exit__(self, *unused): pass
    def cursor(self): return self
    def execute(self, statement): pass
    def fetchall(self):
        end = time.monotonic() + 2
        while not (text := self.path.read_text()):
            if time.monotonic() > end: raise OSError("timed out")
            time.sleep(0.02)
        return json.loads(text).items()
def connect(unix_socket, **unused): return Connection(pathlib.Path(unix_socket))
"""
HERE, PEER = "127.0.0.1", "127.0.0.2"
SYNCED = {
    "wsrep_cluster_status": "Primary", "wsrep_connected": "ON", "wsrep_ready": "ON", "wsrep_local_state_comment": "Synced",
    "wsrep_local_recv_queue": "0", "wsrep_incoming_addresses": f"{HERE}:3306,{PEER}:3306,",
}  # fmt: skip
DONOR = {**SYNCED, "wsrep_local_state_comment": "Donor/Desynced"}


class Check(t.NamedTuple):
    """A check, and the status of its database."""

    process: subprocess.Popen[str]
    address: str
    port: int
    database: pathlib.Path

    def has(self, status: t.Mapping[str, str] | None) -> None:
        """Change the status of the database; ``None``: it hangs."""
        new = self.database.with_suffix(".new")
        new.write_text(json.dumps(status) if status else "", "ascii")
        new.replace(self.database)

    def get(self, path: str = "/") -> tuple[int, str]:
        """Return status and text of a response."""
        head, unused, body = ask(self.port, f"GET {path} HTTP/1.0\r\n\r\n".encode(), self.address).decode().partition("\r\n\r\n")
        return int(head.split()[1]), body.strip()

    def becomes(self, status: int, words: str, seconds: float = 20) -> None:
        """Wait for a response."""
        end = time.monotonic() + seconds
        while (found := self.get())[0] != status or words not in found[1]:
            assert time.monotonic() < end, f"{found}, not {status} {words}"
            time.sleep(0.05)


@pytest.fixture(name="start")
def fixture_start(tmp_path: pathlib.Path) -> t.Iterator[t.Callable[..., Check]]:
    """Start checks."""
    shutil.copy(ROOT / "roles/galera/files/galera_check.py", tmp_path)
    shutil.copy(ROOT / "plugins/module_utils/_galera/plan_member.py", tmp_path / "galera_plan.py")
    # the program has a fixed path for the state
    program = tmp_path / "galera_check.py"
    program.write_text(program.read_text("utf-8").replace("/run/footprint-galera", str(tmp_path)), "utf-8")
    (tmp_path / "pymysql.py").write_text(DATABASE, "ascii")
    with contextlib.ExitStack() as stack:

        def start(address: str = HERE, port: int = 0, status: t.Mapping[str, str] | None = None) -> Check:
            listener = stack.enter_context(socket.create_server((address, port)))
            database = tmp_path / f"{address}.json"
            # as systemd does
            starts = f"import os, sys; os.dup2({listener.fileno()}, 3); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
            settings = tmp_path / f"{address}-members.json"
            settings.write_text(json.dumps({"socket": str(database), "members": {"n1": PEER, "n2": "2001:DB8::1"}}), "utf-8")
            argv = [sys.executable, "-c", starts, str(program), str(settings)]
            if status:
                database.write_text(json.dumps(status), "ascii")
            process = subprocess.Popen(argv, pass_fds=(listener.fileno(),), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            stack.enter_context(process)
            stack.callback(process.kill)
            return Check(process, address, listener.getsockname()[1], database)

        yield start


@pytest.fixture(name="check")
def fixture_check(start: t.Callable[..., Check]) -> tuple[subprocess.Popen[str], int]:
    """A running check without a database, and its port."""
    check = start()
    return check.process, check.port


def ask(port: int, request: bytes = REQUEST, address: str = HERE, source: str = HERE) -> bytes:
    """Send a request; return the response."""
    with socket.create_connection((address, port), 30, (source, 0)) as client:
        client.sendall(request)
        return b"".join(iter(lambda: client.recv(65536), b""))


def test_the_reason_is_in_the_response(check: tuple[subprocess.Popen[str], int]) -> None:
    response = ask(check[1])
    assert response.startswith(b"HTTP/1.0 503 ") and b"the server does not answer" in response
    assert b"the server" not in ask(check[1], REQUEST.replace(b"GET", b"HEAD"))


def test_a_client_that_closes_its_connection_early_is_not_logged(check: tuple[subprocess.Popen[str], int]) -> None:
    process, port = check
    for _attempt in range(50):
        with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
            # the connection is reset, not closed
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.sendall(REQUEST)
    assert ask(port), "it does not answer any more"
    process.kill()
    assert process.communicate()[0] == ""


def test_a_server_that_hangs_is_noticed_and_delays_no_response(start: t.Callable[..., Check]) -> None:
    check = start(status=SYNCED)
    check.becomes(200, "ready")
    assert check.get("/members") == (200, f"{HERE}\n{PEER}")
    check.has(None)
    check.becomes(503, "the server has not answered for")
    begin = time.monotonic()
    for _request in range(20):
        assert check.get()[0] == 503
    # two seconds each otherwise
    assert time.monotonic() - begin < 10, "they wait for the database"
    check.has(SYNCED)
    check.becomes(200, "ready")


@pytest.mark.parametrize(
    ("own", "other", "status"),
    [
        ({**DONOR, "wsrep_local_recv_queue": "3"}, SYNCED, 503),
        ({**DONOR, "wsrep_local_recv_queue": "3"}, {**SYNCED, "wsrep_local_recv_queue": "3"}, 503),
        # all that it has received is applied: the member in use remains so while it is a donor
        (DONOR, SYNCED, 200),
        # it is the only one that can serve
        ({**DONOR, "wsrep_local_recv_queue": "3"}, {**SYNCED, "wsrep_local_state_comment": "Joined"}, 200),
        ({**DONOR, "wsrep_local_recv_queue": "3"}, DONOR, 200),
        ({**DONOR, "wsrep_local_recv_queue": "3"}, {**SYNCED, "wsrep_cluster_status": "non-Primary"}, 200),
        ({**DONOR, "wsrep_local_recv_queue": "3"}, None, 200),
    ],
)
def test_a_donor_that_lags_serves_only_if_no_other_member_is_synchronised(
    start: t.Callable[..., Check], own: t.Mapping[str, str], other: t.Mapping[str, str] | None, status: int
) -> None:
    check = start(status=own)
    if other:
        start(PEER, check.port, other).becomes(503 if "non-Primary" in other.values() or "Joined" in other.values() else 200, "")
    for _time in range(2):
        # it remains so; an answer in between can be late on a loaded machine
        check.becomes(status, "lags behind" if status == 503 else "ready")
        time.sleep(0.6)
    assert check.get("/synced")[0] == 503


def test_a_donor_that_lags_serves_again_as_soon_as_the_other_member_is_lost(start: t.Callable[..., Check]) -> None:
    check = start(status={**DONOR, "wsrep_local_recv_queue": "3"})
    peer = start(PEER, check.port, SYNCED)
    check.becomes(503, "lags behind")
    peer.process.send_signal(19)  # SIGSTOP: connections to it are accepted, and nothing answers
    check.becomes(200, "ready")
    peer.process.kill()
    check.becomes(200, "ready")


STATE = REQUEST.replace(b"/", b"/state", 1)


def test_members_get_the_report_of_the_guard_and_its_age(check: tuple[subprocess.Popen[str], int], tmp_path: pathlib.Path) -> None:
    (tmp_path / "state.json").write_text(json.dumps({"at": time.monotonic() - 7, "report": {"name": "n1"}, "step": {"action": "wait"}}), "utf-8")
    head, _empty, body = ask(check[1], STATE, source=PEER).partition(b"\r\n\r\n")
    answer = json.loads(body)
    assert head.startswith(b"HTTP/1.0 200 ") and answer["report"] == {"name": "n1"} and 7 <= answer["age"] < 60 and set(answer) == {"age", "report"}


def test_others_do_not(check: tuple[subprocess.Popen[str], int], tmp_path: pathlib.Path) -> None:
    (tmp_path / "state.json").write_text(json.dumps({"at": 0, "report": {"name": "n1"}}), "utf-8")
    response = ask(check[1], STATE)
    assert response.startswith(b"HTTP/1.0 403 ") and b"n1" not in response


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"at": "x", "report": {}}', '{"report": {}}'])
def test_a_report_that_is_missing_or_damaged_is_an_error(check: tuple[subprocess.Popen[str], int], tmp_path: pathlib.Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "state.json").write_text(text, "utf-8")
    assert ask(check[1], STATE, source=PEER).startswith(b"HTTP/1.0 503 ")
