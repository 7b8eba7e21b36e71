# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Adoption of an existing domain: it keeps its UUID, MACs and disks."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.xml_device_forms import FoundDisk, Identity
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details import model_vm
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import model_storage

_PLACES = ("file", "block", "dir")


def with_identity(vm: model_vm.VmDetails, identity: Identity) -> model_vm.VmDetails:
    """The details completed with the identity of the domain, where they do not set it themselves.

    NICs and disks are matched by number, disks with their own target (or mount) by that.

    :raises RefusedError: the details set another UUID, or a disk has a source that cannot be kept.
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


def _with_place(disk: t.Any, place: str, found: FoundDisk) -> t.Any:
    if disk.mount is not None:
        return disk
    return dataclasses.replace(disk, target=place, bus=found.bus or disk.bus, format=found.format or disk.format)
