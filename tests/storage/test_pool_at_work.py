# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Concurrent processes in one pool, also killed: each gets a complete volume, and no remains are left."""

from __future__ import annotations

import multiprocessing
import os
import pathlib
import random
import subprocess
import time
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core import io_lock
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domains import DomainHost
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_vm import parse_vms
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.io_volumes import VolumeStore
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.plan_volumes import plan_volume
from storage_host import MIB, POOL, StorageHost

FORK = multiprocessing.get_context("fork")
MANY = 20
ROUNDS = int(os.environ.get("TORTURE_ROUNDS", "6"))


@pytest.fixture(name="locks", autouse=True)
def fixture_locks(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a separate lock folder."""
    monkeypatch.setattr(io_lock, "lock_folder", lambda: tmp_path / "locks")


def make(uri: str, name: str, disk: t.Mapping[str, t.Any], wait: float = 60) -> bool:
    """Create a volume over a separate connection; return whether this process created it."""
    with DomainHost(uri) as host:
        store = VolumeStore(host, lock_timeout=wait)
        pool = store.pool(POOL, "pool")
        one = parse_vms([{"id": name, "hypervisor": "qemu", "disks": [dict(disk)]}], cluster="storage")[0].disks[0]
        found = store.find(pool, one, "d")
        plan = plan_volume(one, pool, found, None if found else store.image(pool, one, "d"), "d")
        made = plan.creates and store.create(plan)
        store.refresh()
        return made


def _make(uri: str, name: str, disk: t.Mapping[str, t.Any], made: t.Any) -> None:
    if make(uri, name, disk):
        with made.get_lock():
            made.value += 1


def together(uri: str, names: t.Sequence[str], disk: t.Mapping[str, t.Any]) -> tuple[list[int | None], int]:
    """Run one process per name concurrently; return their exit codes and the number of created volumes."""
    made = FORK.Value("i", 0)
    workers = [FORK.Process(target=_make, args=(uri, name, disk, made)) for name in names]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(180)
    return [worker.exitcode for worker in workers], made.value


def test_twenty_concurrent_creations_in_one_pool(host: StorageHost) -> None:
    host.image("tiny.qcow2", size="16M")
    names = [f"vm{number}" for number in range(MANY)]
    codes, made = together(host.uris["qemu"], names, {"size": "20 MiB", "image": "tiny", "format": "qcow2"})
    assert (codes, made) == ([0] * MANY, MANY)
    assert host.volumes() == sorted(f"{name}-disk0.qcow2" for name in names)
    assert {host.facts(host.folder / name)["virtual-size"] for name in host.volumes()} == {20 * MIB}
    # and libvirt's own tools see them all
    pool = host.connections["qemu"].storagePoolLookupByName(POOL)
    assert set(host.volumes()) <= set(pool.listVolumes())


def test_twenty_concurrent_creations_of_one_volume(host: StorageHost) -> None:
    host.image("tiny.qcow2")
    codes, made = together(host.uris["qemu"], ["same"] * MANY, {"size": "20 MiB", "image": "tiny"})
    assert (codes, made) == ([0] * MANY, 1)
    assert host.volumes() == ["same-disk0.img"]


def test_lock_timeout_is_reported(host: StorageHost) -> None:
    with DomainHost(host.uris["qemu"]) as connection:
        store = VolumeStore(connection)
        with store.locked(store.pool(POOL, "pool")), pytest.raises(BackendError, match="another run has held .*pool-footprint-test"):
            make(host.uris["qemu"], "late", {"size": "1 MiB"}, wait=0.3)
    assert host.volumes() == []


DISKS = [{"size": "160 MiB", "image": "large"}, {"size": "160 MiB", "image": "large", "format": "qcow2"}, {"size": "4 GiB", "format": "qcow2"}]


@pytest.mark.parametrize("disk", DISKS, ids=["copy", "converted", "empty"])
def test_partial_volume_of_a_killed_process_is_not_used(host: StorageHost, disk: dict[str, t.Any]) -> None:
    image = host.image("large.qcow2", size="128M")
    subprocess.run(["qemu-io", "-f", "qcow2", "-c", "write -P 0x33 0 120M", str(image)], check=True, stdout=subprocess.DEVNULL)
    dice = random.Random(7)
    name = "a-disk0.qcow2" if disk.get("format") == "qcow2" else "a-disk0.img"
    for unused in range(ROUNDS):
        victim = FORK.Process(target=make, args=(host.uris["qemu"], "a", disk))
        victim.start()
        time.sleep(dice.uniform(0.02, 0.6))
        victim.kill()
        victim.join()
        # either nothing or a whole one
        if (host.folder / name).exists():
            break
    make(host.uris["qemu"], "a", disk)
    assert host.volumes() == [name]
    if "image" in disk:
        form = disk.get("format", "raw")
        said = subprocess.run(["qemu-io", "-r", "-f", form, "-c", "read -P 0x33 0 120M", str(host.folder / name)], capture_output=True, text=True, check=True)
        assert "failed" not in said.stdout
    assert host.facts(host.folder / name)["virtual-size"] == (4096 if "image" not in disk else 160) * MIB


def test_remains_of_other_processes_are_removed_by_the_next(host: StorageHost) -> None:
    (host.folder / ".gone-disk0.img.partial").write_bytes(b"half")
    (host.folder / ".tree.partial" / "etc").mkdir(parents=True)
    (host.folder / ".old.img.removing").write_bytes(b"half")
    wiping = host.folder / ".older.img.wiping"
    wiping.write_bytes(b"secret")
    # not created by the collection: must be kept
    (host.folder / ".hidden").write_bytes(b"kept")
    with wiping.open("rb") as stream:
        make(host.uris["qemu"], "a", {"size": "1 MiB"})
        assert stream.read() == bytes(6)
    assert host.volumes() == [".hidden", "a-disk0.img"]


def test_killed_removal_is_completed(host: StorageHost) -> None:
    dice = random.Random(3)
    vm = {"id": "a", "disks": [{"size": "64 MiB"}, {"size": "64 MiB"}]}
    for wipe in (True, False):
        for unused in range(ROUNDS // 2):
            host.call(vm, state="present")
            for number in range(2):
                (host.folder / f"a-disk{number}.img").write_bytes(os.urandom(MIB) * 64)
            victim = FORK.Process(target=host.call, args=(vm,), kwargs={"state": "absent", "remove_disks": True, "wipe": wipe})
            victim.start()
            time.sleep(dice.uniform(0.05, 0.8))
            victim.kill()
            victim.join()
            finished = host.call(vm, state="absent", remove_disks=True, wipe=wipe)
            assert (finished.vms[0].error, finished.vms[0].state, host.volumes()) == (None, "absent", [])
