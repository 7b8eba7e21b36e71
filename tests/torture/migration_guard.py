#!/usr/bin/env python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Test the guard of a VM that runs on a lease, with the systemd, libvirtd and QEMU of a server of the lab.

The VM is a small domain without a disk, the worker of the migration is a process that only sleeps. ``LAB_NAME`` and
``LAB_NETWORK`` select the lab, as for ``lab/lab``. Prints one line per scenario; exit code 0 if every scenario passed.
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
    """Run Python code with the collection's modules on the server."""
    ssh(DESTINATION, "env", f"PYTHONPATH={ZIP}", "python3", "-", given=text.encode())


def property_of(unit: str, name: str) -> str:
    """Return a property of a systemd unit."""
    return ssh(DESTINATION, "systemctl", "show", "--value", "-p", name, unit, ok=False).strip()


def runs() -> bool:
    """Whether the process of the VM exists; libvirtd may not be able to answer."""
    return bool(ssh(DESTINATION, "pgrep", "-f", UUID, ok=False).strip())


def within(seconds: float, condition: t.Callable[[], bool]) -> float | None:
    """Return the seconds until the condition is met, ``None`` after the time limit."""
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        if condition():
            return round(time.monotonic() - began, 1)
        time.sleep(0.2)
    return None


def start(worker: str) -> None:
    """Start the VM on a lease, and a worker that never renews it."""
    clear()
    ssh(DESTINATION, "virsh", "create", "/dev/stdin", given=XML.encode())
    python(BEGIN)
    properties = ["Restart=on-abnormal", "RestartSec=1", "StartLimitIntervalSec=0"]
    properties += [f"ExecStopPost=/usr/bin/python3 -m {PACKAGE}._migrate.phases.run_guard {NAME} ended"]
    argv = ["systemd-run", "--quiet", "--collect", f"--unit={WORKER}", f"--setenv=PYTHONPATH={ZIP}"]
    argv += [f"--property={each.replace(' ', chr(92) + ' ')}" for each in properties]
    ssh(DESTINATION, *argv, *worker.split())


def clear() -> None:
    """Remove everything of an earlier scenario."""
    ssh(DESTINATION, "systemctl", "stop", WORKER, ok=False)
    python(END)
    ssh(DESTINATION, "systemctl", "stop", GUARD, ok=False)
    ssh(DESTINATION, "virsh", "destroy", VM, ok=False)


def frozen() -> tuple[bool, str]:
    """The worker is stopped with SIGSTOP and never continued."""
    start("sleep 1000")
    pid = property_of(WORKER, "MainPID")
    ssh(DESTINATION, "kill", "-STOP", pid)
    took = within(LEASE, lambda: not runs())
    restarted = within(20, lambda: property_of(WORKER, "MainPID") not in (pid, "0", ""))
    return took is not None and restarted is not None, f"VM stopped after {took} s of a lease of {LEASE} s, worker started again"


def hanging_libvirtd() -> tuple[bool, str]:
    """libvirtd hangs and does not answer."""
    start("sleep 1000")
    daemon = property_of("libvirtd.service", "MainPID")
    ssh(DESTINATION, "kill", "-STOP", daemon)
    try:
        took = within(LEASE, lambda: not runs())
    finally:
        ssh(DESTINATION, "kill", "-CONT", daemon)
    return took is not None, f"VM stopped after {took} s of a lease of {LEASE} s"


def killed_guard() -> tuple[bool, str]:
    """The guard itself is killed repeatedly."""
    start("sleep 1000")
    for unused in range(4):
        ssh(DESTINATION, "systemctl", "kill", "--signal=KILL", GUARD, ok=False)
        time.sleep(2)
    took = within(LEASE, lambda: not runs())
    return took is not None, "VM stopped within the lease"


def failed_worker() -> tuple[bool, str]:
    """The worker ends with an error, for example because it cannot write its journal."""
    start("false")
    took = within(10, lambda: not runs())
    return took is not None and took < 10, f"VM stopped {took} s after its worker"


def stopped_worker() -> tuple[bool, str]:
    """The unit of the worker is stopped."""
    start("sleep 1000")
    ssh(DESTINATION, "systemctl", "stop", WORKER)
    took = within(10, lambda: not runs())
    return took is not None, f"VM stopped {took} s after its worker"


def killed_worker() -> tuple[bool, str]:
    """The worker is killed and restarted by systemd: its VM continues."""
    start("sleep 1000")
    pid = property_of(WORKER, "MainPID")
    ssh(DESTINATION, "kill", "-KILL", pid)
    restarted = within(10, lambda: property_of(WORKER, "MainPID") not in (pid, "0", ""))
    return restarted is not None and runs(), "worker started again, VM continues"


def handed_over() -> tuple[bool, str]:
    """The VM is not stopped after the source released the address, however the worker ends."""
    start("sleep 1000")
    python(END)
    ssh(DESTINATION, "systemctl", "stop", WORKER)
    time.sleep(LEASE)
    return runs() and property_of(GUARD, "ActiveState") != "active", "VM continues, no guard is left"


SCENARIOS = (frozen, hanging_libvirtd, killed_guard, failed_worker, stopped_worker, killed_worker, handed_over)


def main() -> int:
    """Run all scenarios, or those named on the command line."""
    unknown = set(sys.argv[1:]) - {scenario.__name__ for scenario in SCENARIOS}
    if unknown:
        sys.stderr.write(f"unknown: {', '.join(sorted(unknown))}; scenarios: {', '.join(scenario.__name__ for scenario in SCENARIOS)}\n")
        return 2
    with tempfile.TemporaryDirectory() as folder:
        code = io_units.keep_code(pathlib.Path(folder))
        ssh(DESTINATION, "tee", ZIP, given=code.read_bytes())
    held = True
    for scenario in SCENARIOS:
        if sys.argv[1:] and scenario.__name__ not in sys.argv[1:]:
            continue
        good, result = scenario()
        held = held and good
        sys.stdout.write(json.dumps({"scenario": scenario.__name__, "held": good, "result": result}) + "\n")
        sys.stdout.flush()
    clear()
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
