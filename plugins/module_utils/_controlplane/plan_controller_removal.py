# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan the removal of a controller or witness: whether the others have a majority without it, and what stops on it."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import plan_controlplane, plan_gate, plan_health
from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_fields import did_you_mean
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_plan import Plan
from ansible_collections.reduced.footprint.plugins.module_utils._inventory import plan_witness

_PREFIX = "remove_controller"
#: Stopped before the units of a service. Without its health check a database gets no new clients from the load balancers of the others.
_BEFORE: t.Mapping[str, tuple[str, ...]] = {
    "galera": ("footprint-galera-check.socket", "footprint-galera-check.service", "footprint-galera-guard.service"),
    "ovn_database": ("footprint-ovn-observers.timer", "ovn-northd.service"),
}
#: Their roles stop them, because they also remove files.
_BY_ROLE = (plan_health.WITNESS, "rabbitmq")


class Wanted(t.NamedTuple):
    """The wishes of the operator.

    :arg confirm: the name again.
    :arg lost: whether it is lost for good and does not answer.
    """

    name: str
    confirm: str = ""
    lost: bool = False


class Found(t.NamedTuple):
    """What was found.

    :arg looks: host → ``controlplane`` as returned by ``controlplane_info``, empty for a host that does not answer.
    :arg silence: why the member does not answer.
    :arg answering: whether its ssh port answers although Ansible cannot use it.
    """

    looks: plan_controlplane.Looks
    silence: str = ""
    answering: bool = False


def services_of(name: str, members: plan_controlplane.Members) -> list[str]:
    """Return the services of a member."""
    own = [service for service, hosts in members.items() if name in hosts]
    if not own:
        known = sorted({host for hosts in members.values() for host in hosts})
        hint = f"Use one of {', '.join(known) or 'none'}, before it is removed from the inventory."
        raise model_errors.InputError(f"{name} is neither a controller nor a witness.", f"{_PREFIX}_name", did_you_mean(name, known, hint))
    return own


def plan(wanted: Wanted, members: plan_controlplane.Members, found: Found, leaving: bool = False, observes: bool = False) -> Plan:
    """Decide about the removal.

    :arg members: service → its hosts.
    :arg leaving: witnesses leave soon, so the number of votes may be even.
    :arg observes: a witness is a chassis of a cloud for this purpose only. Its controller removes the chassis when it stops.
    :returns: with the value ``units``, which are stopped on the member in this order.
    """
    name, own = wanted.name, services_of(wanted.name, members)
    problems = [*_last(name, own, members), *_without(name, own, members, found), *_even(name, members, leaving), *_silent(wanted, found)]
    effect = _effect(name, members)
    if not problems and wanted.confirm != name:
        problems.append(model_errors.InputError(effect, f"{_PREFIX}_confirm", f"To continue, set {_PREFIX}_confirm: {name}."))
    stops = [] if wanted.lost else _units(own) + (["ovn-controller.service"] if observes and plan_health.WITNESS in own else [])
    lines = [effect, f"{name} is lost, the others forget it" if wanted.lost else f"on {name} these stop: {', '.join(own)}"]
    return Plan(lines, problems=problems, values={"units": stops})


def _units(own: t.Sequence[str]) -> list[str]:
    """Return the units in the order in which they stop: first the way of the clients, last the database."""
    order = [service for service in reversed(plan_health.SERVICES) if service in own and service not in _BY_ROLE]
    order.sort(key=lambda service: service != plan_gate.WAY_IN)
    return [unit for service in order for unit in (*_BEFORE.get(service, ()), *(choice[0] for choice in reversed(plan_health.SERVICES[service].units)))]


def _last(name: str, own: t.Sequence[str], members: plan_controlplane.Members) -> t.Iterator[model_errors.FootprintError]:
    alone = [one for one in own if not set(members[one]) - {name, *(members.get(plan_health.WITNESS) or ())}]
    if alone and plan_health.WITNESS not in own:
        yield model_errors.RefusedError(f"{name} is the last member of {', '.join(alone)}.", f"{_PREFIX}_name", "Add another one first.")


def _without(name: str, own: t.Sequence[str], members: plan_controlplane.Members, found: Found) -> t.Iterator[model_errors.FootprintError]:
    """Yield why the others do not serve without it: each of them must answer and be healthy, and be more than half of the present members."""
    gate = plan_gate.check_gate(members, found.looks, skipped=[name])
    reports = plan_controlplane.evaluate(members, {**found.looks, name: None})
    few = [(service, report) for service, report in reports.items() if service in own and report.healthy_votes < report.needed]
    why = [*gate.why, *(f"without {name} {service} has {one.healthy_votes} of {one.votes} votes and needs {one.needed}" for service, one in few)]
    if why:
        yield model_errors.RefusedError(f"{'; '.join(why)}. Without {name}, all others are needed.", hint="Repair them, or add a member or a witness first.")


def _even(name: str, members: plan_controlplane.Members, leaving: bool) -> t.Iterator[model_errors.FootprintError]:
    """Yield why the remaining votes do not decide."""
    witnesses, data = ([host for host in members.get(service) or () if host != name] for service in (plan_health.WITNESS, "galera"))
    try:
        plan_witness.check_votes([plan_witness.Machine(host, path=f"witness: {host}") for host in witnesses], data, leaving)
    except model_errors.RefusedError as error:
        yield error


def _silent(wanted: Wanted, found: Found) -> t.Iterator[model_errors.FootprintError]:
    """Yield an error if it is unknown whether it stops, or if it is called lost and is not."""
    answers, path = bool(found.looks.get(wanted.name)), f"{_PREFIX}_lost"
    if not answers and not wanted.lost:
        message = f"{wanted.name} does not answer ({found.silence or 'no answer'}), so it cannot leave."
        yield model_errors.RefusedError(message, path, f"Start it, or set {path}: true if it is lost for good.")
    if wanted.lost and (answers or found.answering):
        yield model_errors.RefusedError(
            f"{wanted.name} {'answers' if answers else 'is not off: its ssh port answers'}, so it is not lost.",
            path,
            f"Run again without {path}, so that it leaves by itself." if answers else "Power it off, or make it reachable for Ansible.",
        )


def _effect(name: str, members: plan_controlplane.Members) -> str:
    voters = dict.fromkeys((*(members.get("galera") or ()), *(members.get(plan_health.WITNESS) or ())))
    left = [host for host in voters if host != name]
    if len(left) == len(voters):
        return f"{name} has no vote about the database."
    after = "the loss of any server stops the control plane until another vote is added" if len(left) < 3 else "the loss of one server is tolerated"
    return f"Without {name}, {len(left)} votes remain ({', '.join(left)}), and {len(left) // 2 + 1} are needed: {after}."
