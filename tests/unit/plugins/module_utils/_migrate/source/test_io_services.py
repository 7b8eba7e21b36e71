# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import Completed
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source import io_services


def answering(monkeypatch, tmp_path, stdout, stderr=""):
    """A systemd that answers every question about states in the same way."""
    commands = []

    def run(argv, **unused):
        commands.append(" ".join(argv))
        return Completed(tuple(argv), 0 if stdout else 1, stdout if "show" in argv else "", stderr)

    monkeypatch.setattr(io_services, "run", run)
    monkeypatch.setattr(io_services, "TRANSIENT", tmp_path)
    return commands


@pytest.mark.parametrize("stdout", ["", "ActiveState=inactive\n"])
def test_a_unit_without_an_answer_does_not_count_as_stopped(monkeypatch, tmp_path, stdout):
    answering(monkeypatch, tmp_path, stdout, "Failed to get properties: Connection timed out")
    with pytest.raises(BackendError, match="of 2 units: Failed to get properties"):
        io_services.stop(["a.service", "b.service"], together=False)
    with pytest.raises(BackendError):
        io_services.up(["a.service", "b.service"])


def test_states_of_units(monkeypatch, tmp_path):
    answering(monkeypatch, tmp_path, "ActiveState=active\n\nActiveState=deactivating\n")
    assert io_services.states(["a.service", "b.service"]) == {"a.service": "active", "b.service": "deactivating"}
    assert io_services.up(["a.service", "b.service"]) == ["a.service"]


def test_a_return_continues_without_an_answer(monkeypatch, tmp_path):
    commands = answering(monkeypatch, tmp_path, "")
    assert io_services.start(["a.service", "b.service"], together=False) == ["a.service", "b.service"]
    assert commands[:2] == ["systemctl start -- a.service", "systemctl start -- b.service"]


def test_released_units_stay_released_after_a_power_loss(monkeypatch, tmp_path):
    """A hold that comes back would keep services from starting, at a boot that finds a source that serves."""
    answering(monkeypatch, tmp_path, "")
    held = tmp_path / "etc"
    monkeypatch.setattr(io_services, "PERSISTENT", held)
    for unit in ("a.service", "b.service"):
        (held / f"{unit}.d").mkdir(parents=True)
        (held / f"{unit}.d" / io_services.DROP_IN).write_text("")
    (held / "b.service.d" / "own.conf").write_text("")
    synced = []
    monkeypatch.setattr(io_services, "sync_path", lambda path: synced.append((path, len(list(held.rglob(io_services.DROP_IN))))))
    io_services.release(["a.service", "b.service", "c.service"])
    assert sorted(path.name for path in held.iterdir()) == ["b.service.d"]
    assert {(held, 0), (held / "b.service.d", 0)} <= set(synced)
