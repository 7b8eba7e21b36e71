# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: VM details and a template → domains, all VMs of a host in one call.

Modules needed only in some runs are imported on demand: on a host every imported module is compiled
again, which is most of the time of a run without changes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_lock import host_lock
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import run_work
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domains import DRIVER_URIS, DomainHost
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_result import DefineRequest, DefineResult, VmResult
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import plan_domain, run_look, xml_domain, xml_metadata
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details import model_vm
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.plan_selection import select
from ansible_collections.reduced.footprint.plugins.module_utils._vm.template import run_render, xml_template
from ansible_collections.reduced.footprint.plugins.module_utils._vm.template.xml_packaged import template_source

if t.TYPE_CHECKING:
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_check import HostChecks
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_moved import Moved
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.io_volumes import VolumeStore
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.run_users import DiskUsers
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.template import run_prepared

_VIRT = "virt"


def define_vms(request: DefineRequest, *, check_mode: bool, connect: t.Callable[[str], DomainHost] = DomainHost) -> DefineResult:
    """Define the VMs of a host from their details and the template.

    Everything is read, rendered and planned before anything is changed; check mode ends
    there. The failure of one VM, also during planning, is reported in its result and does not affect the others;
    the next run completes the rest.

    :arg connect: opens a connection; tests pass their own.
    :raises FootprintError: invalid input, an unreachable host, or an error that all VMs share, such as an invalid template.
    """
    if request.state not in plan_domain.STATES:
        raise model_errors.InputError(f"{request.state!r} is not a valid state.", "state", f"Use one of {', '.join(plan_domain.STATES)}.")
    if request.remove_disks and request.state != "absent":
        raise model_errors.InputError("requires state: absent.", "remove_disks", "Remove it, or set state: absent.")
    if request.wipe and not request.remove_disks:
        raise model_errors.InputError("requires remove_disks: true.", "wipe", "Add remove_disks: true, or remove it.")
    if request.recreate_disks and request.state in ("absent", "rolled_back"):
        message = f"is not supported with state: {request.state}, which creates no volumes."
        raise model_errors.InputError(message, "recreate_disks", "Remove it, or set another state.")
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
    source = template_source(request.template)
    choice = run_render.HypervisorChoice(request.uri, request.facts_path)
    needed = choice.uris(vms)
    if check_mode:
        reason = _unprepared(needed, connect)
        if reason:
            from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_blind import predict

            return predict(request, vms, choice, reason, moved_notes(request) if choice.local else {})
    template = xml_template.Template(source)
    with contextlib.ExitStack() as stack:
        if not check_mode:
            stack.enter_context(host_lock("domains", request.lock_timeout))
        run = _Run(request, choice, template, check_mode)
        run.open(needed, connect, stack)
        return run.all(vms, listed)


def _unprepared(needed: set[str], connect: t.Callable[[str], DomainHost]) -> str | None:
    """Why libvirt on this host cannot be queried; ``None`` when it can."""
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_blind import check_libraries

    try:
        check_libraries()
        for uri in needed:
            with connect(uri):
                pass
    except model_errors.BackendError as error:
        return error.message
    return None


def moved_notes(request: DefineRequest) -> t.Mapping[str, Moved]:
    """The notes about VMs that this host must not run (by UUID); most hosts have none.

    :raises BackendError: the notes cannot be read.
    """
    try:
        if not os.listdir(request.moved_path):
            return {}
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise model_errors.BackendError(f"cannot read which VMs were moved away from this host: {error}.", hint="Run as root.") from error
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_moved import read_all

    return read_all(pathlib.Path(request.moved_path))


