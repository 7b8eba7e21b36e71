# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Stacks of block devices as /sys shows them; there are none of these on a machine that runs tests, so folders stand in."""

from __future__ import annotations

import os
import pathlib
import stat
import subprocess
import types

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import CommandError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source import io_disks
from tests.support.own_mounts import own_mounts


def system(**ours):
    """The module os for one module; all others need the real one."""
    return types.SimpleNamespace(**{**vars(os), **ours})


@pytest.fixture(name="sys_block")
def fixture_sys_block(tmp_path, monkeypatch):
    """/sys with LVM over an encrypted md array over two NVMe disks, a multipath disk with a partition, and a plain partition."""

    def make(path, *, partition=False, slaves=(), dm=None, md=False):
        place = tmp_path / "devices" / path
        place.mkdir(parents=True)
        (place / "size").write_text("2048\n")
        if partition:
            (place / "partition").write_text("1\n")
        for slave in slaves:
            (place / "slaves").mkdir(exist_ok=True)
            (place / "slaves" / slave.rsplit("/", 1)[-1]).symlink_to(tmp_path / "devices" / slave)
        if dm:
            (place / "dm").mkdir()
            (place / "dm" / "uuid").write_text(dm)
        if md:
            (place / "md").mkdir()
        return place

    make("nvme0n1")
    make("nvme0n1/nvme0n1p3", partition=True)
    make("nvme1n1")
    make("nvme1n1/nvme1n1p3", partition=True)
    make("md0", slaves=["nvme0n1/nvme0n1p3", "nvme1n1/nvme1n1p3"], md=True)
    make("dm-0", slaves=["md0"], dm="CRYPT-LUKS2-abc-root")
    devices = {"/dev/mapper/vg-root": (253, 1, make("dm-1", slaves=["dm-0"], dm="LVM-xyz")), "/dev/nvme0n1p3": (259, 3, tmp_path / "devices/nvme0n1/nvme0n1p3")}
    make("sda")
    make("sdb")
    make("dm-2", slaves=["sda", "sdb"], dm="mpath-3600")
    devices["/dev/mapper/mpatha-part1"] = (253, 3, make("dm-3", slaves=["dm-2"], dm="part1-mpath-3600"))
    (tmp_path / "block").mkdir()
    for major, minor, place in devices.values():
        (tmp_path / "block" / f"{major}:{minor}").symlink_to(place)
    real = os.stat

    def fake(path, *args, **options):
        if path in devices:
            return types.SimpleNamespace(st_mode=stat.S_IFBLK, st_rdev=os.makedev(*devices[path][:2]))
        return real(path, *args, **options)

    monkeypatch.setattr(io_disks, "SYS", tmp_path / "block")
    monkeypatch.setattr(io_disks, "os", system(stat=fake))


@pytest.mark.parametrize(
    ("path", "disks", "layers"),
    [
        ("/dev/nvme0n1p3", ["nvme0n1"], []),
        ("/dev/mapper/vg-root", ["nvme0n1", "nvme1n1"], ["lvm", "crypt", "md"]),
        ("/dev/mapper/mpatha-part1", ["dm-2"], ["multipath"]),
    ],
)
def test_the_disks_below_are_found_through_all_layers(sys_block, path, disks, layers):
    assert io_disks.device(path) == {"size": 1024 * 1024, "disks": disks, "layers": layers}


def test_a_path_that_is_not_a_block_device_has_no_disk():
    assert io_disks.device("/dev/null") == {"size": 0, "disks": [], "layers": []}
    assert io_disks.device("tank/root") == {"size": 0, "disks": [], "layers": []}


def btrfs(mount, root, device="/dev/sda2"):
    return {"id": "0:33", "root": root, "mount": mount, "fstype": "btrfs", "device": device, "options": "rw,compress=zstd:1,subvolid=256,space_cache=v2"}


def test_subvolumes_are_file_systems_and_bind_mounts_of_theirs_are_not(tmp_path, monkeypatch):
    # the disk of the tests is not btrfs, so the numbers that identify a subvolume are fake
    table = [btrfs("/", "/@"), btrfs("/home", "/@home"), btrfs("/srv/bound", "/@/srv/data"), btrfs("/again", "/@home")]
    numbers = {"/": (50, 256), "/home": (51, 256), "/srv/bound": (50, 300), "/again": (51, 256), "/var/lib/machines": (52, 256), "/snap": (53, 256)}
    monkeypatch.setattr(io_disks, "mounts", lambda: table)
    places = {path: types.SimpleNamespace(st_dev=device, st_ino=inode, st_mode=0) for path, (device, inode) in numbers.items()}
    room = types.SimpleNamespace(f_blocks=100, f_frsize=4096, f_bfree=60, f_files=0, f_ffree=0)
    paths = types.SimpleNamespace(**{**vars(os.path), "isdir": numbers.__contains__})
    monkeypatch.setattr(io_disks, "os", system(stat=lambda path: places.get(path, places["/snap"]), statvfs=lambda path: room, path=paths))

    def run(argv, **unused):
        lists = {"/": "ID 259 gen 9 top level 256 path @/var/lib/machines\nID 260 gen 9 top level 256 path @/snap\n"}
        frozen = {"/": "ID 260 gen 9 top level 256 path @/snap\n"}
        return types.SimpleNamespace(stdout=(frozen if "-r" in argv else lists).get(argv[-1], ""))

    monkeypatch.setattr(io_disks, "run", run)
    found = io_disks.filesystems()
    assert [(each["mount"], each["subvolume"], each["used"]) for each in found] == [
        ("/", "@", 40 * 4096),
        ("/home", "@home", 0),
        ("/var/lib/machines", None, 0),
    ]
    assert found[0]["options"] == "compress=zstd:1"


