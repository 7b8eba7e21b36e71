# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a guard accepts from other members."""

from __future__ import annotations

import dataclasses
import http.server
import json
import threading
import time
import typing as t

import pytest

from tests.unit.roles.galera.guard_support import CLUSTER, VIEW, B, load


@pytest.fixture(name="report")
def fixture_report(monkeypatch: pytest.MonkeyPatch) -> t.Any:
    (report,) = load(monkeypatch, "galera_report")
    return report


def answer(report: t.Any, **changed: t.Any) -> dict[str, t.Any]:
    """A valid answer of n2."""
    value = report.galera_return.Report("n2", "running", position=3, uuid=CLUSTER, node=B, names={B: "n2"}, view=report.galera_return.read_view(VIEW)[0])
    return {"age": 0.5, "report": {**dataclasses.asdict(value), **changed}}


def parsed(report: t.Any, value: t.Any) -> t.Any:
    return report.report_of("n2", b"HTTP/1.0 200 OK\r\nContent-Type: x\r\n\r\n" + json.dumps(value).encode())


def test_an_answer_is_what_was_sent(report: t.Any) -> None:
    found = parsed(report, answer(report))
    assert (found.name, found.position, found.uuid, found.view, dict(found.names)) == ("n2", 3, CLUSTER, report.galera_return.read_view(VIEW)[0], {B: "n2"})


HOSTILE: list[dict[str, t.Any]] = [
    {"name": "n3"}, {"name": None}, {"state": "dead"}, {"state": []}, {"primary": 1}, {"primary": "yes"}, {"isolated": None}, {"position": -1},
    {"position": "3"}, {"position": True}, {"position": 3.5}, {"position": 2**63},
    {"uuid": "x"}, {"uuid": 7}, {"uuid": CLUSTER + "\n"}, {"node": {}}, {"view": 7}, {"view": []},
    {"view": {"id": "3", "seq": 7}}, {"view": {"id": [], "seq": 7, "members": []}}, {"view": {"id": "3", "seq": "7", "members": []}},
    {"view": {"id": "3", "seq": 7, "members": 5}}, {"view": {"id": "3", "seq": 7, "members": [{}]}}, {"names": None}, {"names": {"x": "n2"}},
    {"names": {B: 5}}, {"names": ["ab"]}, {"caught_up": 5}, {"caught_up": "x" * 2000}, {"failed": []}, {"unknown": 1},
]


@pytest.mark.parametrize("changed", HOSTILE, ids=str)
def test_a_nonsensical_answer_is_none(report: t.Any, changed: dict[str, t.Any]) -> None:
    assert parsed(report, answer(report, **changed)) is None


@pytest.mark.parametrize(
    "value", [None, 5, [], {}, {"age": 1}, {"age": 1, "report": None}, {"age": 1, "report": []}, {"report": {}}, {"age": 1, "report": {"name": "n2"}}], ids=str
)
def test_an_incomplete_answer_is_none(report: t.Any, value: t.Any) -> None:
    assert parsed(report, value) is None


@pytest.mark.parametrize("age", [-1, 4.5, 1e9, float("nan"), float("inf"), "1", None])
def test_an_old_answer_is_none(report: t.Any, age: t.Any) -> None:
    assert parsed(report, {**answer(report), "age": age}) is None


@pytest.mark.parametrize("raw", [b"", b"HTTP/1.0 503 no\r\n\r\n{}", b"\xff" * 50, b"HTTP/1.0 200 OK\r\n\r\n" + b"[" * 50000, b"HTTP/1.0 200 OK\r\n\r\n\xff"])
def test_something_else_is_none(report: t.Any, raw: bytes) -> None:
    assert report.report_of("n2", raw) is None


@pytest.fixture(name="slow")
def fixture_slow() -> t.Iterator[int]:
    """A server whose answer has no end, and a byte of which comes now and then."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # pylint: disable=invalid-name
            self.send_response(200)
            self.end_headers()
            try:
                while True:
                    self.wfile.write(b" ")
                    time.sleep(0.05)
            except OSError:
                pass

        def log_message(self, format: str, *args: t.Any) -> None:  # pylint: disable=redefined-builtin
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        threading.Thread(target=listener.serve_forever, daemon=True).start()
        yield listener.server_address[1]
        listener.shutdown()


def test_a_slow_answer_takes_no_longer_than_allowed(report: t.Any, slow: int) -> None:
    began = time.monotonic()
    assert report.ask("127.0.0.1", "127.0.0.1", slow) == b""
    assert 0.5 < time.monotonic() - began < 5
    assert report.ask("127.0.0.1", "127.0.0.1", 1) == b""
