# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The units on the server of a VM: service and timer of its copies, and the guard after a boot."""

from __future__ import annotations

import pathlib
import sys

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import read_text, write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_units
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_standby import THAW, unit_name

GUARD = "reduced-footprint-standby-guard.service"
_PACKAGE = "ansible_collections.reduced.footprint.plugins.module_utils._standby"
_AFTER = "network-online.target libvirtd.service virtqemud.service"


def texts(vm_id: str, interval: int, code: pathlib.Path) -> dict[str, str]:
    """Return unit → content of service, timer and guard."""
    service = (
        f"[Unit]\nDescription=Copy of the disks of {vm_id} to its standby (reduced.footprint)\nWants=network-online.target\nAfter={_AFTER}\n\n"
        "[Service]\nType=oneshot\nUMask=0077\nWorkingDirectory=/\nNice=5\nIOSchedulingClass=best-effort\nIOSchedulingPriority=6\n"
        f"Environment=PYTHONPATH={code} PYTHONDONTWRITEBYTECODE=1\nExecStart={sys.executable} -m {_PACKAGE}.run_worker {vm_id}\n"
        # also after a kill
        f"ExecStopPost={sys.executable} -m {_PACKAGE}.run_worker {vm_id} {THAW}\n"
    )
    timer = (
        f"[Unit]\nDescription=Copies of the disks of {vm_id} to its standby (reduced.footprint)\n\n"
        f"[Timer]\nOnActiveSec=5\nOnUnitActiveSec={interval}\nAccuracySec=1\n\n[Install]\nWantedBy=timers.target\n"
    )
    guard = (
        f"[Unit]\nDescription=Start VMs with a standby after it confirmed that they do not run there (reduced.footprint)\nWants=network-online.target\n"
        f"After={_AFTER}\n\n"
        f"[Service]\nUMask=0077\nWorkingDirectory=/\nRestart=on-failure\nRestartSec=5\nEnvironment=PYTHONPATH={code} PYTHONDONTWRITEBYTECODE=1\n"
        f"ExecStart={sys.executable} -m {_PACKAGE}.run_guard\n\n[Install]\nWantedBy=multi-user.target\n"
    )
    return {unit_name(vm_id): service, unit_name(vm_id, "timer"): timer, GUARD: guard}


def differing(vm_id: str, interval: int, code: pathlib.Path) -> list[str]:
    """Return the units that do not have the wanted content."""
    return [name for name, text in texts(vm_id, interval, code).items() if read_text(io_units.UNITS / name) != text]


def install(vm_id: str, interval: int, code: pathlib.Path) -> list[str]:
    """Install and start the timer, and enable the guard; returns the changed units."""
    changed = differing(vm_id, interval, code)
    for name in changed:
        write_atomic(io_units.UNITS / name, texts(vm_id, interval, code)[name], mode=0o644)
    if changed:
        run(["systemctl", "daemon-reload"])
    timer = unit_name(vm_id, "timer")
    run(["systemctl", "enable", "--quiet", GUARD, timer])
    if timer in changed:
        run(["systemctl", "restart", timer])
    elif not io_units.unit_active(timer):
        run(["systemctl", "start", timer])
    return changed


def remove(vm_id: str) -> bool:
    """Stop and remove service and timer, after the last VM also the guard; returns whether service or timer existed."""
    timer, service = unit_name(vm_id, "timer"), unit_name(vm_id)
    there = (io_units.UNITS / timer).exists() or (io_units.UNITS / service).exists()
    if there:
        run(["systemctl", "disable", "--quiet", "--now", timer], ok=range(256))
        run(["systemctl", "stop", service], ok=range(256))
        for name in (timer, service):
            (io_units.UNITS / name).unlink(missing_ok=True)
        run(["systemctl", "daemon-reload"])
        # a copy that failed
        run(["systemctl", "reset-failed", timer, service], ok=range(256))
    if (io_units.UNITS / GUARD).exists() and not list(io_units.UNITS.glob(unit_name("*", "timer"))):
        run(["systemctl", "disable", "--quiet", "--now", GUARD], ok=range(256))
        (io_units.UNITS / GUARD).unlink(missing_ok=True)
        run(["systemctl", "daemon-reload"])
    return there


def stop(vm_id: str) -> None:
    """End the copy that is being made; the timer begins the next one."""
    run(["systemctl", "stop", unit_name(vm_id)], ok=range(256))


def start(vm_id: str) -> None:
    """Make a copy now."""
    run(["systemctl", "start", "--no-block", unit_name(vm_id)])
