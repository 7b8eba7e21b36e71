# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is written to the disk of a server that Debian is installed on, and whether it may be. No I/O."""

from __future__ import annotations

import typing as t
import uuid

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import GIB, MIB, size_text
from ansible_collections.reduced.footprint.plugins.module_utils._inventory import model_install

UEFI = "uefi"
ESP, BIOS_BOOT, ROOT, VOLUMES = "esp", "bios_boot", "root", "volumes"
#: What the disk is in the end: ready to be written, written in part by an earlier run, or with a complete installation.
WRITE, CONTINUE, COMPLETE = "write", "continue", "complete"
_ESP_SIZE = 512 * MIB
_BIOS_BOOT_SIZE = MIB
#: BIOS boots from disks with these only.
_SECTOR = 512
#: What the tables at both ends and the metadata of LVM occupy at most.
_TABLES = 8 * MIB
_LINUX = "0FC63DAF-8483-4772-8E79-3D69D8477DE4"
_TYPES: t.Mapping[str, str] = {
    ESP: "C12A7328-F81F-11D2-BA4B-00A0C93EC93B",
    BIOS_BOOT: "21686148-6449-6E6F-744E-656564454649",
    ROOT: _LINUX,
    VOLUMES: "E6D6D379-F507-44C2-A23C-238F2A3DF928",
}
_CONTENT: t.Mapping[str, str | None] = {ESP: "vfat", BIOS_BOOT: None, ROOT: "ext4", VOLUMES: "lvm"}
_NAMESPACE = uuid.UUID("3c1e8bd4-8a0f-4f0b-9a25-6f3a0d9ea0f1")


class Partition(t.NamedTuple):
    """A partition; without a size it is the rest of the disk."""

    purpose: str
    size: int | None


class Signature(t.NamedTuple):
    """Data on a disk or a part of it."""

    device: str
    kind: str


class Disk(t.NamedTuple):
    """A disk as it was found.

    :arg label: id of its partition table; empty without one.
    :arg content: signatures on it and on its parts.
    :arg used: devices of it that are mounted, with their mount points.
    :arg started: whether a system on it has been started.
    :arg sector: bytes of a logical sector.
    """

    device: str
    serial: str
    size: int
    read_only: bool = False
    label: str = ""
    content: tuple[Signature, ...] = ()
    used: tuple[str, ...] = ()
    started: bool = False
    sector: int = _SECTOR


def label(name: str, serial: str, complete: bool) -> str:
    """Return the id of the partition table of an installation. It marks the disk, so that the mark is written and lost with the table."""
    return str(uuid.uuid5(_NAMESPACE, f"{name}\n{serial}\n{'complete' if complete else 'started'}"))


def partitions(install: model_install.Install, firmware: str) -> tuple[Partition, ...]:
    """Return the partitions of the disk, in their order."""
    boot = Partition(ESP, _ESP_SIZE) if firmware == UEFI else Partition(BIOS_BOOT, _BIOS_BOOT_SIZE)
    return (boot, Partition(VOLUMES if install.lvm else ROOT, None))


def least(install: model_install.Install, firmware: str, unpacked: int = 0) -> int:
    """Return the bytes that the disk must have.

    :arg unpacked: bytes of the files of the system.
    """
    root = install.lvm.root if install.lvm else max(model_install.LEAST_ROOT, 2 * unpacked)
    return root + _TABLES + sum(one.size or 0 for one in partitions(install, firmware))


def table(install: model_install.Install, firmware: str) -> str:
    """Return the partition table as input of ``sfdisk``."""
    lines = ["label: gpt", f"label-id: {label(install.name, install.disk, complete=False)}", "unit: sectors", ""]
    for one in partitions(install, firmware):
        # without a unit it would be a number of sectors, which have 512 or 4096 bytes
        size = f"size={one.size // MIB}MiB, " if one.size else ""
        lines.append(f'{size}type={_TYPES[one.purpose]}, name="{one.purpose}"')
    return "\n".join(lines) + "\n"


def layout(install: model_install.Install, firmware: str, size: int | None) -> list[dict[str, t.Any]]:
    """Return the partitions and volumes as a result.

    :arg size: bytes of the disk; ``None`` if unknown.
    """
    parts = partitions(install, firmware)
    fixed = sum(one.size or 0 for one in parts)
    found: list[dict[str, t.Any]] = []
    for position, one in enumerate(parts, 1):
        rest = None if size is None else size - fixed - 2 * MIB
        where = {ESP: "/boot/efi", ROOT: "/"}.get(one.purpose)
        found.append({"name": f"partition {position}", "content": _CONTENT[one.purpose], "mount": where, "size_bytes": one.size or rest})
    if install.lvm:
        found.append({"name": f"volume {install.lvm.group}/root", "content": "ext4", "mount": "/", "size_bytes": install.lvm.root})
    return found


