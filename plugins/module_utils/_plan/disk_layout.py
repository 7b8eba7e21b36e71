# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The new disk: GPT with a place for GRUB, the wanted partitions, file systems whose UUIDs are known beforehand."""

from __future__ import annotations

import typing as t
import uuid

from ansible_collections.reduced.footprint.plugins.module_utils._model.disk import DiskLayout, Filesystem, PlannedPartition
from ansible_collections.reduced.footprint.plugins.module_utils._model.errors import CapacityError
from ansible_collections.reduced.footprint.plugins.module_utils._model.migration import Partition
from ansible_collections.reduced.footprint.plugins.module_utils._model.size import MIB, size_text

# mke2fs gives one inode to this many bytes unless told otherwise
_BYTES_PER_INODE = 16384


def plan_layout(size: int, wanted: t.Sequence[Partition], filesystems: t.Sequence[Filesystem], vm_uuid: str) -> DiskLayout:
    """Lay out a disk.

    :arg size: of the disk in bytes.
    :arg wanted: the schema; empty means one ext4 root that takes everything.
    :arg filesystems: what the source holds, to size inode tables.
    :arg vm_uuid: all UUIDs derive from it, so that a killed run finds the same ones again.
    :raises CapacityError: the partitions do not fit on the disk.
    """
    partitions = tuple(wanted) or (Partition("/", "ext4", None),)
    # 1 MiB in front, 1 MiB for GRUB's core image, 1 MiB behind for the second table
    free = size - 3 * MIB - sum(_align(each.size) for each in partitions if each.size is not None)
    rest = any(each.size is None for each in partitions)
    if free < (16 * MIB if rest else 0):
        raise CapacityError(
            f"The partitions need {size_text(size - free + (16 * MIB if rest else 0))}, the disk has {size_text(size)}.",
            "partitions",
            "Make the disk larger or the partitions smaller.",
        )
    planned = []
    start = 2 * MIB
    for number, each in enumerate(partitions, start=2):
        length = _align(each.size) if each.size is not None else free // MIB * MIB
        seed = each.mount or f"swap{number}"
        planned.append(
            PlannedPartition(
                number=number,
                mount=each.mount,
                fs=each.fs,
                start=start,
                size=length,
                uuid=_fs_uuid(vm_uuid, seed, each.fs),
                partuuid=_derive(vm_uuid, f"partition:{seed}"),
                inodes=_inodes(each, length, partitions, filesystems),
            )
        )
        start += length
    return DiskLayout(size=size, disk_uuid=_derive(vm_uuid, "disk"), partitions=tuple(planned))


def _align(size: int | None) -> int:
    return -(-(size or 0) // MIB) * MIB


def _derive(vm_uuid: str, what: str) -> str:
    return str(uuid.uuid5(uuid.UUID(vm_uuid), what))


def _fs_uuid(vm_uuid: str, seed: str, fs: str) -> str:
    full = _derive(vm_uuid, f"filesystem:{seed}")
    return f"{full[:4]}-{full[4:8]}".upper() if fs == "vfat" else full


def _inodes(wanted: Partition, size: int, partitions: t.Sequence[Partition], filesystems: t.Sequence[Filesystem]) -> int | None:
    if wanted.fs != "ext4":
        return None
    used = sum(each.inodes_used for each in filesystems if home_of(each.mount, [p.mount for p in partitions]) == wanted.mount)
    return used * 3 // 2 if used * 5 // 4 > size // _BYTES_PER_INODE else None


def home_of(mount: str, mounts: t.Sequence[str | None]) -> str:
    """The new mount point below which a path of the source comes to lie."""
    fitting = [each for each in mounts if each and (mount == each or mount.startswith(each.rstrip("/") + "/"))]
    return max(fitting, key=len, default="/")


def space_problems(layout: DiskLayout, filesystems: t.Sequence[Filesystem]) -> list[str]:
    """One sentence for every partition that is too small for what comes to lie on it."""
    problems = []
    mounts = [each.mount for each in layout.partitions]
    for each in layout.mounts:
        used = sum(fs.used for fs in filesystems if home_of(fs.mount, mounts) == each.mount)
        # tables, journal and reserve of a new file system, and room for what the source writes meanwhile
        needed = used + used // 10 + max(48 * MIB, each.size // 20)
        if needed > each.size:
            problems.append(f"{each.mount} gets {size_text(each.size)} and needs {size_text(needed)} ({size_text(used)} are used on the source).")
    return problems
