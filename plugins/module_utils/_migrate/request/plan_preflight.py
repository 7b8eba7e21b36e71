# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Find all problems that would stop a migration, in one run and before anything is changed.

Input are the facts of the source and of the destination host as plain mappings (as returned by
``_migrate.source.io_facts`` and ``_migrate.phases.io_destination_facts``), output are problems.
"""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import MIB, size_text
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.bootstrap import plan_bootstrap
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.copy.plan_fixups import Context
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.copy.plan_fixups_fstab import option_warnings
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.copy.plan_fixups_macs import STACKED, StackChange, generated, normal
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.copy.plan_fixups_network import NicChange, macs_of
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.model_disk import BIOS, EFI, DiskLayout, Filesystem
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.plan_layout import space_problems
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.plan_raw_devices import raw_notes, raw_problems
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.model_migration import MigrationSpec
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request import plan_notes
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.plan_source import source_problems
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_excludes import excluded
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_problem import TOOLS_PATH, Problem
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_vm import VmDetails

SOURCE_TOOLS = ("rsync", "blkid", "ip", "systemctl", "systemd-run")
DESTINATION_TOOLS = ("rsync", "ssh", "ssh-keyscan", "ssh-keygen", "sfdisk", "losetup", "partx", "mount", "systemd-nspawn", "ip", "qemu-img")
MKFS_TOOLS = {"ext4": "mkfs.ext4", "xfs": "mkfs.xfs", "btrfs": "mkfs.btrfs", "vfat": "mkfs.vfat", "swap": "mkswap"}

# lists the source's subvolumes
BTRFS_TOOL = "btrfs"
# writes the EFI system partition
ESP_TOOL = "mcopy"


def systems_of(source: t.Mapping[str, t.Any], excludes: t.Iterable[str]) -> list[dict[str, t.Any]]:
    """The source's file systems in its facts, without those that are excluded as a whole."""
    return [each for each in source.get("filesystems", []) if not excluded(each["mount"], excludes)]


def filesystems_of(source: t.Mapping[str, t.Any], excludes: t.Iterable[str] = ()) -> tuple[Filesystem, ...]:
    """The file systems on disks of the source that are copied, from its facts."""
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
        for each in systems_of(source, excludes)
    )


def admin_interface(spec: MigrationSpec, source: t.Mapping[str, t.Any]) -> tuple[str | None, int | None]:
    """Interface and prefix length of the admin address on the source; ``(None, None)`` if no interface has it.

    The temporary address is accepted as well, because a parked source has that one.
    """
    for wanted in (spec.admin.address, spec.admin.temporary_address):
        for interface in source.get("interfaces", []):
            for address in interface.get("addresses", []):
                if address.partition("/")[0] == wanted:
                    return interface["name"], int(address.partition("/")[2] or 32)
    return None, None


def fixup_context(spec: MigrationSpec, vm: VmDetails, layout: DiskLayout, source: t.Mapping[str, t.Any], key_marker: str) -> Context:
    """The context of the fix-ups, from request and facts.

    The VM's first card replaces the card with the admin address (or the first card below the VLAN,
    bridge or bond that has it), the others follow in the order in which the source lists its cards.
    """
    nics, stacked = nics_of(spec, vm, source)
    return Context(nics=nics, layout=layout, key_marker=key_marker, stacked=stacked)


def nics_of(spec: MigrationSpec, vm: VmDetails, source: t.Mapping[str, t.Any]) -> tuple[tuple[NicChange, ...], tuple[StackChange, ...]]:
    """The cards that cards of the VM replace, and the interfaces on top of them with a MAC that is not a card's."""
    cards = cards_of(spec, source)
    nics = tuple(NicChange(card["name"], card["mac"], nic.mac, card.get("worn") or "") for card, nic in zip(cards, vm.nics))
    known = {mac for card in cards for mac in (card["mac"], card.get("worn")) if mac}
    links, stacked = source.get("interfaces", []), []
    # lower interfaces first: those on top of them mostly have the same MAC
    for link in sorted(links, key=lambda each: len(plan_notes.stack(links, each["name"]))):
        below = [nic for name in plan_notes.stack(links, link["name"])[1:] for nic in nics if nic.name == name]
        if link.get("kind") in STACKED and below and link.get("mac") and link["mac"] not in known:
            known.add(link["mac"])
            # two macvlans of one card cannot both have its MAC
            new = generated(link["mac"], below[0].new_mac) if link["kind"] == "macvlan" else below[0].new_mac
            stacked.append(StackChange(link["name"], link["mac"], new))
    return nics, tuple(stacked)


