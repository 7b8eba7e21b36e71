# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Everything that would stop a migration, found at once and before anything is touched.

Two descriptions go in, of the source and of the destination host, as plain mappings (the shapes
that ``_migrate.source.io_facts`` and ``_migrate.phases.io_destination_facts`` return); problems come out.
"""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import MIB, size_text
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.bootstrap import plan_bootstrap
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.copy.plan_fixups import Context
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.copy.plan_fixups_macs import STACKED, StackChange, generated, normal
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.copy.plan_fixups_network import NicChange, macs_of
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.model_disk import BIOS, EFI, DiskLayout, Filesystem
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.plan_layout import space_problems
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.plan_raw_devices import raw_notes, raw_problems
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.model_migration import MigrationSpec
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.plan_notes import disk_warnings, machine_warnings, network_warnings, stack
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.plan_source import source_problems
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_problem import TOOLS_PATH, Problem
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_vm import VmDetails

SOURCE_TOOLS = ("rsync", "blkid", "ip", "systemctl", "systemd-run")
DESTINATION_TOOLS = ("rsync", "ssh", "ssh-keyscan", "ssh-keygen", "sfdisk", "losetup", "partx", "mount", "chroot", "ip", "qemu-img")
# where a problem stands that installing a package fixes
MKFS_TOOLS = {"ext4": "mkfs.ext4", "xfs": "mkfs.xfs", "btrfs": "mkfs.btrfs", "vfat": "mkfs.vfat", "swap": "mkswap"}

# the source's subvolumes are listed with it
BTRFS_TOOL = "btrfs"
# what UEFI firmware starts from is written with it
ESP_TOOL = "mcopy"


def filesystems_of(source: t.Mapping[str, t.Any]) -> tuple[Filesystem, ...]:
    """The real file systems of the source, as its facts tell them."""
    return tuple(
        Filesystem(
            mount=each["mount"],
            device=each["device"],
            fstype=each["fstype"],
            used=int(each["used"]),
            inodes_used=int(each["inodes_used"]),
            size=int(each.get("size") or each.get("total") or 0),
            disks=tuple(each.get("disks") or ()),
            subvolume=each.get("subvolume"),
            options=each.get("options"),
        )
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

    The VM's first card takes the place of the card with the admin address (or of the first one
    below the VLAN, bridge or bond that has it), the others follow in the order the source lists its
    cards.
    """
    nics, stacked = nics_of(spec, vm, source)
    return Context(nics=nics, layout=layout, key_marker=key_marker, stacked=stacked)


def nics_of(spec: MigrationSpec, vm: VmDetails, source: t.Mapping[str, t.Any]) -> tuple[tuple[NicChange, ...], tuple[StackChange, ...]]:
    """The cards whose place a card of the VM takes, and what is on top of them with an address of its own."""
    cards = cards_of(spec, source)
    nics = tuple(NicChange(card["name"], card["mac"], nic.mac, card.get("worn") or "") for card, nic in zip(cards, vm.nics))
    known = {mac for card in cards for mac in (card["mac"], card.get("worn")) if mac}
    links, stacked = source.get("interfaces", []), []
    # those further down first: what is on top of them mostly has their address
    for link in sorted(links, key=lambda each: len(stack(links, each["name"]))):
        below = [nic for name in stack(links, link["name"])[1:] for nic in nics if nic.name == name]
        if link.get("kind") in STACKED and below and link.get("mac") and link["mac"] not in known:
            known.add(link["mac"])
            # two macvlans of one card cannot have its address
            new = generated(link["mac"], below[0].new_mac) if link["kind"] == "macvlan" else below[0].new_mac
            stacked.append(StackChange(link["name"], link["mac"], new))
    return nics, tuple(stacked)


def mac_warnings(spec: MigrationSpec, vm: VmDetails, source: t.Mapping[str, t.Any], tree: t.Mapping[str, str]) -> list[str]:
    """Addresses of the source's interfaces that are not those of its cards, and so do not come along."""
    nics, stacked = nics_of(spec, vm, source)
    warnings = [f"{nic.name} has the MAC {nic.worn_mac} instead of its own {nic.old_mac}; in the VM it has {nic.new_mac}." for nic in nics if nic.worn_mac]
    warnings += [f"{each.name} has a MAC of its own, {each.old_mac}; in the VM it has {each.new_mac}." for each in stacked]
    named = {mac for nic in nics for mac in (nic.worn_mac, nic.old_mac)} | {each.old_mac for each in stacked}
    changes = [each for each in macs_of(nics, stacked).learn(tree) if (normal(each[1]) or each[1]) not in named]
    warnings += [f"{path} sets the MAC {old}, which the source may have again at any time; in the VM it becomes {new}." for path, old, new in changes]
    return [*warnings, "Change DHCP reservations, port security and static ARP entries that name these MACs."] if warnings else []


