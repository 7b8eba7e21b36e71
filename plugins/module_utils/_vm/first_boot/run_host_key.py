# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The SSH host key of a VM and the keys of its operator: installed when its first disk is created; the host key is reported afterwards."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details import model_vm
from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot import model_authorized_keys, model_cloud_init, model_host_key
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import model_storage

if t.TYPE_CHECKING:
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.run_steps import VolumeSteps


def given(
    vms: t.Sequence[model_vm.VmDetails],
    listed: t.Sequence[model_vm.VmDetails],
    keys: t.Mapping[str, t.Any],
    authorized: t.Sequence[t.Any] = (),
    path: str = "host_keys",
) -> tuple[model_vm.VmDetails, ...]:
    """Return the VMs with their host keys and the operator's keys.

    :arg listed: all VMs of the details; ``vms`` are the VMs of this call.
    :arg keys: VM id → text of a private key.
    """
    parsed = model_host_key.parse_all(keys, path)
    for vm_id in set(keys) - {vm.id for vm in listed}:
        raise model_errors.InputError(f"vms has no VM with the id {model_errors.shown(vm_id)}.", f"{path}.{vm_id}", "Use the ids of vms.")
    public = model_authorized_keys.parse(authorized, "authorized_keys")
    return tuple(dataclasses.replace(vm, host_key=parsed.get(vm.id), authorized_keys=public) for vm in vms)


def default_seed(vm: model_vm.VmDetails, there: t.Mapping[str, bytes] | None, volumes: t.Sequence[model_storage.VolumePlan]) -> bool:
    """Whether a machine whose details have no cloud-init data gets, or keeps, a seed with the operator's keys.

    It gets one with a new first disk from an image, and keeps it; an existing machine never gets one.

    :arg there: the files of the existing seed, ``None`` if there is none.
    """
    if there is not None:
        return not there.get("user-data") and b'"ssh_authorized_keys"' in there.get(model_cloud_init.VENDOR_DATA, b"")
    return bool(vm.authorized_keys and volumes and volumes[0].creates and volumes[0].image is not None)


def with_keys(
    content: model_cloud_init.CloudInit,
    there: t.Mapping[str, bytes] | None,
    vm: model_vm.VmDetails,
    volumes: t.Sequence[model_storage.VolumePlan],
    unfinished: bool = False,
) -> model_cloud_init.CloudInit:
    """Return a seed with the host key of its guest and the operator's keys.

    A guest installs them at its first boot, so an existing seed keeps its keys, and keys are only added together with a new
    first disk.

    :arg there: the files of the existing seed, ``None`` if there is none.
    :arg unfinished: whether a killed run created the first disk of a VM that was never started.
    """
    try:
        kept = (there or {}).get(model_cloud_init.VENDOR_DATA, b"").decode("utf-8")
    except UnicodeDecodeError:
        kept = ""
    new = bool(volumes) and (volumes[0].creates or unfinished)
    if kept:
        # a first disk that is created again keeps the host key, which is in known_hosts
        return dataclasses.replace(content, vendor_data=model_host_key.with_access(kept, vm.authorized_keys) if new and vm.authorized_keys else kept)
    key = None if model_host_key.decided_by_user(content.user_data) else vm.host_key
    if not new or not (key or vm.authorized_keys):
        return content
    return dataclasses.replace(content, vendor_data=model_host_key.vendor_data(key, vm.authorized_keys))


def plan(steps: VolumeSteps, vm: model_vm.VmDetails) -> None:
    """Plan the keys of a container, and set the public host key of the VM if it is known for certain."""
    key = vm.host_key
    for index, one in enumerate(steps.volumes):
        if one.disk.mount != "/":
            continue
        if one.how == model_storage.UNPACK:
            volumes = [*steps.volumes]
            volumes[index] = one._replace(host_key=key, authorized_keys=vm.authorized_keys)
            steps.volumes, steps.host_key = tuple(volumes), key.public if key else None
        elif one.found is not None and key is not None:
            # imported for containers only
            from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot import io_host_key

            steps.host_key = io_host_key.read_public(one.found.path)
        return
    if steps.seed is not None and key is not None:
        steps.host_key = model_host_key.public_in(steps.seed.content.vendor_data)
