# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbook doctor on two real servers: an expired key of a move, a unit that failed, a timer that does not run, and a server without power."""

from __future__ import annotations

import re
import subprocess
import typing as t

import pytest
from move_pair import ROOT, Pair, eventually
from rflab.plays import play
from rflab.settings import current

LOGS = ROOT / "tests" / "output" / "move"
TIMER, FAILED = "footprint-doctor-test.timer", "footprint-doctor-broken.service"
UNITS = f"""
printf '[Timer]\\nOnCalendar=yearly\\n[Install]\\nWantedBy=timers.target\\n' > /etc/systemd/system/{TIMER}
printf '[Service]\\nExecStart=/bin/true\\n' > /etc/systemd/system/{TIMER.replace("timer", "service")}
printf '[Service]\\nType=oneshot\\nExecStart=/bin/false\\n' > /etc/systemd/system/{FAILED}
systemctl daemon-reload; systemctl enable {TIMER}; systemctl stop {TIMER}; systemctl start {FAILED}; true
"""
REMOVE = f"""
systemctl disable --now {TIMER}; systemctl reset-failed {FAILED}; rm -f /etc/systemd/system/footprint-doctor-*
systemctl daemon-reload; sed -i '/reduced.footprint-migrate-move-old/d' /root/.ssh/authorized_keys; true
"""
KEY = 'restrict,expiry-time="20200101000000",command="/bin/false" ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFU1bV0Ytq1Tfw1pPqXHgkz2XSm2XG3uM2mC1lVtC0Cs {}'
MARKER = "reduced.footprint-migrate-move-old"


def doctor(name: str, *arguments: str, **given: t.Any) -> tuple[int, list[str]]:
    # emulated machines on busy processors answer late
    extra = [f"--extra-vars={key}={value}" for key, value in {"doctor_timeout": 120, **given}.items()]
    done = play("reduced.footprint.doctor", *arguments, *extra, log=LOGS / f"doctor-{name}.log", inventory=current().state / "inventory")
    return done.rc, [line.strip() for line in done.output.splitlines() if re.match(r"    (ok|note|REPAIR|UNKNOWN) +\w+: ", line)]


def lines_of(lines: list[str], *checks: str) -> list[str]:
    return [line for line in lines if line.split()[1].rstrip(":") in checks]


@pytest.fixture(name="broken")
def fixture_broken(pair: Pair) -> t.Iterator[Pair]:
    pair.here.ssh("cat >> /root/.ssh/authorized_keys", given=f"{KEY.format(MARKER)}\n".encode())
    pair.here.ssh("bash", given=UNITS.encode())
    try:
        yield pair
    finally:
        pair.here.ssh("bash", given=REMOVE.encode())


def test_what_is_safe_is_repaired_and_the_rest_reported(broken: Pair) -> None:
    here = broken.here
    before = here.ssh("cat /root/.ssh/authorized_keys")
    state = f"systemctl is-active {TIMER}"
    expected = [
        f"REPAIR  keys: {here.name}: the key of move-old has expired. Remove it (doctor_fix=true does it)",
        f"REPAIR  units: {here.name}: failed: {FAILED}. journalctl -u {FAILED}; then start it, or systemctl reset-failed",
        f"REPAIR  units: {here.name}: {TIMER} is enabled and does not run. Start it (doctor_fix=true does it)",
    ]
    for name, arguments, given in (("report", (), {}), ("check", ("--check",), {"doctor_fix": "true"})):
        code, lines = doctor(name, *arguments, **given)
        assert code == 2 and [line for line in lines_of(lines, "keys", "units") if line.startswith("REPAIR")] == expected, lines
        assert here.ssh("cat /root/.ssh/authorized_keys") == before and here.ssh(state, check=False).strip() == "inactive"
    code, lines = doctor("fix", doctor_fix="true")
    assert code == 2 and lines_of(lines, "keys", "units") == ["ok      keys: no one-time key is left", expected[1]], lines
    assert here.ssh("cat /root/.ssh/authorized_keys") == before.replace(f"{KEY.format(MARKER)}\n", "") and here.ssh(state).strip() == "active"


def test_both_servers_are_read(pair: Pair) -> None:
    code, lines = doctor("whole")
    # none of its hosts is a controller
    assert code in (0, 2) and not any(line.startswith("UNKNOWN") for line in lines if "UNKNOWN services: " not in line), lines
    assert {line.split()[1].rstrip(":") for line in lines} >= {"hosts", "jobs", "keys", "clocks", "space", "units", "restarts", "inventory"}, lines
    # this lab has no virtual machine of its inventory
    assert any("does not exist on metal" in line for line in lines_of(lines, "inventory")), lines


def test_a_server_without_power_is_named(pair: Pair) -> None:
    lab = str(ROOT / "lab" / "lab")
    subprocess.run([lab, "kill", pair.there.name], check=True)
    try:
        code, lines = doctor("dead")
    finally:
        subprocess.run([lab, "start", pair.there.name], check=True)
        eventually("it answers again", lambda: pair.there.ssh("true; echo up", check=False).strip() == "up", 120)
    assert code == 2 and f"REPAIR  hosts: {pair.there.name}: no answer. " in lines[0], lines
    assert not any(f" {pair.there.name}: " in line for line in lines[1:]), lines
