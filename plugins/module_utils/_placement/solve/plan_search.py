# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Find a good placement quickly: keep placed VMs, place the others, improve the result.

Budgets count evaluations, not seconds, so that the same question has the same answer on every machine.
"""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._placement.request.model_placement import QUORUM, SPREAD
from ansible_collections.reduced.footprint.plugins.module_utils._placement.solve.plan_problem import NOWHERE, Problem, State

# Number of servers to examine, each a microsecond; trying a placement counts as ten.
_BUDGET = 300000
_BUDGET_TRADES = 40000


def search(problem: Problem) -> State:
    """Return the best placement that the heuristics find."""
    state = construct(problem)
    improve(state)
    if state.unplaced:
        # filling servers one after the other causes less fragmentation; starting with small VMs places more of them
        for options in ({"tight": True}, {"tight": True, "small_first": True}):
            other = construct(problem, **options)
            improve(other)
            if other.cost() < state.cost():
                state = other
            if not state.unplaced:
                break
    return state


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
    for vm in sorted(rest, key=(lambda vm: (problem.memory[vm], vm)) if small_first else _difficulty(problem)):
        fitting = [server for server in problem.eligible[vm] if state.fits(vm, server)]
        if fitting:
            state.put(vm, min(fitting, key=(lambda server: (_room(state, server), server)) if tight else _burden(state, vm)))
    return state


def _room(state: State, server: int) -> int:
    return state.problem.memory_limit[server] - state.memory[server]


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


class _Budget:
    """The remaining number of placements to examine."""

    def __init__(self, left: int) -> None:
        self.left = left

    def spend(self, amount: int = 10) -> bool:
        """Spend an amount, and return whether it was available."""
        self.left -= amount
        return self.left >= 0


def improve(state: State) -> None:
    """Improve the placement until no single step makes it better."""
    problem = state.problem
    budget, trades = _Budget(_BUDGET), _Budget(_BUDGET_TRADES)
    while budget.left > 0:
        before = state.cost()
        while state.unplaced > 1 and _trade(state, trades):
            pass
        for vm in [vm for vm in range(len(problem.vms)) if state.place[vm] == NOWHERE]:
            if not _move(state, vm, budget):
                _make_room(state, vm, budget)
        for vm in range(len(problem.vms)):
            if state.place[vm] != NOWHERE and not _move(state, vm, budget):
                _swap(state, vm, budget)
        if state.cost() == before:
            return


def _move(state: State, vm: int, budget: _Budget) -> bool:
    """Move a VM to the server with the lowest cost; return whether it was moved."""
    here = state.place[vm]
    before = state.cost()
    best = (before, here)
    if here != NOWHERE:
        state.take(vm)
    for server in state.problem.eligible[vm]:
        if not budget.spend(1):
            break
        if server == here or not state.fits(vm, server):
            continue
        budget.spend()
        state.put(vm, server)
        cost = state.cost()
        if cost < best[0]:
            best = (cost, server)
        state.take(vm)
    if best[1] != NOWHERE:
        state.put(vm, best[1])
    return best[1] != here


def _swap(state: State, vm: int, budget: _Budget) -> bool:
    """Swap two VMs if that lowers the cost; return whether they were swapped."""
    problem = state.problem
    here = state.place[vm]
    before = state.cost()
    for there in problem.eligible[vm]:
        if there == here:
            continue
        for other in sorted(state.on[there]):
            if here not in problem.eligible[other]:
                continue
            if not budget.spend():
                return False
            state.take(vm)
            state.take(other)
            if state.fits(vm, there):
                state.put(vm, there)
                if state.fits(other, here):
                    state.put(other, here)
                    if state.cost() < before:
                        return True
                    state.take(other)
                state.take(vm)
            state.put(vm, here)
            state.put(other, there)
    return False


def _trade(state: State, budget: _Budget) -> bool:
    """Replace a large VM by several small ones that have no server; return whether there was one.

    A VM that is already on a server is never replaced.
    """
    problem = state.problem
    missing = sorted((vm for vm in range(len(problem.vms)) if state.place[vm] == NOWHERE), key=lambda vm: (problem.memory[vm], vm))
    if len(missing) < 2:
        return False
    least = problem.memory[missing[0]] + problem.memory[missing[1]]
    roomy = sorted(range(len(problem.servers)), key=lambda server: (state.memory[server] - problem.memory_limit[server], server))
    for server in roomy:
        free = problem.memory_limit[server] - state.memory[server]
        for large in sorted(state.on[server], key=lambda vm: (-problem.memory[vm], vm)):
            if problem.memory[large] + free < least:
                break
            if problem.current[large] != NOWHERE:
                continue
            if not budget.spend(10 + len(missing)):
                return False
            before = state.cost()
            state.take(large)
            filled = []
            for vm in missing:
                if server in problem.eligible[vm] and state.fits(vm, server):
                    state.put(vm, server)
                    filled.append(vm)
            if state.cost() < before:
                return True
            for vm in filled:
                state.take(vm)
            state.put(large, server)
    return False


def _make_room(state: State, vm: int, budget: _Budget) -> bool:
    """Move one VM away so that another one fits; return whether it was possible."""
    problem = state.problem
    before = state.cost()
    best: tuple[t.Any, int, int, int] | None = None
    for server in problem.eligible[vm]:
        if problem.memory[vm] > problem.memory_limit[server] or problem.vcpus[vm] > problem.vcpu_limit[server]:
            continue
        for other in sorted(state.on[server]):
            if not budget.spend():
                break
            state.take(other)
            if state.fits(vm, server):
                state.put(vm, server)
                for elsewhere in problem.eligible[other]:
                    if not budget.spend(1):
                        break
                    if elsewhere == server or not state.fits(other, elsewhere):
                        continue
                    budget.spend()
                    state.put(other, elsewhere)
                    cost = state.cost()
                    if cost < before and (best is None or cost < best[0]):
                        best = (cost, server, other, elsewhere)
                    state.take(other)
                state.take(vm)
            state.put(other, server)
    if best is None:
        return False
    unused, server, other, elsewhere = best
    state.take(other)
    state.put(vm, server)
    state.put(other, elsewhere)
    return True
