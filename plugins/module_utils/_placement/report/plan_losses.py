# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The effect of losing each server: on quorums, services and the restart of its VMs."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import MIB, size_text
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_node import ROLE_COMPUTE, ROLE_VIRT
from ansible_collections.reduced.footprint.plugins.module_utils._placement.report.plan_availability import Availability, grade_availability
from ansible_collections.reduced.footprint.plugins.module_utils._placement.request.model_placement import QUORUM
from ansible_collections.reduced.footprint.plugins.module_utils._placement.solve.plan_placement import Placement
from ansible_collections.reduced.footprint.plugins.module_utils._placement.solve.plan_problem import NOWHERE
from ansible_collections.reduced.footprint.plugins.module_utils._placement.solve.plan_reasons import listing

# Severity of a loss: the control plane stops; a service is down or its VMs cannot be restarted; no lasting effect.
RED, AMBER, GREEN = "red", "amber", "green"

GRADES = ("quorum", "restart", "none")


@dataclasses.dataclass(frozen=True)
class ServerLoss:
    """The effect of losing one server.

    ``quorums_lost`` are groups without a majority, ``services_down`` roles on no other server; ``restartable`` are its VMs that
    fit on the other servers, ``stuck`` those that do not.
    """

    severity: str
    quorums_lost: tuple[str, ...]
    services_down: tuple[str, ...]
    restartable: tuple[str, ...]
    stuck: tuple[str, ...]
    memory_left_mib: int
    sentence: str

    def as_dict(self) -> dict[str, t.Any]:
        """The loss as a result of the module."""
        return {
            "severity": self.severity,
            "quorum_kept": not self.quorums_lost,
            "quorums_lost": list(self.quorums_lost),
            "services_down": list(self.services_down),
            "restartable": list(self.restartable),
            "stuck": list(self.stuck),
            "memory_left_mib": self.memory_left_mib,
            "sentence": self.sentence,
        }


def quorums(placement: Placement) -> dict[str, Availability]:
    """Return the availability of each group that needs a majority."""
    problem, state = placement.problem, placement.state
    found = {}
    for index, group in enumerate(problem.groups):
        if group.kind != QUORUM:
            continue
        members = {problem.vms[vm].details.name: problem.servers[state.place[vm]].name for vm in problem.members[index] if state.place[vm] != NOWHERE}
        members.update((problem.servers[server].name, problem.servers[server].name) for server in group.metal)
        found[group.name] = grade_availability(members, group.size - len(members))
    return found


def ha_grade(found: t.Mapping[str, Availability]) -> str:
    """Return the worst grade of all quorums; ``none`` without quorums."""
    return max((one.grade for one in found.values()), key=GRADES.index, default="none")


