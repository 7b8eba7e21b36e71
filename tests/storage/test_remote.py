# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""VMs of another host: volumes, images and seeds through libvirt, and no file of this side in their place."""

from __future__ import annotations

import pathlib
import stat
import subprocess
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from remote_host import IMAGES, RemoteHost
from storage_host import MIB

DISKS: list[dict[str, t.Any]] = [{"size": "4 MiB"}, {"size": "8 MiB", "format": "qcow2"}]
SECRET = "hunter2-äöü"


def test_disks_are_created_grown_and_removed_there(remote: RemoteHost) -> None:
    (remote.folder / "a-disk0.img").write_bytes(b"of this side")
    made = remote.one({"id": "a", "disks": DISKS})
    assert made.actions == ["define", "create_volume remote/a-disk0.img", "create_volume remote/a-disk1.qcow2", "autostart_on", "start"]
    assert [disk["capacity_bytes"] for disk in made.disks] == [4 * MIB, 8 * MIB]
    assert remote.volumes() == ["a-disk0.img", "a-disk1.qcow2"]
    assert {stat.S_IMODE((remote.files / name).stat().st_mode) for name in remote.volumes()} == {0o600}
    larger = [dict(disk, size="16 MiB") for disk in DISKS]
    grown = remote.one({"id": "a", "disks": larger})
    assert grown.actions == ["grow_volume remote/a-disk0.img", "grow_volume remote/a-disk1.qcow2"]
    assert remote.domain("a").blockInfo("vdb")[0] == 16 * MIB
    remote.one({"id": "a", "disks": larger}, state="shutdown")
    largest = [dict(disk, size="32 MiB") for disk in DISKS]
    assert len(remote.one({"id": "a", "disks": largest}, state="shutdown").actions) == 2
    assert remote.facts(remote.files / "a-disk1.qcow2")["virtual-size"] == 32 * MIB
    smaller = remote.call({"id": "a", "disks": DISKS}, state="shutdown").vms[0].error or ""
    assert smaller.startswith("vms[0].disks[0].size: the volume") and "shrinking would destroy data" in smaller
    gone = remote.one({"id": "a"}, state="absent", remove_disks=True, wipe=True)
    assert gone.actions == ["wipe_volume remote/a-disk0.img", "wipe_volume remote/a-disk1.qcow2", "undefine"]
    assert remote.volumes() == []
    # the file of this side with the same path was neither read nor changed
    assert remote.ours() == ["a-disk0.img", "images"] and (remote.folder / "a-disk0.img").read_bytes() == b"of this side"


