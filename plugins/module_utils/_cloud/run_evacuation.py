# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: empty a compute server of its instances, and bring back what was migrated or stopped; in check mode only report the changes."""

from __future__ import annotations

import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._cloud.io_compute import Compute
from ansible_collections.reduced.footprint.plugins.module_utils._cloud.model_instances import (
    MIGRATE,
    START,
    STOP,
    Instance,
    Record,
    Service,
    Step,
    parse_record,
)
from ansible_collections.reduced.footprint.plugins.module_utils._cloud.plan_evacuation import OFF, REASON, Evacuation, Wanted, plan, restoring
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, FootprintError, RefusedError

_POLL = 2.0
#: For so many seconds Nova may not answer: its address moves when a member of the control plane is lost or busy.
_SILENT = 120.0
_T = t.TypeVar("_T")
#: The status of an instance afterwards.
_AFTER = {STOP: "SHUTOFF", START: "ACTIVE"}
_AGAIN = "Run the same command again, which continues."


def evacuate(params: t.Mapping[str, t.Any], *, check_mode: bool, backend: t.Any = None) -> dict[str, t.Any]:
    """Bring the instances of a server to a state; return the result of the module.

    :raises RefusedError: instances that can be neither migrated nor stopped; nothing was changed.
    :raises BackendError: Nova does not answer, or did not do what it was asked for.
    """
    begun = parse_record(params["record"]) if params["record"] else None
    work = _Work(params, check_mode, backend or Compute(params["cloud"]))
    if params["state"] == "emptied":
        return work.empty(Wanted(params["server"], params["stop"], params["removal"]), begun)
    return work.restore(begun or Record(False, ()))


