# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Everything that would stop a migration, found at once and before anything is touched.

Two descriptions go in, of the source and of the destination host, as plain mappings (the shapes
that ``_backend.source_facts`` and ``_backend.destination_facts`` return); problems come out.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._model.disk import DiskLayout, Filesystem
from ansible_collections.reduced.footprint.plugins.module_utils._model.migration import MigrationSpec
from ansible_collections.reduced.footprint.plugins.module_utils._model.size import MIB, size_text
from ansible_collections.reduced.footprint.plugins.module_utils._model.vm import VmDetails
from ansible_collections.reduced.footprint.plugins.module_utils._plan.disk_layout import space_problems
from ansible_collections.reduced.footprint.plugins.module_utils._plan.fixups import Context
from ansible_collections.reduced.footprint.plugins.module_utils._plan.fixups_network import NicChange

SOURCE_TOOLS = ("rsync", "ip", "systemctl", "systemd-run")
DESTINATION_TOOLS = ("rsync", "ssh", "ssh-keyscan", "ssh-keygen", "sfdisk", "losetup", "partx", "mount", "chroot", "ip")
# where a problem stands that installing a package mends
TOOLS_PATH = "destination.tools"
MKFS_TOOLS = {"ext4": "mkfs.ext4", "xfs": "mkfs.xfs", "vfat": "mkfs.vfat", "swap": "mkswap"}


@dataclasses.dataclass(frozen=True)
class Problem:
    """One thing that stands in the way, and what to do about it."""

    message: str
    mend: str
    path: str | None = None

    def as_dict(self) -> dict[str, t.Any]:
        """For the journal and the module's result."""
        return {"path": self.path, "message": self.message, "mend": self.mend}


def filesystems_of(source: t.Mapping[str, t.Any]) -> tuple[Filesystem, ...]:
    """The real file systems of the source, as its facts tell them."""
    return tuple(
        Filesystem(mount=each["mount"], device=each["device"], fstype=each["fstype"], used=int(each["used"]), inodes_used=int(each["inodes_used"]))
        for each in source.get("filesystems", [])
    )


def admin_interface(spec: MigrationSpec, source: t.Mapping[str, t.Any]) -> tuple[str | None, int | None]:
    """Interface and prefix of the admin address on the source; ``(None, None)`` when it has it nowhere.

    The temporary address is accepted too: that is where a parked source is found.
    """
    for wanted in (spec.admin.address, spec.admin.temporary_address):
        for interface in source.get("interfaces", []):
            for address in interface.get("addresses", []):
                if address.partition("/")[0] == wanted:
                    return interface["name"], int(address.partition("/")[2] or 32)
    return None, None


def fixup_context(spec: MigrationSpec, vm: VmDetails, layout: DiskLayout, source: t.Mapping[str, t.Any], key_marker: str) -> Context:
    """What the fix-ups need, from request and facts.

    The VM's first card takes the place of the card with the admin address, the others follow in
    the order the source lists its cards.
    """
    name, _prefix = admin_interface(spec, source)
    cards = [each for each in source.get("interfaces", []) if each.get("mac")]
    cards.sort(key=lambda each: each["name"] != name)
    nics = tuple(NicChange(card["name"], card["mac"], nic.mac) for card, nic in zip(cards, vm.nics))
    return Context(nics=nics, partitions=layout.partitions, key_marker=key_marker)


def find_problems(
    spec: MigrationSpec, vm: VmDetails, layout: DiskLayout, source: t.Mapping[str, t.Any] | None, host: t.Mapping[str, t.Any] | None
) -> list[Problem]:
    """All that stands in the way.

    :arg source: facts of the source, ``None`` when they could not be read yet.
    :arg host: facts of the destination, ``None`` when they could not be read yet.
    """
    problems = _destination(spec, vm, layout, host) if host is not None else []
    if source is not None:
        problems += _source(spec, layout, source)
    if source is not None and host is not None:
        problems += _both(source, host)
    return problems


def find_warnings(source: t.Mapping[str, t.Any] | None) -> list[str]:
    """What will not move, in plain words."""
    if source is None:
        return []
    warnings = [
        f"{each['mount']} ({each['fstype']} from {each['device']}) is not copied; the new master mounts it itself." for each in source.get("foreign", [])
    ]
    for unit, state in source.get("services", {}).items():
        if state.get("load") == "loaded" and state.get("active") not in ("active", "activating"):
            warnings.append(f"{unit} does not run on the source; it stays as it is.")
    return warnings


