# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keeps the MACs, volumes and targets of an existing VM when its lists of disks and NICs are edited. Reads only.

The document applied last is in the domain's metadata: the MAC of each NIC, the volume and the target of
each disk. It is compared with the details; see :mod:`_vm.compare.plan_device_keys` for refused edits.
"""

from __future__ import annotations

import copy
import dataclasses
import os
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors, model_size
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import plan_device_keys, xml_domain
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details import model_parts, model_vm
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_identity import nic_mac
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import model_storage, xml_devices
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.io_volumes import VolumeStore

# volume groups round up to whole extents; the largest common extent size
_EXTENT = 128 * model_size.MIB
# positions whose derived MACs are searched in a domain
_MOST_NICS = 64


def settle_disks(vm: model_vm.VmDetails, applied: t.Any, store: VolumeStore, pool: str, grows: bool = False) -> tuple[model_parts.Disk, ...]:
    """The disks of the details, each with the target it was applied with.

    :arg applied: the parsed document that was applied last.
    :arg grows: whether a volume would grow, which can also mean that one entry replaced another.
    """
    if not vm.disks:
        return ()
    recorded = xml_devices.recorded_disks(applied)
    places = [store.pool(disk.pool or pool, f"{vm.path}.disks[{index}].pool" if disk.pool else "pool") for index, disk in enumerate(vm.disks)]
    paths = [store.source(place, disk, f"{vm.path}.disks[{index}]").path for index, (place, disk) in enumerate(zip(places, vm.disks))]
    pairs = [
        recorded.get(path) or recorded.get(f"{place.name}:{disk.name}") or recorded.get(_other_place(recorded, store, place, disk))
        for path, place, disk in zip(paths, places, vm.disks)
    ]
    lost = any(path not in paths and model_parts.position_of(os.path.basename(path), vm.name) is not None for path in recorded)
    if grows or lost or not all(found is not None and _same(found, disk) for found, disk in zip(pairs, vm.disks)):
        _check_disks(vm, recorded, store, places)
    return _with_targets(vm, pairs)


def check_edit(vm: model_vm.VmDetails, cluster: str, plans: t.Sequence[model_storage.VolumePlan], wanted: t.Any, applied: t.Any, adopted: bool) -> None:
    """Refuse ambiguous edits of NICs and disks in a document that differs from the last one.

    :arg vm: the details, of an adopted domain with its identity.
    :arg wanted: the rendered document, ``applied`` the one that was applied last.
    :arg adopted: whether the domain was adopted, so that its MACs and disks are not derived from positions.
    """
    _check_nics(vm, cluster, wanted, applied, adopted)
    if adopted:
        _check_adopted_disks(vm, wanted, applied)
    else:
        _check_new_disks(vm, plans, wanted, applied)


def _check_nics(vm: model_vm.VmDetails, cluster: str, wanted: t.Any, applied: t.Any, adopted: bool) -> None:
    """Refuse ambiguous edits of NICs."""
    positions = {} if adopted else {nic_mac(cluster, vm.id, number): number for number in range(_MOST_NICS)}
    fixed = {nic.mac for nic in vm.nics if nic.fixed}
    named = {nic.mac for nic in vm.nics if nic.name is not None and not adopted}
    paths = {nic.mac: f"nics[{index}]" for index, nic in enumerate(vm.nics)}
    before, now = [], []
    for index, (mac, element) in enumerate(_interfaces(applied)):
        before.append(plan_device_keys.Entry(mac, index if adopted else positions.get(mac), *_attributes_of_nic(element), label=_nic_label(element)))
    for index, (mac, element) in enumerate(_interfaces(wanted)):
        position = None if mac in named else index if adopted else positions.get(mac)
        # a MAC that is neither derived nor in the details is in the template
        given = mac in fixed or mac not in named and position is None
        path = paths.get(mac, f"NIC number {index} of the template")
        now.append(plan_device_keys.Entry(mac, position, *_attributes_of_nic(element), fixed=given, path=path))
    ambiguity = plan_device_keys.find_ambiguity(before, now)
    if ambiguity is None:
        return
    edits = [f"mac: {old.key} in {mine.path}" for mine, old in plan_device_keys.likely(before, now)]
    had = ", ".join(f"{entry.key} ({entry.label})" for entry in before)
    mine = ambiguity.wanted
    new = f" A new NIC added while another is removed needs a mac too: mac: {mine.key} in {mine.path}." if mine.position is None else ""
    raise model_errors.RefusedError(
        f"it is not certain which NIC is which: {ambiguity.wanted.path} could be the NIC {ambiguity.applied.key} ({ambiguity.applied.label}), "
        "and MACs follow the positions of NICs that have no name.",
        f"{vm.path}.nics",
        f"Write the MACs of the remaining NICs into the details{_example(edits)}; the VM has {had}.{new}",
    )


def _check_new_disks(vm: model_vm.VmDetails, plans: t.Sequence[model_storage.VolumePlan], wanted: t.Any, applied: t.Any) -> None:
    """Refuse a new disk without a name while a named one is removed: perhaps only its name was removed from the details."""
    gone = [path for path in xml_devices.own_disks(applied) if path not in xml_devices.own_disks(wanted)]
    new = next((plan.disk for plan in plans if plan.creates and not plan.disk.named), None)
    if gone and new is not None:
        index = vm.disks.index(new) if new in vm.disks else 0
        raise model_errors.RefusedError(
            f"would be a new, empty volume {new.name}, and the VM would lose the disk {gone[0]}.",
            f"{vm.path}.disks[{index}]",
            f"Write name: {os.path.basename(gone[0])} into disks[{index}] to keep that disk, or remove it in one run and add the new one in the next.",
        )


def _check_adopted_disks(vm: model_vm.VmDetails, wanted: t.Any, applied: t.Any) -> None:
    """Refuse ambiguous edits of the disks of an adopted VM, which are matched by number or target."""
    paths = {disk.target: f"disks[{index}]" for index, disk in enumerate(vm.disks) if not disk.placed and disk.mount is None}
    before = _by_target(applied)
    now = [entry._replace(fixed=entry.key not in paths, path=paths.get(entry.key, "")) for entry in _by_target(wanted)]
    ambiguity = plan_device_keys.find_ambiguity(before, now)
    if ambiguity is not None:
        edits = [f"target: {old.key} in {mine.path}" for mine, old in plan_device_keys.likely(before, now)]
        raise model_errors.RefusedError(
            f"it is not certain which disk is which: {ambiguity.wanted.path} could be {ambiguity.applied.label}, "
            "and disks of an adopted VM without a target are matched by their number.",
            f"{vm.path}.disks",
            f"Write the targets of the remaining disks into the details{_example(edits)}; the VM has {', '.join(entry.label for entry in before)}.",
        )


def _by_target(document: t.Any) -> list[plan_device_keys.Entry]:
    found = enumerate(xml_devices.recorded_disks(document).items())
    return [
        plan_device_keys.Entry(disk.mount or disk.target, index, (disk.bus, disk.format, disk.serial), label=_disk_label(path, disk))
        for index, (path, disk) in found
    ]


def _check_disks(
    vm: model_vm.VmDetails, recorded: t.Mapping[str, xml_devices.RecordedDisk], store: VolumeStore, places: t.Sequence[model_storage.Pool]
) -> None:
    now, before = [], []
    for index, (disk, place) in enumerate(zip(vm.disks, places)):
        path = store.place(place, disk.name)
        key = path if path in recorded else _other_place(recorded, store, place, disk)
        size = None if disk.size is None else _rounded(disk.size, place)
        attributes = (disk.format, disk.image, size, os.path.dirname(key), disk.bus if disk.mount is None else None, disk.serial, disk.mount)
        now.append(plan_device_keys.Entry(key, None if disk.named else index, attributes, path=f"disks[{index}]"))
    requested = {entry.key for entry in now}
    for path, found in recorded.items():
        position = model_parts.position_of(os.path.basename(path), vm.name)
        # other removed disks can be those of the template; see _check_new_disks
        if position is not None or path in requested:
            before.append(plan_device_keys.Entry(path, position, _attributes_of_disk(path, found, vm, store), label=_disk_label(path, found)))
    ambiguity = plan_device_keys.find_ambiguity(before, now, _could_be)
    if ambiguity is None:
        return
    pairs = plan_device_keys.likely(before, now)
    edits = [f"name: {os.path.basename(old.key)} in {mine.path}" for mine, old in pairs]
    had = ", ".join(entry.label for entry in before)
    new = " Replacing a disk by a new one takes two runs: first without the old one, then with the new one." if ambiguity.wanted.position is None else ""
    raise model_errors.RefusedError(
        f"it is not certain which disk is which: {ambiguity.wanted.path} could be {ambiguity.applied.label}, "
        "and volumes follow the positions of disks that have no name.",
        f"{vm.path}.disks",
        f"Write the names of the remaining disks into the details{_example(edits)}; the VM has {had}.{new}",
    )


def _example(edits: t.Sequence[str]) -> str:
    return f", which are probably {', '.join(edits)}" if edits else ""


def _could_be(mine: plan_device_keys.Entry, old: plan_device_keys.Entry) -> bool:
    """Whether a disk with a new name could be an old one; not if it is smaller or has other attributes."""
    size, capacity = mine.attributes[2], old.attributes[2]
    if size is not None and capacity is not None and size < capacity:
        return False
    return plan_device_keys.alike((*mine.attributes[:2], *mine.attributes[3:]), (*old.attributes[:2], *old.attributes[3:]))


def _other_place(recorded: t.Mapping[str, t.Any], store: VolumeStore, place: model_storage.Pool, disk: model_parts.Disk) -> str:
    """The recorded path of a disk in the other format or in another pool; whether that is allowed is checked elsewhere."""
    if disk.twin is not None and store.place(place, disk.twin) in recorded:
        return store.place(place, disk.twin)
    same = [known for known in recorded if os.path.basename(known) == disk.name]
    return same[0] if len(same) == 1 else store.place(place, disk.name)


def _attributes_of_disk(path: str, found: xml_devices.RecordedDisk, vm: model_vm.VmDetails, store: VolumeStore) -> plan_device_keys.Attributes:
    image = size = None
    there = store.pool_of(path)
    if there is not None:
        place, name = there
        like = dataclasses.replace(vm.disks[0], name=name, format=found.format or "raw")
        volume = store.find(place, like, f"{vm.path}.disks", found.format == "raw") if store.has(place, name) else None
        if volume is not None:
            size = None if volume.capacity is None else _rounded(volume.capacity, place)
            image = volume.origin.image if volume.origin is not None else None
    return (found.format, image, size, os.path.dirname(path), found.bus, found.serial, found.mount)


def _rounded(size: int, place: model_storage.Pool) -> int:
    """A size rounded up as the pool may have done."""
    unit = 512 if place.files else _EXTENT
    return -(-size // unit) * unit


def _same(found: xml_devices.RecordedDisk, disk: model_parts.Disk) -> bool:
    return plan_device_keys.alike((found.serial, found.mount), (disk.serial, disk.mount)) and (disk.mount is not None or found.bus in (None, disk.bus))


def _with_targets(vm: model_vm.VmDetails, pairs: t.Sequence[xml_devices.RecordedDisk | None]) -> tuple[model_parts.Disk, ...]:
    disks = list(vm.disks)
    kept: dict[int, str] = {}
    for index, (disk, found) in enumerate(zip(vm.disks, pairs)):
        if found is None or disk.placed or disk.mount is not None:
            continue
        if found.target.startswith(model_parts.DISK_BUSES[disk.bus]):
            kept[index] = found.target
            disks[index] = dataclasses.replace(disk, target=found.target)
    for index, disk in enumerate(disks):
        if disk.placed and disk.target in kept.values():
            other = next(number for number, target in kept.items() if target == disk.target)
            raise model_errors.RefusedError(
                f"{disk.target!r} is already the target of disks[{other}].", f"{vm.path}.disks[{index}].target", f"Set another target for disks[{other}], too."
            )
    if not kept:
        return vm.disks
    return tuple(model_parts.free_targets(disks, f"{vm.path}.disks", kept))


def _disk_label(path: str, found: xml_devices.RecordedDisk) -> str:
    return f"{found.mount or found.target} ({os.path.basename(path)})"


def _interfaces(document: t.Any) -> list[tuple[str, t.Any]]:
    found = []
    for element in document.iterfind("devices/interface"):
        mac = element.find("mac")
        found.append(((mac.get("address", "") if mac is not None else "").lower(), element))
    return found


def _attributes_of_nic(element: t.Any) -> tuple[plan_device_keys.Attributes, plan_device_keys.Attributes]:
    """The attributes of a NIC without its MAC, and its connection."""
    bare = copy.deepcopy(element)
    for tag in ("mac", "boot", "address", "alias"):
        for child in bare.findall(tag):
            bare.remove(child)
    source = element.find("source")
    tags = tuple(tag.get("id") for tag in element.iterfind("vlan/tag"))
    place = tuple(sorted(source.attrib.items())) if source is not None else ()
    return (xml_domain.canonical(bare),), (element.get("type"), place, tags)


def _nic_label(element: t.Any) -> str:
    source = element.find("source")
    kind = element.get("type", "")
    where = (source.get(kind) or source.get("bridge") or source.get("network") or source.get("dev")) if source is not None else None
    vlan = element.find("vlan/tag")
    return f"{kind} {where}" if vlan is None else f"{kind} {where}, vlan {vlan.get('id')}"