class _Run:
    """One call on a host: its connections, the domains found, and the work on each VM."""

    def __init__(self, request: DefineRequest, choice: run_render.HypervisorChoice, template: xml_template.Template, check_mode: bool) -> None:
        self.request = request
        self.choice = choice
        self.template = template
        self.check_mode = check_mode
        # absent and rolled_back use the existing domain: no template, no disks of the details
        self.renders = request.state not in ("absent", "rolled_back")
        self.hosts: dict[str, DomainHost] = {}
        self.stores: dict[str, VolumeStore] = {}
        self.seen: dict[str, run_look.Domains] = {}
        self.saved: dict[str, frozenset[str]] = {}
        self.notes = moved_notes(request) if choice.local else {}
        self.checks: HostChecks | None = None
        self.users: DiskUsers | None = None
        self.schema: dict[str, t.Any] = {}

    def open(self, needed: set[str], connect: t.Callable[[str], DomainHost], stack: contextlib.ExitStack) -> None:
        """Open one connection per driver; a driver that no VM needs may be missing (it is only checked for unlisted VMs)."""
        others = {self.request.uri} if self.request.uri else set(DRIVER_URIS.values())
        for uri in sorted(needed | others):
            try:
                host = stack.enter_context(connect(uri))
            except model_errors.BackendError:
                if uri in needed:
                    raise
                continue
            self.hosts[uri] = host
            self.seen[uri] = run_look.Domains(host.domains())

    def _store(self, uri: str) -> VolumeStore:
        """The storage of a connection, created on first use."""
        if uri not in self.stores:
            from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.io_volumes import VolumeStore

            pending = self.request.pending_images if self.check_mode else ()
            self.stores[uri] = VolumeStore(self.hosts[uri], pending=pending, lock_timeout=self.request.lock_timeout, remember=not self.check_mode)
        return self.stores[uri]

    def all(self, vms: t.Sequence[model_vm.VmDetails], listed: t.Sequence[model_vm.VmDetails]) -> DefineResult:
        """Plan all VMs, then apply the plans."""
        works = [self._plan(vm) for vm in vms]
        run_work.raise_common(works)
        if self.request.recreate_disks:
            from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import run_missing

            run_missing.check_names(self.request.recreate_disks, works, self.request.pool)
        diff: list[dict[str, str]] = []
        if any(work.result.actions or work.waits for work in works):
            diff = self._apply(works)
        for work in works:
            if work.plan is not None and work.result.state is None and not work.result.error:
                work.result.state = work.plan.state
            if work.prepared is not None and work.steps is not None:
                from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import run_volumes

                work.result.disks = run_volumes.accounting(work.steps)
                work.result.host_key = work.steps.host_key
        unlisted = self._unlisted(listed, works)
        warnings = self._warnings(works)
        if unlisted:
            warnings.append(f"not in the list of VM details and left unchanged (state: absent removes a VM): {', '.join(unlisted)}")
        return DefineResult([work.result for work in works], warnings, diff, unlisted)

    def _apply(self, works: t.Sequence[run_work.Work]) -> list[dict[str, str]]:
        """Apply the plans, except in check mode; returns the diff."""
        from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_apply import Applier
        from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.run_diff import diff_of

        diff = [entry for work in works for entry in diff_of(work)]
        if not self.check_mode:
            Applier(self.request).all(works)
            for store in self.stores.values():
                store.refresh()
        return diff

    def _plan(self, vm: model_vm.VmDetails) -> run_work.Work:
        result = VmResult(id=vm.id, name=vm.name, uuid=vm.uuid, macs=list(vm.macs))
        work = run_work.Work(vm, result, next(iter(self.hosts.values()), None))
        try:
            hypervisor = self.choice.of(vm)
            result.hypervisor, work.host = hypervisor.type, self.hosts[hypervisor.uri]
            if self.notes and self._is_moved(work):
                return work
            if self.renders:
                self._render(work, hypervisor)
                work.steps = run_work.need(work.prepared).steps
            else:
                from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_lookup import look_up

                look_up(work, self._wanted(vm), hypervisor.uri, self.request, self.hosts, self.seen, self._store)
            self._compare(work)
            if work.document is not None and run_look.has_disks(work.document):
                self._check_disks(work)
            if self.renders and run_work.need(work.plan).actions:
                self._check_host(work)
        except model_errors.FootprintError as error:
            work.plan, work.failure = None, error
            result.error = str(error)
            result.state = work.actual.state if work.actual else result.state
            return work
        plan = run_work.need(work.plan)
        volumes = work.steps.actions if work.steps else []
        result.actions = plan_domain.with_volumes(plan.actions, volumes)
        result.changed = self.check_mode and bool(result.actions)
        result.restart_required = plan.restart_required
        return work

    def _is_moved(self, work: run_work.Work) -> bool:
        """Whether a VM was moved, or is being moved, to another server; recorded in its result."""
        from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import run_moved

        wanted = self._wanted(work.vm)
        found = next(filter(None, (there.candidate(wanted) for there in self.seen.values())), None)
        note = run_moved.note_about(self.notes, work.vm, self.request.cluster, found.record.uuid if found else "")
        if note is not None:
            work.notes.append(run_moved.leave_alone(note, work.result, self.request.state))
        return note is not None

    def _render(self, work: run_work.Work, hypervisor: run_render.Hypervisor) -> None:
        """Find the domain of a VM and render its document, with the identity of an adopted domain."""
        uri, result = hypervisor.uri, work.result
        wanted = self._wanted(work.vm)
        first = self.seen[uri].candidate(wanted)
        if first is None:
            self._refuse_elsewhere(uri, wanted)
        # set here for the result, also when the VM is refused
        work.seen = first
        self.choice.check(work.vm, hypervisor.type, first is not None and first.config.get("type") == hypervisor.type, work.host)
        identity = self._identity(first)
        self._prepare(work, hypervisor, first, identity)
        prepared = run_work.need(work.prepared)
        work.wanted = self._wanted(work.vm, prepared)
        work.seen = self.seen[uri].find(work.wanted, self.request.adopt)
        if work.seen is not None and work.seen is not first:
            self._prepare(work, hypervisor, work.seen, self._identity(work.seen))
            prepared = run_work.need(work.prepared)
            work.wanted = self._wanted(work.vm, prepared)
        result.uuid = work.uuid
        work.document, work.applied = prepared.document, prepared.applied
        if self.request.strict:
            from ansible_collections.reduced.footprint.plugins.module_utils._vm.template import run_blame

            run_blame.refuse_loose_ends(work.vm, prepared)
            run_blame.check_schema(prepared, self.schema)

    def _prepare(self, work: run_work.Work, hypervisor: run_render.Hypervisor, seen: run_look.Seen | None, identity: t.Any) -> None:
        vm, keep = work.vm, None
        if identity:
            from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_adopt import kept_disks, with_identity

            vm = with_identity(vm, identity)
            keep = kept_disks(vm, identity)
        prepared = run_render.prepare(
            vm,
            self.request.cluster,
            hypervisor.type,
            self.template,
            lambda: self._store(hypervisor.uri),
            self.request.pool,
            self.choice.own_type,
            config=seen.config if seen else None,
            live=seen.live if seen and seen.record.active else None,
            keep=keep,
            seen=seen,
            recreate=self.request.recreate_disks,
        )
        work.vm, work.prepared, result = vm, prepared, work.result
        result.name = prepared.name
        result.macs = xml_domain.macs_of(prepared.document)
        result.unused_attributes, result.missing_variables = list(prepared.unused), list(prepared.missing)

    def _check_host(self, work: run_work.Work) -> None:
        """Check that the host provides what the definition requires."""
        if self.checks is None:
            from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_check import HostChecks

            domains = (seen for there in self.seen.values() for seen in there)
            self.checks = HostChecks(domains, self.choice.local and not self.choice.own_type)
        self.checks.check(work)

    def _check_disks(self, work: run_work.Work) -> None:
        if self.users is None:
            from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.run_users import DiskUsers

            self.users = DiskUsers(self.seen, self._store, self.choice.local and not self.choice.own_type)
        self.users.check(work)

    def _identity(self, seen: run_look.Seen | None) -> t.Any:
        """The identity that an adopted domain keeps; ``None`` for a domain created by this collection."""
        if seen is None or seen.owned is None and not self.request.adopt:
            return None
        if seen.owned is not None and not seen.owned.adopted:
            return None
        from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.xml_device_forms import identity_of

        return identity_of(seen.config if seen.owned is None else run_work.need(seen.applied))

    def _compare(self, work: run_work.Work) -> None:
        """Compare the domain, classify the differences, and plan the actions."""
        seen, result = work.seen, work.result
        needs = plan_domain.Needs()
        if seen is not None and work.document is not None:
            if not seen.record.active and self.request.state == "running" and work.uuid in self._saved(work.host):
                seen.resumes(work.host.saved_xml(work.uuid))
            if seen.owned is not None and seen.owned.applied == work.applied and not run_look.has_password(work.applied):
                # the same object is parsed only once
                work.document = seen.applied
            elif seen.owned is not None and seen.applied is not None and work.prepared is not None:
                from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import run_keys

                vm, plans = work.prepared.vm, work.prepared.volumes
                run_keys.check_edit(vm, self.request.cluster, plans, work.document, seen.applied, seen.owned.adopted)
            differences = seen.compare(work.document).differences
            if work.steps is not None:
                work.other_changes = work.steps.changes
            result.changes = list(work.other_changes)
            if differences:
                from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.run_facts import classify

                needs = classify(work, seen, differences, self.request.state)
        if work.steps is not None and work.steps.restart_required:
            needs = needs._replace(waits=True)
        work.waits = needs.waits
        work.plan = plan_domain.plan_domain(run_work.need(work.wanted), work.actual, needs, self.request.allow_power_cycling)

    def _wanted(self, vm: model_vm.VmDetails, prepared: run_prepared.Prepared | None = None) -> plan_domain.Wanted:
        return plan_domain.Wanted(
            id=vm.id,
            name=prepared.name if prepared else vm.name,
            uuid=vm.uuid,
            cluster=self.request.cluster,
            state=self.request.state,
            autostart=self.request.autostart if vm.autostart is None else vm.autostart,
            protected=vm.protected,
            protected_disks=prepared.steps.protected if prepared and prepared.steps else (),
        )

    def _saved(self, host: DomainHost) -> frozenset[str]:
        """UUIDs of the domains of a driver that have a managed save image."""
        if host.uri not in self.saved:
            from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import io_domain_lists

            self.saved[host.uri] = io_domain_lists.kept(host).managed_saves
        return self.saved[host.uri]

    def _refuse_elsewhere(self, uri: str, wanted: plan_domain.Wanted) -> None:
        for other in self.hosts:
            if other != uri and self.seen[other].candidate(wanted) is not None:
                raise model_errors.RefusedError(
                    f"the VM already exists with another hypervisor type ({other}).", hint="Run with state: absent first; its disks are kept."
                )

    def _unlisted(self, listed: t.Sequence[model_vm.VmDetails], works: t.Sequence[run_work.Work]) -> list[str]:
        """VMs of this cluster that the list no longer contains."""
        if self.request.origin != xml_metadata.ORIGIN_LIST or not self.renders:
            return []
        known = {vm.uuid for vm in listed} | {work.uuid for work in works} | set(self.notes)
        ids = {vm.id for vm in listed}
        return sorted(name for there in self.seen.values() for name in there.unlisted(self.request.cluster, known, ids))

    def _warnings(self, works: t.Sequence[run_work.Work]) -> list[str]:
        warnings = self.choice.warnings() if self.renders else []
        new = [work for work in works if work.prepared and work.has(plan_domain.DEFINE)]
        documents = [(work.result.name, work.prepared.document) for work in new if work.prepared]
        if documents:
            from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.plan_isolation import container_warnings

            warnings += container_warnings((name, document.get("type"), document.find("idmap") is not None) for name, document in documents)
        for work in works:
            notices = work.prepared.notices if work.prepared else work.steps.notices if work.steps else ()
            warnings += [f"VM {work.result.name}: {notice}" for notice in notices]
            warnings += [f"VM {work.result.name}: {note}" for note in work.notes]
            if work.result.restart_required and not work.result.error:
                warnings.append(f"VM {work.result.name}: runs with its previous definition until it is restarted")
        return warnings
