# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Data of disks: the requested disk schema, the layout of the new disks, the file systems of the source."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_fields import check_known
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import MIB, parse_size

FILESYSTEMS = ("ext4", "xfs", "btrfs", "vfat", "swap")
#: Mount options that a copy of the file system needs, so that its files fit and have the same modes.
MOUNT_OPTIONS = {"vfat": ("fmask", "dmask"), "btrfs": ("compress", "compress-force")}
#: File systems that are supported for the root.
_ROOTS = ("ext4", "xfs", "btrfs")
#: In place of a file system: the device is copied block by block.
RAW = "raw"
BIOS = "bios"
EFI = "efi"
#: Where distributions mount the EFI system partition.
ESP_MOUNTS = ("/boot/efi", "/efi")
_LEAST = 16 * MIB
_PERCENT = re.compile(r"\A\s*([0-9]{1,3}(?:\.[0-9]{1,3})?)\s*%\s*\Z")


@dataclasses.dataclass(frozen=True)
class RawDevice:
    """A block device of the source that is copied block by block.

    ``path`` is a name that is the same after a restart, ``links`` its other names below ``/dev``;
    ``label`` and ``partuuid`` are those of a GPT; ``owner``, ``group`` and ``mode`` those of its node.
    """

    path: str
    size: int = 0
    disks: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    label: str | None = None
    partuuid: str | None = None
    owner: int = 0
    group: int = 6
    mode: int = 0o660


class Partition(t.NamedTuple):
    """One requested partition.

    ``size`` in bytes and ``percent`` of its disk exclude each other; with neither it takes the rest of the disk.
    ``mount`` is ``None`` for swap and ``raw``. ``disk`` counts the VM's disks from 0. ``options`` are the mount options of
    the source that the file system needs with schema ``same``; ``subvolumes`` (mount, name) are for btrfs.
    """

    mount: str | None
    fs: str
    size: int | None
    percent: float | None = None
    disk: int = 0
    options: str | None = None
    subvolumes: tuple[tuple[str, str], ...] = ()
    raw: RawDevice | None = None


@dataclasses.dataclass(frozen=True)
class PlannedPartition:
    """One partition with its position. ``start`` and ``size`` in bytes; ``uuid`` as in blkid and fstab; ``lacking`` as in ``model_features``."""

    number: int
    mount: str | None
    fs: str
    start: int
    size: int
    uuid: str
    partuuid: str
    inodes: int | None
    disk: int = 0
    options: str | None = None
    subvolumes: tuple[tuple[str, str], ...] = ()
    raw: RawDevice | None = None
    lacking: tuple[tuple[str, str], ...] = ()


class PlannedMount(t.NamedTuple):
    """One mount point of a partition or of one of its subvolumes."""

    mount: str
    partition: PlannedPartition
    subvolume: str | None


class PlannedDisk(t.NamedTuple):
    """One disk of the VM that has partitions. ``index`` counts the VM's disks from 0, ``size`` in bytes."""

    index: int
    size: int
    uuid: str


class Filesystem(t.NamedTuple):
    """One file system of the source; ``used`` in allocated bytes (holes of sparse files do not count).

    ``size`` is that of its block device, ``disks`` the physical disks below it, ``subvolume`` the
    name of a btrfs subvolume, ``options`` the mount options that a new file system needs.
    """

    mount: str
    device: str
    fstype: str
    used: int
    inodes_used: int
    size: int = 0
    disks: tuple[str, ...] = ()
    subvolume: str | None = None
    options: str | None = None


