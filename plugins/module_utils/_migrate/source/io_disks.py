# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""File systems and swap of the source, and the disks below them through LVM, md and encryption. Changes nothing."""

from __future__ import annotations

import contextlib
import glob
import os
import pathlib
import re
import stat
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import CommandError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.model_disk import MOUNT_OPTIONS
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_excludes import base, excluded

# File systems on disks of the machine, which are copied.
DISK_TYPES = frozenset(("ext2", "ext3", "ext4", "xfs", "btrfs", "vfat", "exfat", "f2fs", "jfs", "reiserfs", "zfs", "nilfs2"))
_NOT_BELOW = ("/proc", "/sys", "/dev", "/run")
# Not copied, because the content is on other machines, is provided by a program, or is a medium that is only read.
_NETWORK = frozenset(
    ("nfs", "nfs4", "cifs", "smb3", "ceph", "glusterfs", "fuse.sshfs", "fuse.glusterfs", "9p", "virtiofs", "afs", "lustre", "beegfs", "orangefs")
)
_SYSTEM_PROGRAMS = frozenset(("fuse.lxcfs", "fuse.snapfuse", "fusectl"))
_READ_ONLY = frozenset(("iso9660", "udf", "squashfs", "erofs", "cramfs", "romfs"))
_IN_MEMORY = re.compile(r"\A/dev/z?ram\d")
# inode number of the root of every btrfs subvolume
_SUBVOLUME = 256
_LAYERS = {"LVM": "lvm", "CRYPT": "crypt", "mpath": "multipath"}
SYS = pathlib.Path("/sys/dev/block")
# seconds to measure what excludes leave out; what is not measured by then counts as used
_MEASURE = 20.0
# exit code of a command whose program is missing
_NOT_INSTALLED = 127


def mounts() -> list[dict[str, str]]:
    """The mount table: mount, root (of the mount within its file system), device, fstype, id (major:minor), options."""
    found = []
    for line in read("/proc/self/mountinfo").splitlines():
        left, _dash, right = line.partition(" - ")
        fields, kind = left.split(), right.split()
        if len(fields) > 4 and len(kind) > 1:
            names = {"id": fields[2], "root": _unescape(fields[3]), "mount": _unescape(fields[4]), "fstype": kind[0], "device": _unescape(kind[1])}
            found.append({**names, "options": kind[2] if len(kind) > 2 else ""})
    return found


def read(path: str | pathlib.Path) -> str:
    """A file of the kernel, empty if it cannot be read."""
    try:
        return pathlib.Path(path).read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found.group(1), 8)), text)


def filesystems() -> list[dict[str, t.Any]]:
    """All file systems on disks, once each, with used space, disks and layers.

    Bind mounts are not listed separately, unless the folder above them is not mounted; subvolumes of btrfs are, mounted
    or not, because the copy of a file system does not cross their boundary.
    """
    found: list[dict[str, t.Any]] = []
    seen: set[t.Any] = set()
    pools: set[str] = set()
    # the mount table is in the order of time: a file system that was mounted again comes after the bind mounts of its folders
    for each in sorted(mounts(), key=lambda each: [part for part in each["root"].split("/") if part]):
        inside = any(each["mount"] == top or each["mount"].startswith(top + "/") for top in _NOT_BELOW)
        if each["fstype"] not in DISK_TYPES or inside or _IN_MEMORY.match(each["device"]) or image_of(each) or not os.path.isdir(each["mount"]):
            continue
        place = os.stat(each["mount"])
        if each["fstype"] == "btrfs":
            keys: list[t.Any] = [place.st_dev]
            hidden = place.st_ino != _SUBVOLUME
        else:
            keys = [(each["id"], top) for top in (each["root"], *map(str, pathlib.PurePosixPath(each["root"]).parents))]
            hidden = each["id"] != f"{os.major(place.st_dev)}:{os.minor(place.st_dev)}"
        if hidden or seen.intersection(keys):
            # not reachable below another mount, or part of a file system that is listed
            continue
        seen.add(keys[0])
        entry = _entry(each, counted=each["fstype"] == "btrfs" and each["device"] in pools)
        found.append(entry)
        if each["fstype"] == "btrfs":
            pools.add(each["device"])
    for entry in [each for each in found if each["fstype"] == "btrfs"]:
        found += [{**entry, "mount": path, "used": 0, "inodes_used": 0, "subvolume": None} for path in _nested(entry["mount"], entry["subvolume"], seen)]
    return sorted(found, key=lambda each: str(each["mount"]))


