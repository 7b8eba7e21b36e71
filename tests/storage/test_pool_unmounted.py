# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A host comes back without the file system of a pool: below the mount point is an empty folder, and libvirt takes it for the pool."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import typing as t

import pytest

from storage_host import MIB, StorageHost

DISK = {"size": "16 MiB", "pool": "apart"}


class Apart:
    """A pool on a file system of its own, mounted for this process and for libvirt, whose mounts are its own."""

    def __init__(self, host: StorageHost) -> None:
        self.folder = host.folder.parent / "apart"
        self._daemon = (host.folder.parent / "run" / "libvirtd.pid").read_text(encoding="ascii").strip()
        image = host.folder.parent / "apart.img"
        with image.open("wb") as stream:
            stream.truncate(256 * MIB)
        subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
        self.device = subprocess.run(["losetup", "--find", "--show", str(image)], check=True, capture_output=True, text=True).stdout.strip()
        self.folder.mkdir(exist_ok=True)
        self.mount()
        self.pools = {}
        for kind, connection in host.connections.items():
            if kind == "qemu":
                xml = f"<pool type='dir'><name>apart</name><target><path>{self.folder}</path></target></pool>"
                self.pools[kind] = connection.storagePoolDefineXML(xml)
                self.pools[kind].create()

    def _both(self, *argv: str) -> None:
        subprocess.run(argv, check=True)
        subprocess.run(["nsenter", "--target", self._daemon, "--mount", "--", *argv], check=True)

    def mount(self) -> None:
        """Mount the file system."""
        self._both("mount", self.device, str(self.folder))

    def restart_without(self, host: StorageHost) -> None:
        """What a start of the host is for its VMs and pools, when the file system is missing then."""
        for connection in host.connections.values():
            for domain in connection.listAllDomains():
                if domain.isActive():
                    domain.destroy()
        self.pools["qemu"].destroy()
        self._both("umount", str(self.folder))
        # it starts with the host: a folder is there
        self.pools["qemu"].create()

    def close(self) -> None:
        """Nothing is left."""
        for pool in self.pools.values():
            if pool.isActive():
                pool.destroy()
            pool.undefine()
        for prefix in ([], ["nsenter", "--target", self._daemon, "--mount", "--"]):
            subprocess.run([*prefix, "umount", str(self.folder)], check=False, capture_output=True)
        subprocess.run(["losetup", "--detach", self.device], check=True)
        if not os.path.ismount(self.folder):
            # what a failed test left below the mount point
            shutil.rmtree(self.folder)


@pytest.fixture(name="apart")
def fixture_apart(host: StorageHost) -> t.Iterator[Apart]:
    """The pool, mounted."""
    apart = Apart(host)
    yield apart
    host.clear()
    apart.close()


def all_of(host: StorageHost, *vms: t.Mapping[str, t.Any], **options: t.Any) -> list[t.Any]:
    """The results of a call, after those of check mode, which say the same."""
    foreseen = host.call(*vms, check=True, **options).vms
    results = host.call(*vms, **options).vms
    assert [(one.error, one.actions) for one in foreseen] == [(one.error, one.actions) for one in results]
    return results


def test_nothing_is_created_below_an_unmounted_mount_point(host: StorageHost, apart: Apart) -> None:
    old, new, bystander = {"id": "old", "disks": [DISK]}, {"id": "new", "disks": [DISK]}, {"id": "by", "disks": [{"size": "1 MiB"}]}
    host.one(old)
    with (apart.folder / "old-disk0.img").open("r+b") as stream:
        stream.write(b"precious")
    apart.restart_without(host)
    for unused in range(2):
        results = all_of(host, old, new, bystander)
        for vm in results[:2]:
            assert vm.error is not None and not vm.changed
            for word in ("disks[0].pool", "pool apart", str(apart.folder), "is not mounted", "Mount it"):
                assert word in vm.error, vm.error
        assert results[2].error is None
        assert list(apart.folder.iterdir()) == []
    assert not host.domain("old").isActive()
    apart.mount()
    assert [vm.actions for vm in all_of(host, old, bystander)] == [["start"], []]
    assert [vm.changed for vm in all_of(host, old, bystander)] == [False, False]
    assert (apart.folder / "old-disk0.img").read_bytes()[:8] == b"precious"
    # and the new one is created where it belongs
    assert "create_volume apart/new-disk0.img" in all_of(host, new)[0].actions
    assert pathlib.Path(apart.folder, "new-disk0.img").exists()


def test_neither_disks_nor_seed_are_removed_or_written_there(host: StorageHost, apart: Apart) -> None:
    vm = {"id": "old", "disks": [DISK], "user_data": "#cloud-config"}
    host.one(vm, pool="apart", state="present")
    apart.restart_without(host)
    for options in ({"state": "absent", "remove_disks": True}, {"state": "present"}):
        assert "is not mounted" in (all_of(host, vm, pool="apart", **options)[0].error or "")
    assert list(apart.folder.iterdir()) == []
    assert host.domain("old") is not None
    apart.mount()
    assert not host.call(vm, pool="apart", state="present").vms[0].changed