@dataclasses.dataclass(frozen=True)
class DiskLayout:
    """All disks of the copy, and the VM's firmware type."""

    disks: tuple[PlannedDisk, ...]
    partitions: tuple[PlannedPartition, ...]
    firmware: str = BIOS

    @property
    def size(self) -> int:
        """Total bytes of all disks."""
        return sum(each.size for each in self.disks)

    @property
    def mounts(self) -> tuple[PlannedMount, ...]:
        """All mount points, parents before children."""
        found = []
        for each in self.partitions:
            if each.subvolumes:
                found += [PlannedMount(mount, each, name) for mount, name in each.subvolumes]
            elif each.mount:
                found.append(PlannedMount(each.mount, each, None))
        return tuple(sorted(found, key=lambda each: each.mount.count("/") if each.mount != "/" else -1))

    @property
    def raws(self) -> tuple[tuple[PlannedPartition, RawDevice], ...]:
        """Partitions that are copied block by block, with their devices on the source."""
        return tuple((each, each.raw) for each in self.partitions if each.raw is not None)

    @property
    def esp(self) -> PlannedPartition | None:
        """The EFI system partition; ``None`` if there is none."""
        return next((each for each in self.partitions if is_esp(each.mount, each.fs)), None)

    def on(self, disk: PlannedDisk) -> tuple[PlannedPartition, ...]:
        """The partitions of one disk."""
        return tuple(each for each in self.partitions if each.disk == disk.index)

    def as_dict(self) -> dict[str, t.Any]:
        """For the journal."""
        return {"firmware": self.firmware, "disks": [each._asdict() for each in self.disks], "partitions": [dataclasses.asdict(p) for p in self.partitions]}

    @classmethod
    def from_dict(cls, data: t.Mapping[str, t.Any]) -> DiskLayout:
        """From the journal."""
        partitions = [
            {
                **each,
                "subvolumes": tuple((mount, name) for mount, name in each["subvolumes"]),
                "raw": _raw(each.get("raw")),
                "lacking": tuple((option, value) for option, value in each.get("lacking", ())),
            }
            for each in data["partitions"]
        ]
        return cls(tuple(PlannedDisk(**each) for each in data["disks"]), tuple(PlannedPartition(**each) for each in partitions), data["firmware"])


def _raw(data: t.Mapping[str, t.Any] | None) -> RawDevice | None:
    return RawDevice(**{**data, "disks": tuple(data["disks"]), "links": tuple(data["links"])}) if data else None


def is_esp(mount: str | None, fs: str) -> bool:
    """Whether a partition is the EFI system partition."""
    return fs == "vfat" and mount in ESP_MOUNTS


def parse_schema(value: t.Sequence[t.Any] | None, path: str = "disk_schema") -> tuple[Partition, ...]:
    """Parse the disk schema; an empty one means the same as on the source."""
    if not value:
        return ()
    partitions = tuple(_parse_partition(entry, f"{path}[{index}]") for index, entry in enumerate(value))
    _check(partitions, path)
    return partitions


def _parse_partition(entry: t.Any, path: str) -> Partition:
    if not isinstance(entry, t.Mapping):
        raise InputError("is not a mapping.", path, "Write e.g. {mount: /, fs: ext4, size: 4GiB}.")
    # a module passes None for omitted options
    given = {key: value for key, value in entry.items() if value is not None}
    check_known(given, ("mount", "fs", "raw", "size", "disk"), path, "")
    if "raw" in given:
        return _parse_raw(given, path)
    fs = given.get("fs", "vfat" if given.get("mount") in ESP_MOUNTS else "ext4")
    if fs not in FILESYSTEMS:
        raise InputError(f"{fs!r} is not supported.", f"{path}.fs", f"Use one of {', '.join(FILESYSTEMS)}.")
    size, percent = _parse_extent(given.get("size"), f"{path}.size")
    return Partition(mount=_parse_mount(given.get("mount"), fs, path), fs=fs, size=size, percent=percent, disk=_parse_disk(given.get("disk", 0), path))


