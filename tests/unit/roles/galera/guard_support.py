# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The programs that the role installs on the members, with the names they have there, and without a database driver."""

from __future__ import annotations

import importlib.util
import pathlib
import sys
import types
import typing as t

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._galera import plan_member, plan_return

FILES = pathlib.Path(__file__).resolve().parents[4] / "roles" / "galera" / "files"
A, B = (f"{letter * 8}-0000-11ef-8000-00000000000{number}" for number, letter in enumerate("ab"))
CLUSTER = "ade0e747-eb85-11f1-beb0-730e1cb1efb2"
VIEW = f"my_uuid: {A}\n#vwbeg\nview_id: 3 {A} 7\nbootstrap: 0\nmember: {A} 0\nmember: {B} 0\n#vwend\n"


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
