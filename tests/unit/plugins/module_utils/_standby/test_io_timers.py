# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The units of copies, without systemd."""

from __future__ import annotations

import pathlib

from ansible_collections.reduced.footprint.plugins.module_utils._standby import io_timers


def test_the_guard_is_removed_with_the_last_vm(tmp_path, monkeypatch):
    commands = []
    monkeypatch.setattr(io_timers.io_units, "UNITS", tmp_path)
    monkeypatch.setattr(io_timers.io_units, "unit_active", lambda unit: True)
    monkeypatch.setattr(io_timers, "run", lambda argv, **more: commands.append(argv))
    for each in ("m", "n"):
        io_timers.install(each, 900, pathlib.Path("/code"))
    assert io_timers.remove("m") and (tmp_path / io_timers.GUARD).exists()
    # otherwise a copy that failed degrades the state of the server for ever
    assert commands[-1] == ["systemctl", "reset-failed", "reduced-footprint-standby-m.timer", "reduced-footprint-standby-m.service"]
    assert io_timers.remove("n") and not list(tmp_path.iterdir())
    assert ["systemctl", "disable", "--quiet", "--now", io_timers.GUARD] in commands
    # a run that was killed before the guard was removed
    (tmp_path / io_timers.GUARD).touch()
    assert not io_timers.remove("n") and not list(tmp_path.iterdir())
