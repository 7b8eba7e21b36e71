# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Order and hosts of the deployment of services. No I/O."""

from __future__ import annotations

import dataclasses
import graphlib
import heapq
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_fields import did_you_mean
from ansible_collections.reduced.footprint.plugins.module_utils._service.model_openstack import OPENSTACK
from ansible_collections.reduced.footprint.plugins.module_utils._topology.model_services import (
    BUILT_IN,
    CONTROLLER,
    SYSTEM_MEMORY,
    WITNESS,
    Once,
    Service,
    known,
    names_of,
    real,
)

_COMPARED = ("galera", "rabbitmq", "memcached", "load_balancer")
#: Step → the steps it depends on. A step is the name of a service, or SERVICE/STEP for a one-time step.
Graph = t.Dict[str, t.List[str]]


@dataclasses.dataclass(frozen=True)
class Step:
    """A step of a deployment on these hosts: the role of a service, or one of its one-time steps."""

    name: str
    service: Service
    hosts: tuple[str, ...]
    once: Once | None = None

    @property
    def compared(self) -> str:
        """Return with which other services its role can compare what it needs: ``openstack``, or ``base`` for those below; empty if it cannot."""
        kind = "openstack" if self.service.name in OPENSTACK else "base" if self.service.name in _COMPARED else ""
        return kind if kind and self.once is None and self.service.role == BUILT_IN[self.service.name].role else ""

    def as_dict(self, environment: str) -> dict[str, t.Any]:
        """Return plain values for the playbook; ``marker`` is the name of the file that marks a one-time step as done."""
        return {
            "name": self.name,
            "service": self.service.name,
            "role": self.service.role,
            "hosts": list(self.hosts),
            "tasks_from": self.once.tasks_from if self.once else "main",
            "once": self.once is not None,
            "marker": f"{environment}.{self.name.replace('/', '.')}" if self.once else "",
            "check": self.service.check and self.once is None,
            "compared": self.compared,
        }


def members(service: Service, groups: t.Mapping[str, t.Sequence[str]], chosen: str | None = None, cloud: bool = False) -> tuple[str, ...]:
    """Return the hosts of a real service: those of its own group, or all controllers if it has no hosts. Witnesses are never controllers.

    :arg chosen: the group set by the variable ``SERVICE_group``.
    :arg cloud: whether controllers have the services of the cloud.
    """
    own_only = chosen or service.name == WITNESS or service.optional or service.cloud and not cloud
    return tuple(groups.get(chosen or service.group_name) or (() if own_only else groups.get(CONTROLLER, ())))


def witnesses_of(service: Service, hosts: t.Sequence[str], witnesses: t.Sequence[str]) -> tuple[str, ...]:
    """Return the witnesses that are members of a service as well: those that make its number of votes odd, and those that leave."""
    more = tuple(host for host in witnesses if host not in hosts)
    decide = (len(hosts) + len(more)) % 2 or service.leaving
    return more if service.witnessed and len(more) < len(hosts) and decide else ()


def without_witness(services: t.Mapping[str, Service], names: t.Container[str]) -> dict[str, Service]:
    """Return the services, the named ones without a member on witnesses."""
    return {name: dataclasses.replace(service, witnessed=False) if name in names else service for name, service in services.items()}


def with_leaving(services: t.Mapping[str, Service], leaving: bool) -> dict[str, Service]:
    """Return the services, with witnesses that leave as soon as the new members have joined."""
    return {name: dataclasses.replace(service, leaving=leaving and service.even) for name, service in services.items()}


def components(value: t.Any, services: t.Mapping[str, Service], path: str = "components") -> tuple[str, ...]:
    """Return the real services requested by name.

    :arg value: a list, or names separated by commas or blanks.
    """
    value = re.split(r"[\s,]+", value.strip(" \t\n,")) if isinstance(value, str) else value
    found = names_of([name for name in value if name] if isinstance(value, list) else value, path)
    for index, name in enumerate(found):
        if name not in services:
            raise InputError(f"unknown service {name!r}.", f"{path}[{index}]", did_you_mean(name, services, f"Use some of {known(services)}."))
    return tuple(dict.fromkeys(real(services, name).name for name in found))


def graph(services: t.Mapping[str, Service]) -> Graph:
    """Return the dependencies of each step. A dependency on a service includes the one-time steps that run after it."""
    found: Graph = {}
    last: dict[str, list[str]] = {}
    for service in services.values():
        if service.role:
            last[service.name] = [service.name, *(f"{service.name}/{step.name}" for step in service.once if step.after)]
    for service in services.values():
        if not service.role:
            continue
        before = [f"{service.name}/{step.name}" for step in service.once if not step.after]
        needs = _steps_of(service, service.depends, services, last)
        found[service.name] = [*needs, *before]
        for index, step in enumerate(service.once):
            own = _steps_of(service, step.depends, services, last)
            earlier = [f"{service.name}/{one.name}" for one in service.once[:index] if one.after == step.after]
            found[f"{service.name}/{step.name}"] = [*own, *earlier, *([service.name] if step.after else needs)]
    return found


