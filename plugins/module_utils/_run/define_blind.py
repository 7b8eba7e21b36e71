# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check mode on a host that is not prepared yet: what the real run will do once it is."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._model.cloud_init import SEED_FOLDER
from ansible_collections.reduced.footprint.plugins.module_utils._model.errors import BackendError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._model.moved import Moved
from ansible_collections.reduced.footprint.plugins.module_utils._model.vm import VmDetails
from ansible_collections.reduced.footprint.plugins.module_utils._plan import domain as plan_of
from ansible_collections.reduced.footprint.plugins.module_utils._plan.isolation import container_warnings
from ansible_collections.reduced.footprint.plugins.module_utils._run.define_moved import leave_alone, note_about
from ansible_collections.reduced.footprint.plugins.module_utils._run.define_render import HypervisorChoice
from ansible_collections.reduced.footprint.plugins.module_utils._run.define_result import DefineRequest, DefineResult, VmResult
from ansible_collections.reduced.footprint.plugins.module_utils._run.define_volumes import seed_name
from ansible_collections.reduced.footprint.plugins.module_utils._xml.domain import LXML_ERROR
from ansible_collections.reduced.footprint.plugins.module_utils._xml.template import JINJA2_ERROR


def check_libraries() -> None:
    """See to it that documents can be made at all.

    :raises BackendError: a library is missing.
    """
    for name, failure in (("lxml", LXML_ERROR), ("Jinja2", JINJA2_ERROR)):
        if failure is not None:
            raise BackendError(f"{name} is not installed for this host's Python.", mend=f"Install python3-{name.lower()} on the host.")


def foresee(request: DefineRequest, vms: t.Sequence[VmDetails], choice: HypervisorChoice, reason: str, notes: t.Mapping[str, Moved]) -> DefineResult:
    """The result for a host without libvirt: no domain exists there, so every VM is a new one, unless another server has it.

    :arg reason: why the host cannot be asked; it becomes a warning.
    :arg notes: about VMs that were moved.
    """
    results = []
    elsewhere = []
    for vm in vms:
        note = note_about(notes, vm, request.cluster, "")
        if note is not None:
            result = VmResult(vm.id, vm.name, vm.uuid, list(vm.macs), hypervisor=choice.of(vm).type)
            results.append(result)
            try:
                elsewhere.append(f"VM {vm.name}: {leave_alone(note, result, request.state)}")
            except RefusedError as error:
                result.error = str(error)
            continue
        actions: list[str] = []
        if request.state not in ("absent", "previous"):
            actions.append(plan_of.DEFINE)
            actions += [f"create_volume {disk.pool or request.pool}/{disk.name}" for disk in vm.disks]
            if vm.cloud_init is not None and choice.of(vm).type != "lxc":
                actions.append(f"write_seed {request.pool}/{seed_name(vm.name)}")
            elif vm.cloud_init is not None and vm.disks:
                actions.append(f"write_seed {vm.disks[0].pool or request.pool}/{vm.disks[0].name}/{'/'.join(SEED_FOLDER)}")
            if request.autostart if vm.autostart is None else vm.autostart:
                actions.append(plan_of.AUTOSTART_ON)
            if request.state == "running":
                actions.append(plan_of.START)
        state = {"running": "running", "absent": "absent", "previous": "absent"}.get(request.state, "shutdown")
        kind = choice.of(vm).type
        results.append(VmResult(vm.id, vm.name, vm.uuid, list(vm.macs), hypervisor=kind, state=state, changed=bool(actions), actions=actions))
    new = [vm for vm in results if vm.moved_to is None]
    before = "".join(f"{vm.name}: absent\n" for vm in new)
    after = "".join(f"{vm.name}: {vm.state}\n" for vm in new)
    diff = [{"before_header": "VMs", "after_header": "VMs", "before": before, "after": after}] if before != after else []
    warnings = choice.warnings() if vms else []
    if vms:
        if request.state not in ("absent", "previous"):
            warnings += container_warnings((vm.name, vm.hypervisor, False) for vm in new)
        warnings.append(f"this host is not prepared yet ({reason.rstrip('.')}); all its VMs count as new and the template was not rendered")
    return DefineResult(results, warnings + elsewhere, diff, [])