def subtract(filesystems: t.Sequence[dict[str, t.Any]], excludes: t.Sequence[str]) -> None:
    """Subtract from ``used`` the files that ``excludes`` leave out, as far as they can be measured in time; file systems that are excluded keep theirs."""
    until = time.monotonic() + _MEASURE
    tops = {path for each in excludes if "**" not in base(each) for path in glob.glob(base(each)) if os.path.realpath(path) == path}
    for top in sorted(each for each in tops if not tops.intersection(map(str, pathlib.PurePath(each).parents))):
        holders = [each for each in filesystems if top.startswith(f"{each['mount'].rstrip('/')}/") and not excluded(each["mount"], excludes)]
        home = max(holders, key=lambda each: len(each["mount"]), default=None)
        if home:
            home["used"] = max(0, home["used"] - _size_of(top, home["mount"], until))


def _size_of(top: str, mount: str, until: float) -> int:
    """Allocated bytes of a folder or file on the file system of a mount point; hard links do not count, because others may be copied."""
    size, waiting, own = 0, [top], os.stat(mount).st_dev
    while waiting and time.monotonic() < until:
        path = waiting.pop()
        # files come and go meanwhile
        with contextlib.suppress(OSError):
            status = os.lstat(path)
            if status.st_dev == own and stat.S_ISDIR(status.st_mode):
                waiting += [each.path for each in os.scandir(path)]
            elif status.st_dev == own and status.st_nlink == 1:
                size += 512 * status.st_blocks
    return size


def not_copied(copied: t.Sequence[t.Mapping[str, t.Any]]) -> list[dict[str, str]]:
    """The mounts whose content is missing among the copied file systems: the entry of the mount table with ``why``.

    ``why`` is ``network``, ``program``, ``memory``, ``medium`` (only read), ``image`` (a file that is copied as one), ``place`` (below /run),
    ``hidden`` (below another mount), ``unreadable``, or ``type`` for a file system on a disk that cannot be copied.

    :arg copied: as :func:`filesystems` returned it.
    """
    covered = {each["id"] for each in copied} | {each["device"] for each in copied if each["fstype"] in ("btrfs", "zfs")}
    found = {}
    for each in mounts():
        why = None if covered.intersection((each["id"], each["device"])) else _why_not(each)
        if why:
            # a file system is named once, at its first mount
            found.setdefault(each["id"] if why in ("type", "hidden", "place") else each["mount"], {**each, "why": why})
    return list(found.values())


def _why_not(mount: t.Mapping[str, str]) -> str | None:
    kind, path = mount["fstype"], mount["mount"]
    if path.startswith(("/proc/", "/sys/", "/dev/")) or kind in _SYSTEM_PROGRAMS:
        return None
    if kind in _NETWORK:
        return "network"
    if kind == "fuse" or kind.startswith("fuse."):
        return None if path.startswith("/run/") else "program"
    if not (mount["device"].startswith("/dev/") or kind in DISK_TYPES):
        return None
    if _IN_MEMORY.match(mount["device"]):
        return "memory"
    if image_of(mount):
        return "image" if "ro" not in mount["options"].split(",") else None
    try:
        status = os.stat(path)
    except OSError:
        return "unreadable"
    if not stat.S_ISDIR(status.st_mode):
        # a file that is mounted over another one is copied in its place
        return None
    if kind in _READ_ONLY:
        return "medium"
    if path.startswith("/run/"):
        # the manager of a container shows it folders of its host there
        return "place" if mount["root"] == "/" else None
    return "hidden" if kind in DISK_TYPES else "type"


def image_of(mount: t.Mapping[str, str]) -> str | None:
    """The file that a mounted loop device shows, if it is a file of this machine that is copied."""
    # by the name of the device: the numbers of a btrfs are not those of its device
    place = pathlib.Path(os.path.realpath(pathlib.Path("/sys/class/block", os.path.basename(mount["device"]))))
    backing = read((place.parent if (place / "partition").exists() else place) / "loop" / "backing_file").strip()
    inside = mount["mount"] == "/" or backing.startswith(tuple(f"{top}/" for top in _NOT_BELOW))
    return backing if backing and not inside and os.path.isfile(backing) else None


