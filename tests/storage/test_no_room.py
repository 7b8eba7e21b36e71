# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A pool that becomes full while a volume is created: the error reports the sizes, and no partial volume is left."""

from __future__ import annotations

import os
import pathlib
import subprocess
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_vm import parse_vms
from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot import io_seed
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import io_images, io_room, io_volume_files
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.model_storage import Pool
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.plan_volumes import plan_volume
from storage_host import MIB, StorageHost
from tests.support.own_mounts import own_mounts

DISKS: dict[str, dict[str, t.Any]] = {
    "copied to raw": {"image": "large"},
    "copied to qcow2": {"image": "large", "format": "qcow2"},
    "unpacked": {"image": "tree"},
}


@pytest.fixture(name="pool", params=["tmpfs", "ext4"])
def fixture_pool(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> t.Iterator[Pool]:
    """A pool on a file system of 48 MiB."""
    folder = tmp_path / "pool"
    folder.mkdir()
    with own_mounts():
        if request.param == "tmpfs":
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m,nr_inodes=400", "pool", str(folder)], check=True)
        else:
            device = tmp_path / "device"
            with device.open("wb") as stream:
                stream.truncate(48 * MIB)
            subprocess.run(["mkfs.ext4", "-q", "-m", "0", "-N", "400", "-O", "^has_journal", str(device)], check=True)
            subprocess.run(["mount", "-o", "loop", str(device), str(folder)], check=True)
        try:
            (folder / "images").mkdir()
            yield Pool("small", "dir", str(folder))
        finally:
            subprocess.run(["umount", str(folder)], check=True)


def create(pool: Pool, hypervisor: str = "qemu", **disk: t.Any) -> None:
    """One volume, created as vm_define does."""
    one = parse_vms([{"id": "a", "hypervisor": hypervisor, "disks": [disk]}], cluster="storage")[0].disks[0]
    folder = pathlib.Path(pool.path)
    image = None
    if "image" in disk:
        tar = hypervisor == "lxc"
        image = io_images.inspect(disk["image"], folder / "images" / f"{disk['image']}{'.tar' if tar else '.raw'}", tar, "d")
    io_volume_files.create(plan_volume(one, pool, None, image, "d"), folder / one.name)


def fill(pool: Pool, left: int) -> pathlib.Path:
    """Take all room but some bytes."""
    space = os.statvfs(pool.path)
    filler = pathlib.Path(pool.path, "images", "filler")
    filler.write_bytes(bytes(space.f_bavail * space.f_frsize - left))
    return filler


def content(pool: Pool) -> list[str]:
    """What is in the pool."""
    return sorted(name for name in os.listdir(pool.path) if name != "lost+found")


def large(pool: Pool, kind: str) -> None:
    """A base image with 26 MiB that cannot be packed: the pool has no room for its content a second time."""
    random = os.urandom(26 * MIB)
    place = pathlib.Path(pool.path) / "images"
    if kind == "unpacked":
        tree = place.parent.parent / "tree"
        (tree / "sbin").mkdir(parents=True)
        (tree / "sbin" / "init").write_bytes(random)
        subprocess.run(["tar", "--create", "--file", str(place / "tree.tar"), "--directory", str(tree), "."], check=True)
    else:
        (place / "large.raw").write_bytes(random)


@pytest.mark.parametrize("kind", DISKS)
def test_the_reason_and_the_sizes_are_in_the_error(pool: Pool, kind: str) -> None:
    large(pool, kind)
    hypervisor = "lxc" if kind == "unpacked" else "qemu"
    for unused in range(2):
        with pytest.raises(BackendError) as raised:
            create(pool, hypervisor, **DISKS[kind])
        error = str(raised.value)
        for words in ("the pool small has no room left", f"{pool.path}/a-disk0", " needs ", "26.", "are free in"):
            assert words in error, error
        assert "nstall" not in error and "python" not in error, error
        assert content(pool) == ["images"]


def test_no_inodes_are_another_reason_than_no_bytes(pool: Pool) -> None:
    for number in range(os.statvfs(pool.path).f_favail):
        pathlib.Path(pool.path, "images", f"x{number}").touch()
    with pytest.raises(BackendError, match="has no inodes left .*in all.*MiB are free"):
        create(pool, size="1 MiB")
    assert content(pool) == ["images"]


@pytest.mark.parametrize("left", [16384, 80 * 1024])
def test_a_seed_that_has_no_room(pool: Pool, left: int) -> None:
    fill(pool, left)
    seeded = parse_vms([{"id": "a", "hypervisor": "qemu", "user_data": "#cloud-config\n# " + "x" * 60000}], cluster="storage")[0]
    with pytest.raises(BackendError, match="the pool small has no room left.*are free") as raised, io_room.explained(pool, f"{pool.path}/a-seed.iso"):
        io_seed.write_iso(pathlib.Path(pool.path, "a-seed.iso"), seeded.cloud_init)
    assert "nstall" not in str(raised.value)
    assert content(pool) == ["images"]


def test_a_seed_in_a_root_leaves_nothing_half_written(pool: Pool) -> None:
    root = pathlib.Path(pool.path, "root")
    (root / "var" / "lib" / "cloud" / "seed" / "nocloud").mkdir(parents=True)
    fill(pool, 8192)
    seeded = parse_vms([{"id": "a", "hypervisor": "lxc", "user_data": "#cloud-config\n# " + "x" * 60000}], cluster="storage")[0]
    with pytest.raises(BackendError, match="the pool small has no room left"), io_room.explained(pool, str(root)):
        io_seed.write_tree(str(root), seeded.cloud_init)
    assert list(root.rglob("*partial*")) == []


def test_another_failure_keeps_its_own_words(pool: Pool) -> None:
    (pathlib.Path(pool.path) / "images" / "large.raw").write_bytes(bytes(MIB))
    with pytest.raises(BackendError, match="qemu-img ended with exit code") as raised:
        io_volume_files.run_tool(["qemu-img", "convert", "-f", "qcow2", "-O", "raw", f"{pool.path}/images/large.raw", f"{pool.path}/x"], "qemu-utils")
    assert "nstall" not in str(raised.value)


def test_vm_define_reports_the_vm_and_completes_it_later(host: StorageHost) -> None:
    with own_mounts():
        # libvirt itself need not see this file system: nothing is started
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "pool", str(host.folder)], check=True)
        try:
            host.images.mkdir()
            filler = fill(Pool("", "dir", str(host.folder)), 16384)
            details = {"id": "a", "disks": [{"size": "16 MiB", "format": "qcow2"}]}
            error = host.call(details, state="present").vms[0].error or ""
            assert "the pool footprint-test has no room left" in error and "48 MiB are free" in error, error
            assert host.volumes() == []
            filler.unlink()
            completed = host.call(details, state="present").vms[0]
            assert completed.error is None and "create_volume footprint-test/a-disk0.qcow2" in completed.actions
            assert not host.call(details, state="present").vms[0].changed
        finally:
            subprocess.run(["umount", str(host.folder)], check=True)


def test_a_missing_program_is_still_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(BackendError, match="qemu-img.*Install qemu-utils"):
        io_volume_files.run_tool(["qemu-img", "create", "x"], "qemu-utils")
