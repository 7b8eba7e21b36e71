# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The variables a template can speak of, made from the details of a VM (F3)."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._model.storage import DiskSource
from ansible_collections.reduced.footprint.plugins.module_utils._model.vm import CPU_KEYS, RAM_KEYS, VmDetails
from ansible_collections.reduced.footprint.plugins.module_utils._xml.template import Rendered, Template

# Details that mean something to us, whether or not the template speaks of them.
_OURS = frozenset(("id", "name", "uuid", "hypervisor", "roles", "address", "autostart", "protected"))


def variables_of(vm: VmDetails, cluster: str, hypervisor: str, sources: t.Sequence[DiskSource]) -> dict[str, t.Any]:
    """Every variable of a VM.

    Free keys come first, so that none can pretend to be another VM's name or disk. cpu and memory
    exist only where the details name them: a template must be able to find them missing.

    :arg hypervisor: the type the VM really gets (``auto`` is decided by now).
    :arg sources: where the disks stand, in their order.
    """
    variables: dict[str, t.Any] = dict(vm.free)
    variables.update(
        id=vm.id,
        name=vm.name,
        uuid=vm.uuid,
        cluster=cluster,
        hypervisor=hypervisor,
        roles=list(vm.roles),
        address=vm.address,
        machine=vm.machine,
        nics=[
            dict(nic.free, bridge=nic.bridge, network=nic.network, vlan=nic.vlan, mac=nic.mac, model=nic.model, virtualport=nic.virtualport)
            for nic in vm.nics
        ],
        disks=[
            dict(
                disk.free,
                name=disk.name,
                size=disk.size,
                pool=source.pool,
                path=source.path,
                type=source.type,
                format=disk.format,
                target=disk.target,
                bus=disk.bus,
                serial=disk.serial,
                mount=disk.mount,
            )
            for disk, source in zip(vm.disks, sources)
        ],
    )
    if vm.cpu_given:
        variables.update({key: vm.cpu for key in CPU_KEYS})
    if vm.memory_given:
        gib = vm.memory_mib / 1024
        variables.update(ram=int(gib) if gib == int(gib) else gib, memory_mb=vm.memory_mib)
        variables["mem"] = variables["ram"]
    if vm.given.get("vda_size") is not None:
        variables["vda_size"] = vm.given["vda_size"]
    # the single-brace form has no loops
    for kind in ("nics", "disks"):
        for index, entry in enumerate(variables[kind]):
            variables.update({f"{kind[:-1]}{index}_{key}": value for key, value in entry.items()})
    return variables


def disks_used(template: Template) -> bool:
    """Whether a template speaks of the VM's disks in any of the ways it can."""
    return template.uses("disks", "vda_size") or any(name.startswith("disk") and "_" in name for name in template.variables)


def unused_attributes(vm: VmDetails, template: Template, rendered: Rendered) -> tuple[str, ...]:
    """The keys of the details that neither the template nor this collection does anything with."""
    same = {key: group for group in (CPU_KEYS, RAM_KEYS) for key in group}
    unused = []
    for key in vm.given:
        if key in _OURS or template.uses(*same.get(key, (key,))):
            continue
        flat = {"nics": "nic", "disks": "disk", "vda_size": "disk"}.get(key)
        if flat and (template.uses("disks") or any(name.startswith(flat) and "_" in name for name in template.variables)):
            continue
        unused.append(key)
    for kind, parts in (("nics", vm.nics), ("disks", vm.disks)):
        if template.jinja2 and template.uses(kind):
            paths = (f"{kind}[{index}].{key}" for index, part in enumerate(parts) for key in part.free)
            unused.extend(path for path in paths if path not in rendered.touched)
    return tuple(unused)
