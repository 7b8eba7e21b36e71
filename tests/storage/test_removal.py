# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Disks are removed and wiped only on request, and never if other VMs need them."""

from __future__ import annotations

import os
import pathlib
import subprocess
import typing as t

import libvirt
import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import io_volume_files
from storage_host import MIB, StorageHost

DISKS: list[dict[str, t.Any]] = [{"size": "4 MiB"}, {"size": "4 MiB", "format": "qcow2"}]
VM: dict[str, t.Any] = {"id": "a", "disks": DISKS}


def gone(host: StorageHost, vm: t.Mapping[str, t.Any], **options: t.Any) -> t.Any:
    """The VM removed with its disks."""
    return host.one(vm, state="absent", remove_disks=True, **options)


def test_without_being_asked_disks_stay(host: StorageHost) -> None:
    host.one(VM)
    removed = host.one({"id": "a"}, state="absent")
    assert removed.actions == ["shutdown", "undefine"]
    assert host.volumes() == ["a-disk0.img", "a-disk1.qcow2"]
    # and serve again
    assert host.one(VM).actions == ["define", "autostart_on", "start"]


@pytest.mark.parametrize("wipe", [False, True])
def test_disks_of_a_running_vm(host: StorageHost, wipe: bool) -> None:
    host.one(VM)
    with (host.folder / "a-disk0.img").open("r+b") as stream:
        stream.write(b"secret" * 100000)
        stream.flush()
        removed = gone(host, {"id": "a"}, wipe=wipe)
        stream.seek(0)
        # an open file handle shows the remaining content of the disk
        assert (b"secret" in stream.read()) is not wipe
    verb = "wipe" if wipe else "remove"
    assert removed.actions == ["shutdown", f"{verb}_volume footprint-test/a-disk0.img", f"{verb}_volume footprint-test/a-disk1.qcow2", "undefine"]
    assert (removed.state, host.volumes()) == ("absent", [])


def test_what_is_there_decides_and_not_what_the_details_say_now(host: StorageHost) -> None:
    host.one({"id": "a", "disks": [{"size": "4 MiB", "name": "first"}, {"size": "4 MiB"}]})
    assert len(gone(host, {"id": "a"}).actions) == 4
    assert host.volumes() == []


def test_disks_of_a_vm_that_is_gone_go_by_the_details(host: StorageHost) -> None:
    host.one(VM, state="present")
    host.one(VM, state="absent")
    assert [action.split()[0] for action in gone(host, VM).actions] == ["remove_volume", "remove_volume"]
    assert host.volumes() == []


def test_a_removal_that_was_killed_is_finished(host: StorageHost) -> None:
    host.one(VM, state="present")
    # killed after the first disk was out of its place
    os.rename(host.folder / "a-disk0.img", host.folder / ".a-disk0.img.wiping")
    host.call({"id": "a"}, state="absent", remove_disks=True)
    assert host.volumes() == []


def test_protected_by_the_details(host: StorageHost) -> None:
    host.one(VM, state="present")
    vm = {"id": "a", "disks": [DISKS[0], dict(DISKS[1], protected=True)]}
    result = host.call(vm, state="absent", remove_disks=True, wipe=True)
    assert [warning for warning in result.warnings if "a-disk1.qcow2 is kept: it is protected" in warning]
    assert host.volumes() == ["a-disk1.qcow2"]


def test_protected_by_what_was_written_down(host: StorageHost) -> None:
    host.one(VM, state="present")
    # marking a disk of a VM that is there changes its mark and nothing else
    marked = host.one({"id": "a", "disks": [dict(DISKS[0], protected=True), DISKS[1]]}, state="present")
    assert marked.actions == ["update_metadata"]
    result = host.call({"id": "a"}, state="absent", remove_disks=True)
    assert (result.vms[0].state, host.volumes()) == ("absent", ["a-disk0.img"])


def test_a_protected_vm_keeps_all_of_it(host: StorageHost) -> None:
    host.one(dict(VM, protected=True), state="present")
    assert "is protected" in host.call({"id": "a"}, state="absent", remove_disks=True).vms[0].error
    host.domain("a").undefine()
    assert host.call(dict(VM, protected=True), state="absent", remove_disks=True).vms[0].actions == []
    assert host.volumes() == ["a-disk0.img", "a-disk1.qcow2"]


@pytest.mark.parametrize("running", [True, False])
def test_what_another_domain_has_stays(host: StorageHost, running: bool) -> None:
    host.one(VM, state="present")
    disk = f"<disk type='file' device='disk'><source file='{host.folder}/a-disk0.img'/><target dev='vda'/></disk>"
    xml = f"<domain type='qemu'><name>other</name><memory unit='MiB'>32</memory><os><type>hvm</type></os><devices>{disk}</devices></domain>"
    other = host.connections["qemu"].defineXML(xml)
    if running:
        other.create()
    result = host.call({"id": "a"}, state="absent", remove_disks=True)
    assert [warning for warning in result.warnings if "a-disk0.img is kept: the domain other needs it" in warning]
    assert (result.vms[0].state, host.volumes()) == ("absent", ["a-disk0.img"])


