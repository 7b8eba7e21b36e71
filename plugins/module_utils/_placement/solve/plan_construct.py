# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Construct a first placement: keep placed VMs, and place the others with the least conflicts."""

from __future__ import annotations

import bisect
import heapq
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._placement.request.model_placement import QUORUM, SPREAD
from ansible_collections.reduced.footprint.plugins.module_utils._placement.solve.plan_problem import NOWHERE, Problem, State

# Number of fitting servers to examine before the best spread so far is used.
_ENOUGH = 16


def construct(problem: Problem, *, small_first: bool = False, tight: bool = False) -> State:
    """Keep every VM on its current server if possible, then place the others.

    :arg small_first: start with the small VMs instead of the difficult ones.
    :arg tight: fill servers up instead of spreading the load, regardless of groups.
    """
    state = State(problem)
    kept = [vm for vm in range(len(problem.vms)) if problem.current[vm] != NOWHERE and problem.current[vm] in problem.eligible[vm]]
    for vm in sorted(kept, key=lambda vm: (problem.pinned[vm] == NOWHERE, -problem.move_cost[vm], problem.memory[vm], vm)):
        if state.fits(vm, problem.current[vm]):
            state.put(vm, problem.current[vm])
    rest = [vm for vm in range(len(problem.vms)) if state.place[vm] == NOWHERE]
    chooser = _Chooser(state)
    for vm in sorted(rest, key=(lambda vm: (problem.memory[vm], vm)) if small_first else _difficulty(problem)):
        server = chooser.tightest(vm) if tight else chooser.choose(vm)
        if server != NOWHERE:
            chooser.put(vm, server)
    return state


def _difficulty(problem: Problem) -> t.Callable[[int], t.Any]:
    """Return a sort key: VMs with few eligible servers, members of quorums and large VMs first."""
    able = max(1, sum(1 for limit in problem.memory_limit if limit))
    memory = max(1, sum(problem.memory_limit))
    vcpus = max(1, sum(problem.vcpu_limit))

    def key(vm: int) -> t.Any:
        choice = len(problem.eligible[vm]) * 4 // able
        is_member = any(problem.groups[group].kind == QUORUM for group in problem.groups_of[vm])
        size = max(problem.memory[vm] / memory, problem.vcpus[vm] / vcpus)
        return (problem.pinned[vm] == NOWHERE, choice, not is_member, -size, vm)

    return key


class _Chooser:
    """Choose the server for one VM after the other without examining every server each time."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.problem = state.problem
        self.queues: dict[t.Any, _Queue] = {}
        self.floors: dict[int, dict[t.Any, _Floor]] = {}
        self.by_room: list[tuple[int, int]] = []

    def choose(self, vm: int) -> int:
        """Return the least loaded of the servers with the fewest members of the VM's groups; ``NOWHERE`` if it fits on none."""
        problem, state = self.problem, self.state
        key = problem.signature[vm]
        if key not in self.queues:
            self.queues[key] = _Queue(state, problem.eligible[vm])
        queue = self.queues[key]
        apart, spread = self._floor(vm, key)
        best: tuple[tuple[int, int], int] | None = None
        examined = 0
        for server in queue.by_load(vm):
            if not state.fits(vm, server):
                continue
            examined += 1
            penalty = self._penalty(vm, server)
            if best is None or penalty < best[0]:
                best = (penalty, server)
            # search long to keep members apart, but only briefly to spread them
            if best[0][0] <= apart and (best[0][1] <= spread or examined >= _ENOUGH):
                break
        queue.put_back()
        return best[1] if best else NOWHERE

    def tightest(self, vm: int) -> int:
        """Return the server with the least free memory of those on which the VM fits."""
        problem, state = self.problem, self.state
        able = problem.eligible_set(vm)
        if not self.by_room:
            self.by_room = sorted((problem.memory_limit[server] - state.memory[server], server) for server in range(len(problem.servers)))
        for position in range(bisect.bisect_left(self.by_room, (problem.memory[vm], NOWHERE)), len(self.by_room)):
            room, server = self.by_room[position]
            if server in able and state.fits(vm, server):
                del self.by_room[position]
                bisect.insort(self.by_room, (room - problem.memory[vm], server))
                return server
        return NOWHERE

    def _penalty(self, vm: int, server: int) -> tuple[int, int]:
        apart = spread = 0
        for group in self.problem.groups_of[vm]:
            number = self.state.counts[group].get(server, 0)
            if number:
                if self.problem.groups[group].kind == SPREAD:
                    spread += number
                else:
                    apart += number
        return (apart, spread)

    def _floor(self, vm: int, key: t.Any) -> tuple[int, int]:
        """Return a lower bound of the penalty: the number of members of the VM's groups on the server with the fewest."""
        apart = spread = 0
        for group in self.problem.groups_of[vm]:
            floors = self.floors.setdefault(group, {})
            if key not in floors:
                floors[key] = _Floor(self.queues[key].servers, self.state.counts[group])
            if self.problem.groups[group].kind == SPREAD:
                spread += floors[key].value
            else:
                apart += floors[key].value
        return (apart, spread)

    def put(self, vm: int, server: int) -> None:
        """Place a VM, and update the members of its groups."""
        for group in self.problem.groups_of[vm]:
            number = self.state.counts[group].get(server, 0)
            for floor in self.floors.get(group, {}).values():
                floor.up(server, number)
        self.state.put(vm, server)


