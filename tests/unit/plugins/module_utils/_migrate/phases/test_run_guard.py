# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import Completed
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases import run_guard
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.io_vm_guard import VmGuard

WORKER = "reduced-footprint-migrate-m.service"


class Guard:
    """A note that is there for ``rounds`` looks; the VM is due in the last."""

    def __init__(self, rounds=1, error=None):
        self.rounds = rounds
        self.error = error
        self.stopped = []

    def read(self):
        return {} if self.rounds else None

    def stop_if_due(self, *, at_once=False):
        self.rounds -= 1
        if self.error and self.rounds:
            raise self.error
        if at_once or not self.rounds:
            self.stopped.append("at once" if at_once else "due")
            return True
        return False


@pytest.fixture(name="commands")
def fixture_commands(monkeypatch):
    commands = []
    monkeypatch.setattr(run_guard, "_POLL", 0.0)
    monkeypatch.setattr(run_guard, "run", lambda argv, **unused: commands.append(" ".join(argv)) or Completed(tuple(argv), 0, "", ""))
    return commands


def test_it_watches_until_there_is_nothing_to_guard(commands):
    guard = Guard(0)
    run_guard.watch(guard, WORKER)
    assert guard.stopped == [] and commands == []


def test_vm_with_an_expired_lease_is_stopped_and_its_worker_restarted(commands):
    guard = Guard(3)
    run_guard.watch(guard, WORKER)
    assert guard.stopped == ["due"]
    # a stopped worker would never continue otherwise
    assert commands == [f"systemctl kill --kill-who=main --signal=KILL {WORKER}"]


def test_a_vm_that_cannot_be_stopped_is_tried_again(commands):
    guard = Guard(3, BackendError("no"))
    run_guard.watch(guard, WORKER)
    assert guard.stopped == ["due"]


@pytest.mark.parametrize(
    ("result", "status", "stopped"),
    [("signal", "KILL", []), ("exit-code", "75", []), ("exit-code", "1", ["at once"]), ("success", "0", ["at once"]), ("success", "TERM", ["at once"])],
)
def test_the_last_worker_leaves_no_vm_that_was_not_handed_over(commands, result, status, stopped):
    guard = Guard(2)
    run_guard.ended(guard, {"SERVICE_RESULT": result, "EXIT_STATUS": status})
    assert guard.stopped == stopped


def test_from_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(run_guard, "VmGuard", lambda name: VmGuard(name, tmp_path))
    assert run_guard.main(["m"]) == 0 and run_guard.main(["m", "ended"]) == 0
    assert run_guard.main([]) == 2 and run_guard.main(["m", "else"]) == 2
    assert "usage" in capsys.readouterr().err


def test_a_guard_is_started_for_ever(commands, monkeypatch, tmp_path):
    started = []
    monkeypatch.setattr(run_guard.io_units, "unit_active", lambda unit: False)
    monkeypatch.setattr(run_guard.io_units, "start_unit", lambda *given, **more: started.append((given, more)))
    run_guard.start("m", tmp_path, tmp_path / "output")
    (given, more), = started
    assert given[3] == ["m"] and more["restarts"] is None and "Restart=on-failure" in more["more"]
    # a running guard may be about to end, so it is restarted
    monkeypatch.setattr(run_guard.io_units, "unit_active", lambda unit: True)
    run_guard.start("m", tmp_path, tmp_path / "output")
    assert len(started) == 1 and commands == ["systemctl restart reduced-footprint-guard-m.service"]