def mac_warnings(spec: MigrationSpec, vm: VmDetails, source: t.Mapping[str, t.Any], tree: t.Mapping[str, str]) -> list[str]:
    """Warnings about MACs of the source's interfaces that differ from those of its cards and therefore change in the VM."""
    nics, stacked = nics_of(spec, vm, source)
    warnings = [f"{nic.name} has the MAC {nic.worn_mac} instead of its own {nic.old_mac}; in the VM it has {nic.new_mac}." for nic in nics if nic.worn_mac]
    warnings += [f"{each.name} has the MAC {each.old_mac}, which differs from its card's; in the VM it has {each.new_mac}." for each in stacked]
    named = {mac for nic in nics for mac in (nic.worn_mac, nic.old_mac)} | {each.old_mac for each in stacked}
    found = macs_of(nics, stacked).learn(tree)
    texts = [text.lower().replace("-", ":") for text in tree.values()]
    for mac in (nic.worn_mac for nic in nics if nic.worn_mac and all(normal(each[1]) for each in found)):
        if not any(mac.lower() in text for text in texts):
            warnings.append(f"No known file sets {mac}. If a program does, the VM has the MAC of the parked source: search with grep -ri {mac} /etc.")
    changes = [each for each in found if (normal(each[1]) or each[1]) not in named]
    warnings += [f"{path} sets the MAC {old}, which the parked source may use on the same network; in the VM it becomes {new}." for path, old, new in changes]
    return [*warnings, "Change DHCP reservations, port security and static ARP entries that name these MACs."] if warnings else []


def cards_of(spec: MigrationSpec, source: t.Mapping[str, t.Any]) -> list[t.Mapping[str, t.Any]]:
    """The source's network cards, those that carry the admin address first."""
    links = source.get("interfaces", [])
    below = plan_notes.stack(links, admin_interface(spec, source)[0])
    other = {each["name"] for each in source.get("other_media", [])}
    cards = [each for each in links if each.get("mac") and each.get("card", True) and each["name"] not in other]
    return sorted(cards, key=lambda each: below.index(each["name"]) if each["name"] in below else len(below))


def find_problems(
    spec: MigrationSpec, vm: VmDetails, layout: DiskLayout, source: t.Mapping[str, t.Any] | None, host: t.Mapping[str, t.Any] | None
) -> list[Problem]:
    """All problems that would stop the migration.

    :arg source: facts of the source, ``None`` if they could not be gathered yet.
    :arg host: facts of the destination, ``None`` if they could not be gathered yet.
    """
    problems = list(_destination(spec, vm, layout, host)) if host is not None else []
    if source is not None:
        own = own_vm(vm, source)
        problems += [own] if own else []
        problems += _source(spec, layout, source)
        if vm.secure_boot and not source.get("grub", {}).get("shim"):
            hint = "Install shim-signed and grub-efi-amd64-signed (Debian, Ubuntu) or shim-x64 there, or leave secure_boot out."
            problems.append(Problem("The source has no signed boot loader, which secure_boot requires.", hint, "vm.secure_boot"))
    if source is not None and host is not None:
        problems += _both(source, host)
    return problems


def own_vm(vm: VmDetails, source: t.Mapping[str, t.Any]) -> Problem | None:
    """The problem that the source has a card with a MAC of the VM: it is the master's VM itself, which already runs on another host."""
    shared = {str(each.get("mac") or "").lower() for each in source.get("interfaces", [])}.intersection(mac.lower() for mac in vm.macs)
    if not shared:
        return None
    return Problem(
        f"The source has the MAC {min(shared)} of the VM {vm.name}: it is this VM itself, on another virt host, or both would have one MAC in their network.",
        "After a migration, set master_migrate_destination to the virt host of the VM (move_vm moves it to another one). Otherwise remove mac from vm.nics.",
        "source.address",
    )


