# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import http.server
import threading

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._backend import health, remote_source
from ansible_collections.reduced.footprint.plugins.module_utils._backend.command import Completed
from ansible_collections.reduced.footprint.plugins.module_utils._model.migration import HealthCheck


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


@pytest.mark.parametrize(("path", "status", "well"), [("/ok", 200, True), ("/bad", 200, False), ("/bad", 503, True), ("/moved", 200, False)])
def test_http_answers_with_the_wanted_status(port, path, status, well):
    wrong = health.ask(HealthCheck("http", 80, f"http://127.0.0.1:{port}{path}", status), "127.0.0.1", ())
    assert (wrong is None) is well


def test_tcp_answers_or_says_why_not(port):
    assert health.ask(HealthCheck("tcp", port, None, 200), "127.0.0.1", ()) is None
    assert "refused" in health.ask(HealthCheck("tcp", 1, None, 200), "127.0.0.1", ())


@pytest.mark.parametrize(
    ("known", "kind"),
    [(["ssh-rsa A", "ssh-ed25519 B"], "ed25519"), (["ecdsa-sha2-nistp256 A"], "ecdsa"), (["ssh-rsa A"], "rsa"), ([], "ed25519,ecdsa,rsa")],
)
def test_only_one_kind_of_host_key_is_asked_for(monkeypatch, known, kind):
    asked = []

    def run(argv, **unused):
        asked.extend(argv)
        return Completed(tuple(argv), 0, "# comment\n127.0.0.1 ssh-ed25519 B\n", "")

    monkeypatch.setattr(remote_source, "run", run)
    assert remote_source.scan_host_keys("127.0.0.1", 22, known) == ["ssh-ed25519 B"]
    assert asked[asked.index("-t") + 1] == kind
