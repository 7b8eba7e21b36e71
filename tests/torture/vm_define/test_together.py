# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Many runs at once on one host: they wait for each other or say so, and nothing is half done."""

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

Tell = t.Callable[[str, str, str], None]
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


def test_twenty_creations_on_one_pool(host: Host, tell: Tell, whole: bool) -> None:
    host.image("base")
    disks = [{"size": "2 MiB"}, {"image": "base", "format": "qcow2", "backing": True}, {"image": "base", "format": "qcow2"}]
    # starting them is what takes the time, and no matter of the pool
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
    tell("20 processes create a VM each on one pool", f"{rounds * PROCESSES} processes", "no error, all there, nothing changes in the next run")


def test_the_same_and_other_vms_at_once(host: Host, tell: Tell, whole: bool) -> None:
    rounds = 8 if whole else 1
    for number in range(rounds):
        same, one, two = f"same{number}", f"one{number}", f"two{number}"
        # named, because one of the runs may take the other's second disk away again
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
        # whoever came last: the one's or the other's VM, nothing in between
        assert (memory_of(record.config_xml), len(disks_of(record.config_xml))) in ((32, 1), (40, 2))
        assert outcomes[0].vm()["uuid"] == outcomes[1].vm()["uuid"]
    tell("two runs at once about the same and other VMs", f"{rounds} pairs", "one after the other, each VM as one of the two wants it")


def test_a_run_that_may_not_wait_says_so(host: Host, tell: Tell) -> None:
    with host_lock("domains", 5):
        outcome = host.run(guest("late"), lock_timeout=1)
        looked = host.done(guest("late"), check=True)
    assert not outcome.ok and "another run has held" in outcome.message and "Wait until" in outcome.message, outcome.output
    assert looked.result["changed"]
    with host.libvirt() as there:
        assert not there.domains()
    host.done(guest("late"))
    tell("a run while another holds the host", "1", "fails with the name of the lock, nothing done; check mode does not wait")


def test_a_pool_that_is_held(host: Host, tell: Tell) -> None:
    """Somebody works in the pool for longer than the run may wait: that VM says so, the one without disks is done."""
    host.image("base")
    held, free = threading.Event(), threading.Event()

    def hold() -> None:
        folder = host.folder / "lock"
        with contextlib.ExitStack() as stack:
            # the run that made a volume left the lock's file; earlier tests may have left those of other pools
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
    tell("a pool that somebody else holds", "1", "that VM says so, the others are done, the next run finishes")


def test_the_lock_dies_with_its_holder(host: Host, tell: Tell) -> None:
    outcome = host.begin(guest("killed", disks=[{"size": "2 MiB"}]))
    time.sleep(0.1)
    os.kill(outcome.pid, signal.SIGKILL)
    outcome.wait()
    assert host.done(guest("killed", disks=[{"size": "2 MiB"}]), lock_timeout=2).vm()["state"] == "running"
    tell("a killed run's lock", "1", "gone with it")
