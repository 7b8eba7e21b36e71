# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The new master's disk as files of the destination host: partition table, file systems, mounts.

Everything is mounted in the mount namespace of the calling process, so a killed worker leaves no
mount behind; loop devices it left are found again by the image they belong to.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import stat
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._backend.command import run
from ansible_collections.reduced.footprint.plugins.module_utils._model.disk import DiskLayout, PlannedPartition
from ansible_collections.reduced.footprint.plugins.module_utils._model.errors import BackendError, CommandError
from ansible_collections.reduced.footprint.plugins.module_utils._model.size import MIB

BIOS_GRUB = "21686148-6449-6E6F-744E-656564454649"
LINUX = "0FC63DAF-8483-4772-8E79-3D69D8477DE4"
SWAP = "0657FD6D-A4AB-43C4-84E5-0933C84B4F4F"
BASIC_DATA = "EBD0A0A2-B9E5-4433-87C0-68B6B72699C7"

_TYPE = {"ext4": LINUX, "xfs": LINUX, "swap": SWAP, "vfat": BASIC_DATA}
_SECTORS = MIB // 512


class DiskImage:
    """A raw disk image and its partitions.

    :arg image: path of the image file.
    :arg work: a folder of this migration below ``/run``; device nodes and the mounted tree live there.
    """

    def __init__(self, image: str, layout: DiskLayout, work: pathlib.Path) -> None:
        self.image = image
        self.layout = layout
        self.work = work
        self.devices = work / "dev"
        self.root = work / "root"
        self.loop: str | None = None

    def write_table(self) -> None:
        """Write the partition table; the content of partitions at the same places stays."""
        self.release()
        quiet = ["--quiet", "--wipe", "always", "--wipe-partitions", "always", "--no-reread", "--no-tell-kernel"]
        run(["sfdisk", *quiet, self.image], stdin=sfdisk_script(self.layout))

    def make_filesystems(self) -> None:
        """Make every file system anew."""
        self.attach()
        for each in self.layout.partitions:
            run(mkfs_argv(each, self.node(each)), timeout=600)
        run(["sync"])

    def has_filesystems(self) -> bool:
        """Whether every partition carries the file system that the layout gives it."""
        self.attach()
        for each in self.layout.partitions:
            found = run(["blkid", "-p", "-s", "UUID", "-o", "value", self.node(each)], ok=(0, 2)).stdout.strip()
            if found.lower() != each.uuid.lower():
                return False
        return True

    def attach(self) -> None:
        """Give the image a loop device with a node for every partition."""
        if self.loop:
            return
        self.release()
        self.work.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.devices.mkdir(exist_ok=True)
        # /run is mounted without device nodes, so ours get a place of their own
        run(["mount", "-t", "tmpfs", "-o", "mode=0755,size=1m,dev,nosuid,noexec", "footprint-dev", str(self.devices)])
        self.loop = self._loop()
        run(["partx", "--update", self.loop], ok=(0, 1))
        for each in self.layout.partitions:
            self._make_node(each)
        name = os.path.basename(self.loop)
        _node(self.devices / name, pathlib.Path("/sys/block", name, "dev"))
        by_uuid = self.devices / "disk" / "by-uuid"
        by_uuid.mkdir(parents=True, exist_ok=True)
        for each in self.layout.partitions:
            link = by_uuid / each.uuid
            if not link.is_symlink():
                link.symlink_to(f"../../{name}p{each.number}")

    def _loop(self) -> str:
        last: CommandError | None = None
        for _attempt in range(10):
            name = run(["losetup", "--find"]).stdout.strip()
            if not os.path.exists(name):
                # the kernel offers a device whose node nobody made, as it happens where no udev runs
                number = int("".join(each for each in name if each.isdigit()))
                os.mknod(name, stat.S_IFBLK | 0o660, os.makedev(7, number))
            try:
                run(["losetup", "--partscan", name, self.image])
                return name
            except CommandError as error:
                # somebody was faster
                last = error
                time.sleep(0.2)
        raise BackendError(f"No loop device could be had for {self.image}: {last}", mend="Free one: losetup -l shows who uses them.")

    def _make_node(self, partition: PlannedPartition) -> None:
        name = f"{os.path.basename(self.loop or '')}p{partition.number}"
        number = pathlib.Path("/sys/block", os.path.basename(self.loop or ""), name, "dev")
        until = time.monotonic() + 5
        while not number.exists():
            if time.monotonic() > until:
                raise BackendError(f"The kernel shows no partition {partition.number} on {self.loop}.", mend="Look at partx -s on the image.")
            time.sleep(0.1)
        _node(self.devices / name, number)
        # the mount table must speak of /dev: grub-install reads it there and knows disks by such names only
        if not os.path.exists(self.node(partition)):
            _node(pathlib.Path(self.node(partition)), number)

    def node(self, partition: PlannedPartition) -> str:
        """Device node of a partition."""
        return f"{self.loop}p{partition.number}"

    def mount(self) -> pathlib.Path:
        """Mount all file systems in their order; returns the root of the copy."""
        self.attach()
        self.root.mkdir(parents=True, exist_ok=True)
        for each in self.layout.mounts:
            place = self.root / (each.mount or "/").lstrip("/")
            place.mkdir(parents=True, exist_ok=True)
            if not os.path.ismount(place):
                run(["mount", "-t", each.fs, "-o", "noatime", self.node(each), str(place)])
        return self.root

    def release(self) -> None:
        """Unmount and detach everything, also what a killed worker left."""
        for place in (self.root, self.devices):
            for _depth in range(8):
                if not os.path.ismount(place):
                    break
                run(["umount", "-R", str(place)], ok=(0, 1, 32))
        attached = loops_of(self.image)
        for loop in attached:
            run(["partx", "--delete", loop], ok=range(256))
            for each in self.layout.partitions:
                # udev removes its own; the ones made by hand would point at the next user of the device
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(f"{loop}p{each.number}")
            run(["losetup", "--detach", loop], ok=(0, 1))
        self.loop = None
        until = time.monotonic() + 10
        while loops_of(self.image):
            if time.monotonic() > until:
                raise BackendError(f"{self.image} is still in use by a loop device.", mend="losetup -l and lsof show by whom.")
            time.sleep(0.2)


