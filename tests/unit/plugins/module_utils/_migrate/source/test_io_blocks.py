# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Block devices as /sys shows them; folders stand in for what machines that run tests do not have."""

from __future__ import annotations

import os
import pathlib
import stat
import types

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source import io_blocks

MIB = 1024**2


@pytest.fixture(name="machine")
def fixture_machine(tmp_path, monkeypatch):
    """A disk with a used and an unused partition, volumes of LVM and what LVM has for itself, an empty drive, a reader, memory."""
    classes = tmp_path / "class"
    classes.mkdir()
    nodes: dict[str, int] = {}

    def make(path, number, *, size=MIB, partition=False, holders=(), dm=None, removable=False, backing=None):
        place = tmp_path / "devices" / path
        place.mkdir(parents=True)
        (place / "dev").write_text(number + "\n")
        (place / "size").write_text(f"{size // 512}\n")
        if partition:
            (place / "partition").write_text("1\n")
        for each in holders:
            (place / "holders" / each).mkdir(parents=True)
        if dm:
            (place / "dm").mkdir()
            (place / "dm" / "uuid").write_text(dm)
        if removable:
            (place / "removable").write_text("1\n")
        if backing:
            (place / "loop").mkdir()
            (place / "loop" / "backing_file").write_text(backing + "\n")
        (classes / place.name).symlink_to(place)
        major, minor = map(int, number.split(":"))
        nodes[f"/dev/{place.name}"] = os.makedev(major, minor)

    helper = "a" * 64
    make("sda", "8:0")
    make("sda/sda1", "8:1", partition=True)
    make("sda/sda2", "8:2", partition=True)
    make("sda/sda3", "8:3", partition=True, holders=["dm-0"])
    make("dm-0", "253:0", dm=f"LVM-{helper}")
    make("dm-1", "253:1", dm=f"LVM-{helper}-tpool")
    make("sdb", "8:16", removable=True, size=0)
    make("sdc", "8:32", removable=True)
    make("sr0", "11:0")
    make("zram0", "252:0")
    make("mmcblk0boot0", "179:8")
    make("loop3", "7:3", backing=__file__)
    make("loop4", "7:4", backing="/somewhere/else")
    make("sdd", "8:48")
    del nodes["/dev/sdd"]
    links = {"/dev/vg0/ora": "/dev/dm-0", "/dev/mapper/vg0-ora": "/dev/dm-0"}
    links.update({"/dev/disk/by-partuuid/1": "/dev/sda2", "/dev/disk/by-id/ata-1-part2": "/dev/sda2"})
    names: dict[str, list[str]] = {}
    for name, number in [*nodes.items(), *((link, nodes[node]) for link, node in links.items())]:
        names.setdefault(f"{os.major(number)}:{os.minor(number)}", []).append(name)
    monkeypatch.setattr(io_blocks, "SYS_CLASS", classes)
    monkeypatch.setattr(io_blocks, "_names", lambda numbers: {number: sorted(found) for number, found in names.items() if number in numbers})
    monkeypatch.setattr(io_blocks, "_opened", lambda: {"253:0"})
    table = [{"device": "/dev/sda1", "id": "8:1", "mount": "/", "fstype": "ext4"}]
    disks = types.SimpleNamespace(mounts=lambda: table, swaps=lambda: ([], []), device=lambda path: {"disks": ["sda"], "layers": []})
    monkeypatch.setattr(io_blocks, "io_disks", disks)
    real = os.stat

    def fake(path, *args, **more):
        node = links.get(str(path), str(path))
        if node in nodes:
            return types.SimpleNamespace(st_mode=stat.S_IFBLK | 0o660, st_rdev=nodes[node], st_uid=3, st_gid=6)
        return real(path, *args, **more)

    monkeypatch.setattr(io_blocks, "os", types.SimpleNamespace(**{**vars(os), "stat": fake}))
    said = {"/dev/sda2": "DEVNAME=/dev/sda2\nPART_ENTRY_UUID=1\nPART_ENTRY_NAME=my\\ raw\nPART_ENTRY_TYPE=0FC6\n"}
    monkeypatch.setattr(io_blocks, "run", lambda argv, **more: types.SimpleNamespace(stdout=said.get(argv[-1], "")))
    return types.SimpleNamespace(table=table, said=said, classes=pathlib.Path(classes))


def test_only_unused_devices_are_listed(machine):
    assert [each["path"] for each in io_blocks.blocks()] == ["/dev/mapper/vg0-ora", "/dev/loop4", "/dev/disk/by-partuuid/1", "/dev/sdc"]


def test_facts_of_each_device(machine):
    volume, loop, partition, drive = io_blocks.blocks()
    assert volume["open"] and not volume["whole"] and volume["links"] == ["/dev/dm-0", "/dev/mapper/vg0-ora", "/dev/vg0/ora"]
    assert loop["loop"] and not volume["loop"]
    assert (partition["label"], partition["kind"], partition["size"], partition["owner"], partition["mode"]) == ("my raw", "0fc6", MIB, 3, 0o660)
    assert drive["whole"] and drive["removable"]


def test_a_pool_of_zfs_is_not_called_unused(machine):
    machine.said["/dev/sda2"] = "TYPE=zfs_member\nUSAGE=filesystem\n"
    assert "zfs_member" in [each["content"] for each in io_blocks.blocks()]
    machine.table.append({"device": "tank/home", "id": "0:40", "mount": "/home", "fstype": "zfs"})
    assert "zfs_member" not in [each["content"] for each in io_blocks.blocks()]


def test_a_machine_without_block_devices_has_none(monkeypatch, tmp_path):
    monkeypatch.setattr(io_blocks, "SYS_CLASS", tmp_path / "none")
    assert io_blocks.blocks() == []
