# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Construct a first placement: keep placed VMs, and place the others with the least conflicts."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._placement.request.model_placement import QUORUM, SPREAD
from ansible_collections.reduced.footprint.plugins.module_utils._placement.solve.plan_problem import NOWHERE, Problem, State


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
