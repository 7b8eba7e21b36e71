# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The small client for MariaDB; the real server answers it in tests/add_server, here it is given what a server never should send."""

from __future__ import annotations

import socket
import threading
import typing as t

import pytest
from pymysql import _auth

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._galera.io_sql_client import SqlClient, native_token

SCRAMBLE = bytes(range(1, 21))
GREETING = b"\x0a" + b"10.11.6-MariaDB\0" + b"\x01\0\0\0" + SCRAMBLE[:8] + b"\0" + bytes(18) + SCRAMBLE[8:] + b"\0" + b"mysql_native_password\0"
OK = b"\0\0\0\x02\0\0\0"
END = b"\xfe\0\0\x02\0"


def packet(number: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "little") + bytes([number]) + payload


def server(*answers: bytes, half: bool = False) -> int:
    """Greets, then answers whatever comes with these; the port it listens at."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        client, _peer = listener.accept()
        with client:
            client.sendall(packet(0, GREETING))
            for answer in answers:
                client.recv(65536)
                client.sendall(answer[: len(answer) // 2] if half else answer)

    threading.Thread(target=serve, daemon=True).start()
    return listener.getsockname()[1]


def connect(port: int) -> SqlClient:
    return SqlClient("127.0.0.1", port, "u", "secret", "d", timeout=2)


@pytest.mark.parametrize("password", ["secret", "ä€", "x" * 300, ""])
def test_the_proof_is_the_one_other_clients_give(password: str) -> None:
    assert native_token(password, SCRAMBLE) == _auth.scramble_native_password(password.encode(), SCRAMBLE)


def test_rows_of_every_length_and_null_are_read() -> None:
    long, longer = b"x" * 300, b"y" * 70000
    row = b"\x031.5" + b"\xfb" + b"\xfc" + len(long).to_bytes(2, "little") + long + b"\xfd" + len(longer).to_bytes(3, "little") + longer
    answer = packet(1, b"\x04") + b"".join(packet(2 + i, b"\x03def") for i in range(4)) + packet(6, END) + packet(7, row) + packet(8, END)
    client = connect(server(packet(2, OK), answer))
    assert client.query("SELECT 1") == [["1.5", None, long.decode(), longer.decode()]]


def test_a_statement_without_rows_has_none() -> None:
    assert connect(server(packet(2, OK), packet(1, OK))).query("INSERT") == []


def test_what_the_server_refuses_is_told() -> None:
    client = connect(server(packet(2, OK), packet(1, b"\xff\x17\x04#08S01WSREP has not yet prepared node")))
    with pytest.raises(BackendError, match="WSREP has not yet prepared node"):
        client.query("INSERT")


@pytest.mark.parametrize(
    "answers, half, words",
    [
        ((), False, "hung up|is gone"),
        ((packet(2, OK),), True, "hung up|is gone"),
        ((packet(2, b""),), False, "empty packet"),
        ((packet(2, b"\xfeclient_ed25519\0abc"),), False, "asks for client_ed25519"),
    ],
    ids=["gone", "half a packet", "nothing", "another proof"],
)
def test_a_server_that_goes_away_or_asks_for_more_is_told(answers: tuple[bytes, ...], half: bool, words: str) -> None:
    with pytest.raises(BackendError, match=words):
        connect(server(*answers, half=half))


def test_another_way_to_ask_for_the_same_proof_is_answered() -> None:
    switch = packet(2, b"\xfemysql_native_password\0" + SCRAMBLE + b"\0")
    assert t.cast("t.Any", connect(server(switch, packet(4, OK))))


def test_nobody_there_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(BackendError, match="nobody answers"):
        connect(port)