class _Work:
    """One call of the module.

    :ivar actions: what was done, or would be done in check mode.
    """

    def __init__(self, params: t.Mapping[str, t.Any], check_mode: bool, nova: t.Any) -> None:
        self._server, self._patience = str(params["server"]), float(params["wait_timeout"])
        self._check_mode, self._nova = check_mode, nova
        self.actions: list[str] = []

    def empty(self, wanted: Wanted, begun: Record | None) -> dict[str, t.Any]:
        """Migrate or stop the instances."""
        evacuation = self._plan(wanted, begun, None if self._check_mode else begun)
        record = evacuation.record
        if record.disable:
            self._disable()
        if not self._check_mode:
            # others may have come before the service was disabled
            self._plan(wanted, record, record)
        self._all(record.steps, self._leave)
        if not self._check_mode:
            # one that Nova had sent here before the service was disabled may arrive while others leave
            self._plan(wanted, record, record)
        return self._result(record, evacuation.lines)

    def _plan(self, wanted: Wanted, begun: Record | None, kept: Record | None) -> Evacuation:
        """Return the plan.

        :arg kept: the record that was kept before the first change, outside of which nothing may be done.
        """
        found = plan(wanted, self._asked(self._nova.services), self._settled(), begun)
        if found.problems:
            raise _several(found.problems, RefusedError)
        if kept and {(step.id, step.stop) for step in found.record.steps} != {(step.id, step.stop) for step in kept.steps}:
            raise RefusedError(f"{self._server} got other instances since they were listed, or the consent to stop them has changed.", hint=_AGAIN)
        return found

    def restore(self, record: Record) -> dict[str, t.Any]:
        """Enable the service, start and migrate back."""
        if record.disable:
            self._enable()
        found = {step.id: self._asked(self._nova.instance, step.id) if self._check_mode else self._wait(step) for step in record.steps}
        back = restoring(record, self._server, found)
        lines = [f"instance {step.name} {back[step.id]}, and is left as it is" for step in record.steps if back[step.id] not in ("", MIGRATE, START)]
        self._all([step for step in record.steps if back[step.id] in (MIGRATE, START)], lambda step: self._change(step, back[step.id], self._server))
        return self._result(record, lines)

    def _result(self, record: Record, lines: t.Sequence[str]) -> dict[str, t.Any]:
        return {"changed": bool(self.actions), "actions": self.actions, "record": record.as_dict(), "lines": list(lines)}

    def _all(self, steps: t.Iterable[Step], act: t.Callable[[Step], None]) -> None:
        """Do something with each instance, one at a time, also after one has failed."""
        problems = []
        for step in steps:
            try:
                act(step)
            except FootprintError as error:
                problems.append(error)
        if problems:
            raise _several(problems, BackendError)

    # one instance -------------------------------------------------------------------------------------------------------

    def _leave(self, step: Step) -> None:
        """Migrate an instance, or stop it if that is allowed."""
        one = None if self._check_mode else self._wait(step)
        if not self._check_mode and (one is None or one.host != self._server or one.status in OFF):
            return
        try:
            self._change(step, step.action)
        except FootprintError:
            if step.action == STOP or not step.stop or one is None or one.status != "ACTIVE":
                raise
            self._change(step, STOP)

    def _change(self, step: Step, verb: str, to: str = "") -> None:
        """Migrate, stop or start an instance, and wait until that is done."""
        if self._check_mode:
            self.actions.append(_action(step, verb, to or step.destination))
            return
        began = time.monotonic()
        self._nova.act(verb, step.id, to)
        one = self._wait(step)
        if one is None:
            return
        moved = one.host == to if to else one.host != self._server
        if one.status == "ERROR" or (not moved if verb == MIGRATE else one.status != _AFTER[verb]):
            reason = self._nova.reason(step.id) or "Nova does not give the reason"
            raise BackendError(f"Nova did not {verb} instance {step.name}, which is {one.status} on {one.host}: {reason}.", hint=_AGAIN)
        self.actions.append(f"{_action(step, verb, one.host)}: {time.monotonic() - began:.1f} s")

    # waiting ------------------------------------------------------------------------------------------------------------

    def _asked(self, question: t.Callable[..., _T], *given: str) -> _T:
        """Return what Nova answers; while it does not, ask again for some time. A request is never repeated."""
        until = time.monotonic() + _SILENT
        while True:
            try:
                return question(*given)
            except BackendError:
                if self._check_mode or time.monotonic() > until:
                    raise
            time.sleep(_POLL)

    def _wait(self, step: Step) -> Instance | None:
        """Return an instance when Nova does nothing with it, ``None`` if it was deleted."""
        until = time.monotonic() + self._patience
        while (one := self._asked(self._nova.instance, step.id)) is not None and one.task:
            if time.monotonic() > until:
                raise BackendError(f"instance {step.name} is still being changed ({one.task}) after {self._patience:.0f} s.", hint=_AGAIN)
            time.sleep(_POLL)
        return one

    def _settled(self) -> list[Instance]:
        """Return the instances of the server when Nova does nothing with them, or as they are at the end of the time."""
        until = time.monotonic() + self._patience
        while True:
            found: list[Instance] = self._asked(self._nova.instances, self._server)
            if not any(one.task for one in found) or time.monotonic() > until:
                return found
            time.sleep(_POLL)

    # the service --------------------------------------------------------------------------------------------------------

    def _service(self) -> Service:
        found = next((one for one in self._asked(self._nova.services) if one.host == self._server), None)
        if found is None:
            raise BackendError(f"Nova has no compute service of {self._server} any more.", hint="Run provision_compute for it.")
        return found

    def _disable(self) -> None:
        service = self._service()
        if not service.enabled and service.reason == REASON:
            return
        self.actions.append(f"disable the compute service of {self._server}")
        if not self._check_mode:
            self._nova.enable(service, REASON)

    def _enable(self) -> None:
        """Enable the service when it is up, if it is disabled for the reason of this module."""
        service, until = self._service(), time.monotonic() + self._patience
        if service.enabled or service.reason != REASON:
            return
        self.actions.append(f"enable the compute service of {self._server}")
        if self._check_mode:
            return
        while not service.up:
            if time.monotonic() > until:
                raise BackendError(f"nova-compute of {self._server} is down after {self._patience:.0f} s.", hint="Check /var/log/nova/nova-compute.log on it.")
            time.sleep(_POLL)
            service = self._service()
        self._nova.enable(service)


def _action(step: Step, verb: str, server: str) -> str:
    return f"{verb} instance {step.name}{f' to {server}' if verb == MIGRATE and server else ''}"


def _several(problems: t.Sequence[FootprintError], kind: type[FootprintError]) -> FootprintError:
    return problems[0] if len(problems) == 1 else kind(" ".join(str(one) for one in problems))
