# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A guard whose server, decision, clock and disk are those of the test."""

from __future__ import annotations

import pathlib
import typing as t

import pytest

from tests.unit.roles.galera.guard_support import MEMBERS, Server, World, load


@pytest.fixture(name="world")
def fixture_world() -> World:
    return World()


@pytest.fixture(name="module")
def fixture_module(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, world: World) -> t.Any:
    _report, module = load(monkeypatch, "galera_report", "galera_guard")
    for name in ("STATE", "FORMING", "LOCK", "RELEASED"):
        monkeypatch.setattr(module, name, tmp_path / name.lower())
    monkeypatch.setattr(module.galera_return, "step", world.decide)
    monkeypatch.setattr(module.time, "monotonic", lambda: world.now)
    monkeypatch.setattr(module.time, "sleep", world.sleep)
    monkeypatch.setattr(module, "free_part", lambda folder: world.free)
    return module


@pytest.fixture(name="guard")
def fixture_guard(module: t.Any, world: World, monkeypatch: pytest.MonkeyPatch) -> t.Any:
    guard = module.Guard({"name": "n1", "socket": "/s", "port": 9200, "witnesses": 0, "members": MEMBERS})
    guard.server, guard.observer = Server(), world
    monkeypatch.setattr(guard, "others", lambda: world.others)
    return guard
