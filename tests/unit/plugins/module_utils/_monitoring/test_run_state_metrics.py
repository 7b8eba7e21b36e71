# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The timers, and what they gather. systemd is a list of orders here; ``tests/controllers/test_monitoring.py`` has a real one."""

from __future__ import annotations

import pathlib
import time
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._monitoring import plan_gatherers, run_gather_metrics, run_state_metrics
from ansible_collections.reduced.footprint.plugins.module_utils._service.io_service_host import ServiceHost
from ansible_collections.reduced.footprint.plugins.module_utils._service.model_service_files import UnitFound

GIVEN: dict[str, t.Any] = {
    "server": True, "services": ["galera", "rabbitmq", "ovn_database"], "cloud": True, "probes": {"shop": "80"}, "votes": {"galera": 3},
    "cluster": "c", "environment": "e", "services_seconds": 20, "machine_seconds": 120, "slice": "x.slice",
}  # fmt: skip


class Machine(ServiceHost):
    """Real files, and units that do what they are ordered."""

    def __init__(self, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.orders: list[str] = []
        self.active: dict[str, float] = {}
        self.given = {**GIVEN, "directory": str(folder)}
        self.folder = folder / "units"
        self.request = folder / "request.json"
        monkeypatch.setattr(run_state_metrics.io_units, "UNITS", self.folder)
        monkeypatch.setattr(run_state_metrics.io_units, "keep_code", lambda: folder / "code.zip")
        monkeypatch.setattr(run_state_metrics.io_units, "code_path", lambda: folder / "code.zip")
        monkeypatch.setattr(run_gather_metrics, "REQUEST", self.request)

    def units(self, names: t.Sequence[str]) -> dict[str, UnitFound]:  # type: ignore[override]
        return {name: UnitFound(True, name in self.active, name in self.active, self.active.get(name, 0)) for name in names}

    def order(self, verb: str, names: t.Sequence[str]) -> None:  # type: ignore[override]
        self.orders += [f"{verb} {name}" for name in names]
        self.active.update(dict.fromkeys(names, time.time()))

    def apply(self, check_mode: bool = False, **changes: t.Any) -> dict[str, t.Any]:
        self.orders.clear()
        return run_state_metrics.apply({**self.given, **changes}, check_mode=check_mode, host=self)


@pytest.fixture(name="machine")
def fixture_machine(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr("os.chown", lambda *_unused: None)
    return Machine(tmp_path, monkeypatch)


def test_timers_are_installed_once(machine: Machine) -> None:
    checked = machine.apply(check_mode=True)
    assert checked["changed"] and not machine.folder.exists() and machine.orders == []
    done = machine.apply()
    assert done == checked and machine.orders[-1] == "start reduced-footprint-state-machine.timer"
    assert sorted(path.name for path in machine.folder.iterdir()) == [
        f"reduced-footprint-state-{name}.{kind}" for name in ("machine", "services") for kind in ("service", "timer")
    ]
    assert "OnUnitActiveSec=20\n" in (machine.folder / "reduced-footprint-state-services.timer").read_text("utf-8")
    assert machine.request.stat().st_mode & 0o077 == 0
    assert not machine.apply()["changed"] and machine.orders == []
    del machine.active["reduced-footprint-state-services.timer"]
    assert machine.apply()["actions"] == [f"{verb} reduced-footprint-state-services.timer" for verb in ("enable", "start")]
    assert machine.apply(probes={})["diff"][0]["before_header"] == str(machine.request) and machine.orders == []
    assert "restart reduced-footprint-state-services.timer" in machine.apply(services_seconds=30)["actions"]
    with pytest.raises(InputError, match="0 is not a number of seconds"):
        machine.apply(services_seconds=0)


def test_costly_questions_are_asked_less_often() -> None:
    fast, slow = (plan_gatherers.questions(GIVEN, name) for name in (plan_gatherers.SERVICES, plan_gatherers.MACHINE))
    assert fast["services"] == ["galera"] and fast["probes"] and not (fast["server"] or fast["cloud"] or fast["checks"])
    assert slow["services"] == ["rabbitmq", "ovn_database", "galera"] and slow["server"] and slow["cloud"] and slow["checks"] and not slow["probes"]


def test_each_service_is_in_one_file(machine: Machine) -> None:
    machine.apply()
    seen = {"problems": [], "facts": None, "reversed": None, "backup": None, "units": {}}
    look = {"value": {"addresses": [], "services": dict.fromkeys(["galera", "rabbitmq", "ovn_database"], seen)}}
    texts = {}
    for name in (plan_gatherers.SERVICES, plan_gatherers.MACHINE):
        run_gather_metrics.run(name, machine.request, lambda _given: {"controlplane": look})
        path = pathlib.Path(machine.given["directory"], f"footprint_{name}.prom")
        texts[name] = path.read_text("utf-8")
        assert path.stat().st_mode & 0o777 == 0o644
    assert 'healthy{service="galera"}' in texts["services"] and "rabbitmq" not in texts["services"]
    assert 'healthy{service="rabbitmq"}' in texts["machine"] and "galera" not in texts["machine"]
    assert not {line for line in texts["services"].splitlines() if not line.startswith("#")} & set(texts["machine"].splitlines())
