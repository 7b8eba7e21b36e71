# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""libvirtd is stopped, restarted or killed during a run: guests continue, the run reports the error, the next run completes."""

from __future__ import annotations

import os
import pathlib
import signal
import time
import typing as t

import pytest
from harden_host import Host, Outcome, guest

AddRow = t.Callable[[str, str, str], None]
COUNT = 3


def _guests(host: Host) -> dict[str, tuple[int, int]]:
    with host.libvirt() as there:
        return {domain.name(): (domain.ID(), host.pid(domain.name())) for domain in there.connection.listAllDomains(1)}


def _alive(guests: t.Mapping[str, tuple[int, int]]) -> None:
    for name, (unused, pid) in guests.items():
        assert pathlib.Path(f"/proc/{pid}").exists(), f"{name} was stopped"


def _vms(memory: int, disks: int) -> list[dict[str, t.Any]]:
    return [guest(f"on{number}", memory, disks=[{"size": "2 MiB"}] * disks) for number in range(COUNT)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["restarted", "killed"])
def test_update_interrupted_by_libvirtd_is_completed_by_the_next_run(host: Host, add_row: AddRow, number: int, whole: bool) -> None:
    host.done(*_vms(32, 1))
    rounds, hit = 12 if whole else 1, 0
    for turn in range(rounds):
        before = _guests(host)
        assert len(before) == COUNT
        memory, disks = (40, 2) if turn % 2 == 0 else (32, 1)
        started = host.begin(*_vms(memory, disks), lock_timeout=10)
        time.sleep(0.1 + 0.07 * (turn % 6))
        host.end_daemon(number)
        outcome = started.wait()
        _alive(before)
        if not outcome.ok:
            hit += 1
            _clear_error(outcome)
        host.start_daemon()
        assert _guests(host) == before
        host.done(*_vms(memory, disks))
        again = host.done(*_vms(memory, disks))
        assert not again.result["changed"], again.output
        assert _guests(host) == before and not host.leftovers()
    fault = "stopped and started" if number == signal.SIGTERM else "killed with signal 9"
    result = "error reported, same ids and processes, next run completes"
    add_row(f"libvirtd {fault} during an update of {COUNT} running guests", f"{rounds} times, {hit} runs affected", result)


def _clear_error(outcome: Outcome) -> None:
    assert "Traceback" not in outcome.output and "TRACEBACK" not in outcome.output, outcome.output
    assert "libvirtd" in outcome.message or "connect" in outcome.message, outcome.message
    if "vms" in outcome.result:
        for vm in outcome.result["vms"]:
            assert vm["error"] is None or vm["name"] in outcome.message


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["restarted", "killed"])
def test_creations_interrupted_by_libvirtd_are_completed_by_the_next_run(host: Host, add_row: AddRow, number: int, whole: bool) -> None:
    rounds, hit = 6 if whole else 1, 0
    for turn in range(rounds):
        vms = [guest(f"made{turn}-{each}", disks=[{"size": "2 MiB"}]) for each in range(4)]
        host.done(guest("bystander"))
        before = _guests(host)
        started = host.begin(*vms, lock_timeout=10)
        time.sleep(0.15 + 0.12 * turn)
        host.end_daemon(number)
        outcome = started.wait()
        _alive(before)
        if not outcome.ok:
            hit += 1
            _clear_error(outcome)
        host.start_daemon()
        host.done(*vms)
        again = host.done(*vms)
        assert not again.result["changed"] and all(vm["state"] == "running" for vm in again.result["vms"]), again.output
        assert _guests(host)["bystander"] == before["bystander"] and not host.leftovers()
        host.clear()
    fault = "stopped and started" if number == signal.SIGTERM else "killed with signal 9"
    add_row(f"libvirtd {fault} during creations", f"{rounds} times, {hit} runs affected", "error reported, next run completes")


def test_stopped_libvirtd_is_reported_and_guests_continue(host: Host, add_row: AddRow) -> None:
    host.done(guest("calm"))
    before = _guests(host)
    host.end_daemon(signal.SIGTERM)
    outcome = host.run(guest("calm", 40))
    assert not outcome.ok and "cannot connect" in outcome.message, outcome.output
    _alive(before)
    host.start_daemon()
    assert _guests(host) == before
    assert host.done(guest("calm", 40)).vm()["actions"]
    add_row("libvirtd not running", "1", "error reported, guests continue")


def test_suspended_libvirtd_is_waited_for(host: Host, add_row: AddRow) -> None:
    """libvirtd does not answer for some seconds, as under heavy load: the run waits and continues."""
    host.done(guest("calm"))
    pid = int((host.folder / "run" / "libvirtd.pid").read_text())
    started = host.begin(guest("calm", 40))
    time.sleep(0.05)
    os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(2)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert started.wait(60).ok
    assert not host.done(guest("calm", 40)).result["changed"]
    add_row("libvirtd suspended for 2 s", "1", "the run continues afterwards")
