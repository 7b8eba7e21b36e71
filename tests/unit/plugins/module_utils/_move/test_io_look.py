# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which files belong to a VM; tests/move has real ones."""

from __future__ import annotations

import pathlib
import subprocess
import types
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._move import io_look
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domains import DomainHost
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_domain import parse


@pytest.mark.parametrize(("form", "files"), [("raw", ["disk"]), ("qcow2", ["disk", "other"])])
def test_a_guest_does_not_choose_what_is_copied(tmp_path: pathlib.Path, form: str, files: list[str]) -> None:
    """It can write anything into a raw disk, also the header of a layer over the disk of another VM."""
    (tmp_path / "other").write_text("another tenant", "utf-8")
    argv = ["qemu-img", "create", "-q", "-f", "qcow2", "-b", str(tmp_path / "other"), "-F", "raw", str(tmp_path / "disk"), "1M"]
    subprocess.run(argv, check=True)
    unfit: list[str] = []
    found = io_look._layers(str(tmp_path / "disk"), False, form, unfit, "disk")
    assert [pathlib.Path(item.path).name for item in found] == files and not unfit


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["-b", 'json:{"driver":"qcow2","file":{"driver":"file","filename":"base"}}', "-F", "qcow2", "top"], "is based on something that is not a file"),
        (["-o", "data_file=content,data_file_raw=on", "top", "1M"], "has its content in another file"),
    ],
)
def test_what_would_be_left_behind_is_refused(tmp_path: pathlib.Path, options: list[str], reason: str) -> None:
    for argv in (["base", "1M"], options, ["-b", str(tmp_path / "top"), "-F", "qcow2", "over"]):
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", *argv], cwd=tmp_path, check=True)
    for disk in ("top", "over"):
        unfit: list[str] = []
        io_look._layers(str(tmp_path / disk), False, "qcow2", unfit, "disk")
        assert [reason in each and f"{tmp_path}/top " in each for each in unfit] == [True]


UUID = "6d6f7665-0000-4000-8000-000000000001"
XML = """<domain type='test'><name>c1</name><uuid>{uuid}</uuid><memory>1024</memory>
<os><type>hvm</type><loader readonly='yes' type='pflash'>{folder}/CODE.fd</loader><nvram>{folder}/VARS.fd</nvram></os>
<devices>
<disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source file='{disk}'/><target dev='vda'/></disk>
<disk type='file' device='cdrom'><source file='{folder}/c1-seed.iso'/><target dev='hda'/><readonly/></disk>
<disk type='file' device='cdrom'><source file='{folder}/installer.iso'/><target dev='hdb'/><readonly/></disk>
<disk type='file' device='cdrom'><target dev='hdc'/><readonly/></disk>
{more}</devices></domain>"""
MORE = """<disk type='file' device='disk'><source file='{folder}/added'/><target dev='vdb'/></disk>
<disk type='network' device='disk'><source protocol='nbd' name='x'><host name='192.0.2.1'/></source><target dev='vdc'/></disk>"""
SNAPSHOT = "<domainsnapshot><name>s</name></domainsnapshot>"


@pytest.fixture(name="host")
def fixture_host():
    with DomainHost("test:///default") as host:
        yield host
        # the process shares the state of the driver
        host.shutdown(UUID, 0, force=True)
        host.undefine(UUID)


def overlay(path: pathlib.Path, *below: str) -> None:
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", *below, str(path), "1M"], check=True)


def test_the_files_that_a_vm_writes_are_found_in_both_configurations(tmp_path: pathlib.Path, host: DomainHost) -> None:
    """Also the overlays of external snapshots, and disks that cannot be moved; media are not its files."""
    assert io_look.written(host.uri, UUID, []) is None
    disk, seed, nvram, folder = tmp_path / "disk", tmp_path / "c1-seed.iso", tmp_path / "VARS.fd", tmp_path
    nvram.write_text("", "utf-8")
    overlay(tmp_path / "base")
    overlay(disk, "-b", str(tmp_path / "base"), "-F", "qcow2")
    moved = [str(each) for each in (disk, seed, nvram)]
    known = [*moved, str(tmp_path / "base")]
    host.define(XML.format(uuid=UUID, folder=folder, disk=disk, more=""))
    assert io_look.written(host.uri, UUID, known) == {"paths": sorted(moved), "layers": [], "snapshots": False, "saved": False}
    # in the running configuration only
    host.define(XML.format(uuid=UUID, folder=folder, disk=disk, more=MORE.format(folder=folder)))
    host.start(UUID)
    host.define(XML.format(uuid=UUID, folder=folder, disk=disk, more=""))
    found = io_look.written(host.uri, UUID, known)
    assert found is not None and found["paths"] == sorted([*moved, f"{folder}/added", "vdc"])
    snapshot = host.connection.lookupByUUIDString(UUID).snapshotCreateXML(SNAPSHOT, 0)
    found = io_look.written(host.uri, UUID, known)
    snapshot.delete(0)
    assert found is not None and found["snapshots"]
    # two external snapshots: the guest writes to the second file
    overlay(tmp_path / "snap1", "-b", str(disk), "-F", "qcow2")
    overlay(tmp_path / "snap2", "-b", str(tmp_path / "snap1"), "-F", "qcow2")
    host.define(XML.format(uuid=UUID, folder=folder, disk=tmp_path / "snap2", more=""))
    host.connection.lookupByUUIDString(UUID).destroy()
    found = io_look.written(host.uri, UUID, known)
    assert found is not None and found["paths"] == sorted([f"{folder}/snap2", str(seed), str(nvram)])
    assert found["layers"] == [f"{folder}/snap1"]


def test_a_disk_that_other_vms_share_is_not_moved(tmp_path: pathlib.Path) -> None:
    """It would be copied under the feet of the others, which keep writing into the old one."""
    for name in ("c1-root", "shared"):
        (tmp_path / name).write_bytes(bytes(512))
    disk = "<disk type='file' device='disk'><driver type='raw'/><source file='{folder}/{name}'/><target dev='{dev}'/>{more}</disk>"
    disks = disk.format(folder=tmp_path, name="c1-root", dev="vda", more="") + disk.format(folder=tmp_path, name="shared", dev="vdb", more="<shareable/>")
    record = t.cast("t.Any", types.SimpleNamespace(name="c1", uuid=UUID))
    found = io_look._storage(record, parse(f"<domain type='kvm'><devices>{disks}</devices></domain>"), {str(tmp_path): "pool"})
    assert found["unfit"] == ["its disk vdb is shared with other VMs"] and [each["path"] for each in found["items"]] == [f"{tmp_path}/c1-root"]