def _source(spec: MigrationSpec, layout: DiskLayout, source: t.Mapping[str, t.Any]) -> list[Problem]:
    problems = []
    wanted = spec.source.machine_id
    if wanted and source.get("machine_id") != wanted:
        problems.append(
            Problem(
                f"{spec.source.address} has the machine-id {source.get('machine_id')}, not {wanted}: this is another machine.",
                "Look at who answers on the source's address; after a finished migration that is the VM.",
                "source.machine_id",
            )
        )
    missing = [tool for tool in SOURCE_TOOLS if not source.get("tools", {}).get(tool)]
    if missing:
        problems.append(Problem(f"The source lacks {', '.join(missing)}.", "Install them there."))
    name, _prefix = admin_interface(spec, source)
    if name is None:
        problems.append(
            Problem(
                f"No interface of the source has {spec.admin.address}.",
                "Name the address that clients of the master use, without a host name.",
                "admin.address",
            )
        )
    elif spec.admin.interface and spec.admin.interface != name:
        problems.append(Problem(f"{spec.admin.address} is on {name}, not on {spec.admin.interface}.", "Leave the interface out.", "admin.interface"))
    if name is not None and not source.get("address_files"):
        problems.append(
            Problem(
                f"No network configuration of the source names {spec.admin.address}, so it would take it again at its next boot.",
                "Give the source that address as a static one (systemd-networkd, netplan, ifupdown, NetworkManager or ifcfg) before it moves.",
                "admin.address",
            )
        )
    if not source.get("kernels"):
        problems.append(Problem("The source has no kernel in /boot that a VM could start.", "Install its distribution's kernel package there."))
    if not source.get("initramfs"):
        problems.append(Problem("The source has neither update-initramfs nor dracut.", "Install initramfs-tools or dracut there."))
    grub = source.get("grub", {})
    if not grub.get("install") or not grub.get("i386_pc"):
        problems.append(
            Problem("The source has no GRUB for BIOS machines (grub-install and its i386-pc files).", "Install grub-pc-bin and grub2-common there.")
        )
    for unit, state in source.get("services", {}).items():
        if state.get("load") != "loaded":
            problems.append(
                Problem(f"The source knows no unit {unit}.", "Correct the name; systemctl list-units on the source shows them.", "services")
            )
    too_small = space_problems(layout, filesystems_of(source))
    problems += [Problem(text, "Make the disk or the partition larger, or leave something out.", "partitions") for text in too_small]
    return problems


def _destination(spec: MigrationSpec, vm: VmDetails, layout: DiskLayout, host: t.Mapping[str, t.Any]) -> list[Problem]:
    problems = []
    needed = list(DESTINATION_TOOLS) + sorted({MKFS_TOOLS[each.fs] for each in layout.partitions})
    missing = [tool for tool in needed if not host.get("tools", {}).get(tool)]
    if missing:
        problems.append(Problem(f"The destination lacks {', '.join(missing)}.", "Install them; the role master_migrate does.", TOOLS_PATH))
    if not host.get("domain_exists"):
        memory = vm.memory_mib * MIB
        if host.get("memory_available", memory) < memory:
            problems.append(
                Problem(
                    f"{vm.name} needs {size_text(memory)} of memory, the destination has {size_text(host['memory_available'])} free.",
                    "Give it less, free some, or choose another host.",
                    "vm.ram",
                )
            )
    elif host.get("domain_foreign"):
        problems.append(
            Problem(f"The destination has another VM of the name {vm.name} already.", "Give the master's VM another name or id, or remove that VM.", "vm.name")
        )
    if not host.get("volume_exists") and host.get("pool_available") is not None and host["pool_available"] < layout.size:
        problems.append(
            Problem(
                f"The disk needs {size_text(layout.size)}, pool {spec.pool} has {size_text(host['pool_available'])} free.",
                "Choose another pool or make the disk smaller.",
                "vm.disks[0].size",
            )
        )
    for index, nic in enumerate(vm.nics):
        if nic.bridge and nic.bridge not in host.get("bridges", []):
            problems.append(
                Problem(
                    f"The destination has no bridge {nic.bridge} (it has: {', '.join(host.get('bridges', [])) or 'none'}).",
                    "Apply the role virt_host first, or name another bridge.",
                    f"vm.nics[{index}].bridge",
                )
            )
    if host.get("temporary_taken"):
        problems.append(
            Problem(
                f"{spec.admin.temporary_address} is taken by {host['temporary_taken']}.", "Choose an address nobody uses.", "admin.temporary_address"
            )
        )
    return problems


def _both(source: t.Mapping[str, t.Any], host: t.Mapping[str, t.Any]) -> list[Problem]:
    problems = []
    if source.get("arch") and host.get("arch") and source["arch"] != host["arch"]:
        problems.append(Problem(f"The source is {source['arch']}, the destination {host['arch']}.", "Choose a host of the same architecture."))
    if abs(float(source.get("clock_offset") or 0.0)) > 60:
        problems.append(
            Problem(f"The clocks of source and destination differ by {abs(source['clock_offset']):.0f} s.", "Let both follow a time server.")
        )
    return problems
