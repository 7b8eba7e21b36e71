# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""File systems of a new host for an old source: without features that its boot loader, kernel and fsck do not know."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.io_image import DiskImage, mkfs_argv
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.model_disk import DiskLayout, PlannedPartition
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.model_features import arguments, lacking, version_in
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases.run_context import layout_of
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.model_migration import parse_spec
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_vm import parse_vms


def facts(kernel, grub, e2fsprogs):
    versions = {"grub": grub and f"grub-install (GRUB) {grub}", "e2fsprogs": e2fsprogs and f"e2fsck {e2fsprogs} (28-Feb-2021)"}
    return {"kernels": [f"{kernel}.0-28-amd64", "0-rescue-0123456789"], "versions": versions}


BULLSEYE = facts("5.10", "2.06-3~deb11u6", "1.46.2")
BOOKWORM = facts("6.1", "2.06-13+deb12u2", "1.47.0")
TRIXIE = facts("6.12", "2.12-9", "1.47.2")


@pytest.mark.parametrize(
    ("source", "fs", "off"),
    [
        (BULLSEYE, "ext4", {"^metadata_csum_seed", "^orphan_file"}),
        (BULLSEYE, "xfs", {"nrext64=0", "exchange=0", "parent=0"}),
        (BULLSEYE, "btrfs", {"^block-group-tree"}),
        (BOOKWORM, "ext4", {"^metadata_csum_seed"}),
        (BOOKWORM, "xfs", {"nrext64=0", "exchange=0", "parent=0"}),
        (BOOKWORM, "btrfs", set()),
        (TRIXIE, "ext4", set()),
        # GRUB 2.12 knows it, but misreads folders
        (TRIXIE, "xfs", {"nrext64=0", "exchange=0", "parent=0"}),
        (facts("5.4", "2.04", "1.45.5"), "xfs", {"bigtime=0", "inobtcount=0", "nrext64=0", "exchange=0", "parent=0"}),
        (facts("3.10", "2.02~beta2", "1.42.9"), "ext4", {"^64bit", "^metadata_csum", "^metadata_csum_seed", "^orphan_file"}),
        # unknown is not new
        (facts("6.12", None, None), "ext4", {"^64bit", "^metadata_csum", "^metadata_csum_seed", "^orphan_file"}),
        ({**TRIXIE, "kernels": []}, "btrfs", {"^block-group-tree"}),
        ({**TRIXIE, "kernels": [*TRIXIE["kernels"], "5.10.0-1-amd64"]}, "btrfs", {"^block-group-tree"}),
        (BULLSEYE, "vfat", set()),
        (BULLSEYE, "swap", set()),
    ],
)
def test_features_of_another_age_are_turned_off(source, fs, off):
    assert {value for _option, value in lacking(fs, source)} == off


def test_an_older_mkfs_gets_no_features_that_it_does_not_know():
    off = lacking("xfs", facts("3.10", "2.02", "1.42.9"))
    assert arguments("xfs", off, (5, 0)) == ["-i", "sparse=0", "-m", "reflink=0,rmapbt=0"]
    assert arguments("xfs", off, (6, 1)) == ["-i", "sparse=0,nrext64=0", "-m", "reflink=0,rmapbt=0,bigtime=0,inobtcount=0"]
    assert arguments("ext4", lacking("ext4", BULLSEYE), (1, 46)) == ["-O", "^metadata_csum_seed"]
    assert arguments("ext4", lacking("ext4", BULLSEYE), ()) == []


def test_versions_are_compared_by_number():
    assert version_in("grub-install (GRUB) 2.06-13") < version_in("grub2-install (GRUB) 2.12") < version_in("2.14")
    assert version_in("mkfs.btrfs, part of btrfs-progs v6.14") == (6, 14) and version_in("mke2fs 1.47.0 (5-Feb-2023)") == (1, 47)
    assert version_in("no version") == () < version_in("0.97")


