# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan the new disks: GPT with a boot loader partition, the requested partitions, file systems with predetermined UUIDs."""

from __future__ import annotations

import dataclasses
import typing as t
import uuid

from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.model_disk import (
    BIOS,
    EFI,
    RAW,
    DiskLayout,
    Filesystem,
    Partition,
    PlannedDisk,
    PlannedPartition,
    RawDevice,
    is_esp,
)
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import CapacityError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import MIB, size_text

# default of mke2fs: one inode for this many bytes
_BYTES_PER_INODE = 16384
#: Minimum sizes of file systems, in bytes; mkfs refuses smaller ones.
LEAST = {"ext4": 16 * MIB, "xfs": 300 * MIB, "btrfs": 128 * MIB, "vfat": 16 * MIB, "swap": 16 * MIB, RAW: MIB}
# overhead of a new file system, and reserve for data the source writes meanwhile
_OVERHEAD = {"ext4": 48 * MIB, "xfs": 64 * MIB, "btrfs": 128 * MIB, "vfat": 4 * MIB}
ESP_SIZE = 256 * MIB
# before the first partition of the first disk: the table, and the partition for GRUB's core image; after the last: the backup table
_FIRST, _BEHIND = 2 * MIB, MIB


def plan_layout(
    sizes: t.Sequence[int], wanted: t.Sequence[Partition], filesystems: t.Sequence[Filesystem], vm_uuid: str, firmware: str = BIOS
) -> DiskLayout:
    """Lay out the disks.

    :arg sizes: of the VM's disks in bytes.
    :arg wanted: the schema; empty means one ext4 root that takes the whole disk.
    :arg filesystems: of the source, to size the inode tables.
    :arg vm_uuid: all UUIDs derive from it, so that a repeated run plans the same ones.
    :raises CapacityError: the partitions do not fit, or use a disk that the VM does not have.
    """
    partitions = tuple(wanted) or (Partition("/", "ext4", None),)
    if firmware == EFI and not any(is_esp(each.mount, each.fs) for each in partitions):
        partitions = (Partition("/boot/efi", "vfat", ESP_SIZE), *partitions)
    mounts = [each.mount for each in partitions] + [mount for each in partitions for mount, _name in each.subvolumes]
    disks: list[PlannedDisk] = []
    planned: list[PlannedPartition] = []
    for index in sorted({each.disk for each in partitions}):
        if index >= len(sizes):
            raise CapacityError(
                f"The disk schema uses disk {index}, but the VM has {len(sizes)} disk(s), counted from 0.",
                "disk_schema",
                "Correct the number or add a disk to the VM.",
            )
        disks.append(PlannedDisk(index, sizes[index], _derive(vm_uuid, f"disk{index}" if index else "disk")))
        here = [each for each in partitions if each.disk == index]
        planned += _lay_out(disks[-1], here, mounts, filesystems, vm_uuid)
    return DiskLayout(disks=tuple(disks), partitions=tuple(planned), firmware=firmware)


def usable(index: int, size: int) -> int:
    """Bytes of a disk that are available for partitions."""
    return size - begin(index) - _BEHIND


def begin(index: int) -> int:
    """Offset of the first partition of a disk, in bytes."""
    return _FIRST if index == 0 else MIB


