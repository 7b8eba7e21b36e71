# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""No two VMs write to the same disk, however it is named and regardless of which program defined the other VM."""

from __future__ import annotations

import os
import pathlib
import re
import stat
import subprocess
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from storage_host import POOL, TEMPLATE, StorageHost

A: dict[str, t.Any] = {"id": "a", "disks": [{"size": "4 MiB"}]}
DISK = "<disk type='{kind}' device='{device}'>{driver}<source {source}/><target dev='{target}' bus='sata'/>{more}</disk>"


def disk(source: str, kind: str = "file", device: str = "disk", form: str = "raw", target: str = "sdx", more: str = "") -> str:
    """Return the libvirt XML of a disk with this source."""
    driver = f"<driver name='qemu' type='{form}'/>"
    return DISK.format(kind=kind, device=device, driver=driver, source=source, target=target, more=more)


def foreign(host: StorageHost, device: str, *, name: str = "foreign", state: str = "off") -> t.Any:
    """Define an unmanaged domain."""
    xml = f"<domain type='qemu'><name>{name}</name><memory unit='MiB'>32</memory><os><type>hvm</type></os><devices>{device}</devices></domain>"
    if state == "transient":
        return host.connections["qemu"].createXML(xml)
    domain = host.connections["qemu"].defineXML(xml)
    if state == "running":
        domain.create()
    return domain


def template(*devices: str) -> str:
    """Return the packaged template with additional devices."""
    return TEMPLATE.replace("</devices>", f"{''.join(devices)}</devices>")


def refused(host: StorageHost, *vms: t.Mapping[str, t.Any], **options: t.Any) -> str:
    """Return the error of the last VM; check mode must report the same, and the VMs before it must be done."""
    foreseen = host.call(*vms, check=True, **options).vms
    done = host.call(*vms, **options).vms
    assert [vm.error for vm in foreseen] == [vm.error for vm in done]
    assert [vm.error for vm in done[:-1]] == [None] * (len(done) - 1)
    assert done[-1].error is not None and not done[-1].actions
    return done[-1].error


@pytest.mark.parametrize("pools", [(None, POOL), (POOL, None)])
def test_volume_in_the_default_pool_and_in_a_named_pool_conflict(host: StorageHost, pools: t.Sequence[str | None]) -> None:
    vms = [{"id": name, "disks": [{"size": "4 MiB", "name": "x", **({"pool": pool} if pool else {})}]} for name, pool in zip("ab", pools)]
    with pytest.raises(InputError, match=f"the volume {POOL}/x of the VM b is also the disk vms.0..disks.0. of the VM a"):
        host.call(*vms)
    # one call after the other
    host.one(vms[0])
    error = refused(host, vms[1])
    assert error.startswith("vms[0].disks[0]: ") and f"{host.folder}/x (vda of the VM b) is also vda of the VM a" in error


@pytest.mark.parametrize("state", ["running", "present"])
def test_path_in_the_template_conflicts(host: StorageHost, state: str) -> None:
    subprocess.run(["qemu-img", "create", "-q", str(host.folder / "one.img"), "4M"], check=True)
    options = {"template": template(disk(f"file='{host.folder}/one.img'")), "state": state}
    error = refused(host, {"id": "a"}, {"id": "b"}, **options)
    assert re.search(rf"template line \d+: {host.folder}/one.img \(sdx of the VM b\) is also sdx of the VM a\.", error)
    # the first one is left alone by the runs to come
    assert not host.call({"id": "a"}, **options).vms[0].changed


def test_seed_of_another_vm_conflicts(host: StorageHost) -> None:
    host.one({"id": "web", "user_data": {"hostname": "web"}}, state="present")
    content = (host.folder / "web-seed.iso").read_bytes()
    error = refused(host, {"id": "b", "disks": [{"size": "4 MiB", "name": "web-seed.iso"}]})
    assert "web-seed.iso (vda of the VM b) is also vdz of the VM web" in error
    assert (host.folder / "web-seed.iso").read_bytes() == content


def test_seed_does_not_overwrite_the_disk_of_another_vm(host: StorageHost) -> None:
    host.one({"id": "b", "disks": [{"size": "4 MiB", "name": "web-seed.iso"}]}, state="present")
    error = refused(host, {"id": "web", "user_data": {"hostname": "web"}})
    assert "web-seed.iso exists and is not a cloud-init seed; it is not replaced." in error
    assert not (host.folder / "web-seed.iso").read_bytes().strip(b"\0")


