# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._migrate.rehearsal import xml_rehearsal
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_domain import parse

VM = """
<domain type='kvm' id='7'>
  <name>master</name>
  <uuid>6e1b2c3d-0000-4000-8000-000000000001</uuid>
  <title>the master</title>
  <metadata><x:y xmlns:x='https://reduced.footprint/xmlns/vm/1'/></metadata>
  <memory unit='GiB'>2</memory>
  <vcpu>2</vcpu>
  <sysinfo type='smbios'><system><entry name='uuid'>6e1b2c3d-0000-4000-8000-000000000001</entry><entry name='serial'>S1</entry></system></sysinfo>
  <os><type machine='q35'>hvm</type>{firmware}<boot dev='network'/><boot dev='hd'/></os>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <disk type='file' device='disk'>
      <driver name='qemu' type='raw' cache='none' discard='unmap'/><source file='/pool/master-disk0.img'/><backingStore/>
      <target dev='vda' bus='virtio'/><boot order='1'/><address type='pci' bus='0x04' slot='0x00' function='0x0'/>
    </disk>
    <disk type='block' device='disk'><source dev='/dev/vg/data'/><target dev='vdb' bus='virtio'/></disk>
    <disk type='network' device='disk'><source protocol='rbd' name='pool/image'/><target dev='vdc' bus='virtio'/></disk>
    <disk type='file' device='cdrom'><source file='/pool/seed.iso'/><target dev='sda' bus='sata'/><readonly/></disk>
    <interface type='bridge'>
      <mac address='52:54:00:00:00:01'/><source bridge='br-admin'/><vlan><tag id='4'/></vlan><virtualport type='openvswitch'/>
      <target dev='vnet3'/><model type='virtio'/><driver name='vhost' queues='4'/><filterref filter='clean-traffic'/><bandwidth/>
      <boot order='2'/><address type='pci' bus='0x01' slot='0x00' function='0x0'/>
    </interface>
    <interface type='hostdev' managed='yes'>
      <mac address='52:54:00:00:00:02'/><source><address type='pci' domain='0x0000' bus='0x07' slot='0x10' function='0x0'/></source>
      <address type='pci' bus='0x02' slot='0x00' function='0x0'/>
    </interface>
    <hostdev mode='subsystem' type='pci'/>
    <filesystem type='mount'><source dir='/srv'/><target dir='srv'/></filesystem>
    <serial type='pty'><log file='/var/log/m.log'/><target port='0'/></serial>
    <console type='pty'><target type='serial' port='0'/></console>
    <graphics type='vnc' port='5900'/>
    <channel type='spicevmc'><target type='virtio' name='com.redhat.spice.0'/></channel>
    <channel type='unix'><source mode='bind' path='/run/master.sock'/><target type='virtio' name='mine'/></channel>
    <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>
    <rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>
  </devices>
</domain>
"""
STAGE = xml_rehearsal.Stage(
    name="master-rehearsal",
    uuid="00000000-0000-4000-8000-000000000002",
    overlays={"/pool/master-disk0.img": "/pool/.m-0.qcow2", "/dev/vg/data": "/images/.m-1.qcow2"},
    taps=("rfr0", "rfr1"),
    nvram="/pool/.m-vars.fd",
    console="/log/console",
)


def staged(firmware: str = ""):
    return parse(xml_rehearsal.rehearsal_xml(VM.format(firmware=firmware), STAGE))


def test_rehearsal_domain_has_its_own_identity():
    found = staged()
    assert (found.findtext("name"), found.findtext("uuid"), found.get("id")) == (STAGE.name, STAGE.uuid, None)
    assert [each.get("name") for each in found.findall("sysinfo/system/entry")] == ["serial"]
    assert found.find("metadata") is None and found.find("title") is None


def test_it_writes_to_overlays_alone():
    found = staged()
    assert [each.path for each in xml_rehearsal.disks(VM.format(firmware=""))] == ["/pool/master-disk0.img", "/dev/vg/data"]
    assert [(each.find("target").get("dev"), each.get("type"), each.find("source").get("file")) for each in found.findall("devices/disk")] == [
        ("vda", "file", "/pool/.m-0.qcow2"),
        ("vdb", "file", "/images/.m-1.qcow2"),
        ("sda", "file", "/pool/seed.iso"),
    ]
    # the same cache mode as the original disk, so that the measured time is realistic
    assert dict(found.find("devices/disk/driver").attrib) == {"name": "qemu", "type": "qcow2", "cache": "none", "discard": "unmap"}
    assert found.find("devices/disk/address").get("bus") == "0x04"


def test_its_cards_are_on_no_network_of_the_host():
    cards = staged().findall("devices/interface")
    assert [each.get("type") for each in cards] == ["ethernet", "ethernet"]
    assert [sorted(child.tag for child in each) for each in cards] == [["address", "mac", "model", "target"], ["mac", "model", "target"]]
    assert [each.find("mac").get("address") for each in cards] == ["52:54:00:00:00:01", "52:54:00:00:00:02"]
    assert [each.find("target").get("dev") for each in cards] == ["rfr0", "rfr1"]


def test_nothing_is_shared_with_host_or_people():
    devices = staged().find("devices")
    assert {each.tag for each in devices} == {"emulator", "disk", "interface", "channel", "rng", "serial"}
    assert [each.find("target").get("name") for each in devices.findall("channel")] == ["org.qemu.guest_agent.0"]
    assert [(each.get("type"), each.find("source").get("path")) for each in devices.findall("serial")] == [("file", "/log/console")]


def test_it_asks_no_network_for_a_boot_image():
    found = staged()
    assert [each.get("dev") for each in found.findall("os/boot")] == ["hd"]
    assert found.find("devices/interface/boot") is None and found.find("devices/disk/boot") is not None


@pytest.mark.parametrize(
    ("firmware", "variables"),
    [
        ("", None),
        ("<loader readonly='yes' type='rom'>/x.bin</loader>", None),
        ("<loader readonly='yes' type='pflash'>/x.fd</loader>", ""),
        ("<loader readonly='yes' type='pflash'>/x.fd</loader><nvram template='/t.fd'>/nvram/master.fd</nvram>", "/nvram/master.fd"),
        ("<loader type='pflash'>/x.fd</loader><nvram type='file'><source file='/nvram/master.fd'/></nvram>", "/nvram/master.fd"),
    ],
)
def test_the_firmware_has_variables_of_its_own(firmware, variables):
    assert xml_rehearsal.nvram(VM.format(firmware=firmware)) == variables
    found = staged(firmware)
    assert found.findtext("os/nvram") == (None if variables is None else STAGE.nvram)
    assert found.find("os/nvram/source") is None


def test_the_variables_of_a_firmware_libvirt_chooses():
    text = VM.format(firmware="").replace("<os>", "<os firmware='efi'>")
    assert xml_rehearsal.nvram(text) == "" and parse(xml_rehearsal.rehearsal_xml(text, STAGE)).findtext("os/nvram") == STAGE.nvram
