# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Loop devices: create nodes for the machines, and remove all devices afterwards."""

from __future__ import annotations

import fcntl
import os
import pathlib
import re
import struct
import typing as t

from .say import run
from .settings import LOOPS

_CTL_ADD = 0x4C80
_CTL_REMOVE = 0x4C81
_GET_STATUS64 = 0x4C05


def provide() -> list[int]:
    """Create missing devices from /dev/loop0 on; return the numbers of those that are ours: another lab may start at the same moment."""
    made = []
    for number in range(LOOPS):
        if os.path.exists(f"/dev/loop{number}"):
            continue
        with open("/dev/loop-control", "rb") as control:
            try:
                fcntl.ioctl(control, _CTL_ADD, number)
            except FileExistsError:
                pass
        if not os.path.exists(f"/dev/loop{number}"):
            try:
                os.mknod(f"/dev/loop{number}", 0o600 | 0o060000, os.makedev(7, number))
            except FileExistsError:
                # the other lab withdraws it
                continue
        made.append(number)
    return made


def withdraw(numbers: t.Iterable[int]) -> None:
    """Remove created devices, except those in use."""
    for number in numbers:
        if os.path.exists(f"/sys/block/loop{number}/loop/backing_file"):
            continue
        with open("/dev/loop-control", "rb") as control:
            try:
                fcntl.ioctl(control, _CTL_REMOVE, number)
            except OSError:
                continue
        if os.path.exists(f"/dev/loop{number}") and not os.path.exists(f"/sys/block/loop{number}"):
            os.unlink(f"/dev/loop{number}")


def attach(image: pathlib.Path) -> str:
    return run(["losetup", "--find", "--show", str(image)]).stdout.strip()


def _used() -> t.Iterator[tuple[str, str, int, int]]:
    """Yield device, backing file as the kernel reports it, and its device and inode numbers."""
    for block in pathlib.Path("/sys/block").glob("loop*"):
        try:
            backing = (block / "loop/backing_file").read_text().strip()
            with open(f"/dev/{block.name}", "rb") as device:
                status = bytearray(232)
                fcntl.ioctl(device, _GET_STATUS64, status)
        except OSError:
            continue
        number, inode = struct.unpack_from("QQ", status)
        yield f"/dev/{block.name}", re.sub(r" \(deleted\)$", "", backing), number, inode


def release(home: pathlib.Path, overlays: t.Iterable[pathlib.Path] = ()) -> list[str]:
    """Detach every loop device whose file is below ``home`` or on ``overlays``; return their names.

    The path of a device created in a machine is only valid there, so files are identified by device and inode.
    """
    used = list(_used())
    if not used:
        return []
    # The loop status contains the kernel's form (new_encode_dev).
    overlay_devices = {_encode(os.stat(path).st_dev) for path in overlays if path.exists()}
    inodes: set[tuple[int, int]] = set()
    if home.exists():
        for top, unused, names in os.walk(home):
            for name in names:
                try:
                    stat = os.lstat(os.path.join(top, name))
                except OSError:
                    continue
                if stat.st_size >= 1 << 20:
                    inodes.add((_encode(stat.st_dev), stat.st_ino))
    gone = []
    for device, backing, number, inode in used:
        if backing.startswith(f"{home}/") or number in overlay_devices or (number, inode) in inodes:
            if run(["losetup", "--detach", device], check=False).returncode == 0:
                gone.append(device)
    return gone


def _encode(device: int) -> int:
    major, minor = os.major(device), os.minor(device)
    return (minor & 0xFF) | (major << 8) | ((minor & ~0xFF) << 12)
