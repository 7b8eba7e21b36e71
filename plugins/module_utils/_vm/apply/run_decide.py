# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Second step of a call: what is to be done with each VM, from its details and what the host has. Reads only."""

from __future__ import annotations

import functools
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import run_work
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_result import VmResult
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import plan_domain, run_look, xml_domain
from ansible_collections.reduced.footprint.plugins.module_utils._vm.template import run_render, xml_packaged

if t.TYPE_CHECKING:
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domains import DomainHost
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_check import HostChecks
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.details import model_vm
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.run_users import DiskUsers
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.template import run_prepared


def decide(gathered: run_work.Gathered) -> list[run_work.Work]:
    """Decide what to do with each VM; a VM for which that is not possible gets an error instead.

    :raises FootprintError: no VM can be processed, for example because of an invalid template; reported once and not per VM.
    """
    decider, request = _Decider(gathered), gathered.request
    works = [decider.work_of(vm) for vm in gathered.vms]
    # refusals are reported in the results
    failures = [work.failure for work in works if work.failure is not None and not isinstance(work.failure, model_errors.RefusedError)]
    if failures and len(failures) == len(works):
        raise failures[0]
    for option in ("recreate_disks", "adopt_disks") if request.recreate_disks or request.adopt_disks else ():
        from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import run_missing

        run_missing.check_names(option, getattr(request, option), works, request.pool)
    return works


