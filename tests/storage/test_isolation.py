# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A pool that is off or gone is the trouble of the VMs that have a disk in it, and of no other."""

from __future__ import annotations

import pathlib
import subprocess
import typing as t

import pytest

from storage_host import StorageHost

SECOND: dict[str, t.Any] = {"id": "b", "disks": [{"size": "4 MiB"}]}


class OtherPool:
    """A second pool, which fails."""

    def __init__(self, host: StorageHost, folder: pathlib.Path) -> None:
        self.host = host
        self.folder = folder
        self.virsh("pool-define-as", "other", "dir", "--target", str(folder))
        self.virsh("pool-start", "other")

    def virsh(self, *argv: str) -> None:
        """Ask the libvirt of these tests."""
        subprocess.run(["virsh", "--quiet", "--connect", self.host.uris["qemu"], *argv], check=True)

    def fail(self, how: str) -> None:
        """Off, or no longer defined."""
        self.virsh("pool-destroy", "other")
        if how == "gone":
            self.virsh("pool-undefine", "other")


@pytest.fixture(name="other")
def fixture_other(host: StorageHost, tmp_path: pathlib.Path) -> t.Iterator[OtherPool]:
    pool = OtherPool(host, tmp_path)
    yield pool
    for step in ("pool-destroy", "pool-undefine"):
        subprocess.run(["virsh", "--quiet", "--connect", host.uris["qemu"], step, "other"], check=False, capture_output=True)


@pytest.mark.parametrize("how, says", [("off", "the storage pool 'other' is not active"), ("gone", "the host has no storage pool 'other'")])
@pytest.mark.parametrize("exists", [False, True])
def test_the_others_are_done(host: StorageHost, other: OtherPool, how: str, says: str, exists: bool) -> None:
    first = {"id": "a", "disks": [{"size": "4 MiB", "pool": "other"}]}
    if exists:
        host.one(first, state="present")
    other.fail(how)
    for check in (True, False):
        result = host.call(first, SECOND, check=check)
        assert f"vms[0].disks[0].pool: {says}" in (result.vms[0].error or "")
        assert result.vms[0].actions == []
        assert (result.vms[1].error, result.vms[1].state) == (None, "running")
        assert result.vms[1].actions == ["define", "create_volume footprint-test/b-disk0.img", "autostart_on", "start"]
        assert "1 of 2 VMs failed, the others are done. a: " in result.as_result()["msg"]
    assert [vm.changed for vm in host.call(first, SECOND).vms] == [False, False]
    for check in (True, False):
        result = host.call(first, SECOND, check=check, state="absent", remove_disks=True)
        assert says in (result.vms[0].error or "")
        assert (result.vms[1].error, result.vms[1].state) == (None, "absent")
    assert host.volumes() == []
    if exists:
        # what is there of the first one was not touched
        assert host.domain("a").name() == "a" and (other.folder / "a-disk0.img").exists()
