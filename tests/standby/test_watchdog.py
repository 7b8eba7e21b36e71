# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The hardware watchdog of a server whose kernel or systemd hangs: it resets the server before the standby starts the machine.

The server is emulated and has Debian's kernel and an emulated i6300esb; its standby and the witness are servers of the lab.
"""

from __future__ import annotations

import time
import typing as t

import pytest
from standby_automatic import begun, logs, ready, running
from standby_pair import CLUSTER, ROOT, VM, Pair, Refused, Server, Trio, eventually
from watchdog_server import Guarded, Machine, Watched

from tests.support import leftovers

LOGS = ROOT / "tests" / "output" / "standby"
#: Seconds after which the watchdog resets a server, which the i6300esb counts as 20.3; and what QEMU may be late on a machine with other work.
WATCHDOG, LATE = 20.0, 6.0
#: Longer than the watchdog waits.
STEADY = 45.0
# the machine ignores requests to shut down, and libvirt-guests waits for it
GUESTS = "echo SHUTDOWN_TIMEOUT=5 >> /etc/default/libvirt-guests"
TAKEN, BOOT = 300.0, 480.0
DROP_IN = "/etc/systemd/system.conf.d/reduced-footprint-standby.conf"
SOFTDOG = "/etc/modules-load.d/reduced-footprint-standby.conf"
# systemd hangs, as in a system call that never ends; the kernel and all other processes continue
STOP = """python3 -c '
import ctypes, time
call = ctypes.CDLL(None).ptrace
call.argtypes = [ctypes.c_long] * 4
# PTRACE_SEIZE, PTRACE_INTERRUPT
print(call(0x4206, 1, 0, 0), call(0x4207, 1, 0, 0), file=open("/dev/ttyS0", "w"))
time.sleep(1000)
' & sleep 4; grep State /proc/1/status > /dev/ttyS0"""
# systemd crashes, closes its files and does nothing any more
CRASH = "kill -SEGV 1"
KILL = "pkill -KILL -f '[_]standby.run_lease' && echo service killed > /dev/ttyS0"


@pytest.fixture(scope="module", name="machine")
def fixture_machine(servers: Pair) -> t.Iterator[Machine]:
    """Return the emulated server, up."""
    # sockets live there, so its name is short
    with leftovers.folder("rfdog") as folder:
        machine = Machine(folder, "metal3")
        machine.wire.start()
        try:
            machine.on()
            yield machine
        finally:
            (LOGS / "watchdog-console.log").write_bytes(machine.console.read_bytes())
            machine.off()
            machine.wire.stop()


@pytest.fixture(name="guarded")
def fixture_guarded(machine: Machine, trio: Trio, clear: t.Callable[[Server], None]) -> t.Iterator[Guarded]:
    """Remove all traces of an earlier test."""
    guarded = Guarded(Watched("metal3", machine))
    machine.order("cont")
    machine.wait()
    clear(guarded.here)
    guarded.here.ssh(f"rm -f {DROP_IN} {SOFTDOG} /etc/modprobe.d/without.conf; systemctl daemon-reload; modprobe -r softdog; modprobe i6300esb")
    guarded.prepare(LOGS / "counter.img")
    yield guarded
    guarded.join()


def armed(guarded: Guarded, name: str = "i6300ESB timer") -> None:
    """Check that systemd reports to a watchdog that waits for 20 s."""
    here = guarded.here
    eventually("systemd has opened the watchdog", lambda: here.read("state") == "active", 30)
    assert here.read("identity") == name and here.read("timeout") == "20"
    assert here.systemd("RuntimeWatchdogUSec") == "20s" and here.systemd("WatchdogDevice") in ("/dev/watchdog0", "/dev/watchdog")
    before = here.systemd("WatchdogLastPingTimestampMonotonic")
    eventually("systemd reports", lambda: here.systemd("WatchdogLastPingTimestampMonotonic") != before, WATCHDOG)


def hung(guarded: Guarded, command: str) -> tuple[float, float]:
    """Let the server hang, and wait until its watchdog resets it; returns the time before and the seconds that it took."""
    machine = guarded.here.machine
    at = guarded.here.send(command)
    try:
        eventually("the server is reset", lambda: bool(machine.resets(at)), 60)
    except AssertionError:
        print(machine.console.read_text(errors="replace")[-2000:])
        raise
    reset = machine.resets(at)[0]
    print(f"{command}: reset after {reset - at:.1f} s, the last sample after {max(when for when, _said in machine.samples if when < reset) - at:.1f} s")
    return at, reset - at