def cards_of(spec: MigrationSpec, source: t.Mapping[str, t.Any]) -> list[t.Mapping[str, t.Any]]:
    """The source's network cards, those that carry the admin address first."""
    links = source.get("interfaces", [])
    below = stack(links, admin_interface(spec, source)[0])
    cards = [each for each in links if each.get("mac") and each.get("card", True)]
    return sorted(cards, key=lambda each: below.index(each["name"]) if each["name"] in below else len(below))


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
        if vm.secure_boot and not source.get("grub", {}).get("shim"):
            hint = "Install shim-signed and grub-efi-amd64-signed (Debian, Ubuntu) or shim-x64 there, or leave secure_boot out."
            problems.append(Problem("The source has no signed boot loader, and secure_boot starts nothing else.", hint, "vm.secure_boot"))
    if source is not None and host is not None:
        problems += _both(source, host)
    return problems


def find_warnings(
    source: t.Mapping[str, t.Any] | None, spec: MigrationSpec | None = None, vm: VmDetails | None = None, tree: t.Mapping[str, str] | None = None
) -> list[str]:
    """What will not move or will be different, in plain words."""
    if source is None:
        return []
    warnings = [
        f"{each['mount']} ({each['fstype']} from {each['device']}) is not copied; the new master mounts it itself." for each in source.get("foreign", [])
    ]
    for unit, state in source.get("services", {}).items():
        if state.get("load") == "loaded" and state.get("active") not in ("active", "activating"):
            warnings.append(f"{unit} does not run on the source; it stays as it is.")
    warnings += raw_notes(spec.disk_schema, spec.sync, source) if spec else []
    found = disk_warnings(source) + machine_warnings(tree or {})
    if spec and vm:
        found += network_warnings(spec, vm, source) + mac_warnings(spec, vm, source, tree or {})
    return warnings + found


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
    if any(each["fstype"] == "btrfs" for each in source.get("filesystems", [])) and not source.get("tools", {}).get(BTRFS_TOOL):
        hint = "Install btrfs-progs there."
        problems.append(Problem("The source has btrfs and lacks its program btrfs, so nobody sees subvolumes that are not mounted.", hint))
    if not source.get("kernels"):
        problems.append(Problem("The source has no kernel in /boot that a VM could start.", "Install its distribution's kernel package there."))
    if not source.get("initramfs"):
        problems.append(Problem("The source has neither update-initramfs nor dracut.", "Install initramfs-tools or dracut there."))
    problems += _boot_loader(layout, source)
    problems += [Problem(*each) for each in source_problems(spec.containers, spec.quiesce, source)]
    problems += [Problem(text, "Correct the name, or make it larger.", "disk_schema") for text in raw_problems(layout, source)]
    too_small = space_problems(layout, filesystems_of(source))
    problems += [Problem(text, "Make the disk or the partition larger, or leave something out.", "disk_schema") for text in too_small]
    return problems


def _boot_loader(layout: DiskLayout, source: t.Mapping[str, t.Any]) -> list[Problem]:
    grub = source.get("grub", {})
    if layout.firmware == BIOS and not (grub.get("install") and grub.get("i386_pc")):
        hint = "Install grub-pc-bin and grub2-common there, or give the VM boot_firmware: efi."
        return [Problem("The source has no GRUB for BIOS machines (grub-install and its i386-pc files).", hint)]
    if layout.firmware == EFI and not (grub.get("install") and (grub.get("efi") or grub.get("shim"))):
        hint = "Install grub-efi-amd64-bin (Debian, Ubuntu) or grub2-efi-x64 and shim-x64 there, or give the VM boot_firmware: bios."
        return [Problem("The source has no GRUB for UEFI machines.", hint)]
    return []


def _destination(spec: MigrationSpec, vm: VmDetails, layout: DiskLayout, host: t.Mapping[str, t.Any]) -> list[Problem]:
    problems = []
    needed = list(DESTINATION_TOOLS) + sorted({MKFS_TOOLS[each.fs] for each in layout.partitions if each.raw is None}) + ([ESP_TOOL] if layout.esp else [])
    missing = [tool for tool in needed if not host.get("tools", {}).get(tool)]
    if missing:
        problems.append(Problem(f"The destination lacks {', '.join(missing)}.", "Install them; the role master_migrate does.", TOOLS_PATH))
    unknown = sorted({each.fs for each in layout.partitions if each is not layout.esp} & set(host.get("unmountable", ())))
    if unknown:
        problems.append(Problem(f"The destination's kernel cannot mount {', '.join(unknown)}.", "Use another file system in the disk schema.", "disk_schema"))
    if layout.firmware == EFI and host.get("uefi") is False:
        problems.append(Problem("The destination has no UEFI firmware for VMs.", "Install ovmf or edk2-ovmf; the role virt_host does.", TOOLS_PATH))
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
    if spec.boot == "pxe" and "bootstrap" in host:
        first = vm.nics[0]
        problems += [Problem(*each) for each in plan_bootstrap.problems(host["bootstrap"], serve=spec.pxe_serve, bridge=first.bridge, vlan=first.vlan)]
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