def _lay_out(
    disk: PlannedDisk, wanted: t.Sequence[Partition], mounts: t.Sequence[str | None], filesystems: t.Sequence[Filesystem], vm_uuid: str
) -> list[PlannedPartition]:
    room = usable(disk.index, disk.size)
    lengths = [_align(each.size) if each.size is not None else int(room * each.percent / 100) // MIB * MIB if each.percent else None for each in wanted]
    free = room - sum(each or 0 for each in lengths)
    rest = any(each is None for each in lengths)
    if free < (16 * MIB if rest else 0):
        raise CapacityError(
            f"The partitions need {size_text(disk.size - free + (16 * MIB if rest else 0))}, the disk has {size_text(disk.size)}.",
            "disk_schema",
            "Increase the size of the disk or reduce the partitions.",
        )
    planned = []
    start = begin(disk.index)
    for number, (each, length) in enumerate(zip(wanted, lengths), start=2 if disk.index == 0 else 1):
        length = free // MIB * MIB if length is None else length
        if length < LEAST[each.fs]:
            raise CapacityError(
                f"{each.mount or (each.raw.path if each.raw else 'swap')} gets {size_text(length)}; {each.fs} needs at least {size_text(LEAST[each.fs])}.",
                "disk_schema",
                "Increase its size or use another file system.",
            )
        seed = each.mount or (f"raw:{each.raw.path}" if each.raw else f"swap{number}" if disk.index == 0 else f"swap{number}-{disk.index}")
        planned.append(
            PlannedPartition(
                number=number,
                mount=each.mount,
                fs=each.fs,
                start=start,
                size=length,
                uuid=_fs_uuid(vm_uuid, seed, each.fs),
                # configuration that refers to a raw device by its PARTUUID stays valid
                partuuid=(each.raw.partuuid if each.raw else None) or _derive(vm_uuid, f"partition:{seed}"),
                inodes=_inodes(each, length, mounts, filesystems),
                disk=disk.index,
                options=each.options,
                subvolumes=each.subvolumes,
                raw=each.raw,
            )
        )
        start += length
    return planned


def _align(size: int | None) -> int:
    return -(-(size or 0) // MIB) * MIB


def _derive(vm_uuid: str, what: str) -> str:
    return str(uuid.uuid5(uuid.UUID(vm_uuid), what))


def _fs_uuid(vm_uuid: str, seed: str, fs: str) -> str:
    full = _derive(vm_uuid, f"filesystem:{seed}")
    return f"{full[:4]}-{full[4:8]}".upper() if fs == "vfat" else full


def _inodes(wanted: Partition, size: int, mounts: t.Sequence[str | None], filesystems: t.Sequence[Filesystem]) -> int | None:
    if wanted.fs != "ext4":
        return None
    used = sum(each.inodes_used for each in filesystems if home_of(each.mount, mounts) == wanted.mount)
    return used * 3 // 2 if used * 5 // 4 > size // _BYTES_PER_INODE else None


def home_of(mount: str, mounts: t.Sequence[str | None]) -> str:
    """The new mount point that contains a path of the source."""
    fitting = [each for each in mounts if each and (mount == each or mount.startswith(each.rstrip("/") + "/"))]
    return max(fitting, key=len, default="/")


def need(fs: str, used: int, size: int) -> int:
    """Bytes a partition of ``size`` bytes must have for ``used`` bytes of files."""
    return used + used // 10 + max(_OVERHEAD.get(fs, 0), size // 20)


def space_problems(layout: DiskLayout, filesystems: t.Sequence[Filesystem]) -> list[str]:
    """One sentence for every partition that is too small for its files."""
    problems = []
    homes = {each.mount: each.partition for each in layout.mounts}
    for each in layout.partitions:
        if not each.mount:
            continue
        used = sum(fs.used for fs in filesystems if homes[home_of(fs.mount, list(homes))] is each)
        needed = need(each.fs, used, each.size)
        if needed > each.size:
            problems.append(f"{each.mount} gets {size_text(each.size)} but needs {size_text(needed)} ({size_text(used)} to copy).")
    return problems


@dataclasses.dataclass
class _Group:
    """File systems of the source that become one partition."""

    mount: str | None
    fs: str
    size: int
    used: int
    disks: tuple[str, ...]
    options: str | None
    subvolumes: tuple[tuple[str, str], ...]
    index: int = 0
    raw: RawDevice | None = None

    @property
    def least(self) -> int:
        """Minimum size in bytes."""
        return _align(self.size) if self.raw else max(LEAST[self.fs], _align(need(self.fs, self.used, 0)), 0)

    @property
    def fixed(self) -> bool:
        """Whether it keeps its size, because the boot loader reads it."""
        return self.mount == "/boot" or is_esp(self.mount, self.fs)


def same_schema(
    filesystems: t.Sequence[Filesystem],
    swaps: t.Sequence[t.Mapping[str, t.Any]],
    sizes: t.Sequence[int],
    firmware: str,
    raws: t.Sequence[RawDevice] = (),
) -> tuple[Partition, ...]:
    """The source's schema on the VM's disks; LVM, md and encryption are flattened.

    Every partition has the size it has on the source, except the largest of a disk, which takes the rest.
    If they do not fit, partitions shrink in proportion, as far as their files allow.

    :arg swaps: of the source: size, disks.
    :arg raws: devices that are copied block by block; they never shrink.
    """
    groups = _groups([each for each in filesystems if not (firmware == BIOS and is_esp(each.mount, each.fstype))])
    if not any(each.mount == "/" for each in groups):
        return ()
    groups += [_Group(None, "swap", int(each["size"]), 0, tuple(each.get("disks", ())), None, ()) for each in swaps]
    groups += [_Group(None, RAW, each.size, 0, each.disks, None, (), raw=each) for each in raws]
    _place(groups, len(sizes))
    partitions = []
    for index in sorted({each.index for each in groups}):
        here = [each for each in groups if each.index == index]
        room = usable(index, sizes[index])
        if index == 0 and firmware == EFI and not any(is_esp(each.mount, each.fs) for each in here):
            room -= ESP_SIZE
        partitions += _fit(here, room)
    return tuple(partitions)


def _groups(filesystems: t.Sequence[Filesystem]) -> list[_Group]:
    groups: list[_Group] = []
    pools: dict[str, list[Filesystem]] = {}
    for each in sorted(filesystems, key=lambda each: each.mount):
        if each.fstype == "btrfs":
            # a subvolume that is not mounted stays below another one
            if each.subvolume is not None:
                pools.setdefault(each.device, []).append(each)
            continue
        fs = each.fstype if each.fstype in ("xfs", "vfat") and not (each.fstype == "vfat" and each.mount == "/") else "ext4"
        groups.append(_Group(each.mount, fs, each.size, each.used, each.disks, each.options, ()))
    for mounts in pools.values():
        first = mounts[0]
        named = tuple((each.mount, each.subvolume or "") for each in mounts)
        plain = len(named) == 1 and not named[0][1]
        used = sum(each.used for each in filesystems if each.fstype == "btrfs" and each.device == first.device)
        groups.append(_Group(first.mount, "btrfs", first.size, used, first.disks, first.options, () if plain else named))
    return sorted(groups, key=lambda each: each.mount or "")


def _place(groups: t.Sequence[_Group], disks: int) -> None:
    """Assign the source's disks to the VM's: the root's disk first, then by name; without a corresponding disk of the VM, disk 0."""
    root = next(each for each in groups if each.mount == "/")
    names = sorted({name for each in groups for name in each.disks} - set(root.disks))
    for each in groups:
        at = min((names.index(name) + 1 if name in names else 0 for name in each.disks), default=0)
        each.index = at if at < disks and not each.fixed else 0


def _fit(groups: t.Sequence[_Group], room: int) -> list[Partition]:
    largest = max((each for each in groups if each.raw is None), key=lambda each: (each.fs != "swap", each.size), default=None)
    sizes = {id(each): max(_align(each.size), LEAST[each.fs]) for each in groups}
    if largest and sum(sizes[id(each)] for each in groups if each is not largest) + largest.least + room // 20 > room:
        flexible = [each for each in groups if not each.fixed and each.raw is None]
        left = room - sum(sizes[id(each)] for each in groups if each.fixed or each.raw)
        # a twentieth more than the minimum, as space_problems requires
        least = {id(each): _align(each.least * 20 // 19) for each in flexible}
        spare = left - sum(least.values())
        whole = sum(each.size for each in flexible) or 1
        for each in flexible:
            wish = least[id(each)] + spare * each.size // whole if spare >= 0 else least[id(each)]
            sizes[id(each)] = min(wish // MIB * MIB, sizes[id(each)]) if spare >= 0 else wish
    return [
        Partition(each.mount, each.fs, size, disk=each.index, options=each.options, subvolumes=each.subvolumes, raw=each.raw)
        for each, size in ((each, None if each is largest else sizes[id(each)]) for each in groups)
    ]
