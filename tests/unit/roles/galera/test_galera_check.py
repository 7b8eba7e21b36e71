# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The check of a member over real connections. Without a database, it reports that the server does not answer."""

from __future__ import annotations

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


@pytest.fixture(name="check")
def fixture_check(tmp_path: pathlib.Path) -> t.Iterator[tuple[subprocess.Popen[str], int]]:
    """The running check and its port."""
    shutil.copy(ROOT / "roles/galera/files/galera_check.py", tmp_path)
    shutil.copy(ROOT / "plugins/module_utils/_galera/plan_member.py", tmp_path / "galera_plan.py")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        # as systemd does
        start = f"import os, sys; os.dup2({listener.fileno()}, 3); os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
        members = {"socket": str(tmp_path / "no.sock"), "members": {"n1": "127.0.0.2", "n2": "2001:DB8::1"}}
        (tmp_path / "members.json").write_text(json.dumps(members), "utf-8")
        # the program has a fixed path for the state
        program = tmp_path / "galera_check.py"
        program.write_text(program.read_text("utf-8").replace("/run/footprint-galera", str(tmp_path)), "utf-8")
        argv = [sys.executable, "-c", start, str(program), str(tmp_path / "members.json")]
        with subprocess.Popen(argv, pass_fds=(listener.fileno(),), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            yield process, listener.getsockname()[1]
            process.kill()


def ask(port: int, request: bytes = REQUEST, source: str = "127.0.0.1") -> bytes:
    """Send a request; return the response."""
    with socket.create_connection(("127.0.0.1", port), 30, (source, 0)) as client:
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


STATE = REQUEST.replace(b"/", b"/state", 1)


def test_members_get_the_report_of_the_guard_and_its_age(check: tuple[subprocess.Popen[str], int], tmp_path: pathlib.Path) -> None:
    (tmp_path / "state.json").write_text(json.dumps({"at": time.monotonic() - 7, "report": {"name": "n1"}, "step": {"action": "wait"}}), "utf-8")
    head, _empty, body = ask(check[1], STATE, "127.0.0.2").partition(b"\r\n\r\n")
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
    assert ask(check[1], STATE, "127.0.0.2").startswith(b"HTTP/1.0 503 ")
