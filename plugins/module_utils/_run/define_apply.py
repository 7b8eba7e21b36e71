# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Doing what was decided: one VM's failure leaves the others alone and is told in its result."""

from __future__ import annotations

import concurrent.futures
import contextlib
import copy
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._model import errors
from ansible_collections.reduced.footprint.plugins.module_utils._plan import domain as plan_of
from ansible_collections.reduced.footprint.plugins.module_utils._run import define_volumes
from ansible_collections.reduced.footprint.plugins.module_utils._run.define_live import change_live
from ansible_collections.reduced.footprint.plugins.module_utils._run import define_result
from ansible_collections.reduced.footprint.plugins.module_utils._run import define_work
from ansible_collections.reduced.footprint.plugins.module_utils._xml import devices
from ansible_collections.reduced.footprint.plugins.module_utils._xml import domain as domain_xml
from ansible_collections.reduced.footprint.plugins.module_utils._xml import metadata
from ansible_collections.reduced.footprint.plugins.module_utils._xml import compare as comparing
from ansible_collections.reduced.footprint.plugins.module_utils._xml.merge import merge

_Step = t.Callable[[define_work.Work, t.List[str]], None]


class Doing:
    """Carries out the plans of one call."""

    def __init__(self, request: define_result.DefineRequest) -> None:
        self.request = request
        # what libvirt made of the last new document: the next one of the same template fares alike
        self.echo: dict[str, str | None] = {}

    def all(self, works: t.Sequence[define_work.Work]) -> None:
        """Volumes and definitions one by one, what waits for guests in parallel, restarts one by one."""
        able = [work for work in works if work.plan is not None]
        for work in able:
            # from here on: what was done, not what was planned
            work.result.actions = []
        for work in able:
            self._guard(work, self._settle)
        self._refresh(able)
        self._together(able, self._change, plan_of.RESUME, plan_of.CHANGE_LIVE)
        self._together(able, self._stop, plan_of.SHUTDOWN, plan_of.UNDEFINE)
        self._together(able, self._start, plan_of.START)
        for work in able:
            if not work.result.error:
                work.result.restart_required = work.waits and define_work.need(work.plan).state in ("running", "paused", "suspended")
            if work.seen is not None and work.seen.restarting and not work.has(plan_of.UNDEFINE) and not work.result.error:
                self._note_restart(work, False)
        self._one_by_one(able)

    def _refresh(self, works: t.Sequence[define_work.Work]) -> None:
        """Let libvirt see the new volumes before a guest starts or gets one: it looks up those that are given by pool and volume."""
        stores = {id(work.steps.store): work.steps.store for work in works if work.steps is not None}
        for work in works:
            if work.steps is not None and work.document is not None and work.has(plan_of.START, plan_of.CHANGE_LIVE, plan_of.POWER_CYCLE):
                for pool, unused in devices.pool_disks(work.document):
                    work.steps.store.expect_refresh(pool)
        for store in stores.values():
            store.refresh()

    def _together(self, works: t.Sequence[define_work.Work], step: _Step, *actions: str) -> None:
        waiting = [work for work in works if not work.result.error and work.has(*actions)]
        if waiting:
            # libvirt's calls let other threads run while they wait
            with concurrent.futures.ThreadPoolExecutor(max(1, self.request.parallel)) as pool:
                list(pool.map(lambda work: self._guard(work, step), waiting))

    def _one_by_one(self, works: t.Sequence[define_work.Work]) -> None:
        """Restart what needs it; after the first that does not come back the others keep running."""
        failed = None
        for work in works:
            crashed = work.has(plan_of.POWER_CYCLE) and define_work.need(work.seen).record.state == "crashed"
            if work.result.error or not self.request.allow_power_cycling or not (crashed or work.result.restart_required):
                continue
            if failed is not None:
                work.notes.append(f"is not restarted, because {failed} did not come through its restart")
                continue
            self._guard(work, self._power_cycle)
            if work.result.error:
                failed = work.result.name

    def _guard(self, work: define_work.Work, step: _Step) -> None:
        """Run one step of one VM; what it did counts as changed, also when it failed half way."""
        done: list[str] = []
        try:
            step(work, done)
        except errors.FootprintError as error:
            work.result.error = str(error)
            if not work.host.alive():
                lost = errors.BackendError(
                    f"the connection to {work.host.uri} broke ({error.message.rstrip('.')}); its guests run on.",
                    mend="See to it that libvirtd runs on the host, then run again: it takes up what is missing.",
                )
                work.result.error = str(lost)
                work.result.state = work.seen.record.state if work.seen is not None else None
            else:
                with contextlib.suppress(errors.FootprintError):
                    record = work.host.domain(work.uuid)
                    work.result.state = record.state if record else "absent"
        work.result.actions += done
        work.result.changed = bool(work.result.actions)

    def _settle(self, work: define_work.Work, done: list[str]) -> None:
        """Definition, volumes and autostart.

        A new domain is defined before its volumes are made: a refusal by libvirt costs nothing. One that
        is there gets them first, so that its definition never names what does not exist.
        """
        if work.seen is not None:
            self._make_volumes(work, done)
        for action in define_work.need(work.plan).actions:
            if action in plan_of.DEFINING:
                try:
                    self._define(work)
                except errors.FootprintError:
                    self._unmake_volumes(work, done)
                    raise
            elif action == plan_of.UPDATE_METADATA:
                self._mark(work, self._ownership(work, define_work.need(define_work.need(work.seen).owned).echo))
            else:
                continue
            done.append(action)
        if work.seen is None:
            self._make_volumes(work, done)
            if work.steps is not None and work.steps.pending:
                # from here on a volume of it that is missing was lost
                self._mark(work, self._ownership(work, self.echo))
        self._conceal_live(work)
        for action in define_work.need(work.plan).actions:
            if action in (plan_of.AUTOSTART_ON, plan_of.AUTOSTART_OFF):
                work.host.set_autostart(work.uuid, action == plan_of.AUTOSTART_ON)
                done.append(action)

    def _make_volumes(self, work: define_work.Work, done: list[str]) -> None:
        if work.steps is not None and not work.has(plan_of.UNDEFINE):
            define_volumes.apply(work.steps, done)

    def _unmake_volumes(self, work: define_work.Work, done: list[str]) -> None:
        """What this call made for a definition that libvirt then refused."""
        if work.steps is not None and work.steps.made:
            made = {plan.action for plan in work.steps.made}
            work.steps.undo()
            done[:] = [action for action in done if action not in made]

    def _define(self, work: define_work.Work) -> None:
        """Give the domain its document, and write down what libvirt made of it."""
        seen = work.seen
        if seen is None:
            config, document, expected = None, copy.deepcopy(work.document), self.echo
        else:
            # a definition is usually shown without its passwords, and would lose them here
            config = domain_xml.parse(work.host.config_xml(work.uuid))
            document = merge(config, work.document, seen.applied, seen.owned.echo if seen.owned else None)
            expected = comparing.echo_of(work.document, document)
        owned = self._ownership(work, expected, config)
        if seen is None and work.steps is not None:
            owned = owned._replace(pending_disks=work.steps.pending)
        metadata.attach(document, owned)
        work.config = domain_xml.parse(self._defined(work, document))
        echo = comparing.echo_of(work.document, work.config)
        if echo != expected:
            self._mark(work, owned._replace(echo=echo))
        if seen is None:
            self.echo = echo
        elif seen.live is not None and not work.has(plan_of.CHANGE_LIVE):
            # what the template no longer says may well be what libvirt takes for granted
            left = comparing.compare(work.document, work.document, work.config, seen.live, seen.live_applied, echo).differences
            work.waits = any(difference.live_differs for difference in left) or work.steps is not None and work.steps.restart_required

    @staticmethod
    def _defined(work: define_work.Work, document: t.Any) -> str:
        """What libvirt has after it was given a document; its refusal is told with the line of the template."""
        try:
            return work.host.define(domain_xml.text_of(document))
        except errors.BackendError as error:
            if work.prepared is None:
                raise
            from ansible_collections.reduced.footprint.plugins.module_utils._run import define_blame

            raise define_blame.refused(work.prepared, error) from error

    def _mark(self, work: define_work.Work, owned: metadata.Ownership) -> None:
        namespace = metadata.NAMESPACE
        work.host.set_metadata(work.uuid, namespace, metadata.ELEMENTS[namespace], metadata.element_text(work.document, owned))

    @staticmethod
    def _conceal_live(work: define_work.Work) -> None:
        """Passwords an earlier release left in the metadata of what runs go without a restart."""
        seen = work.seen
        if seen is not None and seen.record.active and seen.live_owned is not None and seen.live_owned.clear:
            namespace = metadata.NAMESPACE
            text = metadata.element_text(seen.live, seen.live_owned)
            work.host.set_metadata(work.uuid, namespace, metadata.ELEMENTS[namespace], text, live=True)

    def _ownership(self, work: define_work.Work, echo: t.Mapping[str, str | None] | None, config: t.Any = None) -> metadata.Ownership:
        before = work.seen.owned if work.seen is not None else None
        wanted = define_work.need(work.wanted)
        applied, previous = work.applied, before.previous if before else None
        back = before is not None and before.back
        if work.has(*plan_of.DEFINING):
            if before is not None and before.applied != applied:
                previous, back = before.applied, wanted.state == "previous"
            elif before is None and config is not None:
                found = copy.deepcopy(config)
                metadata.strip(found)
                from ansible_collections.reduced.footprint.plugins.module_utils._xml.hidden import concealed

                previous = concealed(domain_xml.canonical(found))
        elif before is not None:
            # only the rest changes; what the domain was made of stays
            applied = before.applied
        return metadata.Ownership(
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

    def _change(self, work: define_work.Work, done: list[str]) -> None:
        """Let it run on where it stands still, then change what runs."""
        if work.has(plan_of.RESUME):
            work.host.resume(work.uuid)
            done.append(plan_of.RESUME)
        if work.has(plan_of.CHANGE_LIVE):
            change_live(work, self.request.live_timeout, done)

    def _stop(self, work: define_work.Work, done: list[str]) -> None:
        """Off, and gone where that is wanted."""
        if work.has(plan_of.SHUTDOWN):
            work.host.shutdown(work.uuid, self.request.shutdown_timeout, self.request.force or self.request.state == "absent")
            done.append(plan_of.SHUTDOWN)
        if work.has(plan_of.UNDEFINE):
            if work.steps is not None:
                # the domain goes last: a run that is killed still finds in it what else has to go
                define_volumes.apply(work.steps, done)
            work.host.undefine(work.uuid)
            done.append(plan_of.UNDEFINE)

    def _start(self, work: define_work.Work, done: list[str]) -> None:
        work.host.start(work.uuid)
        done.append(plan_of.START)
        record = work.host.domain(work.uuid)
        if record is None or not record.active:
            raise errors.BackendError("ended right after its start.", mend="Look at its log below /var/log/libvirt on the host.")

    def _power_cycle(self, work: define_work.Work, done: list[str]) -> None:
        # a run that is killed in between leaves a domain that is off; the next one has to know better
        self._note_restart(work, True)
        try:
            work.host.shutdown(work.uuid, self.request.shutdown_timeout, self.request.force)
        except errors.BackendError:
            self._note_restart(work, False)
            raise
        done.append(plan_of.POWER_CYCLE)
        work.result.state = "shutdown"
        work.host.start(work.uuid)
        work.result.state = "running"
        work.result.restart_required = False
        self._note_restart(work, False)

    @staticmethod
    def _note_restart(work: define_work.Work, begins: bool) -> None:
        namespace = metadata.LIVE_NAMESPACE
        with contextlib.suppress(errors.BackendError):
            work.host.set_metadata(work.uuid, namespace, metadata.ELEMENTS[namespace], metadata.RESTARTING_TEXT if begins else None)
