# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Leases on the server of a VM: which VMs need one, the processes of their guests, and what the service reports.

Nothing here asks libvirt, which may hang when a guest must be ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import socket
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import RUN, private_folder, read_text, sync_path, write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_lock import file_lock
from ansible_collections.reduced.footprint.plugins.module_utils._standby.io_grants import boot_id, clock

#: A file for each VM that must not run without a lease, named by its UUID, on the root file system; the script of the unit that ends them reads it as well.
ARMED = pathlib.Path("/etc/reduced.footprint/standby-armed")
#: Of libvirt: the process IDs of its guests, and a folder of the user that they run as; in memory, because the disks may not answer.
QEMU = pathlib.Path("/run/libvirt/qemu")
_STATE = RUN / "standby-lease.json"
_FENCED = RUN / "standby-fenced"
_PROC = pathlib.Path("/proc")
_LOCK = 60.0
_STALE = 15.0


@contextlib.contextmanager
def locked(vm_id: str) -> t.Iterator[None]:
    """Hold the lock with which a VM is put under leases, or that is ended."""
    private_folder(RUN)
    private_folder(RUN / "standby-lease")
    with file_lock(RUN / "standby-lease" / f"{vm_id}.lock", _LOCK):
        yield


def armed(uuid: str) -> int | None:
    """Return the number under which a VM needs a lease, ``None`` if it needs none."""
    text = read_text(ARMED / uuid)
    return int(text) if text is not None else None


def all_armed() -> list[str]:
    """Return the UUIDs of all VMs that need a lease.

    :raises OSError: that cannot be read.
    """
    try:
        return sorted(name for name in os.listdir(ARMED) if not name.startswith("."))
    except FileNotFoundError:
        return []


def arm(uuid: str, number: int) -> None:
    """From now on, also after a restart of this server, the VM must not run without a lease."""
    ARMED.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_atomic(ARMED / uuid, f"{number}\n")
    sync_path(ARMED)


def disarm(uuid: str) -> None:
    """The VM needs no lease any more: no machine gives it away."""
    (ARMED / uuid).unlink(missing_ok=True)
    if ARMED.is_dir():
        sync_path(ARMED)


def processes(uuid: str) -> list[int]:
    """Return the processes of QEMU that run a VM; a process that has ended has no command line any more."""
    found = []
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            # it may have ended
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                place = words.index(b"-uuid") if b"-uuid" in words else -1
                # libvirt starts every guest with it; the name of the emulator may be any
                if place > 0 and words[place + 1 : place + 2] == [uuid.encode()] and _is_of_libvirt(entry):
                    found.append(int(entry.name))
    return found


def _is_of_libvirt(entry: pathlib.Path) -> bool:
    """Whether root or the user of libvirt's guests started a process, or libvirt names it: any user can give a process any arguments.

    Without libvirt's folders every process counts. The script of the unit that ends VMs decides in the same way.

    :raises OSError: the process has ended.
    """
    user = next((int(line.split()[1]) for line in (entry / "status").read_text("ascii", "replace").splitlines() if line.startswith("Uid:")), 0)
    try:
        return user in (0, (QEMU / "dbus").stat().st_uid) or any((read_text(each) or "").strip() == entry.name for each in QEMU.glob("*.pid"))
    except OSError:
        return True


def kill(uuid: str, seconds: float) -> bool:
    """Kill the guest at once, and wait; returns whether it has ended.

    ``virsh destroy`` would first ask QEMU to end, and QEMU would wait for disks that do not answer; libvirt notices the end of the process.
    """
    until = time.monotonic() + seconds
    while True:
        pids = processes(uuid)
        if not pids:
            return True
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() >= until:
            return False
        time.sleep(0.1)


def note_fenced(vm_id: str) -> None:
    """Note that a VM was ended because it had no lease: it is started again once it may run here."""
    private_folder(_FENCED).joinpath(vm_id).touch()


def was_fenced(vm_id: str) -> bool:
    """Whether a VM was ended because it had no lease, and not started since."""
    return (_FENCED / vm_id).exists()


def forget_fenced(vm_id: str) -> None:
    """Note that it was started again, or belongs elsewhere."""
    (_FENCED / vm_id).unlink(missing_ok=True)


# what the service reports


def write_state(vms: t.Mapping[str, t.Mapping[str, t.Any]]) -> None:
    """Write what the service knows of each VM: ``sent`` (of the last renewal that was granted), ``until``, ``silent`` and ``idle`` (machine → problem)."""
    private_folder(RUN)
    write_atomic(_STATE, json.dumps({"boot": boot_id(), "at": clock(), "vms": vms}))


def read_state() -> dict[str, t.Any]:
    """Return what the service wrote in this boot, ``{}`` if it wrote nothing."""
    try:
        found = json.loads(read_text(_STATE) or "{}")
    except ValueError:
        return {}
    return found if found.get("boot") == boot_id() else {}


def reported(vm_id: str) -> dict[str, t.Any] | None:
    """Return what the service reports of a VM, ``None`` if it reports nothing at present."""
    found = read_state()
    vm = found["vms"].get(vm_id) if found and clock() - found["at"] < _STALE else None
    # a new instance repeats the lease of the one before, until it has read its VMs
    return vm if vm and "until" in vm else None


def is_valid(vm_id: str, least: float) -> bool:
    """Whether the service reports that a VM has a lease for at least so many more seconds."""
    until = (reported(vm_id) or {}).get("until")
    return until is not None and until - clock() >= least


# systemd


def notify(text: str) -> None:
    """Send systemd a state of this service; without systemd nothing."""
    address = os.environ.get("NOTIFY_SOCKET")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender, contextlib.suppress(OSError):
            sender.sendto(text.encode(), f"\0{address[1:]}" if address.startswith("@") else address)


def reset_server() -> None:
    """Restart this server at once, without stopping anything."""
    run(["systemctl", "--force", "--force", "reboot"], timeout=5, ok=range(-64, 256))
