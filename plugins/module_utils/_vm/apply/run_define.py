# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: VM details and a template → domains, all VMs of a host in one call.

A call takes four steps, each with the result of the one before: gather what the host has, decide what to do with every VM, apply, report.
Modules needed only in some runs are imported on demand: on a host every imported module is compiled again, which is most of the time of a
run without changes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_lock import host_lock
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import run_decide, run_work
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domains import DRIVER_URIS, DomainHost
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_result import DefineRequest, DefineResult
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import plan_domain, run_look, xml_metadata
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details import model_vm
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.plan_selection import select
from ansible_collections.reduced.footprint.plugins.module_utils._vm.template import run_render, xml_template
from ansible_collections.reduced.footprint.plugins.module_utils._vm.template.xml_packaged import template_source

if t.TYPE_CHECKING:
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.model_owner import Record

_VIRT = "virt"


def define_vms(request: DefineRequest, *, check_mode: bool, connect: t.Callable[[str], DomainHost] = DomainHost) -> DefineResult:
    """Define the VMs of a host from their details and the template.

    Everything is read, rendered and planned before anything is changed; check mode ends
    there. The failure of one VM, also during planning, is reported in its result and does not affect the others;
    the next run completes the rest.
    """
    vms, listed = _requested(request)
    source = template_source(request.template)
    choice = run_render.HypervisorChoice(request.uri, request.facts_path, request.allow_emulation)
    if check_mode:
        from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import run_blind

        reason = run_blind.unprepared(choice.uris(vms), connect)
        if reason:
            return run_blind.predict(request, vms, choice, reason, _away(request, choice))
    template = xml_template.Template(source)
    with contextlib.ExitStack() as stack, contextlib.ExitStack() as lock:
        if not check_mode:
            lock.enter_context(host_lock(choice.lock, request.lock_timeout))
        away = _away(request, choice)
        hosts, domains = _connections(request, choice.uris(vms), connect, stack)
        choice.use_probe(hosts.get(request.uri or ""), wanted=request.state not in ("absent", "rolled_back"), remember=not check_mode)
        gathered = run_work.Gathered(request, check_mode, vms, listed, choice, template, away, hosts, domains)
        works = run_decide.decide(gathered)
        diff = _apply(gathered, works)
        result = _report(gathered, works, diff)
        if request.wait:
            from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import run_addresses

            # guests take minutes, other runs on this host need not wait for them
            lock.close()
            run_addresses.wait(works, request.wait, 0 if check_mode else request.wait_timeout)
        return result


def _requested(request: DefineRequest) -> tuple[tuple[model_vm.VmDetails, ...], t.Sequence[model_vm.VmDetails]]:
    """Check the request; returns the VMs of this call, and all VMs of the host."""
    if request.state not in plan_domain.STATES:
        raise model_errors.InputError(f"{request.state!r} is not a valid state.", "state", f"Use one of {', '.join(plan_domain.STATES)}.")
    if request.remove_disks and request.state != "absent":
        raise model_errors.InputError("requires state: absent.", "remove_disks", "Remove it, or set state: absent.")
    if request.wipe and not request.remove_disks:
        raise model_errors.InputError("requires remove_disks: true.", "wipe", "Add remove_disks: true, or remove it.")
    if request.wait and request.state != "running":
        raise model_errors.InputError(f"is not supported with state: {request.state}.", "wait", "Remove it, or set state: running.")
    for option in ("recreate_disks", "adopt_disks"):
        if getattr(request, option) and request.state in ("absent", "rolled_back"):
            message = f"is not supported with state: {request.state}, which creates no volumes."
            raise model_errors.InputError(message, option, "Remove it, or set another state.")
    listed = model_vm.parse_vms(request.vms, cluster=request.cluster, pool=request.pool)
    vms = select(listed, request.only)
    if request.state in ("absent", "rolled_back") and (request.uri or "").startswith("lxc"):
        # the details may contain only the id; the URI determines the type
        vms = tuple(dataclasses.replace(vm, hypervisor="lxc") if vm.hypervisor == "auto" else vm for vm in vms)
    if vms and request.node_roles is not None and _VIRT not in request.node_roles:
        raise model_errors.RefusedError(
            f"this host has VM details but not the role {_VIRT} (its roles: {', '.join(request.node_roles) or 'none'}).",
            "vms",
            f"Add the role {_VIRT} to the server, or remove the VM details.",
        )
    if request.host_keys or request.authorized_keys:
        from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot import run_host_key

        vms = run_host_key.given(vms, listed, request.host_keys, request.authorized_keys)
    return vms, listed


