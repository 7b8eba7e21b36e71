# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""No VM gets the folder of the base images or of a pool as its disk, and none is removed with a VM."""

from __future__ import annotations

import subprocess
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._move import io_look
from storage_host import StorageHost

BOX: dict[str, t.Any] = {"id": "box", "disks": [{"image": "root"}]}


def container(host: StorageHost, name: str, folder: str, mark: str = "") -> None:
    """A container with a folder of the host in it, as another tool or an earlier version defined it."""
    xml = (
        f"<domain type='lxc'><name>{name}</name><memory unit='MiB'>32</memory>{mark}<os><type>exe</type><init>/sbin/init</init></os>"
        f"<devices><filesystem type='mount'><source dir='{folder}'/><target dir='/'/></filesystem></devices></domain>"
    )
    host.connections["lxc"].defineXML(xml)


@pytest.fixture(name="inner")
def fixture_inner(host: StorageHost) -> t.Iterator[str]:
    """A pool in a folder of the other one."""
    folder = host.folder / "inner"
    folder.mkdir()
    argv = ["virsh", "--quiet", "--connect", host.uris["lxc"]]
    subprocess.run([*argv, "pool-create-as", "inner", "dir", "--target", str(folder)], check=True)
    yield "inner"
    subprocess.run([*argv, "pool-destroy", "inner"], check=True)


def test_a_disk_cannot_be_named_as_the_folder_of_the_base_images(host: StorageHost) -> None:
    host.root_image()
    box = {"id": "box", "disks": [{"name": "images"}]}
    for check in (True, False):
        # the folder is there already, and was taken for the disk
        results = host.call(dict(box, disks=[{"image": "root", "name": "images"}]), BOX | {"id": "other"}, kind="lxc", check=check).vms
        assert "'images' is the folder of the base images of the storage pool footprint-test" in (results[0].error or "")
        assert "vms[0].disks[0].name" in results[0].error
        # the other one is done
        assert (results[1].error, results[1].state) == (None, "running")
    machine = host.call({"id": "m", "disks": [{"size": "4 MiB", "name": "images"}]}).vms[0]
    assert "'images' is the folder of the base images" in (machine.error or "")
    assert host.volumes() == ["other-disk0"]


@pytest.mark.parametrize("wipe", [False, True])
def test_the_folder_of_the_base_images_is_never_removed(host: StorageHost, wipe: bool) -> None:
    image = host.image("tiny.qcow2")
    content = image.read_bytes()
    result = host.call({"id": "box", "disks": [{"name": "images"}]}, kind="lxc", state="absent", remove_disks=True, wipe=wipe)
    assert [warning for warning in result.warnings if "/images is kept: it is the folder of the base images" in warning]
    assert image.read_bytes() == content


def test_a_folder_that_holds_another_pool_is_not_a_disk(host: StorageHost, inner: str) -> None:
    host.root_image()
    precious = host.folder / inner / "precious.img"
    precious.write_bytes(b"precious")
    refused = host.call(dict(BOX, disks=[{"image": "root", "name": inner}]), kind="lxc").vms[0]
    assert "is or contains the folder of the storage pool inner" in (refused.error or "")
    result = host.call({"id": "box", "disks": [{"name": inner}]}, kind="lxc", state="absent", remove_disks=True, wipe=True)
    assert [warning for warning in result.warnings if "is kept: it is or contains the folder of the storage pool inner" in warning]
    assert precious.read_bytes() == b"precious"


@pytest.mark.parametrize("below", [True, False])
def test_what_another_container_has_in_its_folder_or_around_it_stays(host: StorageHost, below: bool) -> None:
    host.root_image()
    host.one(BOX, kind="lxc", state="present")
    root = host.folder / "box-disk0"
    container(host, "foreign", str(root / "srv" if below else host.folder))
    (root / "srv").mkdir()
    result = host.call({"id": "box"}, kind="lxc", state="absent", remove_disks=True)
    assert [warning for warning in result.warnings if "box-disk0 is kept: the domain foreign needs it" in warning]
    assert (result.vms[0].state, host.volumes()) == ("absent", ["box-disk0"])


def test_a_move_does_not_take_them_along(host: StorageHost, inner: str) -> None:
    for number, folder in enumerate((host.images, host.folder / inner)):
        container(host, f"box{number}", str(folder))
        found = io_look.describe(host.uris["lxc"], host.domain(f"box{number}", "lxc").UUIDString())
        assert found["items"] == []
        assert f"{folder} is the folder of a storage pool, which other VMs may use" in found["unfit"]
