# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which disks go with a VM, over libvirt's test driver; the storage tests remove those of real guests."""

from __future__ import annotations

import pathlib
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core import io_lock
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import run_apply
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domains import DomainHost
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_define import DefineRequest, define_vms
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_result import DefineResult
from tests.support.driver_host import driver_host

VM: dict[str, t.Any] = {"id": "a", "cpu": 1, "memory_mb": 32, "disks": [{"size": "1 MiB"}]}
QCOW2 = b"QFI\xfb\0\0\0\3"


class Farm:
    """A host with a pool."""

    def __init__(self, host: DomainHost, folder: pathlib.Path) -> None:
        self.host, self.folder = host, folder
        folder.mkdir()
        host.connection.storagePoolCreateXML(f"<pool type='dir'><name>p</name><target><path>{folder}</path></target></pool>", 0)

    def run(self, vm: t.Mapping[str, t.Any] | None = None, **options: t.Any) -> DefineResult:
        asked = {"cluster": "lab", "vms": [vm or VM], "uri": "test:///default", "pool": "p", **options}
        result = define_vms(DefineRequest(**asked), check_mode=False)
        assert result.vms[0].error is None
        return result

    def remove(self, vm: t.Mapping[str, t.Any] | None = None, **options: t.Any) -> DefineResult:
        return self.run({"id": (vm or VM)["id"]}, state="absent", remove_disks=True, **options)

    def other(self, *devices: str) -> None:
        """Define a domain that is not managed."""
        xml = f"<domain type='test'><name>other</name><memory>1024</memory><os><type>hvm</type></os><devices>{''.join(devices)}</devices></domain>"
        self.host.connection.defineXML(xml)

    def volumes(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())


@pytest.fixture(name="farm")
def fixture_farm(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> t.Iterator[Farm]:
    monkeypatch.setattr(io_lock, "lock_folder", lambda: tmp_path / "locks")
    with driver_host() as host:
        yield Farm(host, tmp_path / "pool")


def disk_of(path: pathlib.Path, inside: str = "") -> str:
    return f"<disk type='file' device='disk'><driver name='qemu' type='raw'/><source file='{path}'/><target dev='vda'/>{inside}</disk>"


def test_a_guest_cannot_keep_the_disk_of_another_vm(farm: Farm) -> None:
    farm.run()
    name = str(farm.folder / "a-disk0.img").encode()
    theirs = farm.folder / "other.img"
    theirs.write_bytes((QCOW2 + (104).to_bytes(8, "big") + len(name).to_bytes(4, "big")).ljust(104, b"\0") + name)
    farm.other(disk_of(theirs))
    assert "remove_volume p/a-disk0.img" in farm.remove().vms[0].actions
    assert farm.volumes() == ["other.img"]


def test_a_hard_link_of_another_domain_is_not_wiped(farm: Farm, tmp_path: pathlib.Path) -> None:
    farm.run()
    disk, theirs = farm.folder / "a-disk0.img", tmp_path / "theirs.img"
    disk.write_bytes(b"precious".ljust(1024 * 1024, b"\0"))
    theirs.hardlink_to(disk)
    farm.other(disk_of(theirs))
    result = farm.remove(wipe=True)
    assert f"VM a: the volume {disk} is kept: the domain other needs it" in result.warnings
    assert theirs.read_bytes()[:8] == b"precious"


def template(*devices: str) -> str:
    head = "<domain type='test'><name>{{ name }}</name><memory unit='MiB'>32</memory><vcpu>1</vcpu><os><type>hvm</type></os><devices>"
    disk = "{% for disk in disks %}<disk type='file'><source file='{{ disk.path }}'/><target dev='{{ disk.target }}'/></disk>{% endfor %}"
    return f"{head}{disk}{''.join(devices)}</devices></domain>"


def test_what_the_vm_could_only_read_stays(farm: Farm) -> None:
    data, medium = farm.folder / "data.img", farm.folder / "installer.iso"
    for path in (data, medium):
        path.write_bytes(b"of all VMs")
    farm.host.connection.storagePoolLookupByName("p").refresh()
    read_only = f"<disk type='file'><source file='{data}'/><target dev='vdx'/><readonly/></disk>"
    drive = "<disk type='volume' device='cdrom'><source pool='p' volume='installer.iso'/><target dev='hda' bus='ide'/><readonly/></disk>"
    source = template(read_only, drive)
    farm.run(template=source)
    result = farm.remove()
    assert f"VM a: the disk {data} is kept: the VM could only read it" in result.warnings
    assert farm.volumes() == ["data.img", "installer.iso"]
    # what the details name is removed
    farm.run(template=source)
    farm.run({"id": "a", "disks": [{"size": "1 MiB", "name": "data.img"}]}, state="absent", remove_disks=True)
    assert farm.volumes() == ["installer.iso"]


def test_a_file_that_is_no_seed_is_neither_replaced_nor_removed(farm: Farm) -> None:
    farm.run()
    other = farm.folder / "a-seed.iso"
    other.write_bytes(b"precious")
    seed = "{% if seed %}<disk type='file'><source file='{{ seed.path }}'/><target dev='vdz'/><readonly/></disk>{% endif %}"
    asked = DefineRequest("lab", [{**VM, "user_data": "#!"}], uri="test:///default", pool="p", template=template(seed))
    for check in (True, False):
        error = define_vms(asked, check_mode=check).vms[0].error or ""
        assert error.startswith(f"vms[0]: {other} exists and is not a cloud-init seed"), error
    result = farm.remove(wipe=True)
    assert f"VM a: the file {other} is kept: it is not a cloud-init seed" in result.warnings
    assert (farm.volumes(), other.read_bytes()) == (["a-seed.iso"], b"precious")


@pytest.mark.parametrize("when", ["defined", "removed"])
def test_a_protected_disk_of_an_adopted_vm_stays(farm: Farm, when: str) -> None:
    for name in ("builder.img", "scratch.img"):
        (farm.folder / name).write_bytes(b"precious")
    farm.host.connection.storagePoolLookupByName("p").refresh()
    farm.other(disk_of(farm.folder / "builder.img"), disk_of(farm.folder / "scratch.img").replace("vda", "vdb"))
    free = {"id": "other", "cpu": 1, "memory_mb": 32, "disks": [{"size": "1 MiB"}, {"size": "1 MiB"}]}
    protected = {**free, "disks": [{"size": "1 MiB", "protected": True}, {"size": "1 MiB"}]}
    farm.run(protected if when == "defined" else free, adopt=True, state="shutdown", template=template())
    result = farm.run({"id": "other"} if when == "defined" else protected, state="absent", remove_disks=True)
    assert f"VM other: the volume {farm.folder / 'builder.img'} is kept: it is protected" in result.warnings
    assert farm.volumes() == ["builder.img"]


def test_nothing_of_a_vm_is_removed_that_was_started_meanwhile(farm: Farm, monkeypatch: pytest.MonkeyPatch) -> None:
    farm.run(state="present")
    monkeypatch.setattr(run_apply.Applier, "_refresh", lambda self, works: farm.host.connection.lookupByName("a").create())
    request = DefineRequest("lab", [{"id": "a"}], uri="test:///default", pool="p", state="absent", remove_disks=True)
    (vm,) = define_vms(request, check_mode=False).vms
    assert (vm.error or "").startswith("was started meanwhile") and vm.actions == []
    assert farm.volumes() == ["a-disk0.img"]