class _Queue:
    """Servers by load, for VMs with the same eligible servers.

    The load only increases while VMs are placed, so an outdated entry is reinserted with its new load. A server that is too
    full for a VM is parked until a smaller VM comes.
    """

    def __init__(self, state: State, eligible: t.Sequence[int]) -> None:
        problem = state.problem
        self.state = state
        self.servers = frozenset(eligible)
        self.typical = sum(problem.memory) // max(1, len(problem.vms))
        self.heap = [(self._load(server), server) for server in eligible]
        heapq.heapify(self.heap)
        self.aside: list[tuple[int, int]] = []
        self.parks: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])

    def _load(self, server: int) -> int:
        return (2 * self.state.memory[server] + self.typical) * self.state.problem.weight[server]

    def _room(self, server: int) -> tuple[int, int]:
        problem, state = self.state.problem, self.state
        return (problem.memory_limit[server] - state.memory[server], problem.vcpu_limit[server] - state.vcpus[server])

    def by_load(self, vm: int) -> t.Iterator[int]:
        """Yield the servers with sufficient memory and CPUs, the least loaded first; call :meth:`put_back` afterwards."""
        need = (self.state.problem.memory[vm], self.state.problem.vcpus[vm])
        for kind, park in enumerate(self.parks):
            while park and -park[0][0] >= need[kind]:
                server = heapq.heappop(park)[1]
                room = self._room(server)[kind]
                if room >= need[kind]:
                    heapq.heappush(self.heap, (self._load(server), server))
                else:
                    heapq.heappush(park, (-room, server))
        while self.heap:
            load, server = self.heap[0]
            now = self._load(server)
            if now != load:
                heapq.heapreplace(self.heap, (now, server))
                continue
            entry = heapq.heappop(self.heap)
            room = self._room(server)
            short = [kind for kind in (0, 1) if room[kind] < need[kind]]
            if short:
                heapq.heappush(self.parks[short[0]], (-room[short[0]], server))
                continue
            self.aside.append(entry)
            yield server

    def put_back(self) -> None:
        """Reinsert the servers that :meth:`by_load` returned."""
        for entry in self.aside:
            heapq.heappush(self.heap, entry)
        self.aside = []


class _Floor:
    """The smallest number of members on any server of a set; it only increases."""

    def __init__(self, servers: frozenset[int], counts: t.Mapping[int, int]) -> None:
        self.servers = servers
        self.having: dict[int, int] = {0: len(servers)}
        for server, number in counts.items():
            if number and server in servers:
                self.having[0] -= 1
                self.having[number] = self.having.get(number, 0) + 1
        self.value = 0
        self._settle()

    def up(self, server: int, number: int) -> None:
        """Count one more member on a server that had ``number`` members."""
        if server in self.servers:
            self.having[number] -= 1
            self.having[number + 1] = self.having.get(number + 1, 0) + 1
            self._settle()

    def _settle(self) -> None:
        while self.servers and not self.having.get(self.value):
            self.value += 1
