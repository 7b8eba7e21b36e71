# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the benchmark of an instance makes of its samples."""

from __future__ import annotations

import socket
import threading

import pytest
from benchmarks import instance
from benchmarks.instance import ACTIVE, FLOOR, REACHED


def test_times_are_compared_with_the_reset_by_libvirt_of_the_same_round() -> None:
    # in the second round the machine is half as fast
    rounds = [{ACTIVE: 10.0, REACHED: 30.0, FLOOR: 20.0}, {ACTIVE: 20.0, REACHED: 60.0, FLOOR: 40.0}]
    assert instance.rows(rounds) == [
        [ACTIVE, "15.0", "10.0", "20.0", "0.50"],
        [REACHED, "45.0", "30.0", "60.0", "1.50"],
        [FLOOR, "30.0", "20.0", "40.0", "1.00"],
    ]


@pytest.mark.parametrize(("words", "expected"), [(b"SSH-2.0-test\r\n", True), (b"HTTP/1.1", False), (b"", False)])
def test_only_an_ssh_server_counts(monkeypatch: pytest.MonkeyPatch, words: bytes, expected: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, unused = server.accept()
            connection.sendall(words)
            connection.close()

        threading.Thread(target=serve, daemon=True).start()
        connect = socket.create_connection
        monkeypatch.setattr("socket.create_connection", lambda address, timeout: connect((address[0], server.getsockname()[1]), timeout))
        assert instance.greeted("127.0.0.1") is expected


def test_a_refused_connection_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(address: object, timeout: float) -> None:
        raise ConnectionRefusedError(address, timeout)

    monkeypatch.setattr("socket.create_connection", refused)
    assert not instance.greeted("192.0.2.1")


def test_the_test_image_and_the_network_outside_are_created() -> None:
    """Without them, no instance could be created in a new lab."""
    found = instance.variables("192.0.2")
    assert "test" in [image["name"] for image in found["cloud_bootstrap_images"]]
    assert [network["name"] for network in found["cloud_bootstrap_networks"]] == ["public"]