def _connections(
    request: DefineRequest, needed: set[str], connect: t.Callable[[str], DomainHost], stack: contextlib.ExitStack
) -> tuple[dict[str, DomainHost], dict[str, run_look.Domains]]:
    """Open one connection per driver and read its domains; a driver that no VM needs may be missing (it is only checked for unlisted VMs)."""
    hosts, domains = {}, {}
    others = {request.uri} if request.uri else set(DRIVER_URIS.values())
    for uri in sorted(needed | others):
        try:
            hosts[uri] = stack.enter_context(connect(uri))
        except model_errors.BackendError:
            if uri in needed:
                raise
            continue
        domains[uri] = run_look.Domains(hosts[uri].domains())
    return hosts, domains


def _away(request: DefineRequest, choice: run_render.HypervisorChoice) -> t.Mapping[str, Record]:
    """The records of VMs that this host must not change (by UUID); most hosts have none."""
    path = pathlib.Path(request.records_path)
    if not choice.local or not os.path.lexists(path):
        return {}
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.io_owner import read_all

    return read_all(path)


def _apply(gathered: run_work.Gathered, works: t.Sequence[run_work.Work]) -> list[dict[str, str]]:
    """Execute the plans, except in check mode; returns the diff."""
    if not any(work.result.actions or work.waits for work in works):
        return []
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_apply import Applier
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.run_diff import diff_of

    diff = [entry for work in works for entry in diff_of(work)]
    if not gathered.check_mode:
        Applier(gathered.request).all(works)
        for store in gathered.stores.values():
            store.refresh()
    return diff


def _report(gathered: run_work.Gathered, works: t.Sequence[run_work.Work], diff: list[dict[str, str]]) -> DefineResult:
    """The result of the call, from that of each VM."""
    for work in works:
        if work.plan is not None and work.result.state is None and not work.result.error:
            work.result.state = work.plan.state
        if work.prepared is not None and work.steps is not None:
            from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import run_volumes

            work.result.disks = run_volumes.accounting(work.steps)
            work.result.host_key = work.steps.host_key
    warnings = _warnings(works)
    unlisted = _unlisted(gathered, works)
    if unlisted:
        warnings.append(f"not in the list of VM details and left unchanged (state: absent removes a VM): {', '.join(unlisted)}")
    return DefineResult([work.result for work in works], warnings, diff, unlisted)


def _unlisted(gathered: run_work.Gathered, works: t.Sequence[run_work.Work]) -> list[str]:
    """VMs of this cluster that the list no longer contains."""
    if gathered.request.origin != xml_metadata.ORIGIN_LIST or not gathered.renders:
        return []
    known = {vm.uuid for vm in gathered.listed} | {work.uuid for work in works} | set(gathered.away)
    ids = {vm.id for vm in gathered.listed}
    return sorted(name for there in gathered.domains.values() for name in there.unlisted(gathered.request.cluster, known, ids))


def _warnings(works: t.Sequence[run_work.Work]) -> list[str]:
    warnings: list[str] = []
    new = [work for work in works if work.prepared and work.has(plan_domain.DEFINE)]
    documents = [(work.result.name, work.prepared.document) for work in new if work.prepared]
    if documents:
        from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.plan_isolation import container_warnings

        warnings += container_warnings((name, document.get("type"), document.find("idmap") is not None) for name, document in documents)
    for work in works:
        notices = work.prepared.notices if work.prepared else work.steps.notices if work.steps else ()
        warnings += [f"VM {work.result.name}: {notice}" for notice in (*notices, *work.notes)]
        if work.result.restart_required and not work.result.error:
            warnings.append(f"VM {work.result.name}: runs with its previous definition until it is restarted")
    return warnings
