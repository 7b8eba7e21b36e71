# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Members of the control plane taken one at a time: whether that may be begun, in which order, what is left of it."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import plan_controlplane
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError

ACTIONS = ("restart", "update")
#: What clients need besides the service that is worked at.
_WAY_IN = "load_balancer"


@dataclasses.dataclass(frozen=True)
class Request:
    """What an operator asks for.

    :arg components: services, in any order.
    :arg accept_outage: whether a service may stand still that has nobody to spare.
    :arg forget: whether an unfinished run of another kind is given up.
    """

    action: str
    components: tuple[str, ...]
    accept_outage: bool = False
    forget: bool = False


def parse_request(action: t.Any, components: t.Any, accept_outage: bool = False, forget: bool = False) -> Request:
    """The request from an operator's variables.

    :arg components: a list, or names with commas between; none means all.
    :raises InputError: an action or a component nobody knows.
    """
    if action not in ACTIONS:
        raise InputError(f"{action!r} is no action.", "rolling_restart_action", f"Take {' or '.join(ACTIONS)}.")
    names = components.split(",") if isinstance(components, str) else list(components or ())
    found = [str(name).strip() for name in names if str(name).strip()]
    for number, name in enumerate(found):
        if name not in plan_controlplane.SERVICES:
            raise InputError(f"{name!r} is no component.", f"components[{number}]", f"Take of {', '.join(plan_controlplane.SERVICES)}.")
    return Request(str(action), tuple(name for name in plan_controlplane.SERVICES if name in found), accept_outage, forget)


def looks_of(hostvars: t.Mapping[str, t.Any], members: t.Mapping[str, t.Sequence[str]]) -> dict[str, t.Any]:
    """What each host of any service told as ``rolling_restart_look``, nothing for one that did not answer."""
    hosts = dict.fromkeys(host for names in members.values() for host in names)
    return {host: (hostvars[host].get("rolling_restart_look") or {}).get("controlplane") for host in hosts}


