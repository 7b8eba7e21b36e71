# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The write probe against a stand-in for PyMySQL; the gate ``add_server`` has a real database."""

from __future__ import annotations

import json
import pathlib
import types
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import run_write_probe
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError


class MySQLError(Exception):
    """As in PyMySQL."""


class Server:
    """Keeps rows; ``refuses`` lists which of its queries fail, counted from 1."""

    def __init__(self, *refuses: int) -> None:
        self.rows: list[int] = []
        self.connections: list[dict[str, t.Any]] = []
        self.refuses, self.queries = refuses, 0

    def connect(self, **options: t.Any) -> Server:
        self.connections.append(options)
        return self

    def query(self, statement: str) -> None:
        self.queries += 1
        if self.queries in self.refuses:
            raise MySQLError("gone")
        self.rows.append(int(statement.partition("(")[2].rstrip(")")))

    def cursor(self) -> Server:
        return self

    def execute(self, statement: str) -> None:
        assert statement == "SELECT n FROM probe"

    def fetchall(self) -> list[tuple[int]]:
        return [(row,) for row in self.rows]

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *unused: t.Any) -> None:
        """Nothing to close."""


@pytest.fixture
def home(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "password").write_text("secret")
    (tmp_path / "target").write_text(json.dumps({"address": "192.0.2.20", "port": 3306}))
    return tmp_path


def serve(monkeypatch: pytest.MonkeyPatch, server: Server) -> None:
    monkeypatch.setattr(run_write_probe, "pymysql", types.SimpleNamespace(connect=server.connect, MySQLError=MySQLError))
    monkeypatch.setattr(run_write_probe, "PERIOD", 0.01)
    monkeypatch.setattr(run_write_probe.time, "sleep", lambda seconds: None)


def test_worker_notes_acknowledged_rows_and_connects_again_after_an_error(home: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(3)
    serve(monkeypatch, server)
    run_write_probe.write(home, seconds=0.1)
    noted = [json.loads(line)["n"] for line in (home / "acknowledged").read_text().splitlines()]
    assert noted == server.rows and len(noted) == server.queries - 1 > 3 and len(server.connections) == 2
    assert server.connections[0]["host"] == "192.0.2.20" and server.connections[0]["read_timeout"] == 2


def test_report_names_acknowledged_rows_that_are_missing(home: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server()
    serve(monkeypatch, server)
    monkeypatch.setattr(run_write_probe.io_units, "unit_active", lambda unit: False)
    run_write_probe.write(home, seconds=0.05)
    lost = server.rows.pop()
    report = run_write_probe.stop(check_mode=False, home=home)["report"]
    assert report and (report["rows_lost"], report["lost"]) == (1, [lost]) and not home.exists()


def test_missing_pymysql_is_named_before_anything_is_made(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_write_probe, "pymysql", None)
    with pytest.raises(BackendError, match="PyMySQL is not installed") as raised:
        run_write_probe.prepare(check_mode=False, home=tmp_path / "probe")
    assert "python3-pymysql" in str(raised.value.hint) and not (tmp_path / "probe").exists()
    assert run_write_probe.prepare(check_mode=True, home=tmp_path / "probe")["changed"]