def test_what_is_behind_another_vms_layer_stays(host: StorageHost) -> None:
    host.one({"id": "a", "disks": [{"size": "4 MiB", "format": "qcow2", "name": "below"}]}, state="present")
    layer = host.folder / "b-disk0.qcow2"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", "-b", str(host.folder / "below"), "-F", "qcow2", str(layer), "8M"], check=True)
    # first by its file alone, then by the domain that has it
    for user in ("the volume b-disk0.qcow2", "the domain b, the volume b-disk0.qcow2"):
        result = host.call({"id": "a", "disks": [{"size": "4 MiB", "format": "qcow2", "name": "below"}]}, state="absent", remove_disks=True)
        assert [warning for warning in result.warnings if f"below is kept: {user} need" in warning]
        host.one({"id": "b", "disks": [{"size": "8 MiB", "format": "qcow2"}]}, state="present")
    assert host.volumes() == ["b-disk0.qcow2", "below"]


def test_base_images_stay(host: StorageHost) -> None:
    image = host.image("tiny.qcow2")
    host.one({"id": "a", "disks": [{"size": "8 MiB", "format": "qcow2", "image": "tiny", "backing": True}]}, state="present")
    assert gone(host, {"id": "a"}, wipe=True).state == "absent"
    assert (host.volumes(), image.exists()) == ([], True)


def test_what_an_outsider_attached_stays(host: StorageHost) -> None:
    host.one(VM, state="present")
    foreign = host.folder / "foreign.img"
    foreign.write_bytes(b"x" * 4096)
    host.domain("a").attachDeviceFlags(f"<disk type='file' device='disk'><source file='{foreign}'/><target dev='vdz'/></disk>", 2)
    result = host.call({"id": "a"}, state="absent", remove_disks=True, wipe=True)
    assert [warning for warning in result.warnings if f"{foreign} is kept: it does not come from the template" in warning]
    assert (result.vms[0].state, host.volumes()) == ("absent", ["foreign.img"])


def test_the_layer_of_a_snapshot_and_what_is_behind_it_stay(host: StorageHost) -> None:
    host.one({"id": "a", "disks": [DISKS[1]]})
    snapshot = "<domainsnapshot><name>s</name></domainsnapshot>"
    host.domain("a").snapshotCreateXML(snapshot, libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_DISK_ONLY | libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_NO_METADATA)
    layer = "a-disk0.s"
    assert host.volumes() == ["a-disk0.qcow2", layer]
    for vm in ({"id": "a"}, {"id": "a", "disks": [DISKS[1]]}):
        result = host.call(vm, state="absent", remove_disks=True, wipe=True)
        assert (result.vms[0].error, host.volumes()) == (None, ["a-disk0.qcow2", layer])
        assert [warning for warning in result.warnings if "is kept" in warning]


@pytest.mark.parametrize("wipe", [False, True])
def test_the_root_of_a_container(host: StorageHost, wipe: bool, tmp_path: pathlib.Path) -> None:
    host.root_image()
    host.one({"id": "box", "disks": [{"image": "root"}]}, kind="lxc")
    root = host.folder / "box-disk0"
    (root / "etc" / "secret").write_bytes(b"secret" * 1000)
    # a file that has a name outside is not the container's alone, and a link leads nowhere
    outside = host.folder.parent / "outside"
    outside.write_bytes(b"precious")
    os.link(outside, root / "etc" / "outside")
    (tmp_path / "kept").write_text("kept")
    os.symlink(tmp_path / "kept", root / "etc" / "link")
    with (root / "etc" / "secret").open("rb") as stream:
        removed = gone(host, {"id": "box"}, kind="lxc", wipe=wipe)
        assert (b"secret" in stream.read()) is not wipe
    assert (removed.state, host.volumes()) == ("absent", [])
    assert (outside.read_bytes(), (tmp_path / "kept").read_text()) == (b"precious", "kept")
    outside.unlink()


def test_nothing_mounted_below_is_emptied(host: StorageHost, tmp_path: pathlib.Path) -> None:
    (host.folder / "box-disk0" / "srv").mkdir(parents=True)
    (tmp_path / "kept").write_text("kept")
    subprocess.run(["mount", "--bind", str(tmp_path), str(host.folder / "box-disk0" / "srv")], check=True)
    try:
        result = host.call({"id": "box", "disks": [{"image": "root"}]}, kind="lxc", state="absent", remove_disks=True)
        assert "is mounted there" in result.vms[0].error
    finally:
        subprocess.run(["umount", str(host.folder / "box-disk0" / "srv")], check=True)
    assert (tmp_path / "kept").read_text() == "kept"
    assert not io_volume_files.mounts_below(str(host.folder / "box-disk0"))


@pytest.mark.parametrize("options, path", [({"remove_disks": True}, "remove_disks"), ({"state": "absent", "wipe": True}, "wipe")])
def test_deleting_is_never_a_slip(host: StorageHost, options: dict[str, t.Any], path: str) -> None:
    with pytest.raises(InputError) as raised:
        host.call(VM, **options)
    assert raised.value.path == path
    assert host.volumes() == []


def test_a_sparse_disk_is_wiped_where_it_has_something(host: StorageHost) -> None:
    host.one({"id": "a", "disks": [{"size": "64 GiB"}]}, state="present")
    with (host.folder / "a-disk0.img").open("r+b") as stream:
        stream.seek(60 * 1024 * MIB)
        stream.write(b"secret" * 1000)
        stream.flush()
        gone(host, {"id": "a"}, wipe=True)
        stream.seek(60 * 1024 * MIB)
        assert not stream.read(6000).strip(b"\0")
        assert os.fstat(stream.fileno()).st_blocks * 512 < MIB