@dataclasses.dataclass(frozen=True)
class Step:
    """One member of one component.

    :arg begun: a run that was broken off has left it in the middle.
    :arg in_use: clients use it right now, so that it hands over first and comes last.
    """

    component: str
    host: str
    begun: bool = False
    in_use: bool = False


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is to be done.

    :arg why: what speaks against beginning; then nothing is done.
    :arg done: what a run that was broken off has done already.
    :arg journal: what is kept while it lasts, to go on with.
    """

    request: Request
    steps: tuple[Step, ...]
    why: tuple[str, ...]
    done: tuple[Step, ...]
    journal: t.Mapping[str, t.Any]
    sizes: t.Mapping[str, int]
    #: What was seen of it, as the services are called.
    reports: t.Mapping[str, plan_controlplane.Report]

    @property
    def lines(self) -> list[str]:
        """The rollout, for people."""
        verb = {"restart": "restart", "update": "update, and restart what was updated"}[self.request.action]
        found = [f"rollout plan: {verb}, one member at a time, {len(self.steps)} to do"]
        for number, step in enumerate(self.steps, 1):
            note = " (begun by a run that was broken off)" if step.begun else " (in use: hands over first)" if step.in_use else ""
            found.append(f"{number:3}. {step.component} on {step.host}{note}")
        found += [f"  -  {step.component} on {step.host}: done by the run that was broken off" for step in self.done]
        return found

    def as_dict(self) -> dict[str, t.Any]:
        """Plain values, for Ansible."""
        return {
            "ok": not self.why,
            "action": self.request.action,
            "why": list(self.why),
            "lines": self.lines,
            "steps": [dataclasses.asdict(step) for step in self.steps],
            "done": [dataclasses.asdict(step) for step in self.done],
            "journal": dict(self.journal),
            "sizes": dict(self.sizes),
        }


def plan(
    request: Request,
    members: t.Mapping[str, t.Sequence[str]],
    looks: t.Mapping[str, t.Mapping[str, t.Any] | None],
    journal: t.Mapping[str, t.Any] | None = None,
    now: str = "",
) -> Plan:
    """Gates and order.

    :arg members: service → its hosts.
    :arg looks: host → what ``controlplane_info`` returned as ``controlplane``, nothing for one that does not answer.
    :arg journal: what a run that was broken off has left.
    :arg now: the time, for the journal.
    """
    reports = plan_controlplane.judge(members, looks)
    components = request.components or tuple(reports)
    asked = dataclasses.replace(request, components=components)
    sizes = {name: len(report.members) for name, report in reports.items()}
    why = [f"{name} is not installed on any host" for name in components if name not in reports]
    present = [name for name in components if name in reports]
    if not present and not why:
        why.append("no host answers that has a service")
    journal, foreign = _own(asked, journal)
    if foreign:
        why.append(foreign)
    todo, done = [], []
    for name in present:
        for step in _ordered(reports[name], looks, journal):
            (done if _done(step, reports[name], looks, journal) else todo).append(step)
    why += _gates(asked, reports, [step for step in todo if step.begun])
    # first what was left in the middle, whatever it is: nothing else may be touched before
    todo.sort(key=lambda step: not step.begun)
    kept = journal or {"action": asked.action, "components": list(components), "began": now, "before": _invocations(present, members, looks)}
    return Plan(asked, tuple(todo), tuple(why), tuple(done), kept, sizes, reports)


def _own(request: Request, journal: t.Mapping[str, t.Any] | None) -> tuple[t.Mapping[str, t.Any] | None, str]:
    """The journal if it is of this very rollout, and what speaks against going on if it is of another."""
    if not journal or request.forget:
        return None, ""
    if (journal.get("action"), tuple(journal.get("components") or ())) == (request.action, request.components):
        return journal, ""
    return None, (
        f"a rollout begun at {journal.get('began') or 'an unknown time'} was not finished. Finish it with -e rolling_restart_action={journal.get('action')} "
        f"-e components={','.join(journal.get('components') or ())}, or give it up with -e rolling_restart_forget=true"
    )


def _invocations(
    components: t.Sequence[str], members: t.Mapping[str, t.Sequence[str]], looks: t.Mapping[str, t.Mapping[str, t.Any] | None]
) -> dict[str, dict[str, dict[str, str]]]:
    return {name: {host: _invocation(looks.get(host), name) for host in members[name]} for name in components}


def _invocation(look: t.Mapping[str, t.Any] | None, name: str) -> dict[str, str]:
    units = (((look or {}).get("services") or {}).get(name) or {}).get("units") or {}
    return {unit: str(entry.get("invocation") or "") for unit, entry in units.items()}


def _before(journal: t.Mapping[str, t.Any] | None, step: Step) -> t.Mapping[str, str] | None:
    return (((journal or {}).get("before") or {}).get(step.component) or {}).get(step.host)


def _done(step: Step, report: plan_controlplane.Report, looks: t.Mapping[str, t.Mapping[str, t.Any] | None], journal: t.Mapping[str, t.Any] | None) -> bool:
    """Told by what systemd says of the start, not by a note that a killed run may not have made."""
    before = _before(journal, step)
    if before is None or journal is None or journal.get("action") != "restart" or step.begun:
        # whoever is up to date is left alone by an update anyhow
        return False
    now = _invocation(looks.get(step.host), step.component)
    return bool(now) and all(now[unit] != before.get(unit) for unit in now)


def _ordered(report: plan_controlplane.Report, looks: t.Mapping[str, t.Mapping[str, t.Any] | None], journal: t.Mapping[str, t.Any] | None) -> list[Step]:
    used = set(plan_controlplane.writers_of(looks).values()) if report.name == "galera" else {host for names in report.holders.values() for host in names}
    steps = []
    for member in report.members:
        known = _before(journal, Step(report.name, member.host)) is not None
        steps.append(Step(report.name, member.host, known and member.state != plan_controlplane.OK, member.host in used))
    return sorted(steps, key=lambda step: (step.in_use, [member.host for member in report.members].index(step.host)))


def _gates(request: Request, reports: t.Mapping[str, plan_controlplane.Report], begun: t.Sequence[Step]) -> list[str]:
    """What speaks against touching anything."""
    why = []
    if len(begun) > 1:
        why.append(f"{' and '.join(f'{step.component} on {step.host}' for step in begun)} are not well, and only one was worked at")
    excused = {(step.component, step.host) for step in begun}
    for name, report in reports.items():
        asked = name in request.components
        if not asked and name != _WAY_IN:
            continue
        bad = [member.words for member in report.members if member.state != plan_controlplane.OK and (name, member.host) not in excused]
        # a member that was left in the middle may be what the service lacks
        bad = [*report.why, *bad] if not excused or name not in {step.component for step in begun} else bad
        if bad:
            why.append(f"{name} is {report.state}: {'; '.join(bad)}")
        size, needed = len(report.members), plan_controlplane.SERVICES[name].needed(len(report.members))
        if asked and size - 1 < needed and not request.accept_outage:
            why.append(f"{name} has {size} members and needs {needed}: with one less it stands still. Accept that with -e rolling_restart_accept_outage=true")
    return why


@dataclasses.dataclass(frozen=True)
class Verdict:
    """How the control plane stands between two steps.

    :arg why: what speaks against taking the next member.
    :arg writers: frontend → the member its clients are sent to alone.
    :arg holders: virtual address → who holds it, where one does.
    :arg ports: virtual address → ports at which somebody serves, by a name of their own.
    """

    why: tuple[str, ...]
    writers: t.Mapping[str, str]
    holders: t.Mapping[str, str]
    ports: t.Mapping[str, t.Mapping[str, int]]

    def as_dict(self) -> dict[str, t.Any]:
        """Plain values, for Ansible."""
        return {
            "why": list(self.why),
            "writers": dict(self.writers),
            "holders": dict(self.holders),
            "ports": {address: dict(ports) for address, ports in self.ports.items()},
        }


def verdict(
    component: str,
    members: t.Mapping[str, t.Sequence[str]],
    looks: t.Mapping[str, t.Mapping[str, t.Any] | None],
    failed: t.Sequence[str] = (),
    back: str = "",
    accept_outage: bool = False,
) -> Verdict:
    """Whether the next member of a component may be taken: all but those given up have to be well.

    :arg failed: members an operator allowed to fail; the component has to do without them and one more.
    :arg back: a member that was just worked at, and that the load balancers have to send clients to again.
    """
    reports = plan_controlplane.judge(members, looks)
    why = []
    for name in dict.fromkeys((component, _WAY_IN)):
        report = reports.get(name)
        if report is None:
            continue
        given_up = failed if name == component else ()
        why += [f"{name}: {text}" for text in report.why]
        why += [f"{name} on {member.words}" for member in report.members if member.state != plan_controlplane.OK and member.host not in given_up]
    if back and back not in failed:
        why += _sent_past(back, looks)
    report = reports.get(component)
    if report is not None and failed:
        left, needed = report.well - 1, plan_controlplane.SERVICES[component].needed(len(report.members))
        if left < needed and not accept_outage:
            why.append(f"{component} would have {left} of {len(report.members)} members left and needs {needed}")
    way_in = reports.get(_WAY_IN)
    holders = {address: names[0] for address, names in (way_in.holders if way_in else {}).items() if len(names) == 1}
    return Verdict(tuple(why), plan_controlplane.writers_of(looks), holders, _ports(looks))


def _balancers(looks: t.Mapping[str, t.Mapping[str, t.Any] | None]) -> t.Iterator[tuple[str, t.Mapping[str, t.Any]]]:
    for host, look in looks.items():
        facts = (((look or {}).get("services") or {}).get(_WAY_IN) or {}).get("facts")
        if facts:
            yield host, facts


def _sent_past(server: str, looks: t.Mapping[str, t.Mapping[str, t.Any] | None]) -> t.Iterator[str]:
    for host, facts in _balancers(looks):
        for name, frontend in sorted((facts.get("frontends") or {}).items()):
            if not any(state["status"].startswith(plan_controlplane.SERVING) for state in frontend["servers"].values()):
                continue  # nobody serves it, as one that is not deployed yet: that is not this member's fault
            status = (frontend["servers"].get(server) or {}).get("status")
            if status and not status.startswith(plan_controlplane.SERVING):
                yield f"the load balancer on {host} sends no clients of {name} to {server} ({status})"


def _ports(looks: t.Mapping[str, t.Mapping[str, t.Any] | None]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for unused, facts in _balancers(looks):
        for front in facts.get("fronts") or ():
            name = "mysql" if front.get("scheme") == "mysql" else f"port {front['port']}"
            found.setdefault(str(front["address"]), {})[name] = int(front["port"])
    return found
