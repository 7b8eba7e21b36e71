# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Probes of declared services, with real servers."""

from __future__ import annotations

import contextlib
import http.server
import pathlib
import socket
import threading
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import io_plane
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.io_probe import problem
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.model_probe import parse_probe


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers /ok, redirects /moved there, and has errors for other paths."""

    def do_GET(self) -> None:  # noqa: N802
        code = {"/ok": 200, "/moved": 302, "/bad": 503}.get(self.path, 404)
        self.send_response(code)
        self.send_header("Location", "/ok")
        self.end_headers()

    def log_message(self, *_unused: t.Any) -> None:
        """Print nothing."""


@contextlib.contextmanager
def web() -> t.Iterator[int]:
    """A web server; yields its port."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def probe(value: t.Any) -> str:
    return problem(parse_probe(value, "x"), 5)


def test_urls(monkeypatch: pytest.MonkeyPatch) -> None:
    # the host itself is asked, never a proxy
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with web() as port:
        assert [probe(f"http://127.0.0.1:{port}{path}") for path in ("/ok", "/moved")] == ["", ""]
        assert probe(f"http://127.0.0.1:{port}/bad") == "answers 503 Service Unavailable"
        assert probe(f"https://127.0.0.1:{port}/ok").startswith("does not answer: ")
    assert probe(f"http://127.0.0.1:{port}/ok").startswith("does not answer: [Errno 111]")


def test_ports() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        assert probe(port) == ""
    assert probe(port) == f"nothing listens on port {port}"


@pytest.mark.parametrize(
    ("state", "expected"),
    [("active", ""), ("failed", "web.service is failed"), ("inactive", "web.service is inactive"), (None, "web.service is not installed")],
)
def test_units(state: str | None, expected: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"Id=web.service\nLoadState={'loaded' if state else 'not-found'}\nActiveState={state or 'inactive'}\n"
    (tmp_path / "systemctl").write_text(f"#!/bin/sh\ncat <<'END'\n{text}END\n", "ascii")
    (tmp_path / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert io_plane.units([]) == {} and probe("web.service") == expected
