# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._migrate.bootstrap import xml_bootstrap
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_domain import parse

VM = """
<domain type='qemu' id='7'>
  <name>master</name>
  <uuid>6e1b2c3d-0000-4000-8000-000000000001</uuid>
  <metadata><x:y xmlns:x='https://reduced.footprint/xmlns/vm/1'/></metadata>
  <memory unit='GiB'>8</memory>
  <vcpu>8</vcpu>
  <os firmware='efi'><type arch='x86_64' machine='q35'>hvm</type><loader secure='yes'/><nvram>/vars.fd</nvram><boot dev='hd'/></os>
  <features><acpi/><smm state='on'/></features>
  <cpu mode='maximum'><topology sockets='1' cores='8' threads='1'/><numa><cell id='0' cpus='0-7' memory='8' unit='GiB'/></numa></cpu>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <disk type='file' device='disk'>
      <driver name='qemu' type='raw' cache='none' io='native'/><source file='/pool/master-disk0.img'/><target dev='sda' bus='scsi'/><boot order='1'/>
    </disk>
    <disk type='block' device='disk'><source dev='/dev/vg/data'/><target dev='sdb' bus='sata'/></disk>
    <disk type='file' device='cdrom'><source file='/pool/seed.iso'/><target dev='sdc' bus='sata'/><readonly/></disk>
    <interface type='bridge'><mac address='52:54:00:00:00:01'/><source bridge='br-admin'/><vlan><tag id='4'/></vlan><model type='e1000'/></interface>
    <interface type='bridge'><mac address='52:54:00:00:00:02'/><source bridge='br-two'/></interface>
    <hostdev mode='subsystem' type='pci'/>
    <graphics type='vnc' port='5900'/>
    <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>
  </devices>
  <seclabel type='none' model='dac'/>
</domain>
"""
MACHINE = xml_bootstrap.Machine(
    name="master-bootstrap",
    uuid="00000000-0000-4000-8000-000000000002",
    mac="52:54:00:00:00:01",
    tap="rfb0",
    disks={"rf-disk-0": "/pool/master-disk0.img", "rf-disk-1": "/dev/vg/data"},
    seed=("rf-seed", "/pool/.keys.img"),
    console="/log/console",
)


@pytest.fixture(name="made")
def fixture_made():
    return parse(xml_bootstrap.bootstrap_xml(VM, MACHINE))


def test_it_is_another_machine_on_the_same_processor(made):
    assert (made.findtext("name"), made.findtext("uuid"), made.get("type"), made.get("id")) == (MACHINE.name, MACHINE.uuid, "qemu", None)
    assert made.find("metadata") is None
    assert made.find("cpu").get("mode") == "maximum" and [each.tag for each in made.find("cpu")] == []
    assert made.find("seclabel").get("model") == "dac"


def test_it_starts_from_the_network_under_bios_whatever_the_vm_does(made):
    system = made.find("os")
    assert system.get("firmware") is None and system.find("loader") is None and system.find("nvram") is None
    assert (system.find("type").get("machine"), [each.get("dev") for each in system.findall("boot")]) == ("q35", ["network"])
    assert made.find("features/smm") is None and made.findall("devices/disk/boot") == []


def test_it_has_the_disks_by_their_serial_numbers_and_the_keys_read_only(made):
    disks = made.findall("devices/disk")
    seen = [(each.findtext("serial"), each.get("type"), each.find("source").attrib.values()[0], each.find("target").get("dev")) for each in disks]
    assert seen == [
        ("rf-disk-0", "file", "/pool/master-disk0.img", "vda"),
        ("rf-disk-1", "block", "/dev/vg/data", "vdb"),
        ("rf-seed", "file", "/pool/.keys.img", "vdc"),
    ]
    first, second, keys = disks
    assert keys.find("readonly") is not None and first.find("readonly") is None
    assert {each.find("target").get("bus") for each in (first, second, keys)} == {"virtio"}
    assert (first.find("driver").get("cache"), first.find("driver").get("io"), second.find("driver").get("cache")) == ("none", "native", None)


def test_a_full_pool_is_an_error_and_no_pause(made):
    assert [each.get("error_policy") for each in made.findall("devices/disk/driver")] == ["report", "report", None]


def test_it_has_one_card_and_nothing_that_belongs_to_others(made):
    (card,) = made.findall("devices/interface")
    assert card.find("mac").get("address") == MACHINE.mac and card.get("type") == "ethernet" and card.find("target").get("dev") == "rfb0"
    assert card.find("source") is None
    assert card.find("model").get("type") == "virtio" and card.find("vlan") is None
    assert {each.tag for each in made.find("devices")} == {"emulator", "disk", "interface", "serial", "memballoon", "rng"}


def test_machine_on_a_network_that_others_reach_has_no_disks_and_no_keys():
    shared = MACHINE._replace(bridge="br-admin", disks={}, seed=None)
    made = parse(xml_bootstrap.bootstrap_xml(VM, shared))
    assert made.find("devices/interface/source").get("bridge") == "br-admin" and made.findall("devices/disk") == []
    for part in ({"disks": MACHINE.disks}, {"seed": MACHINE.seed}):
        with pytest.raises(ValueError, match="no disks and no keys"):
            xml_bootstrap.bootstrap_xml(VM, shared._replace(**part))


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("", "", False),
        ("<boot dev='hd'/>", "<boot dev='hd'/><boot dev='network'/>", True),
        ("<model type='e1000'/>", "<model type='e1000'/><boot order='2'/>", True),
    ],
)
def test_boot_from_the_network_is_found_in_a_definition(old, new, found):
    assert xml_bootstrap.boots_from_network(VM.replace(old, new) if old else VM) is found
