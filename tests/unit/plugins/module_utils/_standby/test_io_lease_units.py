# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The watchdog of systemd and the units of automatic starts, without systemd."""

from __future__ import annotations

import pathlib

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError
from ansible_collections.reduced.footprint.plugins.module_utils._standby import io_lease_units


@pytest.fixture(name="host")
def fixture_host(tmp_path, monkeypatch):
    """A server whose commands are recorded."""
    commands = []
    for name in ("DROP_IN", "SOFTDOG", "DEVICE", "SCRIPT"):
        monkeypatch.setattr(io_lease_units, name, tmp_path / name)
    monkeypatch.setattr(io_lease_units.io_units, "UNITS", tmp_path)
    monkeypatch.setattr(io_lease_units.io_units, "unit_active", lambda unit: True)
    monkeypatch.setattr(io_lease_units, "run", lambda argv, **more: commands.append(argv))
    return commands


@pytest.mark.parametrize(("watchdog", "files", "loaded"), [
    ("required", {"DROP_IN"}, False), ("software", {"DROP_IN", "SOFTDOG"}, True), ("none", set(), False),
])
def test_the_watchdog(host, tmp_path, watchdog, files, loaded):
    assert io_lease_units._set_watchdog(watchdog) is bool(files)
    assert {each.name for each in tmp_path.iterdir()} == files and (["modprobe", "softdog"] in host) is loaded
    assert (["systemctl", "daemon-reload"] in host) is bool(files)
    if files:
        assert "RuntimeWatchdogSec=20\nCrashReboot=yes\n" in (tmp_path / "DROP_IN").read_text("ascii")
    assert not io_lease_units._set_watchdog(watchdog)
    # with the last automatic VM
    assert io_lease_units._set_watchdog("none") is bool(files) and not list(tmp_path.iterdir())


def test_a_software_watchdog_that_cannot_be_loaded(host, monkeypatch):
    def run(argv, **more):
        raise CommandError(argv, 1, "no such module")

    monkeypatch.setattr(io_lease_units, "run", run)
    with pytest.raises(BackendError, match="the software watchdog cannot be loaded: no such module"):
        io_lease_units._set_watchdog("software")


def test_units_are_installed_once(host):
    texts = io_lease_units.lease_texts(pathlib.Path("/code.zip"))
    assert io_lease_units._install(io_lease_units.LEASE, texts) == list(texts)
    assert host == [["systemctl", "daemon-reload"], ["systemctl", "enable", "--quiet", io_lease_units.LEASE], ["systemctl", "restart", io_lease_units.LEASE]]
    host.clear()
    assert io_lease_units._install(io_lease_units.LEASE, texts) == [] and host == [["systemctl", "enable", "--quiet", io_lease_units.LEASE]]
    io_lease_units._remove(io_lease_units.LEASE, tuple(texts))
    assert ["systemctl", "disable", "--quiet", "--now", io_lease_units.LEASE] in host
    host.clear()
    io_lease_units._remove(io_lease_units.LEASE, tuple(texts))
    assert host == []
