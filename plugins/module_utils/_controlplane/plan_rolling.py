# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan a rolling restart or update of the control plane: its preconditions, its order, and what remains of an interrupted one."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import plan_controlplane, plan_health
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_gate import WAY_IN
from ansible_collections.reduced.footprint.plugins.module_utils._core import model_schema
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_fields import did_you_mean

ACTIONS = ("restart", "update")


@dataclasses.dataclass(frozen=True)
class Request:
    """The request of the operator.

    :arg components: services, in the order of their dependencies.
    :arg accept_outage: whether a service without a redundant member may be interrupted.
    :arg forget: whether to discard the journal of an interrupted run.
    """

    action: str
    components: tuple[str, ...]
    accept_outage: bool = False
    forget: bool = False


def parse_request(action: t.Any, components: t.Any, accept_outage: bool = False, forget: bool = False) -> Request:
    """Parse the request from variables.

    :arg components: a list, or names separated by commas; empty means all.
    """
    if action not in ACTIONS:
        raise InputError(f"unknown action {action!r}.", "rolling_restart_action", f"Use {' or '.join(ACTIONS)}.")
    names = components.split(",") if isinstance(components, str) else list(components or ())
    found = [str(name).strip() for name in names if str(name).strip()]
    for number, name in enumerate(found):
        if name not in plan_health.SERVICES:
            hint = did_you_mean(name, plan_health.SERVICES, f"Use some of {', '.join(plan_health.SERVICES)}.")
            raise InputError(f"unknown component {name!r}.", f"components[{number}]", hint)
    return Request(str(action), tuple(name for name in plan_health.SERVICES if name in found), accept_outage, forget)


@dataclasses.dataclass(frozen=True)
class Step:
    """A member of a component.

    :arg begun: whether an interrupted run left it unfinished.
    :arg in_use: whether clients currently use it; then it hands over first and comes last.
    """

    component: str
    host: str
    begun: bool = False
    in_use: bool = False

    def as_dict(self) -> dict[str, t.Any]:
        """Return plain values for Ansible."""
        return {**dataclasses.asdict(self), "text": f"{self.component} on {self.host}"}


@dataclasses.dataclass(frozen=True)
class Plan:
    """A plan for a rolling restart or update.

    :arg why: the reasons against it; if there are any, nothing is done.
    :arg done: members that an interrupted run has completed.
    :arg journal: kept on the control node until the run is complete, to continue an interrupted run.
    """

    request: Request
    steps: tuple[Step, ...]
    why: tuple[str, ...]
    done: tuple[Step, ...]
    journal: t.Mapping[str, t.Any]
    sizes: t.Mapping[str, int]
    #: The state of each service by name.
    reports: t.Mapping[str, plan_controlplane.Report]

    @property
    def lines(self) -> list[str]:
        """Return the plan as text."""
        verb = {"restart": "restart", "update": "update, and restart what was updated"}[self.request.action]
        found = [f"rollout plan: {verb}, one member at a time, {len(self.steps)} to do"]
        for number, step in enumerate(self.steps, 1):
            note = " (unfinished in an interrupted run)" if step.begun else " (in use: hands over first)" if step.in_use else ""
            found.append(f"{number:3}. {step.component} on {step.host}{note}")
        found += [f"  -  {step.component} on {step.host}: done by the interrupted run" for step in self.done]
        return found

    def as_dict(self) -> dict[str, t.Any]:
        """Return plain values for Ansible."""
        return {
            "ok": not self.why,
            "action": self.request.action,
            "why": list(self.why),
            "lines": self.lines,
            "steps": [step.as_dict() for step in self.steps],
            "done": [step.as_dict() for step in self.done],
            "journal": model_schema.ROLLING_RESTART.mark(self.journal),
            "sizes": dict(self.sizes),
        }