def test_the_layout_keeps_them_in_the_journal():
    spec = parse_spec(
        {
            "vm": {"id": "master", "ram": 2, "nics": [{"bridge": "b"}], "disks": [{"size": 6}]},
            "admin": {"address": "192.0.2.2", "temporary_address": "192.0.2.3"},
            "disk_schema": [{"mount": "/"}, {"mount": "/srv", "fs": "xfs", "size": "1GiB"}],
        }
    )
    vm = parse_vms([spec.vm], cluster="c")[0]
    layout = layout_of(spec, vm, {**BULLSEYE, "filesystems": []})
    assert [each.lacking for each in layout.partitions] == [lacking("ext4", BULLSEYE), lacking("xfs", BULLSEYE)]
    assert DiskLayout.from_dict(json.loads(json.dumps(layout.as_dict()))) == layout
    assert [each.lacking for each in layout_of(spec, vm, None).partitions] == [(), ()]


NEW_DEFAULTS = """[defaults]
    base_features = sparse_super,large_file,filetype,resize_inode,dir_index,ext_attr
    inode_size = 256
[fs_types]
    ext4 = {
        features = has_journal,extent,huge_file,flex_bg,metadata_csum,metadata_csum_seed,64bit,dir_nlink,extra_isize,orphan_file
    }
"""


def planned(fs, source, size=400 * 1024**2):
    return PlannedPartition(1, "/", fs, 0, size, "6d1d2c5e-52f4-5d0b-9c7a-0f2b7e5f4a11", "p", None, lacking=lacking(fs, source))


def made(tmp_path, partition):
    """What the program for it says about a file system that this machine's mkfs made with the defaults of the newest e2fsprogs."""
    image = tmp_path / "image"
    image.touch()
    os.truncate(image, partition.size)
    (tmp_path / "mke2fs.conf").write_text(NEW_DEFAULTS)
    tool = subprocess.run([f"mkfs.{partition.fs}", "-V"], check=True, capture_output=True, text=True)
    argv = mkfs_argv(partition, str(image), version_in(tool.stdout + tool.stderr))
    subprocess.run(argv, check=True, env={**os.environ, "MKE2FS_CONFIG": str(tmp_path / "mke2fs.conf")})
    show = {"ext4": ["dumpe2fs", "-h"], "xfs": ["xfs_db", "-r", "-c", "info"]}[partition.fs]
    return subprocess.run([*show, str(image)], check=True, capture_output=True, text=True).stdout


def test_this_machines_mkfs_makes_file_systems_for_old_sources(tmp_path):
    old, new = made(tmp_path, planned("ext4", BULLSEYE)), made(tmp_path, planned("ext4", TRIXIE))
    assert "metadata_csum_seed" in new and "orphan_file" in new
    assert "metadata_csum_seed" not in old and "orphan_file" not in old and "metadata_csum" in old
    old, new = made(tmp_path, planned("xfs", facts("5.4", "2.04", "1.45.5"))), made(tmp_path, planned("xfs", TRIXIE))
    assert "bigtime=1" in new and "bigtime=0" in old and "inobtcount=0" in old and "nrext64=0" in old


def test_the_version_of_mkfs_is_read_before_it_is_used(tmp_path, monkeypatch):
    made_with = []
    monkeypatch.setattr(DiskImage, "attach", lambda self: None)
    monkeypatch.setattr(DiskImage, "node", lambda self, partition: str(tmp_path / "node"))
    from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks import io_image

    real = io_image.run
    monkeypatch.setattr(io_image, "run", lambda argv, **options: made_with.append(argv) or (real(argv) if "-V" in argv else None))
    DiskImage(["x"], DiskLayout((), (planned("ext4", BULLSEYE),)), tmp_path).make_filesystems()
    (argv,) = [each for each in made_with if each[0] == "mkfs.ext4" and "-V" not in each]
    assert argv[argv.index("-O") + 1] == "^metadata_csum_seed,^orphan_file"
