# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two disks with every file system, created, mounted, released and mounted again by this machine's kernel."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.copy.plan_fixups_fstab import fix_fstab
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.io_image import DiskImage, loops_of, mount_options
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.model_disk import DiskLayout, Partition
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.plan_layout import plan_layout
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.io_disks import filesystems
from tests.support.own_mounts import own_mounts

GIB, MIB = 1024**3, 1024**2
SUBVOLUMES = (("/", "@"), ("/home", "@home"), ("/var/log", "@logs/var"))
WANTED = (
    Partition("/boot/efi", "vfat", 64 * MIB, options="fmask=0077,dmask=0077"),
    Partition("/", "btrfs", None, options="compress=zstd:1", subvolumes=SUBVOLUMES),
    Partition(None, "swap", None, percent=10),
    Partition("/srv", "xfs", None, percent=50, disk=1),
    Partition("/data", "ext4", None, disk=1),
)


@pytest.fixture(name="image")
def fixture_image(tmp_path: pathlib.Path) -> t.Iterator[DiskImage]:
    """Create two empty files as disks."""
    layout = plan_layout([3 * GIB, 2 * GIB], WANTED, (), "6d1d2c5e-52f4-5d0b-9c7a-0f2b7e5f4a11", "efi")
    images = [tmp_path / f"disk{number}.raw" for number in range(2)]
    for path, disk in zip(images, layout.disks):
        path.touch()
        os.truncate(path, disk.size)
    image = DiskImage([str(path) for path in images], layout, tmp_path / "work")
    with own_mounts():
        try:
            image.write_table()
            image.make_filesystems()
            yield image
        finally:
            image.release()


def mismatched(image: DiskImage) -> list[str]:
    """List partitions whose content differs from the layout."""
    found = []
    for each in image.layout.partitions:
        argv = ["blkid", "-p", "-s", "UUID", "-o", "value", image.node(each)]
        if subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip().lower() != each.uuid.lower():
            found.append(image.node(each))
    return found


def table(root: pathlib.Path) -> dict[str, tuple[str, str]]:
    """Return the mounts below the folder: path → (file system, options)."""
    said = subprocess.run(["findmnt", "--json", "--list", "--output", "TARGET,FSTYPE,OPTIONS", "--submounts", str(root)], check=True, capture_output=True)
    return {each["target"][len(str(root)) :] or "/": (each["fstype"], each["options"]) for each in json.loads(said.stdout)["filesystems"]}


def test_file_systems_are_mounted_as_laid_out(image: DiskImage) -> None:
    root = pathlib.Path(image.mount().place("/"))
    found = table(root)
    assert {path: fs for path, (fs, _options) in found.items()} == {
        "/": "btrfs", "/home": "btrfs", "/var/log": "btrfs", "/srv": "xfs", "/data": "ext4",
    }  # fmt: skip
    # on this host its device nodes and set-user-ID programs are ineffective
    assert all({"nodev", "nosuid"} <= set(options.split(",")) for _fs, options in found.values())
    assert "subvol=/@home" in found["/home"][1] and "compress=zstd:1" in found["/"][1] and "subvol=/@logs/var" in found["/var/log"][1]
    assert mismatched(image) == []


def test_content_is_kept_after_mounting_again(image: DiskImage) -> None:
    root = pathlib.Path(image.mount().place("/"))
    for place in ("home/a", "srv/b", "data/c", "var/log/d"):
        (root / place).write_text(place)
    image.release()
    assert not os.path.ismount(root) and not [loop for path in image.images for loop in loops_of(path)]
    again = DiskImage(image.images, DiskLayout.from_dict(json.loads(json.dumps(image.layout.as_dict()))), image.work)
    root = pathlib.Path(again.mount().place("/"))
    assert [(root / place).read_text() for place in ("home/a", "srv/b", "data/c", "var/log/d")] == ["home/a", "srv/b", "data/c", "var/log/d"]
    again.release()


def test_boot_files_of_the_firmware_are_written_completely(image: DiskImage) -> None:
    esp = image.layout.esp
    assert esp is not None
    folder = pathlib.Path(image.mount().place("/boot/efi")) / "EFI"
    for round_number in (1, 2):
        (folder / "BOOT").mkdir(parents=True, exist_ok=True)
        (folder / "BOOT" / "BOOTX64.EFI").write_bytes(b"x" * 100_000 * round_number)
        (folder / f"a long name {round_number}.cfg").write_text("search\n")
        image.pack()
        node = image.node(esp)
        subprocess.run(["fsck.vfat", "-n", node], check=True)
        said = subprocess.run(["mdir", "-i", node, "-/", "-b", "::/"], check=True, capture_output=True, encoding="utf-8").stdout.split("\n")
        assert {"::/EFI/BOOT/BOOTX64.EFI", f"::/EFI/a long name {round_number}.cfg"} <= set(said)
        read = subprocess.run(["mtype", "-i", node, "::/EFI/BOOT/BOOTX64.EFI"], check=True, capture_output=True).stdout
        assert len(read) == 100_000 * round_number
        (folder / f"a long name {round_number}.cfg").unlink()
    assert "a long name 1.cfg" not in " ".join(said)
    assert mismatched(image) == []


