# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names and values of a document's parts."""

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_domain import parse
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_flatten import Node, flatten, same, shown
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_normal import size


@pytest.mark.parametrize(
    ("inner", "found"),
    [
        ("<memory unit='GiB'>4</memory>", {"memory": "4194304 KiB", "currentMemory": "4194304 KiB"}),
        ("<memory>1000</memory><currentMemory unit='b'>1</currentMemory>", {"memory": "1000 KiB", "currentMemory": "1 KiB"}),
        ("<vcpu>02</vcpu>", {"vcpu": "2", "vcpu/@current": "2"}),
        ("<title> </title>", {}),
        ("<features><acpi/></features>", {"features/acpi": ""}),
        ("<os><boot dev='hd'/><boot dev='network'/></os>", {"os/boot": "hd network"}),
        ("<clock><timer name='rtc'/></clock>", {"clock/timer[rtc]/@name": "rtc"}),
        ("<devices><serial/><serial/></devices>", {"devices/serial": "", "devices/serial[2]": ""}),
        (
            "<devices><controller type='scsi'/><controller type='scsi'/></devices>",
            {"devices/controller[scsi:0]/@type": "scsi", "devices/controller[scsi:1]/@type": "scsi"},
        ),
        (
            "<devices><controller type='pci' model='pcie-root-port'/></devices>",
            {"devices/controller[pci:1]/@type": "pci", "devices/controller[pci:1]/@model": "pcie-root-port"},
        ),
        ("<devices><rng><address slot='0x0A' bus='00'/></rng></devices>", {"devices/rng/address/@slot": "10", "devices/rng/address/@bus": "0"}),
        ("<devices><graphics type='vnc' port='-1'/></devices>", {"devices/graphics[vnc]/@type": "vnc", "devices/graphics[vnc]/@autoport": "yes"}),
        ("<metadata><a xmlns='https://reduced.footprint/xmlns/live/1'/></metadata>", {}),
        ("<q:commandline xmlns:q='http://libvirt.org/schemas/domain/qemu/1.0'><q:arg value='-x'/></q:commandline>", {"qemu:commandline/qemu:arg/@value": "-x"}),
        ("<devices> <!-- comment --> </devices>", {"devices": ""}),
    ],
)
def test_flatten(inner: str, found: dict[str, str]) -> None:
    assert flatten(parse(f"<domain id='7'>{inner}</domain>")) == found


def test_boot_order_of_devices() -> None:
    document = parse("<domain><devices><disk><target dev='vda'/><boot order='2'/></disk><disk><target dev='vdb'/><boot order='1'/></disk></devices></domain>")
    assert flatten(document)["os/boot"] == "1=disk[vdb] 2=disk[vda]"


def test_names_of_twins_are_distinct() -> None:
    nic = "<interface type='user'><mac address='52:54:00:AA:00:01'/></interface>"
    assert list(Node(parse(f"<devices>{nic}{nic}</devices>")).children) == ["interface[52:54:00:aa:00:01]", "interface[52:54:00:aa:00:01][2]"]


def test_sizes_in_one_unit() -> None:
    assert [size("1", "GiB"), size("1", "M"), size("1025", "bytes"), size("0", "KiB"), size("4", "furlongs"), size("x", "KiB")] == [
        "1048576 KiB",
        "1024 KiB",
        "2 KiB",
        "0 KiB",
        "4 furlongs",
        "x KiB",
    ]


def test_same_and_shown() -> None:
    one, other = Node(parse("<a y='2' x='1'><b/></a>")), Node(parse("<a x='1' y='2'><b/></a>"))
    assert same(one, other) and not same(one, Node(parse("<a x='1' y='2'/>"))) and not same(one, None)
    assert shown(one) == '<a x="1" y="2"><b/></a>'
    assert shown(Node(parse("<title> t </title>"))) == "t"
    assert shown(None) is None
