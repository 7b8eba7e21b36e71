# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The copy of the master is rehearsed repeatedly while the master continues without any effect."""

from __future__ import annotations

import threading

import pytest
from address_watch import AddressWatch
from stage import FOLDER, STAND_IN, StageLab
from support import eventually

pytestmark = pytest.mark.chapter


def holds(text: str) -> dict[str, object]:
    """Return a health check for the marker of the source in the copy."""
    return {"type": "command", "command": ["grep", "--quiet", "--line-regexp", text, "/srv/marker"]}


def test_rehearsal_passes_without_an_effect_on_the_source(lab: StageLab) -> None:
    lab.mark("one")
    before = lab.identity()
    with AddressWatch(lab.settings.bridge, lab.master) as watch, lab.watched() as seen:
        done = lab.rehearse(holds("one"), {"type": "unit", "unit": "mariadb"}, {"type": "tcp", "port": 9, "rehearse": False})
    assert done.rc == 0, done.output[-6000:]
    journal = lab.journal()
    assert journal["state"] == "stopped" and "quiesce" not in journal["phases"]
    rehearsal = journal["facts"]["rehearsal"]
    assert rehearsal["passed"] and 0 < rehearsal["seconds"] < 1200
    asked = ["ssh 22", "tcp 3306", f"http http://{lab.master}:8080/health", "command grep --quiet --line-regexp one /srv/marker", "unit mariadb.service"]
    assert rehearsal["checks"] == asked
    assert journal["facts"]["boot_seconds"] == rehearsal["seconds"]
    assert any("login:" in line for line in rehearsal["console"]), rehearsal["console"]
    # it did run, its disk an overlay, and the host had no card of it but for the moment it took to send it away
    assert sum(STAND_IN in traces for traces in seen) > 2
    assert sum(any(trace.startswith("rfr") for trace in traces) for traces in seen) <= 2
    assert lab.traces() == []
    # one machine answered for the address all the time, and it was the laptop
    report = watch.report()
    assert report["seconds_two"] == 0 and {mac for each in report["stretches"] for mac in each["macs"]} == {lab.settings.machine("laptop").mac}
    assert lab.identity() == before
    assert lab.writing()
    assert lab.writer()["rows_lost"] == 0


def test_killed_rehearsal_leaves_only_files(lab: StageLab) -> None:
    killer = threading.Thread(target=lab.kill_on_stage)
    killer.start()
    broken = lab.rehearse()
    killer.join()
    assert broken.rc != 0
    # the VM is gone with the worker; what is left are files
    eventually("the stand-in is gone", lambda: STAND_IN not in lab.traces(), 60)
    left = lab.traces()
    assert left and all(each.startswith("/") for each in left), left
    assert lab.journal()["facts"]["rehearsing"]["files"]


def test_next_rehearsal_removes_the_files_and_ends_at_a_failed_check(lab: StageLab) -> None:
    before = lab.identity()
    done = lab.rehearse(holds("three"), {"type": "tcp", "port": 9}, rehearse_timeout=lab.slow())
    assert done.rc != 0
    failed = "command grep --quiet --line-regexp three /srv/marker: exit code 1"
    for words in ("The rehearsal failed", failed, "tcp 9: ", "refused", "Last lines of the console", "login:"):
        assert words in done.output, f"{words!r} is not in:\n{done.output[-4000:]}"
    journal = lab.journal()
    assert journal["state"] == "failed" and "quiesce" not in journal["phases"] and not journal["facts"]["rehearsal"]["passed"]
    assert "Loading Linux" in lab.ssh("metal1", "cat", f"{FOLDER}/rehearsal-console.log")
    assert any("removed the leftovers of a killed rehearsal" in line and ".qcow2" in line for line in lab.log())
    assert lab.traces() == [] and "rehearsing" not in journal["facts"]
    assert lab.identity() == before and lab.writing()
    assert "reduced.footprint-migrate" not in lab.ssh("laptop", "cat", "/root/.ssh/authorized_keys")


def test_another_rehearsal_contains_newer_data(lab: StageLab) -> None:
    lab.mark("two")
    first = lab.journal()["facts"]["rehearsal"]["at"]
    done = lab.rehearse(holds("two"))
    assert done.rc == 0, done.output[-6000:]
    journal = lab.journal()
    assert journal["facts"]["rehearsal"]["passed"] and journal["facts"]["rehearsal"]["at"] > first
    # only what had changed was copied
    assert journal["passes"][0]["bytes"] < 0.3 * journal["passes"][0]["total_bytes"]
    assert lab.traces() == []
    assert lab.writing() and lab.writer()["rows_lost"] == 0


def test_copy_that_does_not_boot_is_not_waited_for(lab: StageLab) -> None:
    usual = lab.ssh("laptop", "systemctl", "get-default").strip()
    lab.ssh("laptop", "systemctl", "set-default", "emergency.target")
    try:
        done = lab.rehearse(rehearse_timeout=10 * lab.slow())
    finally:
        lab.ssh("laptop", "systemctl", "set-default", usual)
    assert done.rc != 0 and "it came up in emergency mode" in done.output, done.output[-4000:]
    assert lab.journal()["phases"]["rehearse"]["seconds"] < 2 * lab.slow()
    assert lab.traces() == []