def test_partition_types_are_those_firmware_and_kernels_expect(image: DiskImage) -> None:
    kinds = []
    for path in image.images:
        said = json.loads(subprocess.run(["sfdisk", "--json", path], check=True, capture_output=True).stdout)["partitiontable"]
        assert said["label"] == "gpt"
        kinds.append([each["type"][:8] for each in said["partitions"]])
    assert kinds == [["21686148", "C12A7328", "0FC63DAF", "0657FD6D"], ["0FC63DAF", "0FC63DAF"]]


@pytest.mark.parametrize(
    ("mount", "option"),
    [
        ("/data", "prjquota"), ("/data", "journal_path=/dev/sdz1"), ("/data", "dax"), ("/data", "sb=7"),
        ("/srv", "logdev=/dev/sdz1"), ("/srv", "sunit=128,swidth=512"), ("/", "device=/dev/sdz1"), ("/", "nospace_cache"), ("/", "space_cache=v1"),
    ],
)  # fmt: skip
def test_options_of_old_file_systems_do_not_prevent_a_mount(image: DiskImage, mount: str, option: str) -> None:
    image.attach()
    (place,) = (each for each in image.layout.mounts if each.mount == mount)
    node, fs = image.node(place.partition), place.partition.fs
    folder = image.work / "tried"
    folder.mkdir()
    with pytest.raises(subprocess.CalledProcessError):
        subprocess.run(["mount", "-t", fs, "-o", option, node, str(folder)], check=True, capture_output=True)
    fixed = fix_fstab(f"UUID=x {mount} {fs} {option},noatime 0 0\n", image.layout).split(" ")
    assert fixed[3].startswith("noatime")
    subprocess.run(["mount", "-t", fs, "-o", fixed[3], node, str(folder)], check=True)
    subprocess.run(["umount", str(folder)], check=True)


def test_source_with_these_disks_is_detected(image: DiskImage) -> None:
    root = pathlib.Path(image.mount().place("/"))
    subprocess.run(["btrfs", "--quiet", "subvolume", "create", str(root / "machines")], check=True)
    subprocess.run(["btrfs", "--quiet", "subvolume", "snapshot", "-r", str(root / "home"), str(root / "frozen")], check=True)
    (root / "bound").mkdir()
    subprocess.run(["mount", "--bind", str(root / "home"), str(root / "bound")], check=True)
    found = {each["mount"][len(str(root)) :] or "/": each for each in filesystems() if each["mount"].startswith(str(root))}
    assert {path: each["subvolume"] for path, each in found.items()} == {
        "/": "@", "/home": "@home", "/var/log": "@logs/var", "/machines": None, "/srv": None, "/data": None,
    }  # fmt: skip
    assert found["/"]["options"] == "compress=zstd:1"
    assert found["/srv"]["size"] == next(each.size for each in image.layout.partitions if each.mount == "/srv")
    assert found["/srv"]["disks"] == found["/data"]["disks"] != found["/"]["disks"] != []


def test_nothing_is_mounted_or_read_outside_of_the_copy(image: DiskImage, tmp_path: pathlib.Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "key").write_text("secret")
    root = pathlib.Path(image.mount().place("/"))
    subprocess.run(["umount", str(root / "data")], check=True)
    (root / "data").rmdir()
    (root / "data").symlink_to(outside)
    with pytest.raises(BackendError, match="/data of the copy cannot be used"):
        image.mount()
    # as on the source, where the link leads to a folder of its own
    (root / "srv/data").mkdir()
    (root / "data").unlink()
    (root / "data").symlink_to("/srv/data")
    image.mount()
    assert set(table(root)) == {"/", "/home", "/var/log", "/srv", "/srv/data"} and image.mounted()["/data"] == str(root / "srv/data")
    (root / "boot/efi/EFI").mkdir()
    for name in ("k", "EFI/k"):
        (root / "boot/efi" / name).symlink_to(outside / "key")
        with pytest.raises(BackendError, match=f"/boot/efi/{name} of the copy is neither a file nor a folder"):
            image.pack()
        (root / "boot/efi" / name).unlink()
    assert [each.name for each in outside.iterdir()] == ["key"] and not os.path.ismount(outside)


def test_names_and_options_from_the_source_stay_in_the_copy(tmp_path: pathlib.Path) -> None:
    volumes = (("/", "@"), ("/x", "../../../outside/x"), ("/y", "@,ro"))
    wanted = (Partition("/", "btrfs", None, options="compress=zstd:1,loop=/dev/loop0,x-mount.mkdir", subvolumes=volumes),)
    layout = plan_layout([GIB], wanted, (), "6d1d2c5e-52f4-5d0b-9c7a-0f2b7e5f4a11", "bios")
    assert mount_options(layout.mounts[0]) == "noatime,nodev,nosuid,compress=zstd:1,subvol=/@"
    with pytest.raises(BackendError, match="comma in its name"):
        mount_options(next(each for each in layout.mounts if each.mount == "/y"))
    path = tmp_path / "disk.raw"
    path.touch()
    os.truncate(path, layout.size)
    image = DiskImage([str(path)], layout, tmp_path / "work" / "deep")
    with own_mounts():
        try:
            image.write_table()
            image.make_filesystems()
            assert not (tmp_path / "outside").exists()
        finally:
            image.release()