@pytest.fixture(name="table")
def fixture_table(monkeypatch):
    """A mount table of ext4 file systems with made-up devices, of which each path shows the topmost mount."""
    rows: list = []
    room = types.SimpleNamespace(f_blocks=100, f_frsize=4096, f_bfree=60, f_files=0, f_ffree=0)

    def status(path):
        numbers = [row["id"] for row in rows if row["mount"] == path]
        if not numbers:
            raise FileNotFoundError(path)
        major, minor = numbers[-1].split(":")
        return types.SimpleNamespace(st_dev=os.makedev(int(major), int(minor)), st_ino=2, st_mode=stat.S_IFDIR)

    def add(mount, root="/", number="8:1", fstype="ext4", device=None, options="rw"):
        rows.append({"id": number, "root": root, "mount": mount, "fstype": fstype, "device": device or f"/dev/disk{number}", "options": options})

    paths = types.SimpleNamespace(**{**vars(os.path), "isdir": lambda path: True})
    monkeypatch.setattr(io_disks, "mounts", lambda: rows)
    monkeypatch.setattr(io_disks, "os", system(stat=status, statvfs=lambda path: room, path=paths))
    return add


def found():
    return [each["mount"] for each in io_disks.filesystems()]


def test_a_file_system_is_listed_where_all_of_it_is_mounted(table):
    """It was mounted again while a bind mount of one of its folders stayed: the mount table has the bind mount first."""
    table("/")
    table("/var/www", "/www", "8:2")
    table("/data", "/", "8:2")
    assert found() == ["/", "/data"]


def test_folders_of_a_file_system_that_is_not_mounted_itself_are_all_listed(table):
    table("/")
    table("/srv/b", "/b", "8:2")
    table("/srv/a/inner", "/a/inner", "8:2")
    table("/srv/a", "/a", "8:2")
    table("/srv/a2", "/a2", "8:2")
    assert found() == ["/", "/srv/a", "/srv/a2", "/srv/b"]


def test_a_mount_below_another_one_of_the_same_place_is_not_listed(table):
    table("/")
    table("/srv", "/", "8:2")
    table("/srv", "/", "8:3")
    assert [(each["mount"], each["device"]) for each in io_disks.filesystems()] == [("/", "/dev/disk8:1"), ("/srv", "/dev/disk8:3")]


def missing():
    return [(each["mount"], each["why"]) for each in io_disks.not_copied(io_disks.filesystems())]


@pytest.mark.parametrize(
    ("mount", "fstype", "device", "why"),
    [
        ("/data", "fuseblk", "/dev/sda3", "type"),
        ("/data", "ntfs3", "/dev/sda3", "type"),
        ("/shared", "ocfs2", "/dev/mapper/lun", "type"),
        ("/media/cdrom", "iso9660", "/dev/sr0", "medium"),
        ("/run/media/me/stick", "ext4", "/dev/sdb1", "place"),
        ("/nas", "nfs4", "nas:/x", "network"),
        ("/far", "fuse.sshfs", "me@far:", "network"),
        ("/pool", "fuse.mergerfs", "a:b", "program"),
        ("/etc/pve", "fuse", "/dev/fuse", "program"),
        ("/var/log", "ext4", "/dev/zram1", "memory"),
        ("/var/lib/lxcfs", "fuse.lxcfs", "lxcfs", None),
        ("/run/user/1/doc", "fuse.portal", "portal", None),
        ("/tmp", "tmpfs", "tmpfs", None),
        ("/dev/shm", "tmpfs", "/dev/shm", None),
        ("/var/lib/docker/overlay2/x/merged", "overlay", "overlay", None),
    ],
)
def test_a_mounted_device_is_copied_or_reported(table, mount, fstype, device, why):
    table("/")
    table(mount, number="8:9", fstype=fstype, device=device)
    assert found() == ["/"]
    assert missing() == ([(mount, why)] if why else [])


