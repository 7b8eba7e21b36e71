# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Warnings about differences between source and VM: disks, network, machine. None of them stops a migration."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.model_migration import MigrationSpec
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_excludes import excluded
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_problem import Problem
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_vm import VmDetails

# what happens to mounts that are not copied, by their reason; a mount with another reason stops the migration, unless it is excluded
_NOT_COPIED = {
    "network": "is not copied; the VM mounts it over the network.",
    "program": "is not copied; the VM has it once the program that provides it runs there.",
    "memory": "is not copied, because it is in memory.",
    "medium": "is not copied, because it is a medium that is only read. Copy the files that the VM needs to another file system.",
    "place": "is not copied, because it is mounted below /run. If it is needed, mount it elsewhere.",
    "hidden": "is not copied, because another mount hides it. If it is needed, mount it elsewhere.",
    "image": "is copied as the image file that contains it. Add its mount unit (systemctl list-units -t mount) to services, so that the file is complete.",
}
_KEPT = ("ext2", "ext3", "ext4", "xfs", "btrfs", "vfat")


def mount_warnings(source: t.Mapping[str, t.Any], excludes: t.Sequence[str]) -> list[str]:
    """Warnings about mounts of the source that are not copied."""
    warnings = []
    left = [each for each in source.get("filesystems", []) if excluded(each["mount"], excludes)]
    for each in [*left, *source.get("foreign", [])]:
        how = "is not copied, as requested with excludes." if excluded(each["mount"], excludes) else _NOT_COPIED.get(each.get("why", "network"))
        warnings += [f"{each['mount']} ({each['fstype']} from {each['device']}) {how}"] if how else []
    return warnings


def mount_problems(source: t.Mapping[str, t.Any], excludes: t.Sequence[str]) -> t.Iterator[Problem]:
    """Mounted file systems that cannot be copied and would be missing in the VM."""
    for each in source.get("foreign", []):
        if each.get("why", "network") not in _NOT_COPIED and not excluded(each["mount"], excludes):
            how = "cannot be read, so it would not be copied" if each["why"] == "unreadable" else "is of a type that cannot be copied"
            hint = f"Move its files to ext4, xfs or btrfs or unmount it on the source, or add {each['mount']} to excludes to leave it behind."
            yield Problem(f"{each['mount']} ({each['fstype']} from {each['device']}) {how}.", hint, "excludes")


def disk_warnings(source: t.Mapping[str, t.Any]) -> list[str]:
    """Warnings about lost encryption, converted file systems and subvolumes that become folders."""
    warnings = []
    systems = source.get("filesystems", [])
    encrypted = [each["mount"] for each in systems if "crypt" in (each.get("layers") or ())]
    if encrypted:
        warnings.append(f"{', '.join(encrypted)}: encrypted on the source, not encrypted on the VM's disk. Encrypt the pool if necessary.")
    for each in systems:
        if each["fstype"] not in _KEPT:
            warnings.append(f"{each['mount']} is {each['fstype']} on the source and becomes ext4 unless disk_schema sets another file system.")
    nested = [each["mount"] for each in systems if each["fstype"] == "btrfs" and "subvolume" in each and each["subvolume"] is None]
    if nested:
        warnings.append(f"{', '.join(nested)}: btrfs subvolumes that are not mounted become folders. Read-only snapshots are not copied.")
    return warnings


def stack(links: t.Sequence[t.Mapping[str, t.Any]], name: str | None) -> list[str]:
    """Names of an interface and all interfaces below it, from the top down."""
    lower = {each["name"]: each.get("lower") or [] for each in links}
    found = [name] if name else []
    for each in found:
        found += [below for below in lower.get(each, []) if below not in found]
    return found


