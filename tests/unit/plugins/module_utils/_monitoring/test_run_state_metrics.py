# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The timers, and what they gather. systemd is a list of commands here; ``tests/controllers/test_monitoring.py`` has a real one."""

from __future__ import annotations

import pathlib
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._monitoring import plan_gatherers, run_gather_metrics, run_state_metrics

GIVEN: dict[str, t.Any] = {
    "state": "present", "server": True, "services": ["galera", "rabbitmq", "ovn_database"], "cloud": True, "probes": {"shop": "80"}, "votes": {"galera": 3},
    "cluster": "c", "environment": "e", "services_seconds": 20, "machine_seconds": 120, "slice": "x.slice",
}  # fmt: skip


class Machine:
    """A host without systemd."""

    def __init__(self, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.commands: list[str] = []
        self.active = False
        self.units = folder / "units"
        self.given = {**GIVEN, "directory": str(folder / "text")}
        monkeypatch.setattr(run_state_metrics.io_units, "UNITS", self.units)
        monkeypatch.setattr(run_state_metrics.io_units, "keep_code", lambda: folder / "code.zip")
        monkeypatch.setattr(run_state_metrics.io_units, "code_path", lambda: folder / "code.zip")
        monkeypatch.setattr(run_state_metrics, "_started", lambda _timer: self.active)
        monkeypatch.setattr(run_state_metrics, "run", self._run)
        monkeypatch.setattr(run_gather_metrics, "REQUEST", folder / "request.json")
        self.request = folder / "request.json"

    def _run(self, argv: t.Sequence[str], **_unused: t.Any) -> None:
        self.commands.append(" ".join(argv[1:]))
        self.active = self.active or argv[1] == "restart"

    def apply(self, check_mode: bool = False, **changes: t.Any) -> dict[str, t.Any]:
        self.commands.clear()
        return run_state_metrics.apply({**self.given, **changes}, check_mode=check_mode)


@pytest.fixture(name="machine")
def fixture_machine(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def test_timers_are_installed_once_and_removed(machine: Machine) -> None:
    checked = machine.apply(check_mode=True)
    assert checked["changed"] and not machine.units.exists() and machine.commands == []
    done = machine.apply()
    assert done == checked and machine.commands[0] == "daemon-reload" and machine.commands[-1].startswith("restart ")
    assert sorted(path.name for path in machine.units.iterdir()) == [
        f"reduced-footprint-state-{name}.{kind}" for name in ("machine", "services") for kind in ("service", "timer")
    ]
    assert "OnUnitActiveSec=20\n" in (machine.units / "reduced-footprint-state-services.timer").read_text("utf-8")
    assert machine.request.stat().st_mode & 0o077 == 0
    assert machine.apply() == {"changed": False, "diff": []} and machine.commands == []
    machine.active = False
    assert machine.apply()["changed"] and machine.commands[-1].startswith("restart ")
    assert machine.apply(probes={})["diff"][0]["before_header"] == str(machine.request)
    text = pathlib.Path(machine.given["directory"], "footprint_services.prom")
    text.parent.mkdir()
    text.touch()
    assert machine.apply(state="absent", check_mode=True)["changed"] and text.exists()
    assert machine.apply(state="absent")["changed"] and not text.exists() and not list(machine.units.iterdir()) and not machine.request.exists()
    assert not machine.apply(state="absent")["changed"]
    with pytest.raises(InputError, match="0 is not a number of seconds"):
        machine.apply(services_seconds=0)


def test_costly_questions_are_asked_less_often() -> None:
    fast, slow = (plan_gatherers.questions(GIVEN, name) for name in (plan_gatherers.SERVICES, plan_gatherers.MACHINE))
    assert fast["services"] == ["galera"] and fast["probes"] and not (fast["server"] or fast["cloud"] or fast["checks"])
    assert slow["services"] == ["rabbitmq", "ovn_database", "galera"] and slow["server"] and slow["cloud"] and slow["checks"] and not slow["probes"]


def test_each_service_is_in_one_file(machine: Machine) -> None:
    machine.apply()
    seen = {"problems": [], "facts": None, "reversed": None, "backup": None}
    look = {"value": {"addresses": [], "services": dict.fromkeys(["galera", "rabbitmq", "ovn_database"], seen)}}
    texts = {}
    for name in (plan_gatherers.SERVICES, plan_gatherers.MACHINE):
        run_gather_metrics.run(name, machine.request, lambda _given: {"controlplane": look})
        path = run_gather_metrics.target(machine.given["directory"], name)
        texts[name] = path.read_text("utf-8")
        assert path.stat().st_mode & 0o777 == 0o644
    assert 'healthy{service="galera"}' in texts["services"] and "rabbitmq" not in texts["services"]
    assert 'healthy{service="rabbitmq"}' in texts["machine"] and "galera" not in texts["machine"]
    assert not {line for line in texts["services"].splitlines() if not line.startswith("#")} & set(texts["machine"].splitlines())