def _steps_of(service: Service, names: t.Sequence[str], services: t.Mapping[str, Service], last: t.Mapping[str, list[str]]) -> list[str]:
    found = []
    for name in names:
        target = real(services, service.mapping.get(name, name)).name
        found += last[target]
    return found


def order(steps: Graph, path: str = "services") -> list[str]:
    """Sort steps after their dependencies; independent steps keep the order of their declaration."""
    places = {step: place for place, step in enumerate(steps)}
    sorter = graphlib.TopologicalSorter({step: [need for need in needs if need in steps] for step, needs in steps.items()})
    try:
        sorter.prepare()
    except graphlib.CycleError as error:
        cycle = _cycle(error.args[1], places)
        raise InputError(
            f"dependency cycle between services: {' → '.join(cycle)}.",
            f"{path}.{cycle[0].split('/')[0]}.depends",
            "Remove one of these dependencies.",
        ) from error
    names = list(steps)
    ready: list[int] = []
    found: list[str] = []
    while sorter.is_active():
        for step in sorter.get_ready():
            heapq.heappush(ready, places[step])
        found.append(names[heapq.heappop(ready)])
        sorter.done(found[-1])
    return found


def _cycle(found: t.Sequence[str], places: t.Mapping[str, int]) -> list[str]:
    """Return a cycle in which each step depends on the next; it begins and ends with the step that was declared first.

    :arg found: the cycle in reverse, as returned by graphlib; the last step is the first.
    """
    way = [*reversed(found)][:-1]
    first = min(range(len(way)), key=lambda index: places[way[index]])
    return [*way[first:], *way[:first], way[first]]


def plan(
    services: t.Mapping[str, Service],
    groups: t.Mapping[str, t.Sequence[str]],
    wanted: t.Sequence[str] = (),
    with_dependencies: bool = False,
    chosen: t.Mapping[str, str] | None = None,
    cloud: bool = False,
) -> tuple[Step, ...]:
    """Return the steps of a deployment in order.

    :arg wanted: the requested real services; empty means all that have hosts.
    :arg with_dependencies: also deploy their dependencies, which must otherwise be deployed already.
    :arg chosen: service → the group set by its variable ``SERVICE_group``.
    :arg cloud: whether controllers have the services of the cloud.
    """
    steps = graph(services)
    ordered = order(steps)
    where = {name: members(service, groups, (chosen or {}).get(name), cloud) for name, service in services.items() if service.role}
    where = {name: (*hosts, *witnesses_of(services[name], hosts, where.get(WITNESS, ()))) for name, hosts in where.items()}
    names = set(wanted or (name for name, hosts in where.items() if hosts))
    if with_dependencies:
        names |= {step.split("/")[0] for step in _reachable(steps, names)}
    for name in services:
        if name in names and not where[name]:
            own = (chosen or {}).get(name)
            others = "" if own or name == WITNESS else _other_groups(services[name], cloud)
            raise InputError(f"{name} has no host.", "components", f"Add hosts to the group {own or services[name].group_name}{others}.")
    found = []
    for step in ordered:
        name, unused, once = step.partition("/")
        if name in names:
            service = services[name]
            found.append(Step(step, service, where[name], next((one for one in service.once if once and one.name == once), None)))
    return tuple(found)


def _other_groups(service: Service, cloud: bool) -> str:
    """Return how controllers become hosts of a service, for a message."""
    if service.optional:
        return f", or set {service.variable_prefix}_group: {CONTROLLER}"
    return ", or set footprint_cloud: true" if service.cloud and not cloud else f" or {CONTROLLER}"


def _reachable(steps: Graph, names: t.Iterable[str]) -> set[str]:
    todo = [step for step in steps if step.split("/")[0] in names]
    found: set[str] = set()
    while todo:
        step = todo.pop()
        if step not in found:
            found.add(step)
            todo += steps[step]
    return found


def memory(host: str, steps: t.Sequence[Step]) -> dict[str, t.Any]:
    """Return the memory a host needs for its services: ``needed`` in MiB, and ``shares`` as text."""
    shares = {step.service.name: step.service.memory for step in steps if host in step.hosts and not step.once}
    text = ", ".join(f"{name} {share}" for name, share in shares.items())
    return {"needed": SYSTEM_MEMORY + sum(shares.values()), "shares": f"the system {SYSTEM_MEMORY}, {text}"}