class _Decider:
    """The decisions of one call, and what is read for them only if a VM needs it."""

    def __init__(self, gathered: run_work.Gathered) -> None:
        self.gathered = gathered
        self.request, self.choice = gathered.request, gathered.choice
        # whether libvirt runs here, with a driver that has files and links
        self.local = self.choice.local and not self.choice.own_type
        self.saved: dict[str, frozenset[str]] = {}
        self.schema: dict[str, t.Any] = {}

    @functools.cached_property
    def checks(self) -> HostChecks:
        """What the host provides."""
        from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_check import HostChecks

        return HostChecks((seen for there in self.gathered.domains.values() for seen in there), self.local)

    @functools.cached_property
    def users(self) -> DiskUsers:
        """The users of each disk."""
        from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.run_users import DiskUsers

        return DiskUsers(self.gathered.domains, self.gathered.store, self.local)

    def work_of(self, vm: model_vm.VmDetails) -> run_work.Work:
        """Decide what to do with one VM."""
        hosts = self.gathered.hosts
        result = VmResult(id=vm.id, name=vm.name, uuid=vm.uuid, macs=list(vm.macs))
        work = run_work.Work(vm, result, next(iter(hosts.values()), None))
        try:
            hypervisor = self.choice.of(vm)
            result.hypervisor, work.host = hypervisor.type, hosts[hypervisor.uri]
            if self.gathered.away and self._is_moved(work):
                return work
            if self.gathered.renders:
                self._render(work, hypervisor)
                work.steps = run_work.need(work.prepared).steps
            else:
                self._look_up(work, hypervisor.uri)
            needs = self._needs(work)
            work.plan = plan = plan_domain.plan_domain(run_work.need(work.wanted), work.actual, needs, self.request.allow_power_cycling)
            if work.document is not None and (work.document.find("devices/disk") is not None or work.document.find("devices/filesystem") is not None):
                for conflict in self.users.check(work):
                    if conflict not in work.notes:
                        work.notes.append(conflict)
            if self.gathered.renders and plan.actions:
                self.checks.check(work)
        except (model_errors.FootprintError, OSError) as caught:
            work.plan, work.failure = None, run_work.failure_of(caught)
            result.error = str(work.failure)
            result.state = work.actual.state if work.actual else result.state
            return work
        result.actions = plan_domain.with_volumes(plan.actions, work.steps.actions if work.steps else [])
        result.changed = self.gathered.check_mode and bool(result.actions)
        result.restart_required = plan.restart_required
        return work

    def _is_moved(self, work: run_work.Work) -> bool:
        """Whether a VM was moved, or is being moved, to another server; recorded in its result."""
        from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import run_moved

        wanted = self._wanted(work.vm)
        found = next(filter(None, (there.candidate(wanted) for there in self.gathered.domains.values())), None)
        record = run_moved.record_of(self.gathered.away, work.vm, self.request.cluster, found.record.uuid if found else "")
        if record is not None:
            work.result.state, work.result.moved_to = run_moved.state_of(record), record.where
            work.notes.append(run_moved.leave_alone(record, self.request.state))
        return record is not None

    def _look_up(self, work: run_work.Work, uri: str) -> None:
        """Find the domain of a VM to remove or roll back, in any driver, the definition to restore, and the disks to remove."""
        hosts, domains = self.gathered.hosts, self.gathered.domains
        wanted = work.wanted = self._wanted(work.vm)
        # the details may contain only the id
        uri = next((each for each in [uri, *hosts] if domains[each].candidate(wanted) is not None), uri)
        work.host = hosts[uri]
        work.seen = seen = domains[uri].find(wanted)
        if seen is not None:
            work.result.name, work.result.uuid = seen.record.name, work.uuid
            work.result.macs = xml_domain.macs_of(seen.config)
            work.result.hypervisor = seen.config.get("type")
            if self.request.state == "rolled_back" and seen.owned is not None and seen.owned.previous is not None:
                work.applied = seen.owned.applied if seen.owned.back else seen.owned.previous
                work.document = _restored(work.applied, seen.config)
        if self.request.remove_disks:
            from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.run_removal import plan_removal

            owned, config = (seen.owned, seen.config) if seen else (None, None)
            store, pool, wipe = self.gathered.store(uri), self.request.pool, self.request.wipe
            work.steps = plan_removal(work.vm, store, hosts.values(), uuid=work.uuid, pool=pool, wipe=wipe, owned=owned, config=config)

    def _render(self, work: run_work.Work, hypervisor: run_render.Hypervisor) -> None:
        """Find the domain of a VM and render its document, with the identity of an adopted domain."""
        domains = self.gathered.domains[hypervisor.uri]
        wanted = self._wanted(work.vm)
        # set here for the result, also when the VM is refused
        work.seen = first = domains.candidate(wanted)
        if first is None:
            self._refuse_elsewhere(hypervisor.uri, wanted)
        self.choice.check(work.vm, hypervisor.type, first is not None and first.config.get("type") == hypervisor.type)
        prepared = self._prepare(work, hypervisor)
        # the template can give it another name
        work.seen = domains.find(run_work.need(work.wanted), self.request.adopt)
        if work.seen is not None and work.seen is not first:
            prepared = self._prepare(work, hypervisor)
        work.result.uuid = work.uuid
        work.document, work.applied = prepared.document, prepared.applied
        if self.request.strict:
            from ansible_collections.reduced.footprint.plugins.module_utils._vm.template import run_blame

            run_blame.refuse_loose_ends(work.vm, prepared)
            run_blame.check_schema(prepared, self.schema)

    def _prepare(self, work: run_work.Work, hypervisor: run_render.Hypervisor) -> run_prepared.Prepared:
        """Render the document of a VM whose domain is ``work.seen``."""
        vm, seen, keep, settle, kind = work.vm, work.seen, None, None, hypervisor.type
        identity = self._identity(seen)
        if seen is not None and identity:
            from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import run_adopt

            vm = run_adopt.with_identity(vm, identity)
            keep = run_adopt.kept_disks(vm, identity)
            if self.gathered.template.source in xml_packaged.PACKAGED.values():
                settle = functools.partial(run_adopt.leave_defaults, vm=vm, config=seen.config, applied=seen.applied)
                kind = kind if vm.given.get("hypervisor") else seen.config.get("type")
        prepared = run_render.prepare(
            vm,
            self.request.cluster,
            kind,
            self.gathered.template,
            functools.partial(self.gathered.store, hypervisor.uri),
            self.request.pool,
            self.choice.own_type,
            keep=keep,
            seen=seen,
            recreate=self.request.recreate_disks,
            adopt=self.request.adopt_disks,
            settle=settle,
        )
        work.vm, work.prepared, work.wanted, result = vm, prepared, self._wanted(vm, prepared), work.result
        result.name, result.macs = prepared.name, xml_domain.macs_of(prepared.document)
        result.unused_attributes, result.missing_variables = list(prepared.unused), list(prepared.missing)
        return prepared

    def _identity(self, seen: run_look.Seen | None) -> t.Any:
        """The identity that an adopted domain keeps; ``None`` for a domain created by this collection."""
        if seen is None or seen.owned is None and not self.request.adopt:
            return None
        if seen.owned is not None and not seen.owned.adopted:
            return None
        from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.xml_device_forms import identity_of

        found = identity_of(seen.config)
        if seen.owned is None:
            return found
        # what the details did not name so far is as it was
        applied = identity_of(run_work.need(seen.applied))
        return applied._replace(macs=applied.macs or found.macs, disks=applied.disks or found.disks)

    def _needs(self, work: run_work.Work) -> plan_domain.Needs:
        """Compare the domain with the document; returns what the differences need."""
        seen, needs = work.seen, plan_domain.Needs()
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
            work.result.changes = list(work.other_changes)
            if differences:
                from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import run_facts

                work.changes, work.result.drift = run_facts.classify(seen, work.document, differences, self.request.state)
                work.result.changes = run_facts.changes_of(work.changes, work.other_changes)
                needs = run_facts.needs_of(work.changes)
        if work.steps is not None and work.steps.restart_required:
            needs = needs._replace(waits=True)
        work.waits = needs.waits
        return needs

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
        for other, there in self.gathered.domains.items():
            if other != uri and there.candidate(wanted) is not None:
                raise model_errors.RefusedError(
                    f"the VM already exists with another hypervisor type ({other}).", hint="Run with state: absent, which keeps its disks, then adopt_disks."
                )


def _restored(applied: str, config: t.Any) -> t.Any:
    """Parse an earlier definition and insert the current passwords: old passwords are not stored."""
    document, unknown = run_look.revealed(applied, config)
    if unknown:
        raise model_errors.RefusedError(
            f"the previous definition has a password for {', '.join(unknown)}, which is not stored.",
            hint="Run with state: present, the earlier template and the password.",
        )
    return document