def taken(guarded: Guarded, since: float) -> None:
    """Wait until the standby has started the machine, and check that it did not run on the first server any more."""
    machine = guarded.here.machine
    eventually("the standby starts it", lambda: bool(running(guarded, guarded.there)), TAKEN)
    first = running(guarded, guarded.there)[0]
    last = max(when for when, said in machine.samples if said == "running")
    print(f"it runs on its standby after {first - since:.0f} s, on the first server it was seen last after {last - since:.0f} s")
    assert last < machine.resets(since)[0] + 1, "it ran after the reset"
    assert first - since > 90 and first > machine.resets(since)[0] + 30


def back(guarded: Guarded, since: float) -> None:
    """Wait for the server, which must keep the machine off."""
    machine = guarded.here.machine
    machine.wait(BOOT)
    eventually("the first server knows", guarded.here.gave_up, 180)
    assert guarded.here.state(VM) == "shut off" and guarded.there.state(VM) == "running", logs(guarded)
    assert not [when for when, said in machine.samples if said == "running" and when > machine.resets(since)[0] + 1]
    assert len(machine.fired(since)) <= 1, "it was reset again"


def test_it_is_set_up_and_removed(guarded: Guarded) -> None:
    here, machine = guarded.here, guarded.here.machine
    assert here.read("state") == "inactive"
    began = time.time()
    begun(guarded)
    armed(guarded)
    time.sleep(STEADY)
    # the watchdog must not end an orderly restart, and is there again after it
    here.ssh(GUESTS)
    machine.restart()
    armed(guarded)
    eventually("the machine runs again", lambda: here.state(VM) == "running", 240)
    ready(guarded)
    assert guarded.automatic()["changed"] is False
    assert here.call("standby", {"id": VM, "cluster": CLUSTER, "state": "disarmed"})["changed"] is True
    assert not here.has(DROP_IN) and here.read("state") == "inactive" and here.systemd("RuntimeWatchdogUSec") == "0"
    time.sleep(STEADY)
    assert not machine.fired(began) and here.state(VM) == "running" and not running(guarded, guarded.there)


def test_the_kernel_hangs(guarded: Guarded) -> None:
    begun(guarded)
    armed(guarded)
    guarded.here.ssh("sysctl -q -w kernel.panic=0")
    at, seconds = hung(guarded, "echo c > /proc/sysrq-trigger")
    assert seconds < WATCHDOG + LATE and guarded.here.machine.fired(at)
    # as the firmware of a real server, which takes minutes
    guarded.here.machine.order("stop")
    try:
        taken(guarded, at)
    finally:
        guarded.here.machine.order("cont")
    back(guarded, at)
    armed(guarded)


@pytest.mark.parametrize("how", ["hangs", "hangs_without_leases", "crashes_without_leases"])
def test_systemd_hangs(guarded: Guarded, how: str) -> None:
    begun(guarded)
    armed(guarded)
    guarded.split((guarded.here, guarded.there), (guarded.here, guarded.witness))
    crashes = how.startswith("crashes")
    # then nothing but the watchdog is left that would end the machine after its lease
    at, seconds = hung(guarded, f"{CRASH if crashes else STOP}; {KILL if how.endswith('leases') else 'true'}")
    machine = guarded.here.machine
    assert seconds < WATCHDOG + LATE and bool(machine.fired(at)) is not crashes
    # the kernel and the machine have continued meanwhile
    assert [when for when, said in machine.samples if said == "running" and at + 4 < when < at + seconds]
    said = machine.console.read_text(errors="replace")[-6000:]
    assert ("tracing stop" in said) is not crashes and ("service killed" in said) is how.endswith("leases")
    taken(guarded, at)
    # the guard has no answer as long as the server is cut off
    machine.wait(BOOT)
    assert guarded.here.state(VM) == "shut off"
    guarded.join()
    back(guarded, at)


def test_software_watchdog(guarded: Guarded) -> None:
    here, machine = guarded.here, guarded.here.machine
    here.ssh("echo blacklist i6300esb > /etc/modprobe.d/without.conf; modprobe -r i6300esb")
    guarded.watchdog = "software"
    begun(guarded)
    armed(guarded, "Software Watchdog")
    at, seconds = hung(guarded, STOP)
    assert seconds < WATCHDOG + LATE and not machine.fired(at)
    machine.wait(BOOT)
    armed(guarded, "Software Watchdog")
    eventually("the machine runs again, here or on its standby", lambda: here.state(VM) == "running" or guarded.there.state(VM) == "running", 240)
    # softdog is not accepted as one
    with pytest.raises(Refused, match="has no hardware watchdog"):
        guarded.automatic(watchdog="required")
