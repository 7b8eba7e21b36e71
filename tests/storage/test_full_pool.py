# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A disk image in a pool that becomes full: writes to it do not fail, so the migration checks for lost writes."""

from __future__ import annotations

import os
import pathlib
import subprocess
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import LostWriteError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.io_image import DiskImage
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.model_disk import Partition
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.plan_layout import plan_layout
from storage_host import MIB
from tests.support.own_mounts import own_mounts

SIZE = 1024 * MIB
SPACE = "6d1d2c5e-52f4-5d0b-9c7a-0f2b7e5f4a11"


@pytest.fixture(name="apart")
def fixture_apart() -> t.Iterator[None]:
    """Use a separate mount namespace, as the worker does; namespaces of concurrent tests would keep these mounts."""
    with own_mounts():
        yield


@pytest.fixture(name="disk", params=["ext4", "xfs"])
def fixture_disk(request: pytest.FixtureRequest, apart: None, tmp_path: pathlib.Path) -> t.Iterator[DiskImage]:
    """Create a disk of 1 GiB with a file system, in a pool with space for 200 MiB."""
    pool = tmp_path / "pool"
    pool.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200m", "pool", str(pool)], check=True)
    image = pool / "disk.img"
    with image.open("wb") as stream:
        stream.truncate(SIZE)
    disk = DiskImage([str(image)], plan_layout([SIZE], (Partition("/", request.param, None),), (), SPACE), tmp_path / "work")
    try:
        disk.write_table()
        disk.make_filesystems()
        disk.mount()
        yield disk
    finally:
        disk.detach()
        subprocess.run(["umount", str(pool)], check=True)


def write(disk: DiskImage, name: str, size: int) -> bytes:
    """Write a file as a copying program does; return its content."""
    content = os.urandom(size)
    pathlib.Path(disk.tree.place("/"), name).write_bytes(content)
    return content


def test_data_within_the_space_are_on_the_disk(disk: DiskImage) -> None:
    content = write(disk, "some", 40 * MIB)
    disk.settle()
    disk.detach()
    disk.mount()
    assert pathlib.Path(disk.tree.place("/some")).read_bytes() == content


def test_lost_write_is_reported_although_the_data_can_be_read(disk: DiskImage) -> None:
    content = write(disk, "much", 220 * MIB)
    assert pathlib.Path(disk.tree.place("/much")).read_bytes() == content
    with pytest.raises(LostWriteError) as raised:
        disk.settle()
    assert raised.value.path == "pool" and str(disk.images[0]) in raised.value.message, raised.value


def test_recreated_file_systems_reuse_the_space(disk: DiskImage) -> None:
    write(disk, "much", 220 * MIB)
    with pytest.raises(LostWriteError):
        disk.settle()
    disk.write_table()
    disk.make_filesystems()
    disk.mount()
    content = write(disk, "some", 100 * MIB)
    disk.settle()
    disk.detach()
    disk.mount()
    assert pathlib.Path(disk.tree.place("/some")).read_bytes() == content


def test_boot_loader_outside_the_file_systems_is_flushed(disk: DiskImage, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = []
    true = os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (synced.append(os.readlink(f"/proc/self/fd/{handle}")), true(handle))[1])
    disk.settle()
    assert synced == [disk.loop, disk.images[0]]


def test_detached_disk_is_not_flushed(disk: DiskImage) -> None:
    disk.detach()
    disk.settle()