@pytest.mark.parametrize("state", ["off", "running", "transient"])
@pytest.mark.parametrize("how", ["file", "symlink", "hardlink", "volume"])
def test_disk_of_an_unmanaged_domain_conflicts(host: StorageHost, state: str, how: str) -> None:
    image, link = host.folder / "a-disk0.img", host.folder / "link"
    subprocess.run(["qemu-img", "create", "-q", str(image), "4M"], check=True)
    source, kind = f"file='{link}'", "file"
    if how == "file":
        source = f"file='{image}'"
    elif how == "volume":
        host.connections["qemu"].storagePoolLookupByName(POOL).refresh()
        source, kind = f"pool='{POOL}' volume='a-disk0.img'", "volume"
    elif how == "symlink":
        os.symlink(image, link)
    else:
        os.link(image, link)
    foreign(host, disk(source, kind=kind), state=state)
    error = refused(host, A)
    assert error.startswith("vms[0].disks[0]: ")
    assert f"{image} (vda of the VM a) is also sdx of the VM foreign" in error
    assert [domain.name() for domain in host.connections["qemu"].listAllDomains()] == ["foreign"]


def test_backing_file_of_another_domain_conflicts(host: StorageHost) -> None:
    below, layer = host.folder / "below.img", host.folder / "layer.qcow2"
    subprocess.run(["qemu-img", "create", "-q", str(below), "4M"], check=True)
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", "-b", str(below), "-F", "raw", str(layer)], check=True)
    user = foreign(host, disk(f"file='{layer}'", form="qcow2"))
    error = refused(host, {"id": "a", "disks": [{"size": "4 MiB", "name": "below.img"}]})
    assert f"{below} (vda of the VM a) is a backing file of the disk sdx of the VM foreign; writing to it destroys that disk" in error
    # and the other way round
    user.undefine()
    foreign(host, disk(f"file='{below}'"), name="other")
    error = refused(host, {"id": "a", "disks": [{"size": "4 MiB", "format": "qcow2", "name": "layer.qcow2"}]})
    assert "is a backing file of this disk, and the VM other writes to it" in error


def test_image_header_in_a_raw_disk_is_ignored(host: StorageHost) -> None:
    host.one(A, state="present")
    # a header that claims the disk of the VM b to be behind this one
    claim = ["-f", "qcow2", "-u", "-b", str(host.folder / "b-disk0.img"), "-F", "raw"]
    subprocess.run(["qemu-img", "create", "-q", *claim, str(host.folder / "a-disk0.img"), "4M"], check=True)
    host.one({"id": "b", "disks": [{"size": "4 MiB"}]})


def test_base_image_is_not_written(host: StorageHost) -> None:
    image = host.image("tiny.qcow2")
    written = template(disk(f"file='{image}'", form="qcow2"))
    assert "must not be written to by a VM: it is a base image of the storage pool footprint-test" in refused(host, {"id": "a"}, template=written)
    read = template(disk(f"file='{image}'", form="qcow2", more="<readonly/>").replace("bus='sata'", "bus='virtio'").replace("sdx", "vdx"))
    host.one({"id": "a"}, template=read)


def test_shared_base_image_and_iso_are_permitted(host: StorageHost) -> None:
    host.image("tiny.qcow2")
    iso = host.folder / "install.iso"
    iso.write_bytes(b"\0" * 65536)
    options = {"template": template(disk(f"file='{iso}'", device="cdrom"))}
    vms = [{"id": name, "disks": [{"size": "8 MiB", "format": "qcow2", "image": "tiny", "backing": True}]} for name in "ab"]
    assert [vm.error for vm in host.call(*vms, **options).vms] == [None, None]
    assert [(vm.error, vm.changed) for vm in host.call(*vms, **options).vms] == [(None, False)] * 2


SHARED: dict[str, t.Any] = {"size": "4 MiB", "name": "shared.img", "shareable": True}


def test_disk_shared_by_all_vms_is_permitted(host: StorageHost) -> None:
    vms = [{"id": name, "disks": [{"size": "4 MiB"}, SHARED]} for name in "ab"]
    result = host.call(*vms)
    assert [(vm.error, vm.state) for vm in result.vms] == [(None, "running")] * 2
    assert "<shareable/>" in host.domain("b").XMLDesc(0)
    assert not any(vm.changed for vm in host.call(*vms).vms)
    # one goes, the disk stays for the other
    removed = host.call({"id": "a"}, state="absent", remove_disks=True)
    assert [warning for warning in removed.warnings if "shared.img is kept: the domain b needs it" in warning]
    assert (host.folder / "shared.img").exists()


