# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Events of ports that a lost controller would have handled. The database and ovn-nbctl are simulated; tests/cloud uses the real ones."""

from __future__ import annotations

import json
import sys
import types
import typing as t

import pytest

from tests.support.program import load

PORT, OTHER = "0b5f6f4e-0000-4000-8000-000000000001", "0b5f6f4e-0000-4000-8000-000000000002"


@pytest.fixture(name="module")
def fixture_module() -> t.Any:
    return load("roles/neutron/files/neutron_ports.py")


class Cloud:
    """Ports that are down in neutron, and their state in OVN."""

    def __init__(self, module: t.Any, up: t.Mapping[str, t.Any]) -> None:
        self.module, self.up, self.waiting = module, dict(up), module.Waiting()
        self.listed: list[list[str]] = []
        self.set: list[str] = []

    def run(self, words: t.Sequence[str]) -> str:
        if "list" in words:
            asked = list(words[words.index("Logical_Switch_Port") + 1 :])
            self.listed.append(asked)
            return json.dumps({"headings": ["name", "up"], "data": [[port, self.up[port]] for port in asked if port in self.up]})
        assert "--no-leader-only" not in words, "only the leader changes something"
        self.set += [words[number - 1] for number, word in enumerate(words) if word == "up=false"]
        return ""

    def turn(self, now: float, *down: str) -> list[str]:
        return t.cast("list[str]", self.module.turn(self.waiting, lambda query: [(port,) for port in down], self.run, now))


def test_only_a_port_that_remains_down_is_repeated_and_ever_more_rarely(module: t.Any) -> None:
    cloud = Cloud(module, {PORT: True})
    # neutron handles an event within seconds
    assert cloud.turn(0, PORT) == [] and not cloud.listed
    assert cloud.turn(5, PORT) == [] and not cloud.listed
    assert [now for now in range(10, 200, 5) if cloud.turn(now, PORT)] == [10, 30, 70, 150]
    assert cloud.set == [PORT] * 4


def test_a_port_that_came_up_begins_again(module: t.Any) -> None:
    cloud = Cloud(module, {PORT: True})
    assert cloud.turn(0, PORT) == [] and cloud.turn(10, PORT) == [PORT]
    assert cloud.turn(15) == []
    assert cloud.turn(40, PORT) == [] and cloud.turn(45, PORT) == [] and cloud.turn(50, PORT) == [PORT]


@pytest.mark.parametrize("up", [False, ["set", []]])
def test_a_port_that_ovn_has_not_connected_is_left_alone(module: t.Any, up: t.Any) -> None:
    cloud = Cloud(module, {PORT: up, OTHER: True})
    cloud.turn(0, PORT, OTHER)
    assert cloud.turn(12, PORT, OTHER) == [OTHER] and cloud.set == [OTHER]
    # one that stays down: OVN is not asked in every turn
    cloud.listed.clear()
    for now in range(15, 60, 5):
        cloud.turn(now, PORT)
    assert cloud.listed == [[PORT]]
    cloud.up[PORT] = True
    assert [now for now in range(60, 80, 5) if cloud.turn(now, PORT)] == [75]


def test_a_port_that_ovn_does_not_know_is_left_alone(module: t.Any) -> None:
    cloud = Cloud(module, {})
    cloud.turn(0, PORT)
    assert cloud.turn(12, PORT) == [] and cloud.listed == [[PORT]] and not cloud.set


@pytest.mark.parametrize("present, expected", [((120, 60), (45, 20)), ((30, 60), (30, 20)), ((120, None), (45, None))])
def test_times_of_neutron_are_only_shortened(module: t.Any, present: tuple[int, t.Any], expected: tuple[int, t.Any], monkeypatch: pytest.MonkeyPatch) -> None:
    constants = types.ModuleType("neutron.common.ovn.constants")
    for name, seconds in zip(module.TIMES, present):
        if seconds is not None:
            setattr(constants, name, seconds)
    parents = {name: types.ModuleType(name) for name in ("neutron", "neutron.common", "neutron.common.ovn")}
    parents["neutron.common.ovn"].constants = constants  # type: ignore[attr-defined]
    for name, found in {**parents, "neutron.common.ovn.constants": constants}.items():
        monkeypatch.setitem(sys.modules, name, found)
    service = object()
    assert module.wrap(service, {}, None) is service
    assert tuple(getattr(constants, name, None) for name in module.TIMES) == expected
