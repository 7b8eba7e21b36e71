# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The programs that the role installs on the members, with the names they have there, and without a database driver; what their guard sees and does."""

from __future__ import annotations

import dataclasses
import importlib.util
import pathlib
import sys
import types
import typing as t

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._galera import plan_member, plan_return
from ansible_collections.reduced.footprint.plugins.module_utils._galera.plan_return import Report, Step

FILES = pathlib.Path(__file__).resolve().parents[4] / "roles" / "galera" / "files"
A, B = (f"{letter * 8}-0000-11ef-8000-00000000000{number}" for number, letter in enumerate("ab"))
CLUSTER = "ade0e747-eb85-11f1-beb0-730e1cb1efb2"
VIEW = f"my_uuid: {A}\n#vwbeg\nview_id: 3 {A} 7\nbootstrap: 0\nmember: {A} 0\nmember: {B} 0\n#vwend\n"
MEMBERS = {"n1": "192.0.2.1", "n2": "192.0.2.2", "n3": "192.0.2.3"}
CONNECTED = {"wsrep_connected": "ON", "wsrep_local_state_comment": "Synced", "wsrep_cluster_address": "gcomm://192.0.2.1,192.0.2.2,192.0.2.3?pc.wait_prim=yes"}
LEFT = {**CONNECTED, "wsrep_connected": "OFF", "wsrep_local_state_comment": "Inconsistent"}
SERVES = Report("n1", "running", primary=True, ready=True, uuid=CLUSTER, position=9)
APART = Report("n1", "running", uuid=CLUSTER, position=9)
ISOLATED = dataclasses.replace(APART, isolated=True)
STARTING = Report("n1", "starting", uuid=CLUSTER, position=9)
N2_SERVES = dataclasses.replace(SERVES, name="n2")


def load(monkeypatch: pytest.MonkeyPatch, *names: str, connect: t.Any = None) -> list[t.Any]:
    """Import programs of the role; each sees those before it."""
    monkeypatch.setitem(sys.modules, "galera_plan", plan_member)
    monkeypatch.setitem(sys.modules, "galera_return", plan_return)
    monkeypatch.setitem(sys.modules, "pymysql", types.SimpleNamespace(connect=connect, MySQLError=RuntimeError))
    found = []
    for name in names:
        spec = importlib.util.spec_from_file_location(name, FILES / f"{name}.py")
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        found.append(module)
    return found


class Server:
    """Records what is done with it."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.error: Exception | None = None

    def __getattr__(self, name: str) -> t.Any:
        def act(*arguments: str) -> t.Any:
            if self.error is not None:
                raise self.error  # pylint: disable=raising-bad-type
            self.done.append(" ".join([name, *map(str, arguments)]))
            return self

        return act

    def poll(self) -> int:
        return 0


class World:
    """What the guard sees: its own report and status, those of the others, the decision, the clock and the disk."""

    def __init__(self) -> None:
        self.own: Report | None = APART
        self.status = dict(CONNECTED)
        self.bootstraps = False
        self.others: dict[str, Report | None] = {"n2": None, "n3": None}
        self.step = Step("none", "")
        #: The decision after the server was stopped, if it is another one.
        self.again: Step | None = None
        self.asked: list[tuple[t.Any, ...]] = []
        self.now = 1000.0
        self.free = 0.5

    def look(self) -> Report | None:
        return self.own

    def decide(self, *arguments: t.Any) -> Step:
        self.asked.append(arguments)
        return self.again if self.again and arguments[1]["n1"].state == "stopped" else self.step

    def sleep(self, seconds: float) -> None:
        self.now += seconds
