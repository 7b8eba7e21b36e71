# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Find a good placement: keep placed VMs, place the others, then remove a few VMs and place them again, many times ("ruin and recreate").

Budgets count trials, not seconds, and the random numbers are the same in each run, so the same question has the same answer on every machine.
"""

from __future__ import annotations

import random
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._placement.request.model_placement import QUORUM, SPREAD
from ansible_collections.reduced.footprint.plugins.module_utils._placement.solve.plan_problem import NOWHERE, Problem, State

# Number of servers to examine for a VM, each a microsecond or two.
TRIALS = 200000
_MOST_REMOVED = 6
_MOST_SERVERS = 24
# How often a VM is placed on any server that has room instead of the best one.
_ANY_SERVER = 0.1


def search(problem: Problem, trials: int = TRIALS) -> State:
    """Return the best placement that was found."""
    state = construct(problem)
    cost = best = state.cost()
    found, draw, idle = list(state.place), random.Random(0), 0
    while trials > 0 and problem.servers and idle < 200 + 40 * len(problem.vms):
        before = {vm: state.place[vm] for vm in _some(state, draw)}
        _replace(state, dict.fromkeys(before, NOWHERE))
        trials -= 1 + _insert(state, list(before), draw)
        after = state.cost()
        if after > cost:
            _replace(state, before)
            idle += 1
            continue
        cost, idle = after, idle + 1
        if cost < best:
            best, found, idle = cost, list(state.place), 0
    _replace(state, dict(enumerate(found)))
    return state


def _some(state: State, draw: random.Random) -> list[int]:
    """Return VMs to place again: any, or those of two servers; and a few without a server."""
    everything = range(len(state.place))
    missing = [vm for vm in everything if state.place[vm] == NOWHERE] if state.unplaced else []
    pool = [vm for unused in range(2) for vm in sorted(_any(state.on, draw))] if draw.random() < 0.6 else everything
    chosen = {_any(pool, draw) for unused in range(1 + int(draw.random() * _MOST_REMOVED)) if pool}
    return sorted(chosen.union(_any(missing, draw) for unused in range(4) if missing))


def _any(values: t.Sequence[t.Any], draw: random.Random) -> t.Any:
    return values[int(draw.random() * len(values))]


def _replace(state: State, places: t.Mapping[int, int]) -> None:
    for vm in places:
        if state.place[vm] != NOWHERE:
            state.take(vm)
    for vm, server in places.items():
        if server != NOWHERE:
            state.put(vm, server)


def _insert(state: State, vms: list[int], draw: random.Random) -> int:
    """Place VMs one after the other, in any order or the largest or smallest first; return the number of servers that were examined."""
    sign, examined = (0, 0, -1, 1)[int(draw.random() * 4)], 0
    for unused, vm in sorted((sign * state.problem.memory[vm] + draw.random(), vm) for vm in vms):
        eligible: t.Sequence[int] = state.problem.eligible[vm]
        if len(eligible) > _MOST_SERVERS:
            eligible = sorted({_any(eligible, draw) for unused in range(_MOST_SERVERS)})
        examined += len(eligible)
        fitting = [server for server in eligible if state.fits(vm, server)]
        if fitting and draw.random() < _ANY_SERVER:
            state.put(vm, _any(fitting, draw))
        elif fitting:
            examined += 2 * len(fitting)
            state.put(vm, min((_cost_with(state, vm, server), server) for server in fitting)[1])
    return examined


def _cost_with(state: State, vm: int, server: int) -> t.Any:
    state.put(vm, server)
    cost = state.cost()
    state.take(vm)
    return cost


def construct(problem: Problem) -> State:
    """Keep every VM on its current server if possible, then place the others, the difficult ones first."""
    state = State(problem)
    kept = [vm for vm in range(len(problem.vms)) if problem.current[vm] != NOWHERE and problem.current[vm] in problem.eligible[vm]]
    for vm in sorted(kept, key=lambda vm: (problem.pinned[vm] == NOWHERE, -problem.move_cost[vm], problem.memory[vm], vm)):
        if state.fits(vm, problem.current[vm]):
            state.put(vm, problem.current[vm])
    rest = [vm for vm in range(len(problem.vms)) if state.place[vm] == NOWHERE]
    for vm in sorted(rest, key=_difficulty(problem)):
        fitting = [server for server in problem.eligible[vm] if state.fits(vm, server)]
        if fitting:
            state.put(vm, min(fitting, key=_burden(state, vm)))
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


def _burden(state: State, vm: int) -> t.Callable[[int], t.Any]:
    """Return a sort key: servers with few members of the VM's groups, of these the least loaded first."""
    problem = state.problem
    counts = [(state.counts[group], problem.groups[group].kind == SPREAD) for group in problem.groups_of[vm]]

    def key(server: int) -> t.Any:
        apart = sum(number.get(server, 0) for number, spread in counts if not spread)
        spread = sum(number.get(server, 0) for number, spread in counts if spread)
        return (apart, spread, (2 * state.memory[server] + problem.memory[vm]) * problem.weight[server], server)

    return key