@pytest.mark.parametrize("theirs", ["<shareable/>", ""])
@pytest.mark.parametrize("ours", [True, False])
def test_sharing_requires_both_definitions_and_the_details(host: StorageHost, ours: bool, theirs: str) -> None:
    subprocess.run(["qemu-img", "create", "-q", str(host.folder / "shared.img"), "4M"], check=True)
    foreign(host, disk(f"file='{host.folder}/shared.img'", more=theirs), state="running")
    vm = {"id": "a", "disks": [dict(SHARED, shareable=ours)]}
    if ours and theirs:
        host.one(vm)
    else:
        error = refused(host, vm)
        assert "is also sdx of the VM foreign" in error and "shareable: true" in error
    # a template alone does not decide
    said = template(disk(f"file='{host.folder}/shared.img'", more="<shareable/>"))
    error = refused(host, {"id": "b"}, template=said)
    # libvirt lists domains in no certain order, and the first conflict is reported
    assert "is also sdx of the VM foreign" in error or "is also vda of the VM a" in error


def test_existing_conflict_is_a_warning_until_a_vm_is_started(host: StorageHost) -> None:
    host.one(A)
    other = foreign(host, disk(f"file='{host.folder}/a-disk0.img'"))
    result = host.call(A)
    assert (result.vms[0].error, result.vms[0].changed) == (None, False)
    assert [warning for warning in result.warnings if "a-disk0.img (vda of the VM a) is also sdx of the VM foreign" in warning]
    # a change that has nothing to do with it is done
    assert host.call(dict(A, memory_mb=48), state="present").vms[0].error is None
    host.domain("a").destroy()
    assert "is also sdx of the VM foreign" in refused(host, dict(A, memory_mb=48))
    other.undefine()
    assert host.one(dict(A, memory_mb=48)).actions == ["start"]


def test_root_of_two_containers_conflicts(host: StorageHost) -> None:
    host.root_image()
    host.one({"id": "a", "disks": [{"image": "root"}]}, kind="lxc")
    root = host.folder / "a-disk0"
    (root / "inner").mkdir()
    for folder, says in ((root, "is also / of the VM a"), (root / "inner", "overlap: one contains the other"), (host.folder, "must not be written to by a VM")):
        mount = f"<filesystem type='mount'><source dir='{folder}'/><target dir='/'/></filesystem>"
        error = refused(host, {"id": "b"}, kind="lxc", template=template(mount))
        assert says in error and str(folder) in error, error


def test_folder_of_the_host_for_several_containers_is_permitted(host: StorageHost, tmp_path: pathlib.Path) -> None:
    host.root_image()
    (tmp_path / "common").mkdir()
    os.chmod(tmp_path, 0o755)
    mount = f"<filesystem type='mount'><source dir='{tmp_path}/common'/><target dir='/srv'/></filesystem>"
    vms = [{"id": name, "disks": [{"image": "root"}]} for name in "ab"]
    assert [vm.error for vm in host.call(*vms, kind="lxc", state="present", template=template(mount)).vms] == [None, None]


@pytest.fixture(name="device")
def fixture_device(tmp_path: pathlib.Path) -> t.Iterator[str]:
    """Create a block device."""
    (tmp_path / "back").write_bytes(b"\0" * 4 * 1024 * 1024)
    name = subprocess.run(["losetup", "--find", "--show", str(tmp_path / "back")], check=True, capture_output=True, text=True).stdout.strip()
    yield name
    subprocess.run(["losetup", "--detach", name], check=True)


def test_block_device_with_another_name_conflicts(host: StorageHost, device: str) -> None:
    alias = host.folder.parent / "alias"
    alias.unlink(missing_ok=True)
    os.mknod(alias, 0o600 | stat.S_IFBLK, os.stat(device).st_rdev)
    try:
        foreign(host, disk(f"dev='{device}'", kind="block"), state="running")
        error = refused(host, {"id": "a"}, template=template(disk(f"dev='{alias}'", kind="block")))
        assert f"{alias} (sdx of the VM a) is also sdx of the VM foreign, with the path {device}" in error
    finally:
        alias.unlink()
        host.domain("foreign").destroy()
