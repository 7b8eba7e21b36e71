# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Third step of a call: executes the plans; a failure of one VM is reported in its result and does not affect the others."""

from __future__ import annotations

import concurrent.futures
import contextlib
import copy
import os
import typing as t
import urllib.parse

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import run_result, run_work
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_live import change_live
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import plan_domain, xml_compare, xml_domain, xml_metadata
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_merge import merge
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage import run_volumes, xml_devices

_Step = t.Callable[[run_work.Work, t.List[str]], None]


class Applier:
    """Executes the plans of one call."""

    def __init__(self, request: run_result.DefineRequest) -> None:
        self.request = request
        # what libvirt changed in the last new document: the next one of the same template gets the same changes
        self.echo: dict[str, str | None] = {}

    def all(self, works: t.Sequence[run_work.Work]) -> None:
        """Apply volumes and definitions sequentially, operations that wait for guests in parallel, restarts sequentially."""
        planned = [work for work in works if work.plan is not None]
        for work in planned:
            # from here on the completed actions, not the planned ones
            work.result.actions = []
        for work in planned:
            self._guard(work, self._define_and_create)
        self._refresh(planned)
        self._run_parallel(planned, self._change, plan_domain.RESUME, plan_domain.CHANGE_LIVE)
        self._run_parallel(planned, self._stop, plan_domain.SHUTDOWN, plan_domain.UNDEFINE)
        self._run_parallel(planned, self._start, plan_domain.START)
        for work in planned:
            if not work.result.error:
                work.result.restart_required = work.waits and run_work.need(work.plan).state in ("running", "paused", "suspended")
            if work.seen is not None and work.seen.restarting and not work.has(plan_domain.UNDEFINE) and not work.result.error:
                self._note_restart(work, False)
        self._restart_pending(planned)

    def _refresh(self, works: t.Sequence[run_work.Work]) -> None:
        """Refresh the pools before a guest starts or gets a new volume: libvirt looks up disks given by pool and volume."""
        stores = {id(work.steps.store): work.steps.store for work in works if work.steps is not None}
        for work in works:
            if work.steps is not None and work.document is not None and work.has(plan_domain.START, plan_domain.CHANGE_LIVE, plan_domain.POWER_CYCLE):
                for pool, unused in xml_devices.pool_disks(work.document):
                    work.steps.store.expect_refresh(pool)
        for store in stores.values():
            store.refresh()

    def _run_parallel(self, works: t.Sequence[run_work.Work], step: _Step, *actions: str) -> None:
        waiting = [work for work in works if not work.result.error and work.has(*actions)]
        if waiting:
            # libvirt calls release the GIL while they wait
            with concurrent.futures.ThreadPoolExecutor(max(1, self.request.parallel)) as pool:
                list(pool.map(lambda work: self._guard(work, step), waiting))

    def _restart_pending(self, works: t.Sequence[run_work.Work]) -> None:
        """Restart the VMs with pending changes; after the first failed restart the others keep running."""
        failed = None
        for work in works:
            crashed = work.has(plan_domain.POWER_CYCLE) and run_work.need(work.seen).record.state == "crashed"
            if work.result.error or not self.request.allow_power_cycling or not (crashed or work.result.restart_required):
                continue
            if failed is not None:
                work.notes.append(f"is not restarted, because the restart of {failed} failed")
                continue
            self._guard(work, self._power_cycle)
            if work.result.error:
                failed = work.result.name

    def _guard(self, work: run_work.Work, step: _Step) -> None:
        """Run one step of one VM; completed actions count as changed, also when the step fails."""
        done: list[str] = []
        try:
            step(work, done)
        except (model_errors.FootprintError, OSError) as caught:
            error = run_work.failure_of(caught)
            work.result.error = str(error)
            if not work.host.alive():
                lost = model_errors.BackendError(
                    f"the connection to {work.host.uri} was lost ({error.message.rstrip('.')}); its guests keep running.",
                    hint="Make sure that libvirtd runs on the host, then run again; the next run completes the rest.",
                )
                work.result.error = str(lost)
                work.result.state = work.seen.record.state if work.seen is not None else None
            else:
                with contextlib.suppress(model_errors.FootprintError):
                    record = work.host.domain(work.uuid)
                    work.result.state = record.state if record else "absent"
        work.result.actions += done
        work.result.changed = bool(work.result.actions)

    def _define_and_create(self, work: run_work.Work, done: list[str]) -> None:
        """Apply definition, volumes and autostart.

        A new domain is defined before its volumes are created, so that a refusal by libvirt has no cost. An existing
        domain gets its volumes first, so that its definition never names missing ones.
        """
        with self._noted(work):
            if work.seen is not None:
                self._create_volumes(work, done)
            for action in run_work.need(work.plan).actions:
                if action in plan_domain.DEFINING:
                    try:
                        self._define(work)
                    except model_errors.FootprintError:
                        self._remove_created_volumes(work, done)
                        raise
                elif action == plan_domain.UPDATE_METADATA:
                    self._write_metadata(work, self._ownership(work, run_work.need(run_work.need(work.seen).owned).echo))
                else:
                    continue
                done.append(action)
        if work.seen is None:
            self._create_volumes(work, done)
            if work.steps is not None and work.steps.pending:
                # from here on a missing volume counts as lost
                self._write_metadata(work, self._ownership(work, self.echo))
        for action in run_work.need(work.plan).actions:
            if action in (plan_domain.AUTOSTART_ON, plan_domain.AUTOSTART_OFF):
                work.host.set_autostart(work.uuid, action == plan_domain.AUTOSTART_ON)
                done.append(action)

    @contextlib.contextmanager
    def _noted(self, work: run_work.Work) -> t.Iterator[None]:
        """Note the volumes that an existing domain gets: the next run must know that those of a killed one belong to this VM."""
        before, steps = work.seen.owned if work.seen is not None else None, work.steps
        if before is None or steps is None or not steps.pending or not work.has(plan_domain.REDEFINE):
            yield
            return
        self._write_metadata(work, before._replace(pending_disks=(*before.pending_disks, *steps.pending)))
        try:
            yield
        except model_errors.FootprintError:
            if not steps.made:
                # the first error is the one to report
                with contextlib.suppress(model_errors.FootprintError):
                    self._write_metadata(work, before)
            raise

    def _create_volumes(self, work: run_work.Work, done: list[str]) -> None:
        if work.steps is not None and not work.has(plan_domain.UNDEFINE):
            run_volumes.apply(work.steps, done)

    def _remove_created_volumes(self, work: run_work.Work, done: list[str]) -> None:
        """Remove the volumes this call created for a definition that libvirt then refused."""
        if work.steps is not None and work.steps.made:
            created = {plan.action for plan in work.steps.made}
            work.steps.undo()
            done[:] = [action for action in done if action not in created]

    def _define(self, work: run_work.Work) -> None:
        """Define the domain, and record what libvirt changed in the document."""
        seen = work.seen
        if seen is None:
            config, document, expected = None, copy.deepcopy(work.document), self.echo
        else:
            # libvirt returns definitions without passwords by default, and they would be lost here
            config = xml_domain.parse(work.host.config_xml(work.uuid))
            document = merge(config, work.document, seen.applied, seen.owned.echo if seen.owned else None)
            expected = xml_compare.echo_of(work.document, document)
        owned = self._ownership(work, expected, config)
        if seen is None and work.steps is not None:
            owned = owned._replace(pending_disks=work.steps.pending)
        xml_metadata.attach(document, owned)
        work.config = xml_domain.parse(self._defined(work, document))
        echo = xml_compare.echo_of(work.document, work.config)
        if echo != expected:
            self._write_metadata(work, owned._replace(echo=echo))
        if seen is None:
            self.echo = echo
        elif seen.live is not None and not work.has(plan_domain.CHANGE_LIVE):
            # values that the template no longer sets can equal libvirt's defaults
            left = xml_compare.compare(work.document, work.document, work.config, seen.live, seen.live_applied, echo).differences
            work.waits = any(difference.live_differs for difference in left) or work.steps is not None and work.steps.restart_required

    @staticmethod
    def _defined(work: run_work.Work, document: t.Any) -> str:
        """Define a document and return the result; a refusal names the line of the template."""
        try:
            return work.host.define(xml_domain.text_of(document))
        except model_errors.BackendError as error:
            if work.prepared is None:
                raise
            from ansible_collections.reduced.footprint.plugins.module_utils._vm.template import run_blame

            raise run_blame.refused(work.prepared, error) from error

    def _write_metadata(self, work: run_work.Work, owned: xml_metadata.Ownership) -> None:
        namespace = xml_metadata.NAMESPACE
        work.host.set_metadata(work.uuid, namespace, xml_metadata.ELEMENTS[namespace], xml_metadata.element_text(work.document, owned))

    def _ownership(self, work: run_work.Work, echo: t.Mapping[str, str | None] | None, config: t.Any = None) -> xml_metadata.Ownership:
        before = work.seen.owned if work.seen is not None else None
        wanted = run_work.need(work.wanted)
        applied, previous = work.applied, before.previous if before else None
        back = before is not None and before.back
        if work.has(*plan_domain.DEFINING):
            if before is not None and before.applied != applied:
                previous, back = before.applied, wanted.state == "rolled_back"
            elif before is None and config is not None:
                found = copy.deepcopy(config)
                xml_metadata.strip(found)
                from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare.xml_hidden import concealed

                previous = concealed(xml_domain.canonical(found))
        elif before is not None:
            # only the other values change; the applied document stays
            applied = before.applied
        return xml_metadata.Ownership(
            cluster=self.request.cluster,
            id=work.vm.id,
            protected=before.protected if before and wanted.by_mark else wanted.protected,
            origin=before.origin if before else self.request.origin,
            applied=applied,
            previous=previous,
            back=back,
            echo=echo,
            adopted=before.adopted if before else work.seen is not None,
            protected_disks=before.protected_disks if before and wanted.by_mark else wanted.protected_disks,
            pending_disks=before.pending_disks if before and wanted.by_mark else (),
        )

    def _change(self, work: run_work.Work, done: list[str]) -> None:
        """Resume the domain if needed, then change the running guest."""
        if work.has(plan_domain.RESUME):
            work.host.resume(work.uuid)
            done.append(plan_domain.RESUME)
        if work.has(plan_domain.CHANGE_LIVE):
            change_live(work, self.request.live_timeout, done)

    def _stop(self, work: run_work.Work, done: list[str]) -> None:
        """Shut the domain down, and remove it if requested."""
        if work.has(plan_domain.SHUTDOWN):
            work.host.shutdown(work.uuid, self.request.shutdown_timeout, self.request.force or self.request.state == "absent")
            done.append(plan_domain.SHUTDOWN)
        if work.has(plan_domain.UNDEFINE):
            if work.steps is not None:
                record = work.host.domain(work.uuid) if work.steps.removals else None
                if record is not None and record.active:
                    raise model_errors.BackendError("was started meanwhile, so nothing of it is removed.", hint="Find out what starts it, then run again.")
                # the domain is removed last: after a killed run it still lists what else must be removed
                run_volumes.apply(work.steps, done)
            work.host.undefine(work.uuid)
            done.append(plan_domain.UNDEFINE)
            gone = self.request.remove_disks and not run_work.need(work.steps).notices
            if gone and not urllib.parse.urlsplit(work.host.uri).netloc and os.path.exists(os.path.join(self.request.records_path, f"{work.uuid}.json")):
                from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import run_owner

                run_owner.removed(work.uuid)

    def _start(self, work: run_work.Work, done: list[str]) -> None:
        work.host.start(work.uuid)
        done.append(plan_domain.START)
        record = work.host.domain(work.uuid)
        if record is None or not record.active:
            raise model_errors.BackendError("stopped right after its start.", hint="Check its log below /var/log/libvirt on the host.")

    def _power_cycle(self, work: run_work.Work, done: list[str]) -> None:
        # a run that is killed in between leaves a domain that is off; the note lets the next run start it
        self._note_restart(work, True)
        try:
            work.host.shutdown(work.uuid, self.request.shutdown_timeout, self.request.force)
        except model_errors.BackendError:
            self._note_restart(work, False)
            raise
        done.append(plan_domain.POWER_CYCLE)
        work.result.state = "shutdown"
        work.host.start(work.uuid)
        work.result.state = "running"
        work.result.restart_required = False
        self._note_restart(work, False)

    @staticmethod
    def _note_restart(work: run_work.Work, restarting: bool) -> None:
        namespace = xml_metadata.LIVE_NAMESPACE
        with contextlib.suppress(model_errors.BackendError):
            work.host.set_metadata(work.uuid, namespace, xml_metadata.ELEMENTS[namespace], xml_metadata.RESTARTING_TEXT if restarting else None)
