# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which uses of two VMs go together."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import plan_disk_users
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.plan_disk_users import Use


def use(vm: str, path: str, **how: t.Any) -> Use:
    """A use of a path by a VM."""
    return Use(vm, vm, "vda", path, how.pop("keys", (path,)), **how)


READ: dict[str, t.Any] = {"writes": False}
FOLDER: dict[str, t.Any] = {"folder": True}
ROOT: dict[str, t.Any] = {"folder": True, "root": True}
LAYER: dict[str, t.Any] = {"writes": False, "layer": True}

CASES: list[tuple[str, Use, Use, str | None]] = [
    ("different disks", use("a", "/p/a"), use("b", "/p/b"), None),
    ("one disk", use("a", "/p/x"), use("b", "/p/x"), "/p/x (vda of the VM a) is also vda of the VM b."),
    ("one disk, two names", use("a", "/p/x", keys=("/p/x", "inode:1:2")), use("b", "/q/y", keys=("/q/y", "inode:1:2")), "with the path /q/y."),
    ("both only read it", use("a", "/p/x.iso", **READ), use("b", "/p/x.iso", **READ), None),
    ("one of them writes", use("a", "/p/b-seed.iso"), use("b", "/p/b-seed.iso", **READ), "is also vda of the VM b."),
    ("the other one writes", use("a", "/p/x", **READ), use("b", "/p/x"), "is also vda of the VM b."),
    ("both share it", use("a", "/p/x", shareable=True), use("b", "/p/x", shareable=True), None),
    ("only one shares it", use("a", "/p/x", shareable=True), use("b", "/p/x"), "is also vda of the VM b."),
    ("only the other one shares it", use("a", "/p/x"), use("b", "/p/x", shareable=True), "is also vda of the VM b."),
    ("one image behind both", use("a", "/p/base", **LAYER), use("b", "/p/base", **LAYER), None),
    ("its image is written to", use("a", "/p/base", **LAYER), use("b", "/p/base"), "is a backing file of this disk, and the VM b writes to it (vda)."),
    ("writes to the other one's image", use("a", "/p/base"), use("b", "/p/base", **LAYER), "is a backing file of the disk vda of the VM b; writing to it"),
    ("one folder of the host", use("a", "/srv", **FOLDER), use("b", "/srv", **FOLDER), None),
    ("one volume of a pool", use("a", "/p/x", volume=True, **FOLDER), use("b", "/p/x", **FOLDER), "is also"),
    ("one root", use("a", "/p/x", **ROOT), use("b", "/p/x", **ROOT), "is also"),
    ("a folder with a disk in it", use("a", "/p", **FOLDER), use("b", "/p/x"), "overlap: one contains the other."),
    ("a folder with a root in it", use("a", "/p", **FOLDER), use("b", "/p/x", **ROOT), "overlap: one contains the other."),
    ("a folder with an image in it", use("a", "/p", **FOLDER), use("b", "/p/images/base", **LAYER), "overlap: one contains the other."),
    ("a folder that is only read", use("a", "/p", **FOLDER, **READ), use("b", "/p/x"), None),
    ("in the root of a container", use("a", "/p/x/disk"), use("b", "/p/x", **ROOT), "overlap: one contains the other."),
    ("in a folder a container has of the host", use("a", "/p/x"), use("b", "/p", **FOLDER), None),
    ("a container that has all of the host", use("a", "/p/x"), use("b", "/", **ROOT), None),
    ("nearly the same name", use("a", "/p/xy", **ROOT), use("b", "/p/x", **ROOT), None),
    ("a device and its partition", use("a", "/sys/devices/sda"), use("b", "/sys/devices/sda/sda1"), "overlap: one contains the other."),
    ("a partition and its device", use("a", "/sys/devices/sda/sda1"), use("b", "/sys/devices/sda"), "overlap: one contains the other."),
    ("a device another one's is made of", use("a", "/sys/devices/sda"), use("b", "/sys/devices/sda/sda1", **LAYER), "overlap: one contains the other."),
    ("two devices made of one", use("a", "/sys/devices/sda", **LAYER), use("b", "/sys/devices/sda", **LAYER), None),
]


@pytest.mark.parametrize("mine, other, says", [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_two_vms(mine: Use, other: Use, says: str | None) -> None:
    users = plan_disk_users.Users()
    users.add(other)
    sentences = [conflict.sentence for conflict in users.conflicts(mine)]
    assert (says is not None) == bool(sentences)
    if says is not None:
        assert says in sentences[0] and mine.path in sentences[0]
        # both VMs are named, and nothing is reported twice
        assert "the VM a" in sentences[0] and "the VM b" in sentences[0]
        assert len(sentences) == len(set(sentences)) == 1


def test_one_vm_with_one_disk_twice() -> None:
    twice = [use("a", "/p/x"), use("a", "/p/x")._replace(device="vdb")]
    assert [conflict.sentence for conflict in plan_disk_users.clashes(twice)] == ["/p/x (vdb of the VM a) is also vda of the same VM."]
    assert plan_disk_users.clashes([each._replace(shareable=True) for each in twice]) == []
    # a container sees a folder of its root wherever it likes
    assert plan_disk_users.clashes([use("a", "/p/x", **ROOT), use("a", "/p/x/srv", **FOLDER)]) == []


def test_what_a_vm_had_already() -> None:
    had = [use("a", "/p/x", **READ), use("a", "/p/y", keys=("/p/y", "inode:1:2"))]
    assert plan_disk_users.known(use("a", "/p/x", **READ), had)
    assert not plan_disk_users.known(use("a", "/p/x"), had)
    assert plan_disk_users.known(use("a", "/q/z", keys=("/q/z", "inode:1:2")), had)
    assert not plan_disk_users.known(use("a", "/p/z"), had)