def sfdisk_script(layout: DiskLayout) -> str:
    """The partition table as sfdisk reads it from its standard input."""
    lines = ["label: gpt", f"label-id: {layout.disk_uuid}", "unit: sectors", "", f"start={_SECTORS}, size={_SECTORS}, type={BIOS_GRUB}, name=bios_grub"]
    for each in layout.partitions:
        name = (each.mount or "swap").strip("/").replace("/", "-") or "root"
        lines.append(f"start={each.start // 512}, size={each.size // 512}, type={_TYPE[each.fs]}, uuid={each.partuuid}, name={name}")
    return "\n".join(lines) + "\n"


def mkfs_argv(partition: PlannedPartition, device: str) -> list[str]:
    """The command that makes a partition's file system on ``device``."""
    if partition.fs == "ext4":
        inodes = ["-N", str(partition.inodes)] if partition.inodes else []
        return ["mkfs.ext4", "-q", "-F", "-E", "nodiscard", "-U", partition.uuid, *inodes, device]
    if partition.fs == "xfs":
        return ["mkfs.xfs", "-q", "-f", "-K", "-m", f"uuid={partition.uuid}", device]
    if partition.fs == "vfat":
        return ["mkfs.vfat", "-i", partition.uuid.replace("-", ""), device]
    return ["mkswap", "-q", "-f", "-U", partition.uuid, device]


def loops_of(image: str) -> list[str]:
    """The loop devices an image is attached to."""
    done = run(["losetup", "--json", "--list", "--associated", image], ok=(0, 1))
    if not done.stdout.strip():
        return []
    return [each["name"] for each in json.loads(done.stdout).get("loopdevices", [])]


def _node(path: pathlib.Path, numbers: pathlib.Path) -> None:
    major, _colon, minor = numbers.read_text(encoding="ascii").strip().partition(":")
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    os.mknod(path, stat.S_IFBLK | 0o600, os.makedev(int(major), int(minor)))


def used_bytes(root: pathlib.Path) -> int:
    """Bytes in use in the file system of ``root``."""
    space = os.statvfs(root)
    return t.cast(int, (space.f_blocks - space.f_bfree) * space.f_frsize)
