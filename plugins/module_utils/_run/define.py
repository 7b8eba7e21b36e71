# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: VM details + template → domains, all VMs of a host in one call (F3, F5, X3-X6)."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._backend.domains import DRIVER_URIS, DomainHost
from ansible_collections.reduced.footprint.plugins.module_utils._backend.lock import host_lock
from ansible_collections.reduced.footprint.plugins.module_utils._backend.volumes import VolumeStore
from ansible_collections.reduced.footprint.plugins.module_utils._model.errors import BackendError, FootprintError, InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._model.vm import VmDetails, parse_vms
from ansible_collections.reduced.footprint.plugins.module_utils._plan import domain as plan_of
from ansible_collections.reduced.footprint.plugins.module_utils._plan.domain import STATES, Actual, DomainPlan, Wanted
from ansible_collections.reduced.footprint.plugins.module_utils._run.define_blind import check_libraries, foresee
from ansible_collections.reduced.footprint.plugins.module_utils._run.define_render import HypervisorChoice, Prepared, prepare
from ansible_collections.reduced.footprint.plugins.module_utils._run.define_result import DefineRequest, DefineResult, VmResult
from ansible_collections.reduced.footprint.plugins.module_utils._xml import domain as domain_xml
from ansible_collections.reduced.footprint.plugins.module_utils._xml import metadata
from ansible_collections.reduced.footprint.plugins.module_utils._xml.metadata import ORIGIN_LIST, Ownership
from ansible_collections.reduced.footprint.plugins.module_utils._xml.packaged import template_source
from ansible_collections.reduced.footprint.plugins.module_utils._xml.template import Template

_VIRT = "virt"


@dataclasses.dataclass
class _Work:
    """One VM on its way: what is wanted, what there is, what to do."""

    vm: VmDetails
    result: VmResult
    host: DomainHost | None = None
    store: VolumeStore | None = None
    prepared: Prepared | None = None
    actual: Actual | None = None
    plan: DomainPlan | None = None


def define_vms(request: DefineRequest, *, check_mode: bool, connect: t.Callable[[str], DomainHost] = DomainHost) -> DefineResult:
    """Make the VMs of a host as their details and the template say.

    Everything is read, rendered and decided before anything is touched; in check mode it ends
    there. From then on one VM's failure leaves the others alone and is told in its result; the
    next run takes up what is missing.

    :arg connect: opens a connection; tests pass their own.
    :raises FootprintError: bad input, a broken template, or a host that cannot be reached.
    """
    if request.state not in STATES:
        raise InputError(f"{request.state!r} is no state.", "state", f"Use one of {', '.join(STATES)}.")
    vms = parse_vms(request.vms, cluster=request.cluster)
    if vms and request.node_roles is not None and _VIRT not in request.node_roles:
        raise RefusedError(
            f"this host has VM details but not the role {_VIRT} (its roles: {', '.join(request.node_roles) or 'none'}).",
            "vms",
            f"Give the server the role {_VIRT}, or take the VM details away.",
        )
    source = template_source(request.template)
    choice = HypervisorChoice(request.uri, request.facts_path)
    needed = {choice.of(vm).uri for vm in vms}
    if check_mode:
        reason = _unprepared(needed, connect)
        if reason:
            return foresee(request, vms, choice, reason)
    template = Template(source)
    with contextlib.ExitStack() as stack:
        if not check_mode:
            stack.enter_context(host_lock("domains", request.lock_timeout))
        run = _Run(request, choice, template, check_mode)
        run.open(needed, connect, stack)
        return run.all(vms)


def _unprepared(needed: set[str], connect: t.Callable[[str], DomainHost]) -> str | None:
    """Why this host cannot even be asked; nothing when it can."""
    try:
        check_libraries()
        for uri in needed:
            with connect(uri):
                pass
    except BackendError as error:
        return error.message
    return None


