# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A definition edited in place: what stays, what goes, what comes."""

from __future__ import annotations

import itertools
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_domain import parse
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_flatten import flatten
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_merge import merge

AT = "<address type='pci' slot='0x{:02x}'/>"
NIC = "<interface type='bridge'><mac address='52:54:00:00:00:01'/><source bridge='br0'/>{}</interface>"
DISK = "<disk type='file' device='disk'><source file='/p/a'/><target dev='vda' bus='virtio'/>{}</disk>"
# where a screen is reached, as libvirt writes it
SCREENS = {
    "address": "<graphics type='vnc' port='-1' autoport='yes' listen='127.0.0.1'><listen type='address' address='127.0.0.1'/></graphics>",
    "socket": "<graphics type='vnc'><listen type='socket'/></graphics>",
    "path": "<graphics type='vnc' socket='/run/a.sock'><listen type='socket' socket='/run/a.sock'/></graphics>",
}
# a template need not say it twice
SHORT = {
    "attribute": "<graphics type='vnc' socket='/run/a.sock'/>",
    "element": "<graphics type='vnc'><listen type='socket' socket='/run/a.sock'/></graphics>",
    "nothing": "<graphics type='vnc'/>",
}


def domain(inner: str = "", devices: str = "") -> t.Any:
    """A document."""
    return parse(f"<domain type='kvm'><memory unit='MiB'>64</memory>{inner}<devices>{devices}</devices></domain>")


def merged(config: t.Any, wanted: t.Any, applied: t.Any | None, echo: t.Mapping[str, str | None] | None = None) -> dict[str, str]:
    """What comes out, flat."""
    return flatten(merge(config, wanted, applied, {} if echo is None else echo))


def test_memory_takes_the_memory_in_use_along() -> None:
    wanted = parse("<domain><memory unit='MiB'>96</memory></domain>")
    found = merged(
        parse("<domain><memory unit='KiB'>65536</memory><currentMemory unit='KiB'>65536</currentMemory></domain>"),
        wanted,
        parse("<domain><memory unit='MiB'>64</memory></domain>"),
    )
    assert (found["memory"], found["currentMemory"]) == ("98304 KiB", "98304 KiB")
    less = parse("<domain><memory unit='MiB'>96</memory><currentMemory unit='MiB'>32</currentMemory></domain>")
    assert merged(wanted, less, wanted)["currentMemory"] == "32768 KiB"


def test_vcpu_all_of_them_again() -> None:
    wanted = parse("<domain><vcpu>2</vcpu></domain>")
    found = merge(parse("<domain><vcpu placement='static' current='1'>2</vcpu></domain>"), wanted, wanted, {}).find("vcpu")
    assert dict(found.attrib) == {"placement": "static"}


def test_addresses_and_aliens_stay() -> None:
    config = domain("<iothreads>1</iothreads>", NIC.format(AT.format(3)) + DISK.format("<iotune/>" + AT.format(4)) + "<memballoon model='virtio'/>")
    wanted = domain("", NIC.replace("br0", "br1").format("<model type='virtio'/>") + DISK.format("<serial>S</serial>"))
    found = merged(config, wanted, domain("", NIC.format("") + DISK.format("")))
    assert found["devices/interface[52:54:00:00:00:01]/address/@slot"] == "3"
    assert found["devices/interface[52:54:00:00:00:01]/source/@bridge"] == "br1"
    assert found["devices/disk[vda]/address/@slot"] == "4" and found["devices/disk[vda]/serial"] == "S" and "devices/disk[vda]/iotune" in found
    assert found["iothreads"] == "1" and found["devices/memballoon/@model"] == "virtio"


def test_a_device_with_another_mac_keeps_its_address() -> None:
    wanted = domain("", NIC.format(""))
    config = domain("", NIC.replace(":01", ":99").format(AT.format(3)))
    assert merged(config, wanted, wanted)["devices/interface[52:54:00:00:00:01]/address/@slot"] == "3"
    assert len(merge(config, wanted, wanted, {}).findall("devices/interface")) == 1


def test_what_was_taken_over_stays() -> None:
    wanted = domain("", NIC.format(""))
    config = domain("", NIC.format("") + NIC.replace(":01", ":02").format(""))
    assert len(merge(config, wanted, wanted, {}).findall("devices/interface")) == 1
    assert len(merge(config, wanted, None, {}).findall("devices/interface")) == 2
    assert len(merge(config, wanted, wanted, None).findall("devices/interface")) == 2
    assert len(merge(config, wanted, wanted, {"devices/interface[52:54:00:00:00:02]": "x"}).findall("devices/interface")) == 2


def test_another_bus_is_another_address() -> None:
    found = merged(domain("", DISK.format(AT.format(4))), domain("", DISK.replace("virtio", "scsi").format("")), domain("", DISK.format("")))
    assert not any("address" in path for path in found)


def test_another_type_has_another_source() -> None:
    wanted = domain("", NIC.replace("bridge='br0'", "network='n'").replace("type='bridge'", "type='network'").format(""))
    found = merge(domain("", NIC.format(AT.format(3))), wanted, domain("", NIC.format("")), {}).find("devices/interface")
    assert dict(found.find("source").attrib) == {"network": "n"} and found.get("type") == "network" and found.find("address") is not None


