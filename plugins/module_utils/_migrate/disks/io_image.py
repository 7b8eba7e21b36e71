# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The new master's disks as image files of the destination host: partition tables, file systems, mounts.

Everything is mounted in the mount namespace of the calling process, so a killed worker leaves no
mounts; loop devices it left are found by their image.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import stat
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import sync_path
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_tree import Tree
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError, LostWriteError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import MIB
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks import model_disk
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.model_features import Version, arguments, version_in
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_rsync import full_pool

BIOS_GRUB = "21686148-6449-6E6F-744E-656564454649"
EFI_SYSTEM = "C12A7328-F81F-11D2-BA4B-00A0C93EC93B"
LINUX = "0FC63DAF-8483-4772-8E79-3D69D8477DE4"
SWAP = "0657FD6D-A4AB-43C4-84E5-0933C84B4F4F"
BASIC_DATA = "EBD0A0A2-B9E5-4433-87C0-68B6B72699C7"

_TYPE = {"ext4": LINUX, "xfs": LINUX, "btrfs": LINUX, "swap": SWAP, "vfat": BASIC_DATA, model_disk.RAW: LINUX}
_SECTORS = MIB // 512
_BLOCK = pathlib.Path("/sys/block")
# seconds until the kernel must show a partition
_SHOWN = 30
# smaller file systems have too few clusters for FAT32
_FAT32 = 64 * MIB