def medium_problem(wanted: t.Sequence[str], name: str | None, source: t.Mapping[str, t.Any]) -> tuple[str, str] | None:
    """The problem that the admin address is not on Ethernet: message and hint.

    :arg wanted: addresses that may be the admin address.
    :arg name: the interface that has one of them; ``None`` if it is not like an Ethernet card.
    """
    other = {each["name"]: each for each in source.get("other_media", [])}
    name = name or next((each["name"] for each in other.values() if any(one.partition("/")[0] in wanted for one in each["addresses"])), None)
    links = {each["name"]: each for each in source.get("interfaces", [])}
    lowest = [each for each in stack(source.get("interfaces", []), name) if not links.get(each, {}).get("lower")]
    if not lowest or not all(each in other for each in lowest):
        # a bridge may have an access point beside a card
        return None
    media = ", ".join(f"{each} ({other[each]['medium']})" for each in lowest)
    return (
        f"{wanted[0]} is on {media}, which a VM cannot have: its cards are Ethernet, and the configuration of {name} would not bring up the address.",
        "Configure the address on an Ethernet card of the source, or on a VLAN, bridge or bond of one.",
    )


def network_warnings(spec: MigrationSpec, vm: VmDetails, source: t.Mapping[str, t.Any]) -> list[str]:
    """Warnings about VLANs, bonds, addresses that also move, cards without a counterpart in the VM."""
    warnings = []
    links = {each["name"]: each for each in source.get("interfaces", [])}
    wanted = (spec.admin.address, spec.admin.temporary_address)
    name = next((each["name"] for each in links.values() if any(one.partition("/")[0] in wanted for one in each.get("addresses", []))), None)
    below = stack(source.get("interfaces", []), name)
    bridge = vm.nics[0].bridge if vm.nics else None
    for each in (links[one] for one in below if one in links):
        if each.get("kind") == "vlan" and each.get("vlan") is not None:
            warnings.append(f"{each['name']} uses VLAN {each['vlan']}: {bridge or 'the network'} must carry it tagged.")
        if each.get("kind") in ("bond", "team"):
            mode = each.get("bond_mode")
            only = " 802.3ad needs a link partner, which a bridge does not provide; use active-backup." if mode == "802.3ad" else ""
            warnings.append(f"{each['name']} has {len(vm.nics)} member card(s) in the VM; its other members are missing there.{only}")
    if name:
        others = [one for one in links[name].get("addresses", []) if one.partition("/")[0] not in wanted] + list(links[name].get("addresses6") or [])
        if others:
            warnings.append(f"{', '.join(others)} on {name} move to the VM as well, because its configuration names them.")
    other = {each["name"]: each for each in source.get("other_media", [])}
    warnings += [f"{each['name']} ({each['medium']}) is not Ethernet; the VM has no card for it." for each in other.values() if each["addresses"]]
    own = [each for each in links.values() if each.get("card", True) and each["name"] not in other]
    cards = [each["name"] for each in own if each.get("addresses") or each["name"] in below]
    if len(cards) > len(vm.nics):
        left = sorted(cards, key=lambda each: each not in below)[len(vm.nics) :]
        warnings.append(f"The VM has {len(vm.nics)} card(s); {', '.join(left)} of the source have no counterpart. Add nics to the VM if they are needed.")
    return warnings


def machine_warnings(tree: t.Mapping[str, str]) -> list[str]:
    """Warnings about SELinux labels and about memory reserved for the source's size."""
    warnings = []
    if re.search(r"(?m)^\s*SELINUX=(enforcing|permissive)\b", tree.get("/etc/selinux/config", "")):
        warnings.append("SELinux relabels all files at the VM's first boot, and the VM then boots again; increase boot_timeout accordingly.")
    for path, text in tree.items():
        if path.startswith(("/etc/default/grub", "/boot/loader/entries/")) and re.search(r"\b(default_)?hugepages(z)?=|\bmem=", text):
            warnings.append(f"{path} reserves memory for the source's size (hugepages or mem); make sure that the VM has enough memory.")
    return warnings