def test_disks_are_made_from_images_of_that_host(remote: RemoteHost) -> None:
    remote.image("base.qcow2")
    (remote.folder / "images" / "base.qcow2").write_bytes(b"of this side")
    disks = [{"image": "base", "size": "32 MiB"}, {"image": "base", "format": "qcow2"}, {"image": "base", "format": "qcow2", "backing": True, "size": "16 MiB"}]
    remote.one({"id": "a", "disks": disks})
    sizes = {name: remote.facts(remote.files / name)["virtual-size"] // MIB for name in remote.volumes()}
    assert sizes == {"a-disk0.img": 32, "a-disk1.qcow2": 8, "a-disk2.qcow2": 16}
    with (remote.files / "a-disk0.img").open("rb") as raw:
        raw.seek(MIB)
        assert raw.read(4) == b"\x5a" * 4
    layer = remote.facts(remote.files / "a-disk2.qcow2")
    assert (layer["backing-filename"], layer["backing-filename-format"]) == (str(remote.folder / "images" / "base.qcow2"), "qcow2")
    remote.one({"id": "a"}, state="absent", remove_disks=True)
    assert remote.volumes() == [] and (remote.images / "base.qcow2").exists()


@pytest.mark.parametrize("form", ["qcow2", "raw"])
def test_an_image_of_this_side_is_uploaded_once(remote: RemoteHost, tmp_path: pathlib.Path, form: str) -> None:
    remote.image(f"base.{form}", form)
    (remote.images / f"base.{form}").rename(tmp_path / f"base.{form}")
    # a killed upload
    (remote.images / f"base.{form}.partial").write_bytes(b"half")
    disk = {"image": "base", "format": "qcow2", "backing": True, "size": "16 MiB"}
    vms = [{"id": "a", "disks": [disk]}, {"id": "b", "disks": [disk, disk]}]
    options = {"images_path": str(tmp_path), "state": "present"}
    foreseen, done = remote.call(*vms, check=True, **options), remote.call(*vms, **options)
    assert [vm.actions for vm in foreseen.vms] == [vm.actions for vm in done.vms]
    assert done.vms[0].actions[:3] == ["define", f"upload_image {IMAGES}/base.{form}", "create_volume remote/a-disk0.qcow2"]
    assert not any("upload" in action for action in done.vms[1].actions)
    assert [path.name for path in remote.images.iterdir()] == [f"base.{form}"]
    compared = subprocess.run(["qemu-img", "compare", str(tmp_path / f"base.{form}"), str(remote.images / f"base.{form}")], check=True, capture_output=True)
    assert b"identical" in compared.stdout
    assert not remote.call(*vms, **options).as_result()["changed"]
    # with the image there, nothing of this side is needed
    assert remote.call({"id": "c", "disks": [disk]}, state="present").vms[0].error is None


def seed_of(remote: RemoteHost, tmp_path: pathlib.Path) -> str:
    into = tmp_path / "extracted"
    argv = ["xorriso", "-no_rc", "-osirrox", "on", "-indev", str(remote.files / "a-seed.iso"), "-extract", "/user-data", str(into)]
    subprocess.run(argv, check=True, capture_output=True)
    text = into.read_text()
    into.unlink()
    return text


def test_a_seed_is_written_there_and_compared(remote: RemoteHost, tmp_path: pathlib.Path) -> None:
    vm = {"id": "a", "user_data": {"password": SECRET}}
    assert remote.one(vm).actions == ["define", "write_seed remote/a-seed.iso", "autostart_on", "start"]
    assert SECRET in seed_of(remote, tmp_path) and remote.ours() == ["images"]
    assert stat.S_IMODE((remote.files / "a-seed.iso").stat().st_mode) == 0o600
    changed = remote.one(dict(vm, user_data="#cloud-config\n{}\n"))
    assert (changed.actions, changed.restart_required) == (["write_seed remote/a-seed.iso"], True)
    assert seed_of(remote, tmp_path) == "#cloud-config\n{}\n"
    remote.one({"id": "a"}, state="absent", remove_disks=True)
    assert remote.volumes() == []


def test_a_missing_volume_is_not_made_again(remote: RemoteHost) -> None:
    vm = {"id": "a", "disks": [{"size": "4 MiB"}]}
    remote.one(vm, state="present")
    (remote.files / "a-disk0.img").unlink()
    (remote.folder / "a-disk0.img").write_bytes(b"of this side")
    remote.connections["qemu"].storagePoolLookupByName("remote").refresh()
    assert "a-disk0.img" in (remote.call(vm, state="present").vms[0].error or "")
    assert remote.one(vm, state="present", recreate_disks=["a-disk0.img"]).error is None


@pytest.mark.parametrize(
    ("vm", "options", "path", "says"),
    [
        ({"hypervisor": "lxc"}, {}, "vms[0].hypervisor", "containers are not supported over a remote connection."),
        ({}, {"kind": "lxc"}, "vms[0].hypervisor", "containers are not supported over a remote connection."),
        ({"disks": [{"image": "none"}]}, {}, "vms[0].disks[0].image", "the base image 'none' is not a volume of the pool remote"),
        ({"disks": [{"image": "none"}]}, {"images_path": "/nonexistent"}, "vms[0].disks[0].image", "the base image 'none' is not a volume of the pool remote"),
    ],
)
def test_what_is_not_possible_is_refused(remote: RemoteHost, vm: dict[str, t.Any], options: dict[str, t.Any], path: str, says: str) -> None:
    for check in (True, False):
        with pytest.raises(InputError) as raised:
            remote.call(dict(vm, id="a"), check=check, **options)
        assert raised.value.path == path and raised.value.message.startswith(says) and raised.value.hint
    assert remote.volumes() == []


def test_an_image_that_needs_another_is_refused(remote: RemoteHost) -> None:
    base = remote.image("base.qcow2")
    there = str(remote.folder / "images" / "base.qcow2")
    subprocess.run(["qemu-img", "create", "-q", "-u", "-f", "qcow2", "-b", there, "-F", "qcow2", str(base.with_name("layer.qcow2")), "8M"], check=True)
    result = remote.call({"id": "a", "disks": [{"image": "layer"}]}, {"id": "b"})
    assert "needs a backing file" in (result.vms[0].error or "") and result.vms[1].error is None