def _entry(mount: t.Mapping[str, str], *, counted: bool) -> dict[str, t.Any]:
    space = os.statvfs(mount["mount"])
    total = space.f_blocks * space.f_frsize
    below = device(mount["device"])
    wanted = MOUNT_OPTIONS.get(mount["fstype"], ())
    options = [each for each in mount["options"].split(",") if each.partition("=")[0] in wanted]
    return {
        "mount": mount["mount"],
        "id": mount["id"],
        "device": mount["device"],
        "fstype": mount["fstype"],
        "total": total,
        "used": 0 if counted else (space.f_blocks - space.f_bfree) * space.f_frsize,
        "inodes_used": space.f_files - space.f_ffree,
        "size": below["size"] or total,
        "disks": below["disks"],
        "layers": below["layers"],
        "subvolume": mount["root"].strip("/") if mount["fstype"] == "btrfs" else None,
        "options": ",".join(options) or None,
    }


def _nested(mount: str, name: str, seen: set[t.Any]) -> list[str]:
    """Paths of the subvolumes below a subvolume, at any depth, without read-only ones, which are snapshots.

    :raises CommandError: they cannot be listed; without the list, their content would be missing in the copy.
    """
    try:
        kept = set(_subvolumes(mount, "-r"))
        inner = [each for each in _subvolumes(mount) if each not in kept]
    except CommandError as error:
        if error.rc == _NOT_INSTALLED:
            # preflight reports the missing program
            return []
        raise
    found = []
    for each in inner:
        if name and not each.startswith(f"{name}/"):
            continue
        path = f"{mount.rstrip('/')}/{each[len(name) :].strip('/')}"
        if os.path.isdir(path) and os.stat(path).st_dev not in seen:
            seen.add(os.stat(path).st_dev)
            found += [path, *_nested(path, each, seen)]
    return found


def _subvolumes(mount: str, *only: str) -> list[str]:
    lines = run(["btrfs", "subvolume", "list", "-o", *only, mount], hint="List them with btrfs subvolume list as root.").stdout.splitlines()
    return [line.partition(" path ")[2] for line in lines if " path " in line]


def device(path: str) -> dict[str, t.Any]:
    """The block device of a file system: size in bytes, the physical disks below and the layers between."""
    try:
        status = os.stat(path)
    except OSError:
        return {"size": 0, "disks": [], "layers": []}
    if not stat.S_ISBLK(status.st_mode):
        return {"size": 0, "disks": [], "layers": []}
    place = SYS / f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
    disks: list[str] = []
    layers: list[str] = []
    _descend(pathlib.Path(os.path.realpath(place)), disks, layers)
    return {"size": 512 * int(read(place / "size").strip() or 0), "disks": disks, "layers": layers}


def _descend(place: pathlib.Path, disks: list[str], layers: list[str]) -> None:
    if (place / "partition").exists():
        place = place.parent
    below = sorted(each.name for each in (place / "slaves").iterdir()) if (place / "slaves").is_dir() else []
    # a partition of a multipath device is not a separate layer (part1-mpath-...)
    layer = "md" if (place / "md").is_dir() else _LAYERS.get(read(place / "dm" / "uuid").partition("-")[0])
    if layer and layer not in layers:
        layers.append(layer)
    if not below or layer == "multipath":
        if place.name not in disks:
            disks.append(place.name)
        return
    for name in below:
        _descend(pathlib.Path(os.path.realpath(place / "slaves" / name)), disks, layers)


def swaps() -> tuple[list[dict[str, t.Any]], list[str]]:
    """Swap partitions (device, size, disks), and files used as swap."""
    partitions, files = [], []
    for line in read("/proc/swaps").splitlines()[1:]:
        fields = line.split()
        if len(fields) < 3:
            continue
        path = _unescape(fields[0])
        if fields[1] == "file":
            files.append(path)
        elif not os.path.basename(os.path.realpath(path)).startswith("zram"):
            below = device(path)
            partitions.append({"device": path, "size": below["size"] or int(fields[2]) * 1024, "disks": below["disks"]})
    return partitions, files