class Losses:
    """The effect of losing each server; values shared by all servers are computed once."""

    def __init__(self, placement: Placement) -> None:
        self.placement = placement
        problem, state = placement.problem, placement.state
        self.fillers = _fillers(placement)
        able = [index for index, server in enumerate(problem.servers) if server.capacity and ROLE_VIRT in server.roles and index not in problem.taken]
        self.free = {index: problem.memory_limit[index] - state.memory[index] for index in able}
        self.by_room = sorted(able, key=lambda index: (-self.free[index], index))
        self.unmeasured = [server.name for server in problem.servers if server.capacity is None and ROLE_VIRT in server.roles]
        self.roles_on: dict[int, list[str]] = {}
        for role, places in self.fillers.items():
            for place in dict.fromkeys(places):
                self.roles_on.setdefault(place, []).append(role)
        self.fatal: dict[str, dict[str, t.Any]] = {
            name: {loss.server: loss for loss in one.losses} for name, one in quorums(placement).items()
        }

    def of(self, server: int) -> ServerLoss:
        """Return the effect of losing one server."""
        problem, state = self.placement.problem, self.placement.state
        name = problem.servers[server].name
        lost = [losses[name] for losses in self.fatal.values() if name in losses]
        stops = tuple(sorted(group for group, losses in self.fatal.items() if name in losses and not losses[name].survives))
        down = tuple(role for role in sorted(self.roles_on.get(server, ())) if set(self.fillers[role]) == {server} and role not in stops)
        restartable, stuck = self._restart(server)
        left = sum(self.free.values()) - self.free.get(server, 0)
        planned = [text for role in problem.servers[server].roles for text in self._planned(role, server)]
        severity = RED if stops else AMBER if down or stuck or planned else GREEN
        vms = [problem.vms[vm].details.name for vm in sorted(state.on[server])]
        sentence = _sentence(name, vms, lost, stops, down, planned, restartable, stuck, left, [one for one in self.unmeasured if one != name])
        return ServerLoss(severity, stops, down, restartable, stuck, left, sentence)

    def _planned(self, role: str, server: int) -> t.Iterator[str]:
        """Yield the effect on a role that the server itself has now, and of which only VMs that may not exist yet are others."""
        problem, state = self.placement.problem, self.placement.state
        vms = [vm for vm, place in enumerate(state.place) if place not in (NOWHERE, server) and role in problem.vms[vm].details.roles]
        if vms and role not in (*self.fatal, ROLE_VIRT, ROLE_COMPUTE) and len(self.fillers[role]) == len(vms) + 1:
            if not any(problem.vms[vm].exists for vm in vms):
                where = listing([f"{problem.vms[vm].details.name} is running on {problem.servers[state.place[vm]].name}" for vm in vms])
                yield f"{role} is down, unless {where}"

    def _restart(self, server: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the VMs of a server that fit on other servers, and those that do not, the largest first."""
        problem, state = self.placement.problem, self.placement.state
        memory: dict[int, int] = {}
        vcpus: dict[int, int] = {}
        pools: dict[tuple[int, str], int] = {}
        restartable, stuck = [], []
        for vm in sorted(state.on[server], key=lambda vm: (-problem.memory[vm], vm)):
            place = self._find(vm, server, memory, vcpus, pools)
            name = problem.vms[vm].details.name
            if place is None:
                stuck.append(name)
                continue
            restartable.append(name)
            memory[place] = memory.get(place, 0) + problem.memory[vm]
            vcpus[place] = vcpus.get(place, 0) + problem.vcpus[vm]
            for pool, size in problem.pools[vm].items():
                pools[place, pool] = pools.get((place, pool), 0) + size
        return tuple(restartable), tuple(stuck)

    def _find(self, vm: int, lost: int, memory: t.Mapping[int, int], vcpus: t.Mapping[int, int], pools: t.Mapping[tuple[int, str], int]) -> int | None:
        problem, state = self.placement.problem, self.placement.state
        need = problem.memory[vm]
        if problem.pinned[vm] != NOWHERE:
            return None
        for place in self.by_room:
            if self.free[place] < need:
                return None
            if place == lost or self.free[place] - memory.get(place, 0) < need or problem.forbids(vm, place):
                continue
            if problem.vcpu_limit[place] - state.vcpus[place] - vcpus.get(place, 0) < problem.vcpus[vm]:
                continue
            limits, used = problem.pool_limit[place], state.pools[place]
            if all(size <= limits[pool] - used.get(pool, 0) - pools.get((place, pool), 0) for pool, size in problem.pools[vm].items() if pool in limits):
                return place
        return None


def _fillers(placement: Placement) -> dict[str, list[int]]:
    """Return role → servers that have it, in a VM or on metal."""
    problem, state = placement.problem, placement.state
    found: dict[str, list[int]] = {}
    for vm, server in enumerate(state.place):
        if server != NOWHERE:
            for role in problem.vms[vm].details.roles:
                found.setdefault(role, []).append(server)
    for index, server in enumerate(problem.servers):
        for role in server.roles:
            if role not in (ROLE_VIRT, ROLE_COMPUTE):
                found.setdefault(role, []).append(index)
    for match in placement.matches:
        for role in match.wanted.roles if match.server is not None else ():
            if role not in (ROLE_VIRT, ROLE_COMPUTE):
                found.setdefault(role, []).append(match.server)
    return found


def _sentence(
    name: str, vms: t.Sequence[str], lost: t.Sequence[t.Any], stops: t.Sequence[str], down: t.Sequence[str], planned: t.Sequence[str],
    restartable: t.Sequence[str], stuck: t.Sequence[str], left: int, unmeasured: t.Sequence[str],
) -> str:  # fmt: skip
    if not vms and not lost and not down and not planned:
        return f"If {name} is lost, nothing stops: it carries no VM."
    parts = []
    if stops:
        counts = "; ".join(f"{loss.left} of {loss.left + len(loss.members) + loss.absent} left, {loss.needed} needed" for loss in lost if not loss.survives)
        parts.append(f"{listing(list(stops))} loses its majority ({counts}): the control plane stops until it is back")
    elif lost:
        counts = "; ".join(f"{loss.left} of {loss.left + len(loss.members) + loss.absent} left, {loss.needed} needed" for loss in lost)
        parts.append(f"the quorum is kept ({counts})")
    if down:
        parts.append(f"{listing(list(down))} {'is' if len(down) == 1 else 'are'} down (on no other server)")
    parts += planned
    if restartable and not stuck:
        parts.append(f"other servers have the capacity to start {listing(list(restartable))} if they can access the disks")
    elif stuck:
        parts.append(f"no {'measured' if unmeasured else 'other'} server has the capacity for {listing(list(stuck))}")
    if unmeasured and left <= 0:
        parts.append(f"{listing(unmeasured)} {'was' if len(unmeasured) == 1 else 'were'} not measured")
    else:
        room = size_text(left * MIB) if left > 0 else "no memory"
        parts.append(f"the other servers {'that were measured ' if unmeasured else ''}have {room} left for VMs")
    return f"If {name} is lost: {'; '.join(parts)}."
