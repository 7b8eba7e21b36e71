# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The domain that runs the bootstrap system: the VM's processor, network card and disks, with a network boot.

With disks or keys its card is on no network but the namespace of its boot server. A machine that boots from a network that others
reach gets neither.
"""

from __future__ import annotations

import copy
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_domain import parse, text_of

try:
    from lxml import etree
except ImportError:
    # parse() reports the missing library
    etree = None

# enough for kernel, unpacked initramfs and pending writes; more would only be an additional cache
_MEMORY_MIB = 768
# parts of the CPU definition that depend on the number of processors and the memory
_OF_SIZE = ("topology", "numa", "cache")
_REBOOT_MS = "5000"


class Machine(t.NamedTuple):
    """The values that differ from the VM.

    :arg tap: name of the card's host end, which the caller moves into the namespace of the boot server before the machine runs.
    :arg console: file for the output of the serial console.
    :arg disks: serial number → path of a raw file or block device on the host.
    :arg seed: serial number and path of the disk with the keys, read-only.
    :arg bridge: a network that others reach, instead of ``tap``; without ``disks`` and ``seed`` only.
    """

    name: str
    uuid: str
    mac: str
    tap: str
    console: str
    disks: t.Mapping[str, str] = {}
    seed: tuple[str, str] | None = None
    bridge: str | None = None


def bootstrap_xml(xml: str, machine: Machine) -> str:
    """Return the domain XML of the bootstrap machine.

    It always uses BIOS, so that its unsigned kernel boots; the written disks do not depend on the firmware.

    :raises ValueError: the machine has disks or keys, and boots from a bridge.
    """
    if machine.bridge and (machine.disks or machine.seed):
        raise ValueError("a machine that boots from a network that others reach gets no disks and no keys")
    vm = parse(xml)
    document = etree.Element("domain", {"type": vm.get("type", "kvm")})
    _text(document, "name", machine.name)
    _text(document, "uuid", machine.uuid)
    _text(document, "memory", str(_MEMORY_MIB), unit="MiB")
    _text(document, "vcpu", "2")
    system = etree.SubElement(document, "os")
    system.append(copy.deepcopy(vm.find("os/type")))
    etree.SubElement(system, "boot", {"dev": "network"})
    # retry the network boot after a failure
    etree.SubElement(system, "bios", {"rebootTimeout": _REBOOT_MS})
    features = etree.SubElement(document, "features")
    etree.SubElement(features, "acpi")
    processor = vm.find("cpu")
    if processor is not None:
        processor = copy.deepcopy(processor)
        for tag in _OF_SIZE:
            for each in processor.findall(tag):
                processor.remove(each)
        document.append(processor)
    for event, what in (("on_poweroff", "destroy"), ("on_reboot", "restart"), ("on_crash", "destroy")):
        _text(document, event, what)
    document.append(_devices(vm, machine))
    for each in vm.findall("seclabel"):
        if each.get("type") != "dynamic":
            document.append(copy.deepcopy(each))
    return str(text_of(document))


def boots_from_network(xml: str) -> bool:
    """Whether a domain may boot from the network, also after a failed boot from its disk."""
    domain = parse(xml)
    return any(each.get("dev") == "network" for each in domain.findall("os/boot")) or bool(domain.findall("devices/interface/boot"))


def _devices(vm: t.Any, machine: Machine) -> t.Any:
    devices = etree.Element("devices")
    emulator = vm.find("devices/emulator")
    if emulator is not None:
        devices.append(copy.deepcopy(emulator))
    given = {_path(each): each.find("driver") for each in vm.findall("devices/disk")}
    for number, (serial, path) in enumerate(machine.disks.items()):
        driver = given.get(path)
        caching = {key: driver.get(key) for key in ("cache", "io") if driver is not None and driver.get(key)}
        # a full pool must be reported as an error: a paused machine would block the writer
        _disk(devices, number, serial, path, {**caching, "error_policy": "report", "rerror_policy": "report", "discard": "unmap"})
    if machine.seed:
        etree.SubElement(_disk(devices, len(machine.disks), *machine.seed, {}), "readonly")
    card = etree.SubElement(devices, "interface", {"type": "bridge" if machine.bridge else "ethernet"})
    etree.SubElement(card, "mac", {"address": machine.mac})
    if machine.bridge:
        etree.SubElement(card, "source", {"bridge": machine.bridge})
    else:
        etree.SubElement(card, "target", {"dev": machine.tap})
    etree.SubElement(card, "model", {"type": "virtio"})
    serial_port = etree.SubElement(devices, "serial", {"type": "file"})
    etree.SubElement(serial_port, "source", {"path": machine.console, "append": "off"})
    etree.SubElement(serial_port, "target", {"port": "0"})
    etree.SubElement(devices, "memballoon", {"model": "none"})
    chance = etree.SubElement(devices, "rng", {"model": "virtio"})
    etree.SubElement(chance, "backend", {"model": "random"}).text = "/dev/urandom"
    return devices


def _disk(devices: t.Any, number: int, serial: str, path: str, driver: t.Mapping[str, str]) -> t.Any:
    block = path.startswith("/dev/")
    disk = etree.SubElement(devices, "disk", {"type": "block" if block else "file", "device": "disk"})
    etree.SubElement(disk, "driver", {"name": "qemu", "type": "raw", **driver})
    etree.SubElement(disk, "source", {"dev" if block else "file": path})
    etree.SubElement(disk, "target", {"dev": f"vd{chr(ord('a') + number)}", "bus": "virtio"})
    _text(disk, "serial", serial)
    return disk


def _path(disk: t.Any) -> str | None:
    source = disk.find("source")
    return None if source is None else source.get("file") or source.get("dev")


def _text(parent: t.Any, tag: str, text: str, **attributes: str) -> None:
    etree.SubElement(parent, tag, attributes).text = text
