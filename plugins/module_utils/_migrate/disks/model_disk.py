# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The disk schema as it is asked for, the new disks, and what the source holds, as numbers and names."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import MIB, parse_size

FILESYSTEMS = ("ext4", "xfs", "btrfs", "vfat", "swap")
#: What can carry the root.
_ROOTS = ("ext4", "xfs", "btrfs")
SAME = "same"
#: What is copied block by block, for it holds no file system.
RAW = "raw"
BIOS = "bios"
EFI = "efi"
#: Where distributions mount the partition that UEFI firmware starts from.
ESP_MOUNTS = ("/boot/efi", "/efi")
_LEAST = 16 * MIB
_PERCENT = re.compile(r"\A\s*([0-9]{1,3}(?:\.[0-9]{1,3})?)\s*%\s*\Z")


@dataclasses.dataclass(frozen=True)
class RawDevice:
    """A block device of the source that is copied block by block.

    ``path`` is a name that outlives a restart there, ``links`` its other names below ``/dev``;
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


@dataclasses.dataclass(frozen=True)
class Partition:
    """One partition that is wanted.

    ``size`` in bytes and ``percent`` of its disk exclude each other, neither takes the rest.
    ``mount`` is ``None`` for swap and what is ``raw``. ``disk`` counts the VM's disks from 0. ``options`` are those of
    the source's mount where it is made as it was there; ``subvolumes`` (mount, name) are btrfs's.
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
    """One partition with its place. ``start`` and ``size`` in bytes; ``uuid`` as blkid and fstab write it."""

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


class PlannedMount(t.NamedTuple):
    """One place where a partition, or one of its subvolumes, is mounted."""

    mount: str
    partition: PlannedPartition
    subvolume: str | None


class PlannedDisk(t.NamedTuple):
    """One disk of the VM that carries partitions. ``index`` counts the VM's disks, ``size`` in bytes."""

    index: int
    size: int
    uuid: str