def plan(
    request: Request,
    members: plan_controlplane.Members,
    looks: plan_controlplane.Looks,
    journal: t.Mapping[str, t.Any] | None = None,
    now: str = "",
) -> Plan:
    """Check the preconditions and order the members.

    :arg members: service → its hosts.
    :arg looks: host → ``controlplane`` as returned by ``controlplane_info``, empty or ``None`` for a host that does not answer.
    :arg journal: the journal of an interrupted run.
    """
    reports = plan_controlplane.evaluate(members, looks)
    components = request.components or tuple(reports)
    resolved = dataclasses.replace(request, components=components)
    sizes = {name: report.votes for name, report in reports.items()}
    why = [f"{name} is not installed on any host" for name in components if name not in reports]
    present = [name for name in components if name in reports]
    if not present and not why:
        why.append("no host with a service answers")
    journal, foreign = _own(resolved, journal)
    if foreign:
        why.append(foreign)
    todo, done = [], []
    for name in present:
        for step in _ordered(reports[name], looks, journal):
            (done if _done(step, reports[name], looks, journal) else todo).append(step)
    why += _gates(resolved, reports, [step for step in todo if step.begun])
    # an unfinished member comes first, before any other is changed
    todo.sort(key=lambda step: not step.begun)
    kept = journal or {"action": resolved.action, "components": list(components), "began": now, "before": _invocations(present, members, looks)}
    return Plan(resolved, tuple(todo), tuple(why), tuple(done), kept, sizes, reports)


def _own(request: Request, journal: t.Mapping[str, t.Any] | None) -> tuple[t.Mapping[str, t.Any] | None, str]:
    """Return the journal if it belongs to the same request, and otherwise the reason against starting."""
    if not journal or request.forget:
        return None, ""
    if (journal.get("action"), tuple(journal.get("components") or ())) == (request.action, request.components):
        return journal, ""
    return None, (
        f"a rollout started at {journal.get('began') or 'an unknown time'} is unfinished. Finish it with -e rolling_restart_action={journal.get('action')} "
        f"-e rolling_restart_components={','.join(journal.get('components') or ())}, or discard it with -e rolling_restart_forget=true"
    )


def _invocations(
    components: t.Sequence[str], members: plan_controlplane.Members, looks: plan_controlplane.Looks
) -> dict[str, dict[str, dict[str, str]]]:
    return {name: {host: _invocation(looks.get(host), name) for host in members[name]} for name in components}


def _invocation(look: t.Mapping[str, t.Any] | None, name: str) -> dict[str, str]:
    units = (((look or {}).get("services") or {}).get(name) or {}).get("units") or {}
    return {unit: str(entry.get("invocation") or "") for unit, entry in units.items()}


def _before(journal: t.Mapping[str, t.Any] | None, step: Step) -> t.Mapping[str, str] | None:
    return (((journal or {}).get("before") or {}).get(step.component) or {}).get(step.host)


def _done(step: Step, report: plan_controlplane.Report, looks: plan_controlplane.Looks, journal: t.Mapping[str, t.Any] | None) -> bool:
    """Whether a member was restarted, detected by invocation IDs, because a killed run may not have recorded it."""
    before = _before(journal, step)
    if before is None or journal is None or journal.get("action") != "restart" or step.begun:
        # an update skips members that are up to date
        return False
    now = _invocation(looks.get(step.host), step.component)
    return bool(now) and all(now[unit] != before.get(unit) for unit in now)


def _ordered(report: plan_controlplane.Report, looks: plan_controlplane.Looks, journal: t.Mapping[str, t.Any] | None) -> list[Step]:
    used = set(plan_controlplane.writers_of(looks).values()) if report.name == "galera" else {host for names in report.holders.values() for host in names}
    steps = []
    for member in report.members:
        known = _before(journal, Step(report.name, member.host)) is not None
        steps.append(Step(report.name, member.host, known and member.state != plan_controlplane.OK, member.host in used))
    return sorted(steps, key=lambda step: (step.in_use, [member.host for member in report.members].index(step.host)))


def _gates(request: Request, reports: t.Mapping[str, plan_controlplane.Report], begun: t.Sequence[Step]) -> list[str]:
    """Return the reasons against changing any member."""
    why = []
    if len(begun) > 1:
        names = " and ".join(f"{step.component} on {step.host}" for step in begun)
        why.append(f"{names} are unhealthy, but an interrupted run leaves at most one member unfinished")
    excused = {(step.component, step.host) for step in begun}
    changed = plan_health.with_voted(request.components)
    for name, report in reports.items():
        requested = name in changed
        if not requested and name != WAY_IN:
            continue
        bad = [member.text for member in report.unhealthy if (name, member.host) not in excused]
        # the unfinished member may be the reason for the problems of the service
        bad = [*report.why, *bad] if not excused or name not in {step.component for step in begun} else bad
        if bad:
            state = "without a witness" if report.state == plan_controlplane.OK else report.state
            why.append(f"{name} is {state}: {'; '.join(bad)}")
        size, needed = report.votes, report.needed
        if requested and size - 1 < needed and not request.accept_outage:
            why.append(f"{name} has {size} members and needs {needed}: it would be interrupted. Accept this with -e rolling_restart_accept_outage=true")
    return why