class _Run:
    """One call on a host: its connections, what they showed, and the work on each VM."""

    def __init__(self, request: DefineRequest, choice: HypervisorChoice, template: Template, check_mode: bool) -> None:
        self.request = request
        self.choice = choice
        self.template = template
        self.check_mode = check_mode
        self.hosts: dict[str, DomainHost] = {}
        self.stores: dict[str, VolumeStore] = {}
        self.actuals: dict[str, list[Actual]] = {}

    def open(self, needed: set[str], connect: t.Callable[[str], DomainHost], stack: contextlib.ExitStack) -> None:
        """One connection per driver; a driver no VM needs may be missing (it is asked for what left the list)."""
        others = {self.request.uri} if self.request.uri else set(DRIVER_URIS.values())
        for uri in sorted(needed | others):
            try:
                host = stack.enter_context(connect(uri))
            except BackendError:
                if uri in needed:
                    raise
                continue
            self.hosts[uri] = host
            self.stores[uri] = VolumeStore(host, pending=self.request.pending_images if self.check_mode else ())
            self.actuals[uri] = [self._actual(record) for record in host.domains()]

    def all(self, vms: t.Sequence[VmDetails]) -> DefineResult:
        """Decide for all, then do it."""
        works = [self._decide(vm) for vm in vms]
        diff = [entry for work in works for entry in self._diff(work)]
        if not self.check_mode:
            self._apply(works)
        for work in works:
            if work.plan is not None and work.result.state is None:
                work.result.state = work.plan.state
        unlisted = self._unlisted(vms)
        warnings = self._warnings(works)
        if unlisted:
            warnings.append(f"left alone, because the list does not name them (state: absent removes a VM): {', '.join(unlisted)}")
        return DefineResult([work.result for work in works], warnings, diff, unlisted)

    def _decide(self, vm: VmDetails) -> _Work:
        hypervisor = self.choice.of(vm)
        result = VmResult(id=vm.id, name=vm.name, uuid=vm.uuid, macs=list(vm.macs), hypervisor=hypervisor.type)
        work = _Work(vm, result, self.hosts[hypervisor.uri], self.stores[hypervisor.uri])
        if self.request.state == "absent":
            uri, work.actual = self._find_anywhere(vm, hypervisor.uri)
            work.host = self.hosts[uri]
            result.name = work.actual.name if work.actual else vm.name
        else:
            uri = hypervisor.uri
            work.prepared = prepare(vm, self.request.cluster, hypervisor.type, self.template, self.stores[uri], self.request.pool, self.choice.own_type)
            result.name = work.prepared.name
            result.macs = domain_xml.macs_of(work.prepared.document)
            result.unused_attributes, result.missing_variables = list(work.prepared.unused), list(work.prepared.missing)
            if self.request.strict:
                _refuse_loose_ends(vm, work.prepared)
            work.actual = self._by_uuid(uri, vm.uuid)
        try:
            work.plan = self._plan(work, uri)
        except RefusedError as error:
            result.error = f"{error}"
            result.state = work.actual.state if work.actual else None
            return work
        creating = [volume.action for volume in work.prepared.volumes if volume.creates] if work.prepared else []
        result.actions = creating + list(work.plan.actions)
        result.changed = self.check_mode and bool(result.actions)
        result.restart_required = work.plan.restart_required
        return work

    def _plan(self, work: _Work, uri: str) -> DomainPlan:
        vm, prepared = work.vm, work.prepared
        wanted = Wanted(
            id=vm.id,
            name=prepared.name if prepared else vm.name,
            uuid=vm.uuid,
            cluster=self.request.cluster,
            document=prepared.applied if prepared else "",
            state=self.request.state,
            autostart=self.request.autostart if vm.autostart is None else vm.autostart,
            protected=vm.protected,
        )
        if prepared:
            elsewhere, other = self._find_anywhere(vm, uri)
            if other is not None and elsewhere != uri:
                raise RefusedError(f"the VM exists with another hypervisor type ({elsewhere}).", mend="Ask for state: absent first; its disks stay.")
        same_name = next((actual for actual in self.actuals[uri] if actual.name == wanted.name), None)
        plan_of.check_ownership(wanted, work.actual, same_name)
        return plan_of.plan_domain(wanted, work.actual, self.request.allow_power_cycling)

    def _apply(self, works: t.Sequence[_Work]) -> None:
        able = [work for work in works if work.plan is not None]
        for work in able:
            # from here on: what was done, not what was planned
            work.result.actions = []
        for work in able:
            self._guard(work, self._settle)
        waiting = [work for work in able if not work.result.error and _has(work, plan_of.START, plan_of.RESUME)]
        if waiting:
            # libvirt's calls let other threads run while they wait
            with concurrent.futures.ThreadPoolExecutor(max(1, self.request.parallel)) as pool:
                list(pool.map(lambda work: self._guard(work, self._start), waiting))
        for work in able:
            if not work.result.error and _has(work, plan_of.POWER_CYCLE):
                self._guard(work, self._power_cycle)

    def _guard(self, work: _Work, step: t.Callable[[_Work, list[str]], None]) -> None:
        """Run one step of one VM; what it did counts as changed, also when it failed half way."""
        done: list[str] = []
        try:
            step(work, done)
        except FootprintError as error:
            work.result.error = str(error)
            with contextlib.suppress(FootprintError):
                record = _need(work.host).domain(work.vm.uuid)
                work.result.state = record.state if record else "absent"
        work.result.actions += done
        work.result.changed = bool(work.result.actions)

    def _settle(self, work: _Work, done: list[str]) -> None:
        """Volumes, definition, autostart; then off or gone where that is wanted."""
        host, uuid = _need(work.host), work.vm.uuid
        for volume in work.prepared.volumes if work.prepared else ():
            if volume.creates:
                _need(work.store).create(volume)
                done.append(volume.action)
        for action in _need(work.plan).actions:
            if action in (plan_of.DEFINE, plan_of.REDEFINE, plan_of.UPDATE_METADATA):
                host.define(self._document(work))
            elif action in (plan_of.AUTOSTART_ON, plan_of.AUTOSTART_OFF):
                host.set_autostart(uuid, action == plan_of.AUTOSTART_ON)
            elif action == plan_of.SHUTDOWN:
                host.shutdown(uuid, self.request.shutdown_timeout, self.request.force or self.request.state == "absent")
            elif action == plan_of.UNDEFINE:
                host.undefine(uuid)
            else:
                continue
            done.append(action)

    def _start(self, work: _Work, done: list[str]) -> None:
        host, uuid = _need(work.host), work.vm.uuid
        if _has(work, plan_of.RESUME):
            host.resume(uuid)
            done.append(plan_of.RESUME)
        else:
            host.start(uuid)
            done.append(plan_of.START)
        record = host.domain(uuid)
        if record is None or not record.active:
            raise BackendError("ended right after its start.", mend="Look at its log below /var/log/libvirt on the host.")

    def _power_cycle(self, work: _Work, done: list[str]) -> None:
        host, uuid = _need(work.host), work.vm.uuid
        host.shutdown(uuid, self.request.shutdown_timeout, self.request.force)
        done.append(plan_of.POWER_CYCLE)
        host.start(uuid)

    def _document(self, work: _Work) -> str:
        prepared = _need(work.prepared)
        origin = work.actual.owned.origin if work.actual and work.actual.owned else self.request.origin
        owned = Ownership(self.request.cluster, work.vm.id, work.vm.protected, origin, prepared.applied)
        metadata.attach(prepared.document, owned)
        return domain_xml.text_of(prepared.document)

    def _actual(self, record: t.Any) -> Actual:
        config = domain_xml.parse(record.config_xml)
        live = metadata.read(domain_xml.parse(record.live_xml)) if record.live_xml else None
        return Actual(record.name, record.uuid, record.state, record.autostart, metadata.read(config), live.applied if live else None)

    def _by_uuid(self, uri: str, uuid: str) -> Actual | None:
        return next((actual for actual in self.actuals[uri] if actual.uuid == uuid), None)

    def _find_anywhere(self, vm: VmDetails, first: str) -> tuple[str, Actual | None]:
        for uri in [first] + [uri for uri in self.hosts if uri != first]:
            actual = self._by_uuid(uri, vm.uuid)
            if actual is not None:
                return uri, actual
        return first, None

    def _unlisted(self, vms: t.Sequence[VmDetails]) -> list[str]:
        """Our VMs that the list no longer names (F5)."""
        if self.request.origin != ORIGIN_LIST or self.request.state == "absent":
            return []
        listed = {vm.uuid for vm in vms}
        return sorted(
            actual.name
            for actuals in self.actuals.values()
            for actual in actuals
            if actual.owned and actual.owned.cluster == self.request.cluster and actual.owned.origin == ORIGIN_LIST and actual.uuid not in listed
        )

    def _warnings(self, works: t.Sequence[_Work]) -> list[str]:
        warnings = [] if self.request.state == "absent" else self.choice.warnings()
        for work in works:
            warnings += [f"VM {work.result.name}: {told}" for told in (work.prepared.told if work.prepared else ())]
            if work.result.restart_required and not work.result.error:
                warnings.append(f"VM {work.result.name}: runs with its previous definition until it is restarted")
        return warnings

    def _diff(self, work: _Work) -> list[dict[str, str]]:
        if not work.result.actions or work.plan is None:
            return []
        actual, owned = work.actual, work.actual.owned if work.actual else None
        before = [f"state: {actual.state if actual else 'absent'}"]
        after = [f"state: {work.plan.state}"]
        if actual:
            before.append(f"autostart: {_yes(actual.autostart)}")
        if work.prepared:
            on = {plan_of.AUTOSTART_ON: True, plan_of.AUTOSTART_OFF: False}
            autostart = next((on[action] for action in work.plan.actions if action in on), actual.autostart if actual else False)
            after.append(f"autostart: {_yes(autostart)}")
            if owned and owned.protected != work.vm.protected:
                before.append(f"protected: {_yes(owned.protected)}")
                after.append(f"protected: {_yes(work.vm.protected)}")
            if _has(work, plan_of.POWER_CYCLE):
                before.append("restart: due")
                after.append("restart: done")
            after += [f"volume: {volume.describe()}" for volume in work.prepared.volumes if volume.creates]
        before_text = "\n".join(before) + "\n" + (owned.applied if owned else "")
        after_text = "\n".join(after) + "\n" + (work.prepared.applied if work.prepared else "")
        header = f"VM {work.result.name}"
        return [{"before_header": header, "after_header": header, "before": before_text, "after": after_text}]


def _refuse_loose_ends(vm: VmDetails, prepared: Prepared) -> None:
    ends = []
    if prepared.unused:
        ends.append(f"the template does not use {', '.join(prepared.unused)}")
    if prepared.missing:
        ends.append(f"the template wants {', '.join(prepared.missing)}, which the details do not name")
    if ends:
        raise InputError(f"strict: {'; '.join(ends)}.", vm.path, "Mend the details or the template, or do not ask for strict.")


def _has(work: _Work, *actions: str) -> bool:
    return work.plan is not None and any(action in work.plan.actions for action in actions)


def _need(value: t.Any) -> t.Any:
    if value is None:
        raise BackendError("an internal step is missing its input.", mend="Report this with the play.")
    return value


def _yes(value: bool) -> str:
    return "yes" if value else "no"
