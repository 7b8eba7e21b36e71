# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A volume that exists already never becomes the disk of a VM that asked for one from an image, unless the caller names it."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import io_domains
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.io_volumes import VolumeStore
from storage_host import POOL, StorageHost, killed

NAMES = {"raw": "a-disk0.img", "qcow2": "a-disk0.qcow2", "dir": "a-disk0"}


def vm(form: str, image: str, *more: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """A VM whose first disk is made from an image."""
    first = {"image": image, "format": form, **({} if form == "dir" else {"size": "16 MiB"})}
    return {"id": "a", "hypervisor": "lxc" if form == "dir" else "qemu", "disks": [first, *more]}


def refused(host: StorageHost, details: t.Mapping[str, t.Any], kind: str = "qemu", **options: t.Any) -> str:
    """The error of a call about one VM, which changes nothing; check mode says the same."""
    there = host.volumes()
    foreseen, result = (host.call(details, kind=kind, check=check, **options).vms[0] for check in (True, False))
    assert (foreseen.error, foreseen.actions, foreseen.changed) == (result.error, [], False)
    assert host.volumes() == there and not result.changed
    assert result.error is not None
    return result.error


@pytest.mark.parametrize("form", NAMES)
def test_the_kept_disk_of_a_removed_vm_is_not_the_new_one_silently(host: StorageHost, form: str) -> None:
    kind, template = ("lxc", {"template": "lxc"}) if form == "dir" else ("qemu", {})
    for image in ("old", "new"):
        host.root_image(image) if form == "dir" else host.image(f"{image}.qcow2")
    call: dict[str, t.Any] = {"kind": kind, "state": "present", **template}
    assert host.call(vm(form, "old"), **call).vms[0].error is None
    host.call({"id": "a"}, kind=kind, state="absent")
    for image in ("old", "new"):
        error = refused(host, vm(form, image), **call)
        for word in ("vms[0].disks[0].image", str(host.folder / NAMES[form]), f"adopt_disks: [{NAMES[form]}]"):
            assert word in error, error
    made = host.call(vm(form, "new"), adopt_disks=[NAMES[form]], **call).vms[0]
    assert (made.error, [each for each in made.actions if "volume" in each]) == (None, [])
    # it is the disk of the VM from now on, whether it is named or not
    for options in ({}, {"adopt_disks": [f"{POOL}/{NAMES[form]}"]}):
        result = host.call(vm(form, "new"), **call, **options).vms[0]
        assert (result.error, result.changed) == (None, False)


def test_an_added_disk_of_a_vm_counts_as_well(host: StorageHost) -> None:
    host.image("os.qcow2")
    added = {"image": "os", "name": "other", "size": "16 MiB"}
    host.one(vm("qcow2", "os"), state="present")
    host.one({"id": "b", "disks": [added]}, state="present")
    host.call({"id": "b"}, state="absent")
    assert "vms[0].disks[1].image" in refused(host, vm("qcow2", "os", added), state="present")
    host.one(vm("qcow2", "os", added), state="present", adopt_disks=["other"])
    # a detached one of its own is not foreign
    disk = f"<disk type='file' device='disk'><source file='{host.folder}/other'/><target dev='vdb' bus='virtio'/></disk>"
    host.domain("a").detachDeviceFlags(disk)
    assert host.one(vm("qcow2", "os", added), state="present").actions == ["redefine"]


KILLS = [(VolumeStore, "create", True), (io_domains.DomainHost, "define", False), (io_domains.DomainHost, "define", True)]


@pytest.mark.parametrize("owner, step, after", KILLS)
def test_an_added_disk_of_a_killed_run_is_not_foreign(host: StorageHost, owner: t.Any, step: str, after: bool) -> None:
    host.image("os.qcow2")
    host.one(vm("qcow2", "os"), state="present")
    details = vm("qcow2", "os", {"image": "os", "size": "16 MiB"})
    killed(owner, step, after, lambda: host.call(details, state="present"))
    assert "a-disk1.img" in host.volumes()
    # not killed at "define" and after it: nothing is left to do
    assert host.one(details, state="present").actions == ([] if after and step == "define" else ["redefine"])
    assert "pending_disk" not in host.domain("a").XMLDesc(2)


def test_without_an_image_the_content_is_what_is_wanted(host: StorageHost) -> None:
    host.one({"id": "a", "disks": [{"size": "16 MiB"}]}, state="present")
    host.call({"id": "a"}, state="absent")
    assert host.one({"id": "a", "disks": [{"size": "16 MiB"}]}, state="present").actions[0] == "define"


def test_a_disk_to_adopt_must_exist(host: StorageHost) -> None:
    host.image("os.qcow2")
    error = refused(host, vm("qcow2", "os"), state="present", adopt_disks=["a-disk0.qcow2"])
    assert "vms[0].disks[0]" in error and "does not exist" in error
    with pytest.raises(InputError, match=r"adopt_disks\[0\].*Did you mean a-disk0.qcow2"):
        host.call(vm("qcow2", "os"), adopt_disks=["a-disk0.img"])
    with pytest.raises(InputError, match="adopt_disks"):
        host.call(vm("qcow2", "os"), state="absent", adopt_disks=["a-disk0.qcow2"])


def test_vms_that_share_a_disk_are_created_one_after_the_other(host: StorageHost) -> None:
    host.image("os.qcow2")
    shared = {"image": "os", "name": "shared.img", "size": "16 MiB", "shareable": True}
    for name in ("a", "b"):
        host.one({"id": name, "disks": [{"size": "4 MiB"}, shared]}, state="present")