def find_warnings(
    source: t.Mapping[str, t.Any] | None, spec: MigrationSpec | None = None, vm: VmDetails | None = None, tree: t.Mapping[str, str] | None = None
) -> list[str]:
    """Warnings about what is not copied or will be different in the VM."""
    if source is None:
        return []
    excludes = spec.excludes if spec else ()
    warnings = [*source.get("login", []), *plan_notes.mount_warnings(source, excludes)]
    for unit, state in source.get("services", {}).items():
        if state.get("load") == "loaded" and state.get("active") not in ("active", "activating"):
            warnings.append(f"{unit} is not running on the source; it is left as it is.")
    warnings += raw_notes(spec.disk_schema, spec.sync, source) if spec else []
    found = plan_notes.disk_warnings({"filesystems": systems_of(source, excludes)}) + plan_notes.machine_warnings(tree or {}) + option_warnings(tree or {})
    if spec and vm:
        found += plan_notes.network_warnings(spec, vm, source) + mac_warnings(spec, vm, source, tree or {})
    return warnings + found


def _source(spec: MigrationSpec, layout: DiskLayout, source: t.Mapping[str, t.Any]) -> t.Iterator[Problem]:
    wanted = spec.source.machine_id
    if wanted and source.get("machine_id") != wanted:
        message = f"{spec.source.address} has the machine-id {source.get('machine_id')}, expected {wanted}: this is another machine."
        yield Problem(message, "Check which machine has the source's address; after a finished migration it is the VM.", "source.machine_id")
    missing = [tool for tool in SOURCE_TOOLS if not source.get("tools", {}).get(tool)]
    if missing:
        yield Problem(f"Programs are missing on the source: {', '.join(missing)}.", "Install them there.")
    name, _prefix = admin_interface(spec, source)
    medium = plan_notes.medium_problem((spec.admin.address, spec.admin.temporary_address), name, source)
    if medium:
        yield Problem(*medium, "admin.address")
    elif name is None:
        hint = "Set the IPv4 address that clients of the master use, not a host name."
        yield Problem(f"No interface of the source has {spec.admin.address}.", hint, "admin.address")
    elif spec.admin.interface and spec.admin.interface != name:
        yield Problem(f"{spec.admin.address} is on {name}, not on {spec.admin.interface}.", "Correct or omit the interface.", "admin.interface")
    if name is not None and not source.get("address_files"):
        message = f"No network configuration file of the source contains {spec.admin.address}, so the source would take it again at its next boot."
        hint = "Configure the address statically on the source (systemd-networkd, netplan, ifupdown, NetworkManager or ifcfg)."
        yield Problem(message, hint, "admin.address")
    yield from plan_notes.mount_problems(source, spec.excludes)
    if any(each["fstype"] == "btrfs" for each in source.get("filesystems", [])) and not source.get("tools", {}).get(BTRFS_TOOL):
        yield Problem("The program btrfs is missing on the source; it is required to list subvolumes that are not mounted.", "Install btrfs-progs there.")
    if not source.get("kernels"):
        yield Problem("The source has no kernel in /boot that a VM could boot.", "Install its distribution's kernel package there.")
    if not source.get("initramfs"):
        yield Problem("The source has neither update-initramfs nor dracut.", "Install initramfs-tools or dracut there.")
    yield from _boot_loader(layout, source)
    yield from source_problems(spec.services, spec.containers, spec.quiesce, source)
    for text in raw_problems(layout, source):
        yield Problem(text, "Correct the device name or the size.", "disk_schema")
    for text in space_problems(layout, filesystems_of(source, spec.excludes)):
        yield Problem(text, "Increase the size of the disk or the partition, or use excludes.", "disk_schema")


