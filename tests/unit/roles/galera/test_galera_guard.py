# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The service that rejoins a member after a full disk and forms a missing Primary Component, with a connection and systemctl of the test."""

from __future__ import annotations

import importlib.util
import pathlib
import subprocess
import sys
import types
import typing as t

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._galera import plan_member

SCRIPT = pathlib.Path(__file__).resolve().parents[4] / "roles" / "galera" / "files" / "galera_guard.py"
LEFT = {"wsrep_local_state_comment": "Inconsistent", "wsrep_cluster_status": "Disconnected", "wsrep_connected": "OFF"}
SYNCED = {"wsrep_local_state_comment": "Synced", "wsrep_cluster_status": "Primary", "wsrep_connected": "ON", "wsrep_cluster_size": "3"}
APART = {"wsrep_local_state_comment": "Initialized", "wsrep_cluster_status": "non-Primary", "wsrep_connected": "ON", "wsrep_cluster_size": "3"}


class Server:
    """A server with a status, or one that does not answer; and what was asked of it and of systemd."""

    def __init__(self) -> None:
        self.status: dict[str, str] | None = {}
        self.free = 0.5
        self.done: list[str] = []
        self._found: t.Any = ()
        self.code = 0
        self.refuses = False

    def connect(self, **unused: t.Any) -> Server:
        if self.status is None:
            raise OSError("refused")
        return self

    def cursor(self) -> Server:
        return self

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *unused: object) -> None:
        pass

    def execute(self, statement: str) -> None:
        if statement.startswith("SHOW GLOBAL STATUS"):
            self._found = tuple((self.status or {}).items())
        elif statement.startswith("SHOW GLOBAL VARIABLES"):
            self._found = (("datadir", "/var/lib/mysql/"), ("wsrep_cluster_address", "gcomm://a,b,c?pc.wait_prim=yes"))
        elif self.refuses:
            raise RuntimeError("1210: cannot be changed while the wsrep-provider plugin is loaded")
        else:
            self.done.append(statement)

    def fetchall(self) -> t.Any:
        return self._found


@pytest.fixture(name="server")
def fixture_server() -> Server:
    return Server()


@pytest.fixture(name="guard")
def fixture_guard(server: Server, monkeypatch: pytest.MonkeyPatch) -> t.Any:
    monkeypatch.setitem(sys.modules, "galera_plan", plan_member)
    monkeypatch.setitem(sys.modules, "pymysql", types.SimpleNamespace(connect=server.connect, MySQLError=RuntimeError))
    spec = importlib.util.spec_from_file_location("galera_guard", SCRIPT)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "free_part", lambda folder: server.free)

    def run(argv: list[str], **unused: t.Any) -> t.Any:
        server.done.append(" ".join(argv))
        return subprocess.CompletedProcess(argv, server.code)

    monkeypatch.setattr(module.subprocess, "run", run)
    return module.Guard("/run/mysqld/mysqld.sock", 3, 0, 0)


RESTART = "systemctl --no-block restart mariadb.service"


def looks(guard: t.Any, server: Server, *seen: tuple[dict[str, str] | None, float]) -> list[str]:
    for server.status, server.free in seen:
        guard.look()
    return server.done


@pytest.mark.parametrize(
    ("seen", "done"),
    [
        ([(LEFT, 0.0), (LEFT, 0.0), (LEFT, 0.3)], [RESTART]),
        # not enough for the data of another member yet
        ([(LEFT, 0.0), (LEFT, 0.03)], []),
        # it differs for another reason: nothing may overwrite its data
        ([(LEFT, 0.3), (LEFT, 0.3)], []),
        # what it had begun to write is freed as soon as it leaves
        ([(SYNCED, 0.0), (LEFT, 0.3)], [RESTART]),
        # a full disk alone is no reason, nor one that was full some time before
        ([(SYNCED, 0.0), (SYNCED, 0.3)], []),
        ([(SYNCED, 0.0), (SYNCED, 0.3), (LEFT, 0.3)], []),
        # someone else has restarted it, and later it left for another reason
        ([(LEFT, 0.0), (None, 0.3), (SYNCED, 0.3), (LEFT, 0.3)], []),
        # once
        ([(LEFT, 0.0), (LEFT, 0.3), (LEFT, 0.3)], [RESTART]),
    ],
)
def test_a_member_rejoins_after_a_full_disk(guard: t.Any, server: Server, seen: list[tuple[dict[str, str] | None, float]], done: list[str]) -> None:
    assert looks(guard, server, *seen) == done


def test_a_restart_that_systemd_refuses_is_repeated(guard: t.Any, server: Server) -> None:
    server.code = 1
    assert looks(guard, server, (LEFT, 0.0), (LEFT, 0.3), (LEFT, 0.3)) == [RESTART] * 2


def test_a_missing_component_is_formed_when_all_members_stay_connected(guard: t.Any, server: Server) -> None:
    formed = "SET GLOBAL wsrep_provider_options = 'pc.bootstrap=true'"
    assert not looks(guard, server, (APART, 0.5), (None, 0.5), (APART, 0.5), (SYNCED, 0.5), (APART, 0.5))
    assert looks(guard, server, (APART, 0.5)) == [formed]


def test_an_error_of_the_server_is_reported(guard: t.Any, server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    server.refuses = True
    assert not looks(guard, server, (APART, 0.5), (APART, 0.5))
    assert "1210: cannot be changed" in capsys.readouterr().out
    # a server that is stopped or starting is systemd's concern
    looks(guard, server, (None, 0.5))
    assert not capsys.readouterr().out
