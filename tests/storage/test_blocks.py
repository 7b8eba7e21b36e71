# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pools other than folders.

A volume group needs the device mapper, which not every kernel has. Where libvirt makes block
devices, a pool of type ``disk`` (partitions of a loop device) stands in for ``logical`` here: the same
calls on our side, real block devices below. What partitions cannot do is tried in tests/lvm, on a
server with a kernel of its own.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import pathlib
import subprocess
import typing as t

import libvirt
import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError, InputError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import io_volume_pools, io_volumes
from storage_host import MIB, StorageHost

FORK = multiprocessing.get_context("fork")


def run(*argv: str) -> str:
    """Return the output of a command."""
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture(name="device")
def fixture_device(tmp_path: pathlib.Path) -> t.Iterator[str]:
    """Create a block device for the test."""
    backing = tmp_path / "device.img"
    with backing.open("wb") as stream:
        stream.truncate(128 * MIB)
    device = run("losetup", "--find", "--show", str(backing))
    yield device
    subprocess.run(["partx", "--delete", device], check=False, capture_output=True)
    run("losetup", "--detach", device)


@contextlib.contextmanager
def pool_of(host: StorageHost, xml: str, build: int | None = None) -> t.Iterator[t.Any]:
    """Build and start a pool; remove it afterwards."""
    pool = host.connections["qemu"].storagePoolDefineXML(xml)
    try:
        if build is not None:
            pool.build(build)
        pool.create()
        yield pool
    finally:
        host.clear()
        if pool.isActive():
            pool.destroy()
        pool.undefine()


