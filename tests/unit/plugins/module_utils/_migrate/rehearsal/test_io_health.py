# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib
import http.server
import socket
import threading

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import Completed
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.rehearsal import io_health, io_inside
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.model_health_check import HealthCheck
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_remote_source


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response({"/ok": 200, "/moved": 302}.get(self.path, 503))
        self.send_header("Location", "/ok")
        self.end_headers()

    def log_message(self, *unused):
        pass


@pytest.fixture(name="port")
def fixture_port():
    with http.server.HTTPServer(("127.0.0.1", 0), _Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


HERE = io_health.Ways("127.0.0.1", ())


class Inside:
    """A way in that ends here; ssh and the agent at its other end are in tests/rehearse."""

    def ask(self, command, given, timeout):
        assert command == "look_inside"
        return io_inside.look(given)


class NoWayIn:
    def ask(self, command, given, timeout):
        raise BackendError("ssh ended with exit code 255: no route to host", hint="Look at the network.")


@pytest.mark.parametrize(("path", "status", "passes"), [("/ok", 200, True), ("/bad", 200, False), ("/bad", 503, True), ("/moved", 200, False)])
def test_http_answers_with_the_wanted_status(port, path, status, passes):
    wrong = io_health.ask(HealthCheck("http", url=f"http://127.0.0.1:{port}{path}", status=status), HERE)
    assert (wrong is None) is passes


@pytest.mark.parametrize("answer", [b"5.5.5-10.11.6-MariaDB\n", b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 200, b"HTTP/1.1 200 " + b"x" * 70000])
def test_another_service_on_the_port_of_http_is_a_failure(answer):
    """It must not end the migration: while the machine boots, anything may answer."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            with contextlib.suppress(OSError):
                client = server.accept()[0]
                client.recv(1000)
                client.sendall(answer)
                client.close()

        threading.Thread(target=serve, daemon=True).start()
        check = HealthCheck("http", url=f"http://127.0.0.1:{server.getsockname()[1]}/")
        failures = io_health.check_all([check], HERE)
    assert [each.check for each in failures] == [check] and failures[0].reason


def test_tcp_answers_or_says_why_not(port):
    assert io_health.ask(HealthCheck("tcp", port), HERE) is None
    assert "refused" in io_health.ask(HealthCheck("tcp", 1), HERE)


@pytest.mark.parametrize(
    ("command", "wrong"),
    [
        (("true",), None),
        (("sh", "-c", "echo one; echo two >&2; exit 3"), "exit code 3: two"),
        (("sh", "-c", "echo one; exit 4"), "exit code 4: one"),
        (("false",), "exit code 1"),
        (("/nowhere/at-all",), "not installed"),
        (("/etc",), "denied"),
    ],
)
def test_a_command_is_well_when_it_ends_well(command, wrong):
    found = io_health.ask(HealthCheck("command", command=command), io_health.Ways("127.0.0.1", (), Inside()))
    assert found is None if wrong is None else wrong in found


def test_a_unit_that_is_not_there_is_not_well():
    found = io_health.ask(HealthCheck("unit", unit="no-such-unit-anywhere.service"), io_health.Ways("127.0.0.1", (), Inside()))
    assert found


def test_what_is_asked_inside_needs_a_way_in():
    check = HealthCheck("unit", unit="x.service")
    assert io_health.ask(check, HERE) == "no ssh connection into the VM is configured"
    assert "no route" in io_health.ask(check, io_health.Ways("127.0.0.1", (), NoWayIn()))


def test_all_failures_are_returned_or_the_first_and_the_skipped_checks(port):
    good, bad, worse = HealthCheck("tcp", port), HealthCheck("tcp", 1), HealthCheck("http", url=f"http://127.0.0.1:{port}/bad")
    assert io_health.check_all([good], HERE) == []
    found = io_health.check_all([good, bad, worse], HERE)
    assert [each.check for each in found] == [bad, worse]
    assert "refused" in str(found[0]) and str(found[1]) == f"{worse.title}: expected status 200, got 503"
    found = io_health.check_all([bad, good, worse], HERE, stop_at_first=True)
    assert [each.check for each in found] == [bad, good, worse]
    assert all(each.reason == "skipped because tcp 1 failed" for each in found[1:])


@pytest.mark.parametrize(
    ("known", "kind"),
    [(["ssh-rsa A", "ssh-ed25519 B"], "ed25519"), (["ecdsa-sha2-nistp256 A"], "ecdsa"), (["ssh-rsa A"], "rsa"), ([], "ed25519,ecdsa,rsa")],
)
def test_only_one_kind_of_host_key_is_asked_for(monkeypatch, known, kind):
    asked = []

    def run(argv, **unused):
        asked.extend(argv)
        return Completed(tuple(argv), 0, "# comment\n127.0.0.1 ssh-ed25519 B\n", "")

    monkeypatch.setattr(io_remote_source, "run", run)
    assert io_remote_source.scan_host_keys("127.0.0.1", 22, known) == ["ssh-ed25519 B"]
    assert asked[asked.index("-t") + 1] == kind
