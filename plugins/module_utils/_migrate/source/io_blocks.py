# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Block devices of the source without a file system in use: raw volumes, unmounted file systems, reserved partitions. Changes nothing."""

from __future__ import annotations

import os
import pathlib
import re
import stat
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import CommandError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source import io_disks

SYS_CLASS = pathlib.Path("/sys/class/block")
# RAM disks, optical and floppy drives, network block devices, raw flash, eMMC partitions for firmware
_NEVER = re.compile(r"\A(?:z?ram|sr|fd|nbd|mtdblock)\d|\Ammcblk\d+(?:boot\d|rpmb)\Z")
# LVM's internal volumes have a suffix after the two UUIDs of 32 characters
_LVM_HELPER = re.compile(r"\ALVM-.{64}-")
_DEEPEST = 3


def blocks() -> list[dict[str, t.Any]]:
    """All partitions, volumes and disks that are not in use by the system: without mounted file system, active swap, partitions or holders."""
    busy = _busy()
    found: list[dict[str, t.Any]] = []
    for entry in sorted(SYS_CLASS.iterdir()) if SYS_CLASS.is_dir() else []:
        place = pathlib.Path(os.path.realpath(entry))
        number = _text(place / "dev")
        size = 512 * int(_text(place / "size") or 0)
        if number and size and number not in busy and not _NEVER.match(place.name) and _is_leaf(place):
            found.append({"name": place.name, "number": number, "size": size, "place": place})
    names = _names({each["number"] for each in found}) if found else {}
    opened = _opened() if names else set()
    described = [_described(each, names[each["number"]], each["number"] in opened) for each in found if names.get(each["number"])]
    # the kernel does not show which disks a zfs pool uses
    pools = any(each["fstype"] == "zfs" for each in io_disks.mounts())
    return [each for each in described if not (pools and each["content"] == "zfs_member")]


def _described(entry: t.Mapping[str, t.Any], names: t.Sequence[str], opened: bool) -> dict[str, t.Any]:
    place = entry["place"]
    node = next((each for each in names if each == f"/dev/{entry['name'].replace('!', '/')}"), names[0])
    status = os.stat(node)
    probed = {} if (place / "loop").is_dir() else _probe(node)
    below = io_disks.device(node)
    return {
        "path": _persistent(names, node),
        "links": sorted(names),
        "size": entry["size"],
        "disks": below["disks"],
        "layers": below["layers"],
        "whole": not (place / "partition").exists() and not (place / "dm").is_dir() and not (place / "md").is_dir(),
        "removable": _text(place / "removable") == "1",
        # in a container this can be a file of the host
        "loop": (place / "loop").is_dir(),
        "content": probed.get("TYPE", ""),
        "usage": probed.get("USAGE", ""),
        "table": probed.get("PTTYPE", ""),
        "kind": probed.get("PART_ENTRY_TYPE", "").lower(),
        "scheme": probed.get("PART_ENTRY_SCHEME", ""),
        "partuuid": probed.get("PART_ENTRY_UUID", ""),
        "label": probed.get("PART_ENTRY_NAME", ""),
        "open": opened,
        "owner": status.st_uid,
        "group": status.st_gid,
        "mode": stat.S_IMODE(status.st_mode),
    }


def _text(path: pathlib.Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _busy() -> set[str]:
    """Numbers (major:minor) of devices with a mounted file system or active swap."""
    paths = [each["device"] for each in io_disks.mounts()] + [each["device"] for each in io_disks.swaps()[0]]
    numbers = {each["id"] for each in io_disks.mounts()}
    for path in paths:
        number = _number(path) if path.startswith("/") else None
        numbers |= {number} if number else set()
    # the mount table contains only one device of a btrfs
    for each in pathlib.Path("/sys/fs/btrfs").glob("*/devices/*"):
        numbers.add(_text(each / "dev"))
    return numbers


def _number(path: str) -> str | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}" if stat.S_ISBLK(status.st_mode) else None


def _is_leaf(place: pathlib.Path) -> bool:
    """Whether it has no holders and no partitions, and is neither an internal volume of LVM nor backed by a file of this machine."""
    if (place / "holders").is_dir() and any((place / "holders").iterdir()):
        return False
    if any((each / "partition").exists() for each in place.iterdir() if each.is_dir()):
        return False
    if _LVM_HELPER.match(_text(place / "dm" / "uuid")):
        return False
    backing = _text(place / "loop" / "backing_file")
    return not backing or not os.path.exists(backing.removesuffix(" (deleted)"))


def _names(numbers: t.Container[str]) -> dict[str, list[str]]:
    """The names of block devices below /dev, by their number, sorted."""
    found: dict[str, list[str]] = {}

    def scan(folder: str, depth: int) -> None:
        try:
            entries = sorted(os.scandir(folder), key=lambda each: each.name)
        except OSError:
            return
        for each in entries:
            if each.is_dir(follow_symlinks=False):
                if depth < _DEEPEST and each.name not in ("shm", "pts", "mqueue", "hugepages", "fd"):
                    scan(each.path, depth + 1)
                continue
            number = _number(each.path) if each.is_symlink() or stat.S_ISBLK(each.stat(follow_symlinks=False).st_mode) else None
            if number is not None and number in numbers:
                found.setdefault(number, []).append(each.path)

    scan("/dev", 1)
    return found


def _persistent(names: t.Sequence[str], node: str) -> str:
    """The name of a device that is the same after a restart."""
    for folder in ("/dev/mapper/", "/dev/disk/by-partuuid/", "/dev/disk/by-id/"):
        for each in names:
            if each.startswith(folder):
                return each
    return node


def _opened() -> set[str]:
    """Numbers (major:minor) of the block devices that a process has open."""
    found = set()
    for process in os.listdir("/proc"):
        if not process.isdigit():
            continue
        try:
            files = os.listdir(f"/proc/{process}/fd")
        except OSError:
            continue
        for each in files:
            number = _number(f"/proc/{process}/fd/{each}")
            if number:
                found.add(number)
    return found


def _probe(node: str) -> dict[str, str]:
    """The result of blkid's low-level probing: TYPE, USAGE, PTTYPE, PART_ENTRY_*; empty if the device cannot be read."""
    try:
        done = run(["blkid", "-p", "-o", "export", node], ok=(0, 2, 4, 8), timeout=60)
    except CommandError:
        # an unreadable device is reported when it is copied
        return {}
    values = dict(line.partition("=")[::2] for line in done.stdout.splitlines())
    # the format export escapes values for a shell
    return {key: re.sub(r"\\(.)", r"\1", value) for key, value in values.items()}