def _boot_loader(layout: DiskLayout, source: t.Mapping[str, t.Any]) -> t.Iterator[Problem]:
    grub = source.get("grub", {})
    if layout.firmware == BIOS and not (grub.get("install") and grub.get("i386_pc")):
        hint = "Install grub-pc-bin and grub2-common there, or give the VM boot_firmware: efi."
        yield Problem("The source has no GRUB for BIOS firmware (grub-install and its i386-pc files).", hint)
    if layout.firmware == EFI and not (grub.get("install") and (grub.get("efi") or grub.get("shim"))):
        hint = "Install grub-efi-amd64-bin (Debian, Ubuntu) or grub2-efi-x64 and shim-x64 there, or give the VM boot_firmware: bios."
        yield Problem("The source has no GRUB for UEFI firmware.", hint)


def _destination(spec: MigrationSpec, vm: VmDetails, layout: DiskLayout, host: t.Mapping[str, t.Any]) -> t.Iterator[Problem]:
    needed = list(DESTINATION_TOOLS) + sorted({MKFS_TOOLS[each.fs] for each in layout.partitions if each.raw is None}) + ([ESP_TOOL] if layout.esp else [])
    missing = [tool for tool in needed if not host.get("tools", {}).get(tool)]
    if missing:
        hint = "Install them, or use the role master_migrate, which does."
        yield Problem(f"Programs are missing on the destination: {', '.join(missing)}.", hint, TOOLS_PATH)
    unknown = sorted({each.fs for each in layout.partitions if each is not layout.esp} & set(host.get("unmountable", ())))
    if unknown:
        yield Problem(f"The destination's kernel cannot mount {', '.join(unknown)}.", "Use another file system in the disk schema.", "disk_schema")
    if layout.firmware == EFI and host.get("uefi") is False:
        yield Problem("The destination has no UEFI firmware for VMs.", "Install ovmf or edk2-ovmf, or apply the role virt_host.", TOOLS_PATH)
    memory = vm.memory_mib * MIB
    if host.get("domain_foreign"):
        hint = "Give the master's VM another name or id, or remove that VM."
        yield Problem(f"Another VM named {vm.name} already exists on the destination.", hint, "vm.name")
    elif not host.get("domain_exists") and host.get("memory_available", memory) < memory:
        message = f"{vm.name} needs {size_text(memory)} of memory, the destination has {size_text(host['memory_available'])} available."
        yield Problem(message, "Reduce the VM's memory, free memory, or choose another host.", "vm.ram")
    if not host.get("volume_exists") and host.get("pool_available") is not None and host["pool_available"] < layout.size:
        message = f"The disks need {size_text(layout.size)}, pool {spec.pool} has {size_text(host['pool_available'])} available."
        yield Problem(message, "Choose another pool or reduce the size of the disk.", "vm.disks[0].size")
    bridges = host.get("bridges", [])
    for index, nic in enumerate(vm.nics):
        if nic.kernel_bridge and nic.kernel_bridge not in bridges:
            message = f"The destination has no bridge {nic.bridge} (existing bridges: {', '.join(bridges) or 'none'})."
            yield Problem(message, "Apply the role virt_host first, or use another bridge.", f"vm.nics[{index}].bridge")
    if spec.boot == "pxe" and "bootstrap" in host:
        yield from plan_bootstrap.problems(host["bootstrap"], vm.nics[0], from_source=spec.pxe_from_source)
    if host.get("temporary_taken"):
        message = f"{spec.admin.temporary_address} is already in use by {host['temporary_taken']}."
        yield Problem(message, "Choose an unused address.", "admin.temporary_address")


def _both(source: t.Mapping[str, t.Any], host: t.Mapping[str, t.Any]) -> t.Iterator[Problem]:
    if source.get("arch") and host.get("arch") and source["arch"] != host["arch"]:
        message = f"The architecture of the source is {source['arch']}, that of the destination {host['arch']}."
        yield Problem(message, "Choose a host of the same architecture.")
    if abs(float(source.get("clock_offset") or 0.0)) > 60:
        message = f"The clocks of source and destination differ by {abs(source['clock_offset']):.0f} s."
        yield Problem(message, "Synchronize both with a time server.")