@dataclasses.dataclass(frozen=True)
class Filesystem:
    """What the source holds in one file system; ``used`` in bytes as allocated (sparse files count little).

    ``size`` is that of what carries it, ``disks`` the physical disks below it, ``subvolume`` the
    name of a btrfs subvolume, ``options`` what of the mount's options a new file system needs.
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
    """All disks that the copy lies on, and what their firmware is."""

    disks: tuple[PlannedDisk, ...]
    partitions: tuple[PlannedPartition, ...]
    firmware: str = BIOS

    @property
    def size(self) -> int:
        """Bytes of all disks together."""
        return sum(each.size for each in self.disks)

    @property
    def mounts(self) -> tuple[PlannedMount, ...]:
        """What is mounted where, parents before children."""
        found = []
        for each in self.partitions:
            if each.subvolumes:
                found += [PlannedMount(mount, each, name) for mount, name in each.subvolumes]
            elif each.mount:
                found.append(PlannedMount(each.mount, each, None))
        return tuple(sorted(found, key=lambda each: each.mount.count("/") if each.mount != "/" else -1))

    @property
    def raws(self) -> tuple[tuple[PlannedPartition, RawDevice], ...]:
        """What is copied block by block, and from where."""
        return tuple((each, each.raw) for each in self.partitions if each.raw is not None)

    @property
    def esp(self) -> PlannedPartition | None:
        """The partition UEFI firmware starts from."""
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
            {**each, "subvolumes": tuple((mount, name) for mount, name in each["subvolumes"]), "raw": _raw(each.get("raw"))} for each in data["partitions"]
        ]
        return cls(tuple(PlannedDisk(**each) for each in data["disks"]), tuple(PlannedPartition(**each) for each in partitions), data["firmware"])


def _raw(data: t.Mapping[str, t.Any] | None) -> RawDevice | None:
    return RawDevice(**{**data, "disks": tuple(data["disks"]), "links": tuple(data["links"])}) if data else None


def is_esp(mount: str | None, fs: str) -> bool:
    """Whether a partition is where UEFI firmware looks for a boot loader."""
    return fs == "vfat" and mount in ESP_MOUNTS


def parse_schema(value: t.Any, path: str = "disk_schema") -> tuple[Partition, ...]:
    """The disk schema; nothing in it means: as on the source.

    :raises InputError: with the path of the bad value.
    """
    if value is None or value == SAME or value == [] or value == "":
        return ()
    if not isinstance(value, (list, tuple)):
        raise InputError(f"{value!r} is no disk schema.", path, "Write same, or a list such as [{mount: /, size: 20GiB}, {fs: swap, size: 2GiB}].")
    partitions = tuple(_parse_partition(entry, f"{path}[{index}]") for index, entry in enumerate(value))
    _check(partitions, path)
    return partitions


def _parse_partition(entry: t.Any, path: str) -> Partition:
    if not isinstance(entry, t.Mapping):
        raise InputError("is not a mapping.", path, "Write e.g. {mount: /, fs: ext4, size: 4GiB}.")
    # a module hands over None for what was not given
    given = {key: value for key, value in entry.items() if value is not None}
    unknown = set(given) - {"mount", "fs", "raw", "size", "disk"}
    if unknown:
        raise InputError(f"has the unknown key {str(sorted(unknown, key=str)[0])!r}.", path, "Use mount, fs, raw, size and disk.")
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
            raise InputError("is given for what is copied block by block.", f"{path}.{key}", "Leave it out, or leave raw out.")
    device = given["raw"]
    if not isinstance(device, str) or not device.startswith("/dev/") or ".." in device.split("/") or re.search(r"\s", device):
        raise InputError(f"{device!r} is no block device.", f"{path}.raw", "Write its name on the source, e.g. /dev/disk/by-partlabel/data.")
    size, percent = _parse_extent(given.get("size"), f"{path}.size")
    return Partition(None, RAW, size, percent, _parse_disk(given.get("disk", 0), path), raw=RawDevice(device))


def _parse_extent(value: t.Any, path: str) -> tuple[int | None, float | None]:
    if value in (None, "", "rest"):
        return None, None
    part = _PERCENT.match(value) if isinstance(value, str) else None
    if part:
        percent = float(part.group(1))
        if not 0 < percent <= 100:
            raise InputError(f"{value!r} is no part of a disk.", path, "Use more than 0% and at most 100%.")
        return None, percent
    size = parse_size(value, "GiB", path)
    if size < _LEAST:
        raise InputError("is smaller than 16 MiB.", path, "A bare number counts in GiB; add a unit to mean another.")
    return size, None


def _parse_disk(value: t.Any, path: str) -> int:
    if isinstance(value, bool) or not re.match(r"\A[0-9]{1,2}\Z", str(value)):
        raise InputError(f"{value!r} is no number of a disk.", f"{path}.disk", "The VM's disks count from 0.")
    return int(value)


def _parse_mount(mount: t.Any, fs: str, path: str) -> str | None:
    if fs == "swap":
        if mount:
            raise InputError("is given for swap.", f"{path}.mount", "Leave it out.")
        return None
    if not isinstance(mount, str) or not mount.startswith("/") or ".." in mount.split("/") or re.search(r"\s", mount):
        raise InputError(f"{mount!r} is not an absolute path.", f"{path}.mount", "Write where the master mounts it, e.g. /srv.")
    if mount == "/" and fs not in _ROOTS:
        raise InputError(f"{fs} cannot carry /.", f"{path}.fs", f"Use {', '.join(_ROOTS[:-1])} or {_ROOTS[-1]}.")
    if mount.rstrip("/") in ESP_MOUNTS and fs != "vfat":
        raise InputError(f"{fs} cannot be read by UEFI firmware.", f"{path}.fs", "Use vfat.")
    return "/" if mount == "/" else mount.rstrip("/")


def _check(partitions: t.Sequence[Partition], path: str) -> None:
    mounts = [partition.mount for partition in partitions if partition.mount]
    if "/" not in mounts:
        raise InputError("names no partition for /.", path, "Add {mount: /, fs: ext4, size: rest}.")
    if len(set(mounts)) != len(mounts):
        raise InputError("names a mount point twice.", path, "Name every mount point once.")
    devices = [partition.raw.path for partition in partitions if partition.raw]
    if len(set(devices)) != len(devices):
        raise InputError("names a block device twice.", path, "Name every block device once.")
    for disk in {each.disk for each in partitions}:
        here = [each for each in partitions if each.disk == disk]
        # what is raw is as large as it was unless it is told otherwise
        if sum(each.size is None and each.percent is None and each.raw is None for each in here) > 1:
            raise InputError(f"gives the rest of disk {disk} to two partitions.", path, "Give all but one a size.")
        if sum(each.percent or 0 for each in here) > 100:
            raise InputError(f"gives more than 100% of disk {disk} away.", path, "Make the parts smaller.")
    boot = next((each for each in partitions if each.mount == "/boot"), None) or next(each for each in partitions if each.mount == "/")
    if boot.disk != 0 or any(is_esp(each.mount, each.fs) and each.disk != 0 for each in partitions):
        raise InputError("puts what the machine starts from on another disk than the first.", path, "Let /boot, /boot/efi and, without /boot, / lie on disk 0.")
