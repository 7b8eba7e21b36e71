# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check mode on a host that is not prepared yet: predicts what a run will do once it is prepared."""

from __future__ import annotations

import contextlib
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import run_moved, run_result
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domains import DomainHost
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import plan_domain, xml_domain
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details import model_vm
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.plan_isolation import container_warnings
from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot import io_seed_check, model_cloud_init
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.model_owner import Record
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import run_volumes
from ansible_collections.reduced.footprint.plugins.module_utils._vm.template import run_render, xml_template


def unprepared(needed: t.Iterable[str], connect: t.Callable[[str], DomainHost]) -> str | None:
    """Why libvirt on this host cannot be queried, or documents not be rendered; ``None`` when both are possible."""
    if xml_domain.LXML_ERROR is not None or xml_template.JINJA2_ERROR is not None:
        return model_errors.missing_libraries(*model_errors.VM_LIBRARIES).message
    try:
        for uri in needed:
            with connect(uri):
                pass
    except model_errors.BackendError as error:
        return error.message
    return None


def predict(
    request: run_result.DefineRequest, vms: t.Sequence[model_vm.VmDetails], choice: run_render.HypervisorChoice, reason: str, away: t.Mapping[str, Record]
) -> run_result.DefineResult:
    """The result for a host without libvirt: no domain exists there, so every VM is new unless it was moved to another server.

    :arg reason: why libvirt cannot be queried; it becomes a warning.
    :arg away: the records of VMs that other hosts have.
    """
    results = []
    elsewhere = []
    failures = []
    for vm in vms:
        try:
            kind = choice.of(vm).type
            if request.state not in ("absent", "rolled_back"):
                # the proof is made when the host is prepared
                choice.check(vm, kind, exists=True)
                # without PyYAML, which the preparation installs, the seed is checked when it is written
                with contextlib.suppress(model_errors.BackendError):
                    if vm.cloud_init is not None:
                        io_seed_check.check(vm.cloud_init, vm.path)
        except model_errors.InputError as error:
            failures.append(error)
            results.append(run_result.VmResult(vm.id, vm.name, vm.uuid, list(vm.macs), error=str(error)))
            continue
        record = run_moved.record_of(away, vm, request.cluster, "")
        if record is not None:
            result = run_result.VmResult(vm.id, vm.name, vm.uuid, list(vm.macs), hypervisor=kind, state=run_moved.state_of(record), moved_to=record.where)
            results.append(result)
            try:
                elsewhere.append(f"VM {vm.name}: {run_moved.leave_alone(record, request.state)}")
            except model_errors.RefusedError as error:
                result.error = str(error)
            continue
        actions: list[str] = []
        if request.state not in ("absent", "rolled_back"):
            volumes = [f"create_volume {disk.pool or request.pool}/{disk.name}" for disk in vm.disks]
            if kind != "lxc" and (vm.cloud_init is not None or vm.authorized_keys and vm.disks and vm.disks[0].image is not None):
                volumes.insert(0, f"write_seed {request.pool}/{run_volumes.seed_name(vm.name)}")
            elif vm.cloud_init is not None and vm.disks:
                volumes.append(f"write_seed {vm.disks[0].pool or request.pool}/{vm.disks[0].name}/{'/'.join(model_cloud_init.SEED_FOLDER)}")
            actions += [plan_domain.DEFINE, *volumes]
            if request.autostart if vm.autostart is None else vm.autostart:
                actions.append(plan_domain.AUTOSTART_ON)
            if request.state == "running":
                actions.append(plan_domain.START)
        state = {"running": "running", "absent": "absent", "rolled_back": "absent"}.get(request.state, "shutdown")
        results.append(run_result.VmResult(vm.id, vm.name, vm.uuid, list(vm.macs), hypervisor=kind, state=state, changed=bool(actions), actions=actions))
    if failures and len(failures) == len(vms):
        raise failures[0]
    new = [vm for vm in results if vm.moved_to is None and vm.hypervisor is not None]
    before = "".join(f"{vm.name}: absent\n" for vm in new)
    after = "".join(f"{vm.name}: {vm.state}\n" for vm in new)
    diff = [{"before_header": "VMs", "after_header": "VMs", "before": before, "after": after}] if before != after else []
    warnings: list[str] = []
    if vms:
        if request.state not in ("absent", "rolled_back"):
            warnings += container_warnings((vm.name, vm.hypervisor, False) for vm in new)
            unproven = [vm.name for vm in new if vm.hypervisor == "kvm" and not choice.proven("kvm")]
            if unproven:
                warnings.append(f"{', '.join(unproven)}: kvm is not proven usable here yet; the run fails if it is not")
        warnings.append(f"this host is not prepared yet ({reason.rstrip('.')}); all its VMs count as new, and the template was not rendered")
    return run_result.DefineResult(results, warnings + elsewhere, diff, [])
