#!/usr/bin/env python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The guard of a VM that runs on a lease, with the systemd, the libvirtd and the QEMU of a server of the lab.

A small machine without a disk stands for the VM, a worker that only sleeps for the migration's. ``LAB_NAME`` and
``LAB_NETWORK`` choose the lab, as for ``lab/lab``. Prints one line per story; exit code 0 when every one held.
"""

from __future__ import annotations

import json
import pathlib
import sys
import tempfile
import time
import typing as t

from migration_kill import DESTINATION, ROOT, ssh

sys.path[:0] = [str(ROOT / ".cache" / "collections")]

from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_units  # noqa: E402

NAME, VM, UUID = "guarded", "guarded", "2c5ea4c0-4067-11e9-8bad-9b1deb4d3b7e"
WORKER, GUARD = f"reduced-footprint-migrate-{NAME}.service", f"reduced-footprint-guard-{NAME}.service"
PACKAGE = "ansible_collections.reduced.footprint.plugins.module_utils"
ZIP, OUTPUT = "/var/tmp/guard.zip", "/var/tmp/guard.output"
LEASE = 20
XML = (
    f"<domain type='qemu'><name>{VM}</name><uuid>{UUID}</uuid><memory unit='MiB'>32</memory>"
    "<os><type arch='x86_64' machine='pc'>hvm</type></os><on_poweroff>destroy</on_poweroff></domain>"
)
BEGIN = f"""
import pathlib
from {PACKAGE}._migrate.phases.io_vm_guard import VmGuard, clock
from {PACKAGE}._migrate.phases import run_guard as migrate_guard
VmGuard({NAME!r}).begin("qemu:///system", {UUID!r}, {VM!r}, {LEASE}, clock())
migrate_guard.start({NAME!r}, pathlib.Path({ZIP!r}), pathlib.Path({OUTPUT!r}))
"""
END = f"from {PACKAGE}._migrate.phases.io_vm_guard import VmGuard; VmGuard({NAME!r}).end()"


def python(text: str) -> None:
    """Run something with the collection's code on the server."""
    ssh(DESTINATION, "env", f"PYTHONPATH={ZIP}", "python3", "-", given=text.encode())


def property_of(unit: str, name: str) -> str:
    """What systemd says of a unit."""
    return ssh(DESTINATION, "systemctl", "show", "--value", "-p", name, unit, ok=False).strip()


def runs() -> bool:
    """Whether the VM's process is there; libvirtd may not be able to tell."""
    return bool(ssh(DESTINATION, "pgrep", "-f", UUID, ok=False).strip())


def within(seconds: float, true: t.Callable[[], bool]) -> float | None:
    """Seconds until something is so, ``None`` when it does not come to be."""
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        if true():
            return round(time.monotonic() - began, 1)
        time.sleep(0.2)
    return None


def start(worker: str) -> None:
    """The VM on a lease, and a worker that never renews it."""
    clear()
    ssh(DESTINATION, "virsh", "create", "/dev/stdin", given=XML.encode())
    python(BEGIN)
    properties = ["Restart=on-abnormal", "RestartSec=1", "StartLimitIntervalSec=0"]
    properties += [f"ExecStopPost=/usr/bin/python3 -m {PACKAGE}._migrate.phases.run_guard {NAME} ended"]
    argv = ["systemd-run", "--quiet", "--collect", f"--unit={WORKER}", f"--setenv=PYTHONPATH={ZIP}"]
    argv += [f"--property={each.replace(' ', chr(92) + ' ')}" for each in properties]
    ssh(DESTINATION, *argv, *worker.split())


def clear() -> None:
    """Nothing of an earlier story is left."""
    ssh(DESTINATION, "systemctl", "stop", WORKER, ok=False)
    python(END)
    ssh(DESTINATION, "systemctl", "stop", GUARD, ok=False)
    ssh(DESTINATION, "virsh", "destroy", VM, ok=False)


def frozen() -> tuple[bool, str]:
    """A worker that is stopped for ever."""
    start("sleep 1000")
    pid = property_of(WORKER, "MainPID")
    ssh(DESTINATION, "kill", "-STOP", pid)
    took = within(LEASE, lambda: not runs())
    anew = within(20, lambda: property_of(WORKER, "MainPID") not in (pid, "0", ""))
    return took is not None and anew is not None, f"VM stopped after {took} s of a lease of {LEASE} s, worker started anew"


def hanging_libvirtd() -> tuple[bool, str]:
    """A libvirtd that answers nobody."""
    start("sleep 1000")
    daemon = property_of("libvirtd.service", "MainPID")
    ssh(DESTINATION, "kill", "-STOP", daemon)
    try:
        took = within(LEASE, lambda: not runs())
    finally:
        ssh(DESTINATION, "kill", "-CONT", daemon)
    return took is not None, f"VM stopped after {took} s of a lease of {LEASE} s"


def killed_guard() -> tuple[bool, str]:
    """The guard itself is killed, again and again."""
    start("sleep 1000")
    for unused in range(4):
        ssh(DESTINATION, "systemctl", "kill", "--signal=KILL", GUARD, ok=False)
        time.sleep(2)
    took = within(LEASE, lambda: not runs())
    return took is not None, "VM stopped within the lease"


def failed_worker() -> tuple[bool, str]:
    """A worker that ends with an error, for example because it can write nothing."""
    start("false")
    took = within(10, lambda: not runs())
    return took is not None and took < 10, f"VM stopped {took} s after its worker"


def stopped_worker() -> tuple[bool, str]:
    """A worker that somebody ends."""
    start("sleep 1000")
    ssh(DESTINATION, "systemctl", "stop", WORKER)
    took = within(10, lambda: not runs())
    return took is not None, f"VM stopped {took} s after its worker"


def killed_worker() -> tuple[bool, str]:
    """A worker that is killed and follows itself: its VM goes on."""
    start("sleep 1000")
    pid = property_of(WORKER, "MainPID")
    ssh(DESTINATION, "kill", "-KILL", pid)
    anew = within(10, lambda: property_of(WORKER, "MainPID") not in (pid, "0", ""))
    return anew is not None and runs(), "worker started anew, VM runs on"


def handed_over() -> tuple[bool, str]:
    """Nobody stops a VM whose source let go, however the worker ends."""
    start("sleep 1000")
    python(END)
    ssh(DESTINATION, "systemctl", "stop", WORKER)
    time.sleep(LEASE)
    return runs() and property_of(GUARD, "ActiveState") != "active", "VM runs on, no guard is left"


STORIES = (frozen, hanging_libvirtd, killed_guard, failed_worker, stopped_worker, killed_worker, handed_over)


def main() -> int:
    """All stories, or those that are named."""
    with tempfile.TemporaryDirectory() as folder:
        code = io_units.keep_code(pathlib.Path(folder))
        ssh(DESTINATION, "tee", ZIP, given=code.read_bytes())
    held = True
    for story in STORIES:
        if sys.argv[1:] and story.__name__ not in sys.argv[1:]:
            continue
        good, what = story()
        held = held and good
        sys.stdout.write(json.dumps({"story": story.__name__, "held": good, "what": what}) + "\n")
        sys.stdout.flush()
    clear()
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
