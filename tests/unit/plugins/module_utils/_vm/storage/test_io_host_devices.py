# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Devices that a VM must not write to, because the host does; with folders like those of sysfs."""

from __future__ import annotations

import types

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import (
    io_disk_identity,
    io_host_devices,
    model_storage,
    plan_disk_users,
    run_removal,
    run_users,
)

ROOT = "22 1 253:0 / / rw,relatime shared:1 - ext4 /dev/mapper/vg0-root rw"
BTRFS = "23 1 0:31 / /mnt/my\\040data rw,relatime - btrfs /dev/mapper/vg0-data rw"
SWAPS = "Filename\tType\tSize\tUsed\tPriority\n/dev/dm-2 partition\t1\t0\t-2\n"
NUMBERS = {"/dev/mapper/vg0-root": "253:0", "/dev/mapper/vg0-data": "253:1", "/dev/dm-2": "253:2"}


@pytest.fixture(name="host")
def fixture_host(tmp_path, monkeypatch):
    monkeypatch.setattr(io_host_devices, "_number_of", NUMBERS.get)
    (tmp_path / "mounts").write_bytes(f"{ROOT}\n{BTRFS}\n".encode() + b"24 1 0:5 / /mnt/\xff rw - tmpfs tmpfs rw\n")
    (tmp_path / "swaps").write_text(SWAPS, "utf-8")
    for name, number in (("dm-0", "253:0"), ("dm-1", "253:1"), ("dm-2", "253:2"), ("dm-3", "253:3"), ("sda", "8:0"), ("sdb", "8:16"), ("sdc", "8:32")):
        (tmp_path / name / "holders").mkdir(parents=True)
        (tmp_path / name / "dev").write_text(f"{number}\n", "ascii")
    (tmp_path / "sda/sda1/holders/dm-0/dm").mkdir(parents=True)
    (tmp_path / "sda/sda1/holders/dm-0/dm/name").write_text("vg0-root\n", "ascii")
    (tmp_path / "sda/sda1/dev").write_text("8:1\n", "ascii")
    (tmp_path / "sda/sda1/partition").write_text("1\n", "ascii")
    (tmp_path / "sdb/holders/md0").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("dm-0", "dm-0 is mounted at /"),
        ("dm-1", "dm-1 is mounted at /mnt/my data"),
        ("dm-2", "dm-2 is swap"),
        ("dm-3", None),
        ("sda", "sda1 is part of vg0-root"),
        ("sdb", "sdb is part of md0"),
        ("sdc", None),
    ],
)
def test_devices_of_the_host(host, name, reason):
    assert io_host_devices.used_because(str(host / name), str(host / "mounts"), str(host / "swaps")) == reason


def test_a_new_disk_on_a_device_of_the_host_is_refused(monkeypatch):
    monkeypatch.setattr(io_host_devices, "used_because", lambda device: "dm-0 is mounted at /" if device.endswith("/dm-0") else None)
    users = run_users.DiskUsers({}, lambda uri: types.SimpleNamespace(folders={}), True)
    work = types.SimpleNamespace(host=types.SimpleNamespace(uri="qemu:///system"), prepared=None)
    use = plan_disk_users.Use("u", "web", "disk vda", "/dev/vg0/root", ("/dev/dm-0", "/sys/devices/virtual/block/dm-0"))
    with pytest.raises(RefusedError, match=r"/dev/vg0/root \(disk vda of the VM web\) is used by this host: dm-0 is mounted at /"):
        users._check_place(work, use)
    users._check_place(work, use._replace(writes=False))
    users._check_place(work, use._replace(path="/dev/vg0/web", keys=("/dev/dm-1", "/sys/devices/virtual/block/dm-1")))


def test_a_device_of_the_host_is_not_removed_with_a_vm(monkeypatch):
    # the VM may never have been created, because its details name a volume of the host
    monkeypatch.setattr(io_host_devices, "used_because", lambda device: "dm-0 is mounted at /" if device.endswith("/root") else None)
    monkeypatch.setattr(io_disk_identity.Identities, "of", lambda self, path: io_disk_identity.Identity((path, f"/sys/devices{path}")))
    pool = model_storage.Pool("vg0", "logical", "/dev/vg0", False)
    candidates = {f"/dev/vg0/{name}": (pool, name) for name in ("root", "web")}
    reasons = run_removal._reasons(types.SimpleNamespace(folders={}), candidates, (), {})
    assert reasons == {"/dev/vg0/root": "this host uses it: dm-0 is mounted at /"}
