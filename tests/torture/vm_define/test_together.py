# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Concurrent runs on one host: they wait for each other or report the lock, and leave nothing incomplete."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_lock import host_lock
from harden_host import Host, disks_of, guest, memory_of

AddRow = t.Callable[[str, str, str], None]
PROCESSES = 20


def _all_there(host: Host, names: t.Iterable[str], state: str = "running") -> None:
    with host.libvirt() as there:
        found = {record.name: record for record in there.domains()}
    for name in names:
        assert found[name].state == state, name
        for disk in disks_of(found[name].config_xml):
            said = run(["qemu-img", "info", "--force-share", str(host.pool / disk)]).stdout
            assert "virtual size: 1 MiB" in said or "virtual size: 2 MiB" in said, said
    assert not host.leftovers()


def test_twenty_creations_on_one_pool(host: Host, add_row: AddRow, whole: bool) -> None:
    host.image("base")
    disks = [{"size": "2 MiB"}, {"image": "base", "format": "qcow2", "backing": True}, {"image": "base", "format": "qcow2"}]
    # starting the VMs takes most of the time and does not use the pool
    rounds, state, after = (3, "running", "running") if whole else (1, "present", "shutdown")
    for number in range(rounds):
        host.clear()
        names = [f"many{number}-{each}" for each in range(PROCESSES)]
        started = [host.begin(guest(name, disks=disks), lock_timeout=300, state=state) for name in names]
        outcomes = [one.wait(240) for one in started]
        assert [outcome.output for outcome in outcomes if not outcome.ok] == []
        _all_there(host, names, after)
        again = host.done(*(guest(name, disks=disks) for name in names), state=state)
        assert not again.result["changed"], again.output
    add_row("20 processes create a VM each on one pool", f"{rounds * PROCESSES} processes", "no error, all VMs created, the next run changes nothing")


def test_concurrent_runs_with_the_same_and_other_vms_are_serialized(host: Host, add_row: AddRow, whole: bool) -> None:
    rounds = 8 if whole else 1
    for number in range(rounds):
        same, one, two = f"same{number}", f"one{number}", f"two{number}"
        # the disk is named, because one of the runs may detach the second disk of the other
        first = {"size": "2 MiB", "name": f"{same}-disk0.img"}
        started = [
            host.begin(guest(same, 32, disks=[first]), guest(one, 32)),
            host.begin(guest(same, 40, disks=[first, {"size": "2 MiB"}]), guest(two, 32)),
        ]
        outcomes = [each.wait() for each in started]
        assert all(outcome.ok for outcome in outcomes), outcomes
        _all_there(host, (same, one, two))
        record = host.domain(outcomes[0].vm()["uuid"])
        assert record is not None
        # the VM as requested by the run that came last, no mixture of both
        assert (memory_of(record.config_xml), len(disks_of(record.config_xml))) in ((32, 1), (40, 2))
        assert outcomes[0].vm()["uuid"] == outcomes[1].vm()["uuid"]
    add_row("two concurrent runs with the same and other VMs", f"{rounds} pairs", "run one after the other, each VM as requested by one of the two")


def test_held_lock_of_the_host_is_reported_after_the_timeout(host: Host, add_row: AddRow) -> None:
    with host_lock("domains", 5):
        outcome = host.run(guest("late"), lock_timeout=1)
        checked = host.done(guest("late"), check=True)
    assert not outcome.ok and "another run has held" in outcome.message and "Wait until" in outcome.message, outcome.output
    assert checked.result["changed"]
    with host.libvirt() as there:
        assert not there.domains()
    host.done(guest("late"))
    add_row("a run while another run holds the lock of the host", "1", "fails with the name of the lock, changes nothing; check mode does not wait")


def test_held_lock_of_a_pool_fails_only_vms_with_disks(host: Host, add_row: AddRow) -> None:
    """Another process holds the pool for longer than the lock timeout: error for that VM, the VM without disks is done."""
    host.image("base")
    held, free = threading.Event(), threading.Event()

    def hold() -> None:
        folder = host.folder / "lock"
        with contextlib.ExitStack() as stack:
            # the run that created a volume left the lock file; earlier tests may have left those of other pools
            for path in folder.glob("pool-*.lock"):
                stack.enter_context(host_lock(path.stem, 5))
            held.set()
            free.wait(60)

    host.done(guest("first", disks=[{"size": "2 MiB"}]))
    holder = threading.Thread(target=hold)
    holder.start()
    assert held.wait(10)
    try:
        outcome = host.run(guest("stuck", disks=[{"size": "2 MiB"}]), guest("diskless"), lock_timeout=1)
    finally:
        free.set()
        holder.join()
    assert not outcome.ok and "another run has held" in outcome.message, outcome.output
    assert (bool(outcome.vm(0)["error"]), outcome.vm(1)["error"], outcome.vm(1)["state"]) == (True, None, "running"), outcome.output
    assert host.done(guest("stuck", disks=[{"size": "2 MiB"}]), guest("diskless")).vm(0)["state"] == "running"
    add_row("a pool locked by another process", "1", "error for this VM, the others are done, the next run completes")


def test_lock_of_a_killed_run_is_released(host: Host, add_row: AddRow) -> None:
    outcome = host.begin(guest("killed", disks=[{"size": "2 MiB"}]))
    time.sleep(0.1)
    os.kill(outcome.pid, signal.SIGKILL)
    outcome.wait()
    assert host.done(guest("killed", disks=[{"size": "2 MiB"}]), lock_timeout=2).vm()["state"] == "running"
    add_row("the lock of a killed run", "1", "released")