def _parse_raw(given: t.Mapping[str, t.Any], path: str) -> Partition:
    for key in ("mount", "fs"):
        if key in given:
            raise InputError("is not supported together with raw.", f"{path}.{key}", f"Remove {key} or raw.")
    device = given["raw"]
    if not isinstance(device, str) or not device.startswith("/dev/") or ".." in device.split("/") or re.search(r"\s", device):
        raise InputError(f"{device!r} is not a valid device path.", f"{path}.raw", "Write the path on the source, e.g. /dev/disk/by-partlabel/data.")
    size, percent = _parse_extent(given.get("size"), f"{path}.size")
    return Partition(None, RAW, size, percent, _parse_disk(given.get("disk", 0), path), raw=RawDevice(device))


def _parse_extent(value: t.Any, path: str) -> tuple[int | None, float | None]:
    if value in (None, "", "rest"):
        return None, None
    part = _PERCENT.match(value) if isinstance(value, str) else None
    if part:
        percent = float(part.group(1))
        if not 0 < percent <= 100:
            raise InputError(f"{value!r} is not a valid percentage.", path, "Use more than 0% and at most 100%.")
        return None, percent
    size = parse_size(value, "GiB", path)
    if size < _LEAST:
        raise InputError("is smaller than 16 MiB.", path, "Use a larger size; a number without a unit is in GiB.")
    return size, None


def _parse_disk(value: t.Any, path: str) -> int:
    if isinstance(value, bool) or not re.match(r"\A[0-9]{1,2}\Z", str(value)):
        raise InputError(f"{value!r} is not a valid disk number.", f"{path}.disk", "Use the number of one of the VM's disks, counted from 0.")
    return int(value)


def _parse_mount(mount: t.Any, fs: str, path: str) -> str | None:
    if fs == "swap":
        if mount:
            raise InputError("is not supported for swap.", f"{path}.mount", "Remove it.")
        return None
    if not isinstance(mount, str) or not mount.startswith("/") or ".." in mount.split("/") or re.search(r"\s", mount):
        raise InputError(f"{mount!r} is not a valid absolute path.", f"{path}.mount", "Write the mount point, e.g. /srv.")
    if mount == "/" and fs not in _ROOTS:
        raise InputError(f"{fs} is not supported for /.", f"{path}.fs", f"Use {', '.join(_ROOTS[:-1])} or {_ROOTS[-1]}.")
    if mount.rstrip("/") in ESP_MOUNTS and fs != "vfat":
        raise InputError(f"{fs} is not supported for the EFI system partition.", f"{path}.fs", "Use vfat.")
    return "/" if mount == "/" else mount.rstrip("/")


def _check(partitions: t.Sequence[Partition], path: str) -> None:
    mounts = [partition.mount for partition in partitions if partition.mount]
    if "/" not in mounts:
        raise InputError("contains no partition for /.", path, "Add {mount: /, fs: ext4, size: rest}.")
    if len(set(mounts)) != len(mounts):
        raise InputError("contains a mount point twice.", path, "Use every mount point once.")
    devices = [partition.raw.path for partition in partitions if partition.raw]
    if len(set(devices)) != len(devices):
        raise InputError("contains a block device twice.", path, "Use every block device once.")
    for disk in {each.disk for each in partitions}:
        here = [each for each in partitions if each.disk == disk]
        # a raw device without a size does not take the rest, it is as large as on the source
        if sum(each.size is None and each.percent is None and each.raw is None for each in here) > 1:
            raise InputError(f"assigns the rest of disk {disk} to more than one partition.", path, "Set a size for all but one.")
        if sum(each.percent or 0 for each in here) > 100:
            raise InputError(f"assigns more than 100% of disk {disk}.", path, "Reduce the percentages.")
    boot = next((each for each in partitions if each.mount == "/boot"), None) or next(each for each in partitions if each.mount == "/")
    if boot.disk != 0 or any(is_esp(each.mount, each.fs) and each.disk != 0 for each in partitions):
        raise InputError("has a boot partition on another disk than disk 0.", path, "Put /boot, /boot/efi and, without /boot, / on disk 0.")
