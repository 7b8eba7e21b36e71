# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Adoption of an existing domain: it keeps its UUID, MACs and disks."""

from __future__ import annotations

import copy
import dataclasses
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.xml_device_forms import FoundDisk, Identity
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details import model_vm
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import model_storage

_PLACES = ("file", "block", "dir")
# what the packaged templates write for every VM → the keys of the details that it can come from
_DEFAULTS: t.Mapping[str, tuple[str, ...]] = {
    "cpu": (), "features": ("secure_boot",), "clock": (), "on_poweroff": (), "on_reboot": (), "on_crash": (), "os/boot": ("boot",), "os/init": (),
    **{f"devices/{tag}": () for tag in ("serial", "console", "channel", "graphics", "video", "rng")}, "devices/controller": ("root_ports",),
}  # fmt: skip
# of each device: the part, or the attribute of an element
_DEVICE_DEFAULTS = {"disk": ("driver", "discard"), "filesystem": (".", "accessmode"), "interface": ("model", None)}


def with_identity(vm: model_vm.VmDetails, identity: Identity) -> model_vm.VmDetails:
    """The details completed with the identity of the domain, where they do not set it themselves.

    NICs and disks are matched by number, disks with their own target (or mount) by that.
    """
    if vm.given.get("uuid") and vm.uuid != identity.uuid:
        raise model_errors.RefusedError(
            f"is {vm.uuid}, but the domain has the UUID {identity.uuid}.", f"{vm.path}.uuid", "Omit it: an adopted domain keeps its UUID."
        )
    # MACs and targets set in one entry are not given to another by number
    given = {nic.mac for nic in vm.nics if nic.fixed} | {disk.target for disk in vm.disks if disk.placed}
    nics = tuple(
        dataclasses.replace(nic, mac=identity.macs[index]) if index < len(identity.macs) and not nic.fixed and identity.macs[index] not in given else nic
        for index, nic in enumerate(vm.nics)
    )
    targets = list(identity.disks)
    disks = []
    for index, disk in enumerate(vm.disks):
        place = disk.mount if disk.mount is not None else disk.target
        if disk.mount is None and index < len(targets) and not disk.placed and targets[index] not in given:
            place = targets[index]
        found = identity.disks.get(place or "")
        if found is not None:
            if found.type not in _PLACES:
                raise model_errors.RefusedError(
                    f"has a source of type {found.type}, which is not supported.",
                    f"{vm.path}.disks[{index}]",
                    "Attach the disk to the domain as a file or block device.",
                )
            disk = _with_place(disk, place or "", found)
        disks.append(disk)
    return dataclasses.replace(vm, uuid=identity.uuid, nics=nics, disks=tuple(disks))


def kept_disks(vm: model_vm.VmDetails, identity: Identity) -> dict[str, model_storage.DiskSource]:
    """Target → existing source, for the disks that are kept and not created."""
    kept = {}
    for disk in vm.disks:
        found = identity.disks.get((disk.mount if disk.mount is not None else disk.target) or "")
        if found is not None:
            kept[disk.target] = model_storage.DiskSource(found.type, found.path, disk.pool or "")
    return kept


def leave_defaults(document: t.Any, vm: model_vm.VmDetails, config: t.Any, applied: t.Any | None) -> None:
    """Remove from a document of a packaged template, in place, what the details do not name: so the domain keeps what it has there.

    :arg applied: the document that was applied last; ``None`` when the domain is adopted now.
    """
    given = {key for key, value in vm.given.items() if value not in (None, "")}
    for path, keys in _DEFAULTS.items():
        if not given.intersection(keys) and (applied is None or applied.find(path) is None):
            for element in document.findall(path):
                element.getparent().remove(element)
    if "machine" not in given and (applied is None or applied.find("os/type[@machine]") is None):
        for element in document.findall("os/type"):
            element.attrib.pop("machine", None)
    for tags, named in ((("memory", "currentMemory"), vm.memory_given), (("vcpu",), vm.cpu_given)):
        for tag in () if named else tags:
            for element in document.findall(tag):
                document.remove(element)
            document.extend(copy.deepcopy((config if applied is None else applied).findall(tag)))
    entries = t.cast(t.Sequence[t.Mapping[str, t.Any]], vm.given.get("nics") or ())
    models = {nic.mac for nic, entry in zip(vm.nics, entries) if entry.get("model")}
    mine, found = ({} if each is None else {_device_key(device): device for device in each.iterfind("devices/*")} for each in (applied, config))
    for device in document.iterfind("devices/*"):
        key, (name, attribute) = _device_key(device), _DEVICE_DEFAULTS.get(device.tag, (None, None))
        part = device.find(name) if name else None
        if part is None or key[1] in models or key not in mine and key not in found:
            continue
        # one that this collection has not written yet
        had = mine[key].find(name) if key in mine else None
        if attribute is None and had is None:
            device.remove(part)
        elif attribute is not None and (had is None or had.get(attribute) is None):
            part.attrib.pop(attribute, None)


def _device_key(device: t.Any) -> tuple[str, str | None]:
    """What identifies a disk, file system or NIC."""
    target, mac = device.find("target"), device.find("mac")
    if device.tag == "interface":
        return device.tag, mac.get("address", "").lower() if mac is not None else None
    return device.tag, (target.get("dev") or target.get("dir")) if target is not None else None


def _with_place(disk: t.Any, place: str, found: FoundDisk) -> t.Any:
    if disk.mount is not None:
        return disk
    return dataclasses.replace(disk, target=place, bus=found.bus or disk.bus, format=found.format or disk.format)
