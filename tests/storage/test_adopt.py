# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A domain that is adopted with a packaged template keeps everything that its details do not name."""

from __future__ import annotations

import re
import subprocess
import typing as t

import libvirt
import pytest
from lxml import etree

from storage_host import StorageHost

UUID, MAC = "11111111-2222-4333-8444-555555555555", "52:54:00:0a:0b:0c"
#: As virt-manager or a person made it once.
EVERYDAY = f"""
<domain type='qemu'>
  <name>a</name>
  <uuid>{UUID}</uuid>
  <memory unit='MiB'>64</memory>
  <vcpu>2</vcpu>
  <os><type machine='pc'>hvm</type><boot dev='cdrom'/><boot dev='hd'/></os>
  <features><acpi/><pae/></features>
  <cpu mode='custom' match='exact'><model>qemu64</model></cpu>
  <clock offset='localtime'><timer name='rtc' tickpolicy='catchup'/></clock>
  <on_poweroff>destroy</on_poweroff>
  <on_reboot>destroy</on_reboot>
  <on_crash>preserve</on_crash>
  <devices>
    <disk type='file' device='disk'>
      <driver name='qemu' type='qcow2' cache='none'/>
      <source file='DISK'/>
      <target dev='hda' bus='ide'/>
    </disk>
    <disk type='file' device='cdrom'><target dev='hdb' bus='ide'/><readonly/></disk>
    <interface type='bridge'><mac address='{MAC}'/><source bridge='rf-none'/><model type='e1000e'/></interface>
    <serial type='null'/>
    <video><model type='cirrus'/></video>
  </devices>
</domain>
"""


@pytest.fixture(name="domain")
def fixture_domain(host: StorageHost) -> t.Callable[[], str]:
    """Define the domain; returns its current definition without the metadata."""
    disk = host.folder / "by-hand.qcow2"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", str(disk), "4M"], check=True)
    host.connections["qemu"].defineXML(EVERYDAY.replace("DISK", str(disk)))

    def text() -> str:
        document = etree.fromstring(host.domain("a").XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))
        for each in document.findall("metadata"):
            document.remove(each)
        return re.sub(r">\s+<", "><", etree.tostring(document, encoding="unicode").strip())

    return text


PART = {"cpu": 2, "memory_mb": 64}
DETAILS: dict[str, dict[str, t.Any]] = {
    "id only": {},
    "cpu and memory": PART,
    "with a disk and a NIC": {**PART, "disks": [{"size": "4 MiB"}], "nics": [{"bridge": "rf-none"}]},
    "with its type": {**PART, "hypervisor": "qemu"},
}


def adopt(host: StorageHost, details: t.Mapping[str, t.Any], **options: t.Any) -> t.Any:
    """Run ``vm_define`` with a packaged template; check mode must say the same."""
    vm = {"id": "a", "cpu": None, "memory_mb": None, "hypervisor": "qemu", **details}
    call: dict[str, t.Any] = {"state": "present", "template": "default", **options}
    foreseen, done = (host.call(vm, check=check, **call).vms[0] for check in (True, False))
    assert done.error is None and (foreseen.actions, foreseen.changes) == (done.actions, done.changes)
    return done


@pytest.mark.parametrize("case", DETAILS)
def test_what_the_details_do_not_name_stays(host: StorageHost, domain: t.Callable[[], str], case: str) -> None:
    before = domain()
    taken = adopt(host, DETAILS[case], adopt=True)
    assert (taken.actions, taken.uuid) == (["adopt", "autostart_on"], UUID)
    assert domain() == before
    again = adopt(host, DETAILS[case])
    assert not again.changed, again.changes


def test_what_they_name_changes_and_nothing_else(host: StorageHost, domain: t.Callable[[], str]) -> None:
    before = domain()
    adopt(host, DETAILS["cpu and memory"], adopt=True)
    more = {"cpu": 1, "memory_mb": 96, "boot": ["network"], "nics": [{"bridge": "rf-none", "model": "virtio"}], "disks": [{"size": "4 MiB", "serial": "S1"}]}
    changed = adopt(host, more)
    allowed = {"memory", "currentMemory", "vcpu", "vcpu/@current", "os/boot", "devices/interface", "devices/disk"}
    assert {each["path"].partition("[")[0] for each in changed.changes} <= allowed
    after = domain()
    for part in ("<clock.*</clock>", "<cpu .*</cpu>", "<features>.*</features>", "<on_crash>.*</on_crash>", "<video>.*</video>", "<serial .*</serial>"):
        assert re.search(part, after).group() == re.search(part, before).group()  # type: ignore[union-attr]
    assert "<model type='virtio'/>" in after.replace('"', "'") and "<serial>S1</serial>" in after and "cache='none'" in after.replace('"', "'")
    assert not adopt(host, more).changed


def test_devices_that_are_added_later_are_complete(host: StorageHost, domain: t.Callable[[], str], request: pytest.FixtureRequest) -> None:
    details = DETAILS["with a disk and a NIC"]
    network = host.connections["qemu"].networkCreateXML("<network><name>rf-two</name><bridge name='rf-two'/></network>")
    request.addfinalizer(network.destroy)
    adopt(host, details, adopt=True)
    more = {**details, "nics": [*details["nics"], {"network": "rf-two"}], "disks": [*details["disks"], {"size": "4 MiB"}]}
    for _each in range(2):
        adopt(host, more)
    after = etree.fromstring(domain())
    assert [model.get("type") for model in after.iterfind("devices/interface/model")] == ["e1000e", "virtio"]
    assert [driver.get("discard") for driver in after.iterfind("devices/disk[@device='disk']/driver")] == [None, "unmap"]
    assert not adopt(host, more).changed


def test_a_container_keeps_its_init_and_console(host: StorageHost) -> None:
    host.root_image()
    root = host.folder / "by-hand"
    root.mkdir()
    subprocess.run(["tar", "--extract", "--file", str(host.images / "root.tar"), "--directory", str(root)], check=True)
    host.connections["lxc"].defineXML(
        f"""<domain type='lxc'><name>a</name><uuid>{UUID}</uuid><memory unit='MiB'>64</memory><vcpu>1</vcpu>
        <os><type>exe</type><init>/bin/busybox</init><initarg>sleep</initarg></os><on_crash>destroy</on_crash>
        <devices><filesystem type='mount' accessmode='passthrough'><source dir='{root}'/><target dir='/'/></filesystem></devices></domain>"""
    )
    before = host.domain("a", "lxc").XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
    details = {"id": "a", "disks": [{"image": "root"}], "memory_mb": 64}
    for template in ("default", "lxc"):
        taken = host.call(details, kind="lxc", template=template, adopt=True, state="present").vms[0]
        assert taken.error is None and taken.actions in (["adopt", "autostart_on"], [])
    after = re.sub(r"(?s) *<metadata>.*</metadata>\n", "", host.domain("a", "lxc").XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))
    assert after == before


def test_a_template_of_ones_own_applies_as_it_is_written(host: StorageHost, domain: t.Callable[[], str]) -> None:
    own = "<domain type='{hypervisor}'><name>{name}</name><clock offset='utc'/><on_crash>restart</on_crash></domain>"
    adopt(host, DETAILS["cpu and memory"], adopt=True, template=own)
    after = domain()
    assert 'offset="utc"' in after and "<on_crash>restart</on_crash>" in after and 'model type="e1000e"' in after
