# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The template variables of a VM, derived from its details."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._vm.details import model_vm
from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot import model_cloud_init
from ansible_collections.reduced.footprint.plugins.module_utils._vm.template import xml_template

if t.TYPE_CHECKING:
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import model_storage

# Details that this collection uses, whether or not the template does.
_COLLECTION = frozenset(
    ("id", "name", "uuid", "hypervisor", "roles", "address", "autostart", "protected", "host", "anti_affinity", "nested", "standby")
)

_FIRMWARE = ("boot_firmware", "secure_boot")


def variables_of(
    vm: model_vm.VmDetails, cluster: str, hypervisor: str, sources: t.Sequence[model_storage.DiskSource], seed: t.Mapping[str, t.Any] | None = None
) -> dict[str, t.Any]:
    """Return all variables of a VM.

    Free keys are set first, so that they cannot override other variables. CPU and memory variables
    exist only if they are set in the details, so that a template can detect that they are missing.

    :arg hypervisor: the selected type (never ``auto``).
    :arg seed: the seed disk (``path, type, format, target, bus``); never its content.
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
        boot_firmware=vm.boot_firmware or (None if hypervisor == "lxc" else "bios"),
        secure_boot=vm.secure_boot,
        nics=[
            dict(
                nic.free, name=nic.name, bridge=nic.bridge, network=nic.network, vlan=nic.vlan, mac=nic.mac, model=nic.model, virtualport=nic.virtualport
            )
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
                format=source.format or disk.format,
                target=disk.target,
                bus=disk.bus,
                serial=disk.serial,
                mount=disk.mount,
                shareable=disk.shareable,
            )
            for disk, source in zip(vm.disks, sources)
        ],
    )
    if vm.cpu_given:
        variables.update({key: vm.cpu for key in model_vm.CPU_KEYS})
    if vm.memory_given:
        gib = vm.memory_mib / 1024
        variables.update(ram=int(gib) if gib == int(gib) else gib, memory_mb=vm.memory_mib)
        variables["mem"] = variables["ram"]
    if vm.given.get("vda_size") is not None:
        variables["vda_size"] = vm.given["vda_size"]
    # the single-brace format has no loops
    for kind in ("nics", "disks"):
        for index, entry in enumerate(variables[kind]):
            variables.update({f"{kind[:-1]}{index}_{key}": value for key, value in entry.items()})
    if seed or vm.cloud_init is not None or "seed" not in variables:
        variables["seed"] = dict(seed) if seed else None
    variables.update({f"seed_{key}": value for key, value in (seed or {}).items()})
    return variables


def disks_used(template: xml_template.Template) -> bool:
    """Whether a template uses the VM's disks in any form."""
    return template.uses("disks", "vda_size") or any(name.startswith("disk") and "_" in name for name in template.variables)


def seed_used(template: xml_template.Template) -> bool:
    """Whether a template attaches the cloud-init seed."""
    return template.uses("seed") or any(name.startswith("seed_") for name in template.variables)


def unused_attributes(vm: model_vm.VmDetails, template: xml_template.Template, rendered: xml_template.Rendered, document: t.Any = None) -> tuple[str, ...]:
    """Return the keys of the details that neither the template nor this collection uses.

    :arg document: the rendered document; a template may have the requested firmware without using the variable.
    """
    same = {key: group for group in (model_vm.CPU_KEYS, model_vm.RAM_KEYS) for key in group}
    unused = []
    # a container gets its seed into its root, regardless of the template
    seeded = model_cloud_init.CLOUD_INIT_KEYS if seed_used(template) or vm.hypervisor == "lxc" else ()
    for key in vm.given:
        if document is not None and key in _FIRMWARE and getattr(vm, key) == _firmware_of(document)[key]:
            continue
        if key in _COLLECTION or key in seeded or template.uses(*same.get(key, (key,))):
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


def _firmware_of(document: t.Any) -> dict[str, t.Any]:
    """Return the firmware of a document as in the details."""
    loader = document.find("os/loader")
    efi = document.find("os[@firmware='efi']") is not None or loader is not None and loader.get("type") == "pflash"
    feature = document.find("os/firmware/feature[@name='secure-boot']")
    secure = feature is not None and feature.get("enabled") == "yes" or loader is not None and loader.get("secure") == "yes"
    return {"boot_firmware": "efi" if efi else "bios", "secure_boot": secure}
