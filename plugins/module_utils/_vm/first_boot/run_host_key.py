# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The SSH host key of a VM: installed when its first disk is created, and reported afterwards."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details import model_vm
from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot import model_cloud_init, model_host_key
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import model_storage

if t.TYPE_CHECKING:
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.run_steps import VolumeSteps


def given(
    vms: t.Sequence[model_vm.VmDetails], listed: t.Sequence[model_vm.VmDetails], keys: t.Mapping[str, t.Any], path: str = "host_keys"
) -> tuple[model_vm.VmDetails, ...]:
    """Return the VMs with their host keys.

    :arg listed: all VMs of the details; ``vms`` are the VMs of this call.
    :arg keys: VM id → text of a private key.
    :raises InputError: an unknown id, or not a valid key.
    """
    parsed = model_host_key.parse_all(keys, path)
    for vm_id in set(keys) - {vm.id for vm in listed}:
        raise model_errors.InputError(f"vms has no VM with the id {model_errors.shown(vm_id)}.", f"{path}.{vm_id}", "Use the ids of vms.")
    return tuple(dataclasses.replace(vm, host_key=parsed.get(vm.id)) for vm in vms)


def with_host_key(
    content: model_cloud_init.CloudInit, there: t.Mapping[str, bytes] | None, key: model_host_key.HostKey | None, volumes: t.Sequence[model_storage.VolumePlan]
) -> model_cloud_init.CloudInit:
    """Return a seed with the host key of its guest.

    A guest installs the key at its first boot, so an existing seed keeps its key, and a key is only added together with a new
    first disk.

    :arg there: the files of the existing seed, ``None`` if there is none.
    """
    try:
        kept = (there or {}).get(model_cloud_init.VENDOR_DATA, b"").decode("utf-8")
    except UnicodeDecodeError:
        kept = ""
    if kept:
        return dataclasses.replace(content, vendor_data=kept)
    if key is None or not volumes or not volumes[0].creates or model_host_key.decided_by_user(content.user_data):
        return content
    return dataclasses.replace(content, vendor_data=model_host_key.vendor_data(key))


def plan(steps: VolumeSteps, key: model_host_key.HostKey) -> None:
    """Plan the key of a container, and set the public key of the VM if it is known for certain."""
    for index, one in enumerate(steps.volumes):
        if one.disk.mount != "/":
            continue
        if one.how == model_storage.UNPACK:
            volumes = [*steps.volumes]
            volumes[index] = one._replace(host_key=key)
            steps.volumes, steps.host_key = tuple(volumes), key.public
        elif one.found is not None:
            # imported for containers only
            from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot import io_host_key

            steps.host_key = io_host_key.read_public(one.found.path)
        return
    if steps.seed is not None:
        steps.host_key = model_host_key.public_in(steps.seed.content.vendor_data)