@pytest.fixture(name="blocks")
def fixture_blocks(host: StorageHost, device: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> t.Iterator[str]:
    """Create a pool of partitions; return the required name of its next volume."""
    monkeypatch.setattr(io_volumes, "_MARKERS", tmp_path / "markers")
    xml = f"<pool type='disk'><name>blocks</name><source><device path='{device}'/><format type='gpt'/></source><target><path>/dev</path></target></pool>"
    with pool_of(host, xml, libvirt.VIR_STORAGE_POOL_BUILD_OVERWRITE):
        yield f"{pathlib.Path(device).name}p1"


def test_empty_volumes_are_created_on_block_devices(host: StorageHost, blocks: str) -> None:
    vm = {"id": "a", "disks": [{"size": "20 MiB", "pool": "blocks", "name": blocks}]}
    made = host.one(vm)
    assert made.actions == ["define", f"create_volume blocks/{blocks}", "autostart_on", "start"]
    assert made.disks == [{"name": blocks, "pool": "blocks", "path": f"/dev/{blocks}", "capacity_bytes": 20 * MIB, "allocation_bytes": 20 * MIB}]
    assert f"<source dev='/dev/{blocks}'" in host.domain("a").XMLDesc()
    assert int(run("blockdev", "--getsize64", f"/dev/{blocks}")) == 20 * MIB


def test_image_is_copied_to_a_block_device(host: StorageHost, blocks: str, tmp_path: pathlib.Path) -> None:
    # block devices have no folder for images: the call's pool lends its own
    host.image("tiny.qcow2")
    vm = {"id": "a", "disks": [{"size": "20 MiB", "pool": "blocks", "name": blocks, "image": "tiny"}]}
    host.one(vm, state="present")
    said = run("qemu-io", "-r", "-f", "raw", "-c", "read -P 0x5a 1M 64k", f"/dev/{blocks}")
    assert "failed" not in said
    assert list((tmp_path / "markers").iterdir()) == []


def test_killed_copy_is_repeated(host: StorageHost, blocks: str, tmp_path: pathlib.Path) -> None:
    host.image("tiny.qcow2")
    vm = {"id": "a", "disks": [{"size": "20 MiB", "pool": "blocks", "name": blocks, "image": "tiny"}]}

    def work() -> None:
        true = io_volume_pools.io_command.run

        def deadly(argv: t.Sequence[str], *arguments: t.Any, **options: t.Any) -> t.Any:
            if "convert" in argv:
                os.kill(os.getpid(), 9)
            return true(argv, *arguments, **options)

        io_volume_pools.io_command.run = deadly
        host.call(vm, state="present")

    victim = FORK.Process(target=work)
    victim.start()
    victim.join(60)
    assert victim.exitcode == -9 and [each.name for each in (tmp_path / "markers").iterdir()] == [f"blocks.{blocks}.unfinished"]
    run("qemu-io", "-f", "raw", "-c", "write -P 0 1M 64k", f"/dev/{blocks}")
    assert f"create_volume blocks/{blocks}" in host.one(vm, state="present").actions
    assert "failed" not in run("qemu-io", "-r", "-f", "raw", "-c", "read -P 0x5a 1M 64k", f"/dev/{blocks}")
    assert not list((tmp_path / "markers").iterdir())


def test_block_device_is_wiped_before_its_removal(host: StorageHost, blocks: str, device: str) -> None:
    vm = {"id": "a", "disks": [{"size": "20 MiB", "pool": "blocks", "name": blocks}]}
    host.one(vm, state="present")
    run("qemu-io", "-f", "raw", "-c", "write -P 0x5a 1M 64k", f"/dev/{blocks}")
    start = int(json.loads(run("sfdisk", "--json", device))["partitiontable"]["partitions"][0]["start"]) * 512
    removed = host.call({"id": "a"}, state="absent", remove_disks=True, wipe=True).vms[0]
    run("blockdev", "--flushbufs", device)
    with open(device, "rb") as stream:
        stream.seek(start + MIB)
        assert not stream.read(4096).strip(b"\0")
    if removed.error is None:
        assert removed.actions == [f"wipe_volume blocks/{blocks}", "undefine"]
    else:
        # libvirt cannot remove a partition of a device whose name ends in a digit: the error says so, and a wiped
        # volume is neither used again nor replaced without being asked
        assert "cannot remove the volume" in removed.error and host.domain("a") is not None
        assert "is missing" in host.call(vm, check=True).vms[0].error
        assert host.call(vm, check=True, recreate_disks=(blocks,)).vms[0].actions[0] == f"create_volume blocks/{blocks}"


def test_unsupported_operations_of_partitions_are_reported(host: StorageHost, blocks: str) -> None:
    vm: dict[str, t.Any] = {"id": "a", "disks": [{"size": "20 MiB", "pool": "blocks", "name": blocks}]}
    host.one(vm, state="present")
    larger = {"id": "a", "disks": [dict(vm["disks"][0], size="30 MiB")]}
    assert "cannot grow the volume" in host.call(larger, state="present").vms[0].error
    with pytest.raises(InputError, match="supports only raw volumes"):
        host.call({"id": "b", "disks": [{"size": "20 MiB", "pool": "blocks", "format": "qcow2"}]})
    with pytest.raises(FootprintError, match="does not support directories"):
        host.call({"id": "box", "disks": [{"pool": "blocks"}]}, kind="lxc")


def test_volume_without_space_is_refused_before_any_change(host: StorageHost, blocks: str) -> None:
    others = [f"{blocks[:-1]}{number}" for number in (2, 3)]
    greedy = {"id": "a", "disks": [{"size": f"{size} MiB", "pool": "blocks", "name": name} for size, name in zip((20, 120), others)]}
    modest = {"id": "b", "disks": [{"size": "20 MiB", "pool": "blocks", "name": blocks}]}
    for check in (True, False):
        done = host.call(greedy, modest, state="present", check=check)
        assert "need 140 MiB more in the pool blocks, which has 12" in done.vms[0].error, done.vms[0].error
        # what was refused to one is there for the next
        assert done.vms[1].error is None and f"create_volume blocks/{blocks}" in done.vms[1].actions
    assert not [name for name in others if pathlib.Path("/dev", name).exists()]


def test_pool_on_a_separate_file_system(host: StorageHost, device: str, tmp_path: pathlib.Path) -> None:
    run("mke2fs", "-q", device)
    folder = host.folder.parent / "mounted"
    folder.mkdir(exist_ok=True)
    xml = f"<pool type='fs'><name>mounted</name><source><device path='{device}'/></source><target><path>{folder}</path></target></pool>"
    with pool_of(host, xml):
        made = host.one({"id": "a", "disks": [{"size": "20 MiB", "pool": "mounted"}]}, state="present")
        assert made.disks[0]["pool"] == "mounted"
        grown = host.one({"id": "a", "disks": [{"size": "30 MiB", "pool": "mounted"}]}, state="present")
        assert grown.disks[0]["capacity_bytes"] == 30 * MIB
        host.one({"id": "a"}, state="absent", remove_disks=True)
        assert list(folder.glob("a-*")) == []
