# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which disks go with a VM, over libvirt's test driver; the storage tests remove those of real guests."""

from __future__ import annotations

import pathlib
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core import io_lock
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domains import DomainHost
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_define import DefineRequest, define_vms
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_result import DefineResult

VM: dict[str, t.Any] = {"id": "a", "cpu": 1, "memory_mb": 32, "disks": [{"size": "1 MiB"}]}
QCOW2 = b"QFI\xfb\0\0\0\3"


class Farm:
    """A host with a pool."""

    def __init__(self, host: DomainHost, folder: pathlib.Path) -> None:
        self.host, self.folder = host, folder
        folder.mkdir()
        host.connection.storagePoolCreateXML(f"<pool type='dir'><name>p</name><target><path>{folder}</path></target></pool>", 0)

    def run(self, vm: t.Mapping[str, t.Any] = VM, **options: t.Any) -> DefineResult:
        asked = {"cluster": "lab", "vms": [vm], "uri": "test:///default", "pool": "p", **options}
        result = define_vms(DefineRequest(**asked), check_mode=False)
        assert result.vms[0].error is None
        return result

    def remove(self, vm: t.Mapping[str, t.Any] = VM, **options: t.Any) -> DefineResult:
        return self.run({"id": vm["id"]}, state="absent", remove_disks=True, **options)

    def other(self, *devices: str) -> None:
        """Define a domain of somebody else."""
        xml = f"<domain type='test'><name>other</name><memory>1024</memory><os><type>hvm</type></os><devices>{''.join(devices)}</devices></domain>"
        self.host.connection.defineXML(xml)

    def volumes(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())


@pytest.fixture(name="farm")
def fixture_farm(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> t.Iterator[Farm]:
    monkeypatch.setattr(io_lock, "lock_folder", lambda: tmp_path / "locks")
    with DomainHost("test:///default") as host:
        yield Farm(host, tmp_path / "pool")
        for record in host.domains():
            domain = host.connection.lookupByUUIDString(record.uuid)
            if record.name != "test":
                if domain.isActive():
                    domain.destroy()
                domain.undefine()
        host.connection.storagePoolLookupByName("p").destroy()


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
