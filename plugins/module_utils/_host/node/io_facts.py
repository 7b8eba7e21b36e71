# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read the facts of the machine (memory, CPUs, kernel, QEMU) and the recorded local facts."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import platform
import re
import stat
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import meminfo, read_text
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_schema import HOST_FACTS
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_node import HostFacts
from ansible_collections.reduced.footprint.plugins.module_utils._vm.hypervisor import io_kvm
from ansible_collections.reduced.footprint.plugins.module_utils._vm.hypervisor.io_boot_sector import BOOT_SECTOR

FACTS_FILE = "/etc/ansible/facts.d/reduced_footprint.fact"

_KVM_NUMBER = os.makedev(10, 232)


def measure(root: str = "/") -> HostFacts:
    """Return the facts of this machine."""
    memory = meminfo(root).get("MemTotal")
    if memory is None:
        raise BackendError("/proc/meminfo does not contain the total memory.", hint="Run this on a Linux host with /proc mounted.")
    cpuinfo = read_text(os.path.join(root, "proc/cpuinfo")) or ""
    return HostFacts(
        memory_mib=memory // 1024**2,
        cpus=len(os.sched_getaffinity(0)),
        arch=platform.machine(),
        kernel=platform.release(),
        cpu_model=_first(cpuinfo, "model name") or platform.machine(),
        microcode=_first(cpuinfo, "microcode"),
        qemu_version=qemu_version(),
    )


def qemu_version() -> str | None:
    """Return the version of QEMU, e.g. ``7.2.9``; ``None`` without QEMU."""
    binary = io_kvm.qemu_binary()
    if binary is None:
        return None
    try:
        output = run([binary, "--version"], timeout=30).stdout
    except CommandError:
        return None
    found = re.search(r"version ([0-9][0-9.]*)[^\n]*", output)
    # the whole line, so that it includes the patch level of the distribution
    return found.group(0)[len("version ") :].strip() if found else None


def proof_key(kind: str, facts: HostFacts) -> str:
    """Return the key of a hypervisor proof; it changes with the kernel, QEMU, CPU, microcode, device or test guest."""
    device = "device" if kind == "kvm" and io_kvm.has_kvm_device() else "-"
    probe = hashlib.sha256(BOOT_SECTOR).hexdigest()[:8]
    parts = (kind, facts.kernel, facts.qemu_version or "-", facts.cpu_model, facts.microcode or "-", device, probe)
    return "|".join(parts)


def read_recorded(path: str = FACTS_FILE) -> tuple[str, dict[str, t.Any]]:
    """Return the recorded facts as text and as a mapping, which is empty if the text is missing or not valid."""
    text = read_text(path) or ""
    try:
        value = json.loads(text)
    except ValueError:
        value = {}
    value = value if isinstance(value, dict) else {}
    HOST_FACTS.check(value.get(HOST_FACTS.key), path)
    return text, value


def free_bytes(path: str) -> tuple[int, int]:
    """Return total and available bytes of the file system of ``path``, which need not exist."""
    place = pathlib.Path(path)
    while not place.exists():
        place = place.parent
    status = os.statvfs(place)
    return status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize


def bridges(root: str = "/") -> set[str]:
    """Return the names of the host's bridges."""
    return {folder.parent.name for folder in pathlib.Path(root, "sys/class/net").glob("*/bridge")}


def volume_group(name: str) -> tuple[int, int] | None:
    """Return total and free bytes of an LVM volume group; ``None`` if it does not exist."""
    argv = ["vgs", "--reportformat", "json", "--units", "b", "--nosuffix", "--options", "vg_name,vg_size,vg_free"]
    try:
        report = json.loads(run(argv, timeout=60).stdout)
    except CommandError as error:
        hint = "Install lvm2 on the host." if error.rc == 127 else "Run vgs on the host."
        raise BackendError(f"cannot list the LVM volume groups: {error.message}.", hint=hint) from error
    groups = [group for part in report.get("report", ()) for group in part.get("vg", ())]
    return next(((int(group["vg_size"]), int(group["vg_free"])) for group in groups if group.get("vg_name") == name), None)


def kvm_seen_by(daemons: t.Container[str] = ("libvirtd", "virtqemud"), root: str = "/") -> bool:
    """Return whether a libvirt daemon sees the KVM device; without a running daemon, whether the host has one.

    The device can be hidden from a daemon by a mount in its own namespace, without a change on the host.
    """
    seen = []
    for folder in pathlib.Path(root, "proc").glob("[0-9]*"):
        try:
            if (folder / "comm").read_text(encoding="utf-8").strip() in daemons:
                seen.append(_is_kvm(folder / "root/dev/kvm"))
        except OSError:
            continue  # the process has ended
    return any(seen) if seen else _is_kvm(pathlib.Path(root, "dev/kvm"))


def _is_kvm(path: pathlib.Path) -> bool:
    try:
        status = path.stat()
    except OSError:
        return False
    # the placeholder of a hidden device is not this device
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == _KVM_NUMBER


def _first(cpuinfo: str, key: str) -> str:
    found = re.search(rf"^{re.escape(key)}\s*:\s*(.*)$", cpuinfo, re.MULTILINE)
    return found.group(1).strip() if found else ""
