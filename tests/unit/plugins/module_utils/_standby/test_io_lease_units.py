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
    for name in ("DROP_IN", "SOFTDOG", "DEVICE", "SCRIPT", "KNOWN"):
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


@pytest.fixture(name="process")
def fixture_process(host, tmp_path, monkeypatch):
    """A hardware watchdog of 20 s; returns a function that opens it in another process."""
    (tmp_path / "DEVICE").touch()
    (tmp_path / "KNOWN").mkdir()
    for name, text in (("identity", "i6300ESB timer\n"), ("timeout", "20\n")):
        (tmp_path / "KNOWN" / name).write_text(text, "ascii")
    monkeypatch.setattr(io_lease_units, "_PROC", tmp_path / "proc")
    monkeypatch.setattr(io_lease_units, "_OPENING", 0.1)
    (tmp_path / "proc").mkdir()

    def process(number, path="/dev/watchdog0"):
        folder = tmp_path / "proc" / str(number) / "fd"
        folder.mkdir(parents=True)
        (folder / "7").symlink_to(path)
        (folder.parent / "comm").write_text("wd_keepalive\n", "ascii")

    return process


@pytest.mark.parametrize("watchdog", ["required", "software"])
def test_a_watchdog_that_another_program_uses(process, watchdog):
    process(1)
    process(40, "/dev/null")
    assert io_lease_units.watchdog_problem(watchdog) is None
    process(41, "/dev/watchdog")
    assert "is used by wd_keepalive (41), so systemd cannot use it" in io_lease_units.watchdog_problem(watchdog)
    assert io_lease_units.watchdog_problem("none") is None


def test_a_software_watchdog_is_no_hardware_watchdog(process, tmp_path):
    (tmp_path / "KNOWN" / "identity").write_text("Software Watchdog\n", "ascii")
    assert "no hardware watchdog" in io_lease_units.watchdog_problem("required") and io_lease_units.watchdog_problem("software") is None


def test_systemd_does_not_use_the_watchdog(process, tmp_path):
    process(40)
    with pytest.raises(BackendError, match="systemd does not use the watchdog"):
        io_lease_units._set_watchdog("required")
    # also in the next run, which changes no file
    with pytest.raises(BackendError, match="systemd does not use the watchdog"):
        io_lease_units._set_watchdog("required")
    process(1)
    assert io_lease_units._set_watchdog("required") is False
    (tmp_path / "KNOWN" / "timeout").write_text("60\n", "ascii")
    with pytest.raises(BackendError, match="after 60 s instead of 20 s"):
        io_lease_units._set_watchdog("required")
    assert io_lease_units._set_watchdog("none") is True


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
