# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Derive the domain XML of the rehearsal VM: the same machine, isolated from the host and from other machines."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_domain import parse, text_of

try:
    from lxml import etree
except ImportError:
    # parse() reports the missing library
    etree = None

# devices shared with the host or passed through from it, and consoles
_SHARED = ("filesystem", "hostdev", "redirdev", "smartcard", "lease", "vsock", "shmem", "tpm")
_NOT_COPIED = (*_SHARED, "graphics", "sound", "audio", "serial", "console", "parallel")
# elements an interface keeps; all others belong to its former network
_OF_A_CARD = ("mac", "model", "link", "rom", "address", "alias")


class Disk(t.NamedTuple):
    """A disk the VM writes to. ``path`` is a file or a block device."""

    path: str
    format: str


class Stage(t.NamedTuple):
    """The values that replace those of the VM.

    :arg overlays: path of each disk → its overlay, a qcow2 file.
    :arg taps: names of the network cards' host ends, one per card.
    :arg nvram: file for the firmware's variables, unused without UEFI.
    :arg console: file for the output of the serial console.
    """

    name: str
    uuid: str
    overlays: t.Mapping[str, str]
    taps: t.Sequence[str]
    nvram: str
    console: str


def disks(xml: str) -> tuple[Disk, ...]:
    """Return the disks that need an overlay: files and block devices the VM writes to."""
    found = []
    for disk in _writable(parse(xml)):
        path = _path(disk)
        driver = disk.find("driver")
        if path is not None:
            found.append(Disk(path, "raw" if driver is None else driver.get("type", "raw")))
    return tuple(found)


def cards(xml: str) -> int:
    """Return the number of network cards of the VM."""
    return len(parse(xml).findall("devices/interface"))


def nvram(xml: str) -> str | None:
    """Return the file of the VM's firmware variables; empty when libvirt chooses it, ``None`` without UEFI."""
    document = parse(xml)
    found = document.find("os/nvram")
    if found is not None:
        source = found.find("source")
        return (found.text or "").strip() if source is None else source.get("file", "")
    loader = document.find("os/loader")
    variables = document.find("os").get("firmware") == "efi" or (loader is not None and loader.get("type") == "pflash")
    return "" if variables else None


def rehearsal_xml(xml: str, stage: Stage) -> str:
    """Return the domain XML of the rehearsal VM."""
    document = parse(xml)
    document.attrib.pop("id", None)
    _settle(document, "name", stage.name)
    _settle(document, "uuid", stage.uuid)
    for tag in ("metadata", "title", "description"):
        _drop(document, tag)
    # libvirt rejects a UUID there that differs from the domain's
    for entry in document.findall("sysinfo/system/entry[@name='uuid']"):
        entry.getparent().remove(entry)
    if nvram(xml) is not None:
        _own_variables(document.find("os"), stage.nvram)
    _boot_from_disk(document)
    devices = document.find("devices")
    for tag in _NOT_COPIED:
        _drop(devices, tag)
    for channel in devices.findall("channel"):
        # a socket of the original VM, or a graphical console
        if channel.get("type") in ("spicevmc", "spiceport", "dbus") or channel.find("source") is not None:
            devices.remove(channel)
    for disk in _writable(document):
        _overlay(disk, stage.overlays)
    for interface, tap in zip(devices.findall("interface"), stage.taps):
        _isolate(interface, tap)
    serial = etree.SubElement(devices, "serial", {"type": "file"})
    etree.SubElement(serial, "source", {"path": stage.console, "append": "off"})
    etree.SubElement(serial, "target", {"port": "0"})
    return str(text_of(document))


def _writable(document: t.Any) -> list[t.Any]:
    return [each for each in document.findall("devices/disk") if each.get("device", "disk") in ("disk", "lun") and each.find("readonly") is None]


def _path(disk: t.Any) -> str | None:
    source = disk.find("source")
    return None if source is None or disk.get("type") not in ("file", "block") else source.get("file") or source.get("dev")


def _overlay(disk: t.Any, overlays: t.Mapping[str, str]) -> None:
    path = _path(disk)
    if path not in overlays:
        # no overlay was created for this storage: remove the disk, so that the original is not written to
        disk.getparent().remove(disk)
        return
    disk.set("type", "file")
    disk.set("device", "disk")
    for tag in ("source", "backingStore", "mirror", "shareable", "transient", "auth", "encryption"):
        _drop(disk, tag)
    driver = disk.find("driver")
    if driver is None:
        driver = etree.SubElement(disk, "driver", {"name": "qemu"})
    driver.set("type", "qcow2")
    etree.SubElement(disk, "source", {"file": overlays[path]})


def _isolate(interface: t.Any, tap: str) -> None:
    """Replace the connection of a network card by a tap device that is on no network of the host."""
    passed_through = interface.get("type") == "hostdev"
    for child in list(interface):
        if child.tag not in _OF_A_CARD or (passed_through and child.tag in ("address", "alias")):
            interface.remove(child)
    interface.attrib.clear()
    interface.set("type", "ethernet")
    if interface.find("model") is None:
        etree.SubElement(interface, "model", {"type": "virtio"})
    etree.SubElement(interface, "target", {"dev": tap})


def _boot_from_disk(document: t.Any) -> None:
    """Remove network boot, which gets no answer on the isolated network."""
    orders = document.findall("os/boot")
    if any(each.get("dev") == "hd" for each in orders):
        for each in orders:
            if each.get("dev") == "network":
                each.getparent().remove(each)


def _own_variables(system: t.Any, path: str) -> None:
    _settle(system, "nvram", path)
    found = system.find("nvram")
    found.attrib.pop("type", None)
    for child in list(found):
        found.remove(child)


def _settle(parent: t.Any, tag: str, text: str) -> None:
    found = parent.find(tag)
    if found is None:
        found = etree.SubElement(parent, tag)
    found.text = text


def _drop(parent: t.Any, tag: str) -> None:
    for each in parent.findall(tag):
        parent.remove(each)