def lines(layout_found: t.Sequence[t.Mapping[str, t.Any]]) -> list[str]:
    """Return what is created, one line for each partition and volume."""
    found = []
    for one in layout_found:
        size = size_text(one["size_bytes"]) if one["size_bytes"] else "the rest"
        use = one["content"] or "for the boot loader"
        found.append(f"{one['name']}: {size}, {use}{' at ' + one['mount'] if one['mount'] else ''}")
    return found


def find(disks: t.Sequence[Disk], serial: str, path: str) -> Disk:
    """Return the disk with a serial number."""
    found = [disk for disk in disks if disk.serial == serial]
    if not found:
        listed = ", ".join(f"{disk.device} ({disk.serial or 'without a serial number'})" for disk in disks) or "none"
        raise InputError(f"the server has no disk {serial}; its disks are {listed}.", path, "Check whether disks were swapped, or correct the inventory.")
    if len(found) > 1:
        devices = " and ".join(disk.device for disk in found)
        raise RefusedError(f"{devices} have the same serial number {serial}.", path, "Remove one of them; several paths to one disk are not supported.")
    return found[0]


def decide(disk: Disk, install: model_install.Install, firmware: str, erase: t.Collection[str], unpacked: int = 0) -> str:
    """Return what the disk is: :data:`WRITE`, :data:`CONTINUE` or :data:`COMPLETE`.

    :arg erase: serial numbers of disks whose data may be lost.
    """
    path = f"{install.path}.disk"
    if disk.label == label(install.name, install.disk, complete=True):
        return COMPLETE
    if disk.read_only:
        raise RefusedError(f"{disk.device} is read-only.", path, "Use another disk, or remove its write protection.")
    if firmware != UEFI and disk.sector != _SECTOR:
        hint = "Boot the server with UEFI, format the disk with sectors of 512 bytes if it can, or use another disk."
        raise RefusedError(f"{disk.device} ({disk.serial}) has sectors of {disk.sector} bytes, from which BIOS does not boot.", path, hint)
    needed = least(install, firmware, unpacked)
    if disk.size < needed:
        raise RefusedError(
            f"{disk.device} ({disk.serial}) has {size_text(disk.size)}, and {size_text(needed)} are required.", path, "Use another disk, or a smaller lvm.root."
        )
    _check_root(install, unpacked)
    if disk.used:
        raise RefusedError(f"{disk.device} is in use: {', '.join(disk.used)}.", path, "Unmount it first.")
    if disk.label == label(install.name, install.disk, complete=False):
        if not disk.started:
            return CONTINUE
        if disk.serial in erase:
            return WRITE
        raise RefusedError(
            f"{disk.device} ({disk.serial}) contains an installation that was started since, but was never confirmed: it may contain data.",
            path,
            f"Boot the server from this disk, and run again, which confirms it; or name it in install_server_erase: [{disk.serial}], "
            "which destroys all data on it.",
        )
    if disk.content and disk.serial not in erase:
        content = ", ".join(f"{one.kind} on {one.device}" for one in disk.content)
        raise RefusedError(
            f"{disk.device} ({disk.serial}) contains data: {content}.",
            path,
            f"Use another disk, or name it in install_server_erase: [{disk.serial}], which destroys all data on it.",
        )
    return WRITE


def _check_root(install: model_install.Install, unpacked: int) -> None:
    if install.lvm and install.lvm.root < 2 * unpacked:
        raise RefusedError(
            f"{size_text(install.lvm.root)} are too small: the files of the system have {size_text(unpacked)}.", f"{install.path}.lvm.root",
            f"Use {size_text(-(-2 * unpacked // GIB) * GIB)} or more.",
        )  # fmt: skip


def check_group(install: model_install.Install, groups: t.Mapping[str, t.Sequence[str]], own: t.Collection[str]) -> None:
    """Check that no other disk has a volume group of the same name: the server would not find its root.

    :arg groups: volume group → devices.
    :arg own: devices of the disk.
    """
    if install.lvm and install.lvm.group in groups:
        others = sorted(set(groups[install.lvm.group]) - set(own))
        if others:
            raise RefusedError(f"{', '.join(others)} have a volume group {install.lvm.group}.", f"{install.path}.lvm.group", "Use another name.")


def serials(value: t.Any, known: t.Sequence[model_install.Install], path: str = "install_server_erase") -> list[str]:
    """Return the serial numbers of disks whose data may be lost.

    :arg value: a list, or texts separated by commas.
    """
    given = value.split(",") if isinstance(value, str) else value or []
    if not isinstance(given, (list, tuple)):
        raise InputError("is not a list of serial numbers.", path, "Write [S4EVNX0].")
    found = [str(one).strip() for one in given if str(one).strip()]
    disks = [one.disk for one in known]
    for position, one in enumerate(found):
        if one not in disks:
            raise InputError(f"{one!r} is not the disk of a server that is installed.", f"{path}[{position}]", f"Use some of {', '.join(disks) or 'none'}.")
    return found