class DiskImage:
    """Raw disk images and their partitions.

    :arg images: paths of the image files, in the order of the layout's disks.
    :arg work: a folder of this migration below ``/run``, for the mounted tree.
    """

    def __init__(self, images: t.Sequence[str], layout: model_disk.DiskLayout, work: pathlib.Path) -> None:
        self.images = tuple(images)
        self.layout = layout
        self.work = work
        self._top = work / "root"
        self.tree = Tree(self._top)
        self._loops: dict[int, str] = {}

    @property
    def loop(self) -> str:
        """The loop device of the boot disk."""
        return self.loop_of(self.layout.disks[0])

    def loop_of(self, disk: model_disk.PlannedDisk) -> str:
        """The loop device of an attached disk."""
        return self._loops[disk.index]

    def disks(self) -> list[tuple[model_disk.PlannedDisk, str]]:
        """The disks with their image files."""
        return list(zip(self.layout.disks, self.images))

    def write_table(self) -> None:
        """Write the partition tables; the content of partitions with unchanged position is kept."""
        self.detach()
        quiet = ["--quiet", "--wipe", "always", "--wipe-partitions", "always", "--no-reread", "--no-tell-kernel"]
        for disk, image in self.disks():
            run(["sfdisk", *quiet, image], stdin=sfdisk_script(self.layout, disk))

    def make_filesystems(self) -> None:
        """Create every file system; existing ones are overwritten."""
        self.attach()
        for each in self.layout.partitions:
            if each.fs == model_disk.RAW:
                continue
            # free the space of the previous content; not every disk supports that
            run(["blkdiscard", self.node(each)], timeout=600, ok=range(256))
            run(mkfs_argv(each, self.node(each), _mkfs_version(each)), timeout=600)
            if each.subvolumes:
                self._make_subvolumes(each)
        run(["sync"])

    def _make_subvolumes(self, partition: model_disk.PlannedPartition) -> None:
        self._top.mkdir(parents=True, exist_ok=True)
        run(["mount", "-t", "btrfs", self.node(partition), str(self._top)])
        try:
            for _mount, name in sorted(partition.subvolumes, key=lambda each: each[1].count("/")):
                if name:
                    self.tree.make_folder(os.path.dirname(name))
                    run(["btrfs", "subvolume", "create", self.tree.place(name, follow=False)])
        finally:
            run(["umount", str(self._top)])

    def attach(self) -> None:
        """Attach the images to loop devices, with a device node for every partition."""
        if self._loops:
            return
        self.detach()
        self.work.mkdir(parents=True, exist_ok=True, mode=0o700)
        for disk, image in self.disks():
            loop = self._loops[disk.index] = self._loop(image)
            for each in self.layout.on(disk):
                # the mount table must contain names below /dev: grub-install reads it and accepts only those
                make_node(self.node(each), partition_device(loop, each.number))

    def _loop(self, image: str) -> str:
        return attach_loop(image)

    def node(self, partition: model_disk.PlannedPartition) -> str:
        """Device node of a partition."""
        return f"{self._loops[partition.disk]}p{partition.number}"

    def mount(self) -> Tree:
        """Mount all file systems, parents first; returns the files of the copy.

        The EFI system partition is not mounted but a folder: :meth:`pack` writes it as a whole.
        """
        self.attach()
        self._top.mkdir(parents=True, exist_ok=True)
        for each in self.layout.mounts:
            place = self.tree.make_folder(each.mount)
            if each.partition is not self.layout.esp and not os.path.ismount(place):
                run(["mount", "-t", each.partition.fs, "-o", mount_options(each), self.node(each.partition), place])
        return self.tree

    def mounted(self) -> dict[str, str]:
        """The mounted file systems of the copy: mount point → its path on this host."""
        found = {each.mount: self.tree.mounted(each.mount) for each in self.layout.mounts if each.partition is not self.layout.esp}
        return {mount: place for mount, place in found.items() if place}

    def used(self) -> int:
        """Bytes used in all file systems of the copy, without holes in files."""
        places = self.mounted()
        spaces = {(each.partition.disk, each.partition.number): os.statvfs(places[each.mount]) for each in self.layout.mounts if each.mount in places}
        return sum((each.f_blocks - each.f_bfree) * each.f_frsize for each in spaces.values())

    def pack(self) -> None:
        """Create the EFI system partition from its folder, as a whole.

        FAT has neither a journal nor owners, and not every host's kernel supports it.
        """
        esp = self.layout.esp
        if esp is None:
            return
        self.attach()
        files = self._esp_files(esp.mount or "")
        run(mkfs_argv(esp, self.node(esp)))
        if files:
            run(["mcopy", "-i", self.node(esp), "-s", "-m", "-o", "-Q", *files, "::/"], timeout=600)
        run(["sync", self.node(esp)])

    def _esp_files(self, mount: str) -> list[str]:
        """The paths on this host of what is at the top of the EFI system partition; the link of a hostile source could lead to any file of this host."""
        self.tree.make_folder(mount)
        folders = [mount]
        while folders:
            folder = folders.pop()
            for name in self.tree.names(folder):
                path = f"{folder}/{name}"
                found = self.tree.status(path, follow=False)
                if found is not None and stat.S_ISDIR(found.st_mode):
                    folders.append(path)
                elif found is None or not stat.S_ISREG(found.st_mode):
                    raise BackendError(f"{path} of the copy is neither a file nor a folder.", hint="Remove it on the source, or exclude it with excludes.")
        return [self.tree.place(f"{mount}/{name}", follow=False) for name in self.tree.names(mount)]

    def settle(self) -> None:
        """Flush all written data from this host's memory to the disks.

        A file system in an image accepts writes, and reads them back, even if the pool below it is full and the data
        is never written to disk. The kernel reports such an error once, to a sync; umount does not report it.

        :raises LostWriteError: written data is lost.
        """
        if not self._loops:
            return
        try:
            for place in self.mounted().values():
                run(["sync", "--file-system", place])
            # data outside of file systems: the boot loader, raw partitions
            for path in (*self._loops.values(), *self.images):
                sync_path(path)
        except (OSError, CommandError) as error:
            raise self._lost(error) from error

    def _lost(self, error: Exception) -> BackendError:
        """The error for lost writes."""
        for image in self.images:
            full = full_pool(image)
            if full is not None:
                return LostWriteError(full.message, full.path, full.hint)
        return LostWriteError(f"Written data did not reach {', '.join(self.images)}: {error}.", hint="Check dmesg and the health of that disk.")

    def release(self) -> None:
        """Release the disks, so that another process may use them."""
        self.detach()

    def detach(self) -> None:
        """Unmount and detach everything, including what a killed worker left."""
        for _depth in range(8):
            if not os.path.ismount(self._top):
                break
            run(["umount", "-R", str(self._top)], ok=(0, 1, 32))
        for disk, image in self.disks():
            for loop in loops_of(image):
                run(["partx", "--delete", loop], ok=range(256))
                for each in self.layout.on(disk):
                    # udev removes its own nodes; those created here would refer to the next image on the loop device
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(f"{loop}p{each.number}")
                self._free(loop)
        self._loops = {}
        until = time.monotonic() + 10
        for image in self.images:
            while loops_of(image):
                if time.monotonic() > until:
                    raise BackendError(f"{image} is still in use by a loop device.", hint="Find the process with losetup -l and lsof.")
                time.sleep(0.2)

    def _free(self, loop: str) -> None:
        run(["losetup", "--detach", loop], ok=(0, 1))


def mount_options(mount: model_disk.PlannedMount) -> str:
    """Mount options of a file system of the copy while it is filled: its device nodes and set-user-ID programs are ineffective on this host."""
    options = ["noatime", "nodev", "nosuid"]
    # the source reports them: other options would be those of this host's mount command
    options += [each for each in (mount.partition.options or "").split(",") if each.partition("=")[0] in model_disk.MOUNT_OPTIONS.get(mount.partition.fs, ())]
    if mount.partition.fs == "vfat":
        # FAT has no owners and modes; without it rsync would report errors for them
        options.append("quiet")
    if mount.subvolume is not None:
        if "," in mount.subvolume:
            raise BackendError(f"The subvolume {mount.subvolume} cannot be mounted because of the comma in its name.", hint="Rename it on the source.")
        options.append(f"subvol=/{mount.subvolume}")
    return ",".join(options)


