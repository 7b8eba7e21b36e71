# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A disk image in a pool that runs full: whoever writes into it is told nothing, so the migration asks."""

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
    """As in the worker: other tests at the same time make namespaces, and would keep these mounts."""
    with own_mounts():
        yield


@pytest.fixture(name="disk", params=["ext4", "xfs"])
def fixture_disk(request: pytest.FixtureRequest, apart: None, tmp_path: pathlib.Path) -> t.Iterator[DiskImage]:
    """A disk of 1 GiB, with a file system of its own, in a pool that has room for 200 MiB."""
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
    """Write a file as a copying program does; what was written."""
    content = os.urandom(size)
    (disk.root / name).write_bytes(content)
    return content


def test_what_has_room_is_on_the_disk(disk: DiskImage) -> None:
    content = write(disk, "some", 40 * MIB)
    disk.settle()
    disk.detach()
    disk.mount()
    assert (disk.root / "some").read_bytes() == content


def test_what_has_no_room_in_the_pool_is_told_although_it_was_written_and_can_be_read(disk: DiskImage) -> None:
    content = write(disk, "much", 220 * MIB)
    assert (disk.root / "much").read_bytes() == content
    with pytest.raises(LostWriteError) as raised:
        disk.settle()
    assert raised.value.path == "pool" and str(disk.images[0]) in raised.value.message, raised.value


def test_file_systems_made_anew_have_the_room_of_those_before(disk: DiskImage) -> None:
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
    assert (disk.root / "some").read_bytes() == content


def test_a_boot_loader_beside_the_file_systems_is_settled_too(disk: DiskImage, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = []
    true = os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (synced.append(os.readlink(f"/proc/self/fd/{handle}")), true(handle))[1])
    disk.settle()
    assert synced == [disk.loop, disk.images[0]]


def test_a_disk_that_is_not_attached_has_nothing_to_settle(disk: DiskImage) -> None:
    disk.detach()
    disk.settle()