def test_another_machine_has_other_buses() -> None:
    config = domain(
        "<os><type arch='x86_64' machine='pc-i440fx-7.2'>hvm</type></os>",
        NIC.format(AT.format(3)) + "<controller type='pci' index='0' model='pci-root'/><controller type='usb' index='0' model='piix3-uhci'/>",
    )
    before, wanted = (domain(f"<os><type machine='{machine}'>hvm</type></os>", NIC.format("")) for machine in ("pc", "q35"))
    echo = {"os/type/@machine": "pc-i440fx-7.2"}
    kept, found = merge(config, before, before, echo), merge(config, wanted, before, echo)
    assert flatten(kept) == flatten(config)
    assert found.find("devices/controller") is None and found.find("devices/interface/address") is None
    assert found.find("os/type").get("machine") == "q35"


def test_an_alias_is_restored_to_what_it_meant() -> None:
    said = domain("<os><type machine='pc'>hvm</type></os>")
    config = domain("<os><type machine='pc-i440fx-6.2'>hvm</type></os>")
    assert merged(config, said, said, {"os/type/@machine": "pc-i440fx-7.2"})["os/type/@machine"] == "pc-i440fx-7.2"


def test_the_boot_order_is_one_thing() -> None:
    old, new = (domain(f"<os><type>hvm</type><boot dev='{device}'/></os>", DISK.format("")) for device in ("hd", "network"))
    bmc = domain("<os><type>hvm</type></os>", DISK.format("<boot order='1'/>"))
    assert merged(bmc, old, old)["os/boot"] == "1=disk[vda]"
    assert merged(bmc, new, old)["os/boot"] == "network"
    ordered = domain("<os><type>hvm</type></os>", DISK.format("<boot order='2'/>"))
    assert merged(old, ordered, old)["os/boot"] == "2=disk[vda]"


def test_a_device_put_back_does_not_break_the_boot_order() -> None:
    said = domain("", DISK.format("<boot order='1'/>") + NIC.format("<boot order='2'/>"))
    assert merged(domain("", DISK.format("<boot order='1'/>")), said, said)["os/boot"] == "1=disk[vda] 2=interface[52:54:00:00:00:01]"
    # libvirt refuses a place given twice, and both forms at once
    assert merged(domain("", DISK.format("<boot order='2'/>")), said, said)["os/boot"] == "2=disk[vda]"
    assert merged(domain("<os><boot dev='hd'/></os>", DISK.format("")), said, said)["os/boot"] == "hd"


def test_firmware_changes_as_a_whole() -> None:
    bios = domain("<os><type>hvm</type></os>")
    uefi = domain("<os firmware='efi'><type>hvm</type></os>")
    filled = domain("<os firmware='efi'><type>hvm</type><loader type='pflash'>/code</loader><nvram>/vars</nvram></os>")
    assert flatten(merge(filled, uefi, uefi, {})) == flatten(filled)
    found = merge(filled, bios, uefi, {}).find("os")
    assert [child.tag for child in found] == ["type"] and not found.attrib
    assert merged(bios, uefi, bios)["os/@firmware"] == "efi"


def test_features_of_others_stay() -> None:
    wanted = domain("<features><acpi/></features>")
    found = merged(domain("<features><acpi/><apic/><vmport state='off'/></features>"), wanted, domain("<features><acpi/><apic/></features>"))
    assert "features/apic" not in found and "features/acpi" in found and found["features/vmport/@state"] == "off"
    assert "features/vmport/@state" in merged(domain("<features><acpi/><vmport state='off'/></features>"), domain(), wanted)


def test_the_original_is_not_touched() -> None:
    config = domain("", NIC.format(""))
    before = flatten(config)
    assert merged(config, domain("", DISK.format("")), config) != before == flatten(config)


def test_a_disk_without_a_target_is_left_to_libvirt_to_refuse() -> None:
    config = domain("", DISK.format(AT.format(4)))
    wanted = domain("", DISK.format("").replace("<target dev='vda' bus='virtio'/>", ""))
    assert "devices/disk/source/@file" in merged(config, wanted, domain("", DISK.format("")))


def where(document: t.Any) -> tuple[list[str | None], list[dict[str, str]]]:
    """All forms of a screen's address or socket: libvirt refuses different ones, or takes the socket."""
    screen = document.find("devices/graphics")
    return [screen.get("listen"), screen.get("socket")], [dict(listen.attrib) for listen in screen.iterfind("listen")]


@pytest.mark.parametrize(("before", "wanted"), itertools.permutations((*SCREENS, *SHORT), 2))
def test_a_screen_is_reached_only_as_the_template_says(before: str, wanted: str) -> None:
    texts = {**SCREENS, **SHORT}
    config = domain("", SCREENS.get(before, SCREENS["address" if before == "nothing" else "path"]))
    said = domain("", texts[wanted])
    assert where(merge(config, said, domain("", texts[before]), {})) == where(said)


@pytest.mark.parametrize(
    ("found", "wanted"),
    [("address", "socket"), ("address", "path"), ("address", "element"), ("path", "address"), ("socket", "path"), ("socket", "attribute")],
)
def test_a_screen_that_others_moved_is_reached_as_before(found: str, wanted: str) -> None:
    said = domain("", {**SCREENS, **SHORT}[wanted])
    assert where(merge(domain("", SCREENS[found]), said, said, {})) == where(said)