def sfdisk_script(layout: model_disk.DiskLayout, disk: model_disk.PlannedDisk) -> str:
    """A partition table as input for sfdisk."""
    lines = ["label: gpt", f"label-id: {disk.uuid}", "unit: sectors", ""]
    if disk.index == 0:
        lines.append(f"start={_SECTORS}, size={_SECTORS}, type={BIOS_GRUB}, name=bios_grub")
    for each in layout.on(disk):
        name = (each.mount or (each.raw.label or "raw" if each.raw else "swap")).strip("/").replace("/", "-") or "root"
        kind = EFI_SYSTEM if model_disk.is_esp(each.mount, each.fs) else _TYPE[each.fs]
        lines.append(f'start={each.start // 512}, size={each.size // 512}, type={kind}, uuid={each.partuuid}, name="{name[:36]}"')
    return "\n".join(lines) + "\n"


def _mkfs_version(partition: model_disk.PlannedPartition) -> Version:
    if not partition.lacking:
        return ()
    done = run([f"mkfs.{partition.fs}", "-V"])
    return version_in(done.stdout + done.stderr)


def mkfs_argv(partition: model_disk.PlannedPartition, device: str, version: Version = ()) -> list[str]:
    """The command that creates a partition's file system on ``device``.

    :arg version: of the program, for a partition that must not have all of its features.
    """
    off = arguments(partition.fs, partition.lacking, version)
    if partition.fs == "ext4":
        inodes = ["-N", str(partition.inodes)] if partition.inodes else []
        return ["mkfs.ext4", "-q", "-F", "-E", "nodiscard", "-U", partition.uuid, *off, *inodes, device]
    if partition.fs == "xfs":
        return ["mkfs.xfs", "-q", "-f", "-K", "-m", f"uuid={partition.uuid}", *off, device]
    if partition.fs == "btrfs":
        return ["mkfs.btrfs", "-q", "-f", "-K", "-U", partition.uuid, *off, device]
    if partition.fs == "vfat":
        return ["mkfs.vfat", *(["-F", "32"] if partition.size >= _FAT32 else []), "-i", partition.uuid.replace("-", ""), device]
    return ["mkswap", "-q", "-f", "-U", partition.uuid, device]


def loops_of(image: str) -> list[str]:
    """The loop devices to which an image is attached."""
    done = run(["losetup", "--json", "--list", "--associated", image], ok=(0, 1))
    if not done.stdout.strip():
        return []
    return [each["name"] for each in json.loads(done.stdout).get("loopdevices", [])]


def attach_loop(image: str, *options: str) -> str:
    """Attach a file to a loop device; returns the path of the device."""
    last: CommandError | None = None
    for _attempt in range(10):
        name = run(["losetup", "--find"]).stdout.strip()
        if not os.path.exists(name):
            # the kernel offers a device without a node, if no udev is running
            number = int("".join(each for each in name if each.isdigit()))
            os.mknod(name, stat.S_IFBLK | 0o660, os.makedev(7, number))
        try:
            run(["losetup", "--partscan", *options, name, image])
            return name
        except CommandError as error:
            # another process has attached it meanwhile
            last = error
            time.sleep(0.2)
    raise BackendError(f"Failed to attach {image} to a loop device: {last}", hint="Free a loop device; losetup -l shows them.")


def partition_device(loop: str, number: int) -> int:
    """Return the device number of a partition of a loop device."""
    name = os.path.basename(loop)
    numbers = _BLOCK / name / f"{name}p{number}" / "dev"
    until = time.monotonic() + _SHOWN
    while not numbers.exists():
        if time.monotonic() > until:
            raise BackendError(f"The kernel does not show partition {number} of {name}.", hint="Check the image with partx -s.")
        # the kernel's own scan of a new loop device can be in progress, in which the partitions cannot be added
        run(["partx", "--update", loop], ok=(0, 1))
        time.sleep(0.1)
    major, _colon, minor = numbers.read_text(encoding="ascii").strip().partition(":")
    return os.makedev(int(major), int(minor))


def make_node(path: str, device: int) -> None:
    """Create the node of a block device; without udev a node of an earlier device may be left."""
    with contextlib.suppress(FileNotFoundError):
        if os.stat(path).st_rdev == device:
            return
        os.unlink(path)
    os.mknod(path, stat.S_IFBLK | 0o600, device)