def test_a_folder_of_the_host_that_a_container_is_shown_is_not_reported(table):
    table("/")
    table("/run/host/incoming", root="/run/systemd/nspawn", number="254:0")
    assert missing() == []


def test_each_file_system_that_is_not_copied_is_reported_once(table):
    table("/")
    table("/data", number="8:3", fstype="fuseblk")
    table("/srv/bound", root="/x", number="8:3", fstype="fuseblk")
    table("/srv", number="8:4")
    table("/srv", number="8:5")
    table("/bound", root="/home", number="8:1")
    assert missing() == [("/data", "type"), ("/srv", "hidden")]


def test_a_mount_that_cannot_be_read_is_reported(table, monkeypatch):
    table("/")
    table("/broken", number="8:3")
    real = io_disks.os.stat

    def status(path):
        if path == "/broken":
            raise OSError(5, "Input/output error")
        return real(path)

    monkeypatch.setattr(io_disks, "os", system(stat=status, statvfs=io_disks.os.statvfs, path=types.SimpleNamespace(**{**vars(os.path), "isdir": "/".__eq__})))
    assert missing() == [("/broken", "unreadable")]


@pytest.fixture(name="mounted")
def fixture_mounted(tmp_path):
    """Mounts an image file with ext4 at a folder, in mounts of this process alone."""
    folder = tmp_path / "mounted"
    folder.mkdir()

    def mount(image, *options, fs="ext4"):
        os.truncate(image, 128 * 1024**2)
        subprocess.run([f"mkfs.{fs}", "-q", str(image)], check=True)
        subprocess.run(["mount", "-o", ",".join(["loop", *options]), str(image), str(folder)], check=True)
        return str(folder)

    with own_mounts():
        yield mount
        subprocess.run(["umount", str(folder)], check=False)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts need root")
@pytest.mark.parametrize(("fs", "options"), [("ext4", []), ("ext4", ["ro"]), ("btrfs", [])])
def test_a_mounted_image_is_copied_as_a_file_only(mounted, tmp_path, fs, options):
    image = tmp_path / "image.img"
    image.touch()
    folder = mounted(image, *options, fs=fs)
    systems = io_disks.filesystems()
    assert folder not in [each["mount"] for each in systems]
    # what is only read is complete in the file
    assert [each["why"] for each in io_disks.not_copied(systems) if each["mount"] == folder] == ([] if options else ["image"])
    # nothing contains the content of a deleted image but its mount
    image.unlink()
    systems = io_disks.filesystems()
    assert folder in [each["mount"] for each in systems]
    assert folder not in [each["mount"] for each in io_disks.not_copied(systems)]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts need root")
def test_excluded_files_do_not_count_as_used(mounted, tmp_path):
    image = tmp_path / "image.img"
    image.touch()
    folder = mounted(image)
    for name in ("a/one", "a/b/two", "kept", "a/linked"):
        path = pathlib.Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(1024**2))
    os.link(f"{folder}/a/linked", f"{folder}/copied")

    def used(*excludes):
        systems = [{"mount": "/", "used": 1 << 40}, {"mount": folder, "used": 10 * 1024**2}]
        io_disks.subtract(systems, excludes)
        assert systems[0]["used"] == 1 << 40
        return systems[1]["used"] // 1024**2

    assert used() == used("/does/not/exist", f"{folder}/no*", f"{folder}/**/two") == 10
    assert used(f"{folder}/a") == used(f"{folder}/a/**", f"{folder}/a/b") == 8
    assert used(f"{folder}/a/b/*", f"{folder}/kep?") == 8
    # an excluded file system is left out as a whole
    assert used(folder) == 10


def test_what_excludes_leave_out_is_measured_for_a_limited_time(tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_bytes(b"x" * 100_000)
    mount = str(tmp_path.parent)
    systems = [{"mount": mount, "used": 10**6}]
    monkeypatch.setattr(io_disks, "_MEASURE", -1.0)
    io_disks.subtract(systems, [str(tmp_path / "a")])
    assert systems == [{"mount": mount, "used": 10**6}]
    monkeypatch.setattr(io_disks, "_MEASURE", 60.0)
    io_disks.subtract(systems, [str(tmp_path / "a")])
    assert systems[0]["used"] <= 10**6 - 100_000


@pytest.mark.parametrize(("code", "raises"), [(127, False), (1, True)])
def test_subvolumes_that_cannot_be_listed_are_an_error(table, monkeypatch, code, raises):
    """Their content would be missing in the copy, and the comparison does not cross their boundary either."""
    table("/", fstype="btrfs")
    monkeypatch.setattr(io_disks, "_SUBVOLUME", 2)

    def run(argv, **unused):
        raise CommandError(argv, code, "ERROR: can't perform the search: Operation not permitted")

    monkeypatch.setattr(io_disks, "run", run)
    if raises:
        with pytest.raises(CommandError, match="not permitted"):
            io_disks.filesystems()
    else:
        assert found() == ["/"]
