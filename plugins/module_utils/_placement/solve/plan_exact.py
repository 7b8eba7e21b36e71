# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Search for a better placement than that of the heuristics: branch and bound."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._placement.request.model_placement import SPREAD
from ansible_collections.reduced.footprint.plugins.module_utils._placement.solve.plan_problem import NOWHERE, Cost, Problem, State

# Nodes to examine before the search is abandoned, a few tenths of a second. Fewer if only balance can be better.
NODES = 4000
_NODES_BALANCE = 800
_MOST_VMS = 60
_MOST_SERVERS = 24


def refine(problem: Problem, start: State, nodes: int = NODES) -> State:
    """Return the best placement that the search finds, ``start`` if none is better."""
    if len(problem.vms) > _MOST_VMS or len(problem.servers) > _MOST_SERVERS:
        return start
    bounds, cost = Bounds(problem), start.cost()
    least = tuple(bounds.of(State(problem), list(range(len(problem.vms))), 0))
    search = _Search(problem, bounds, cost, min(nodes, _NODES_BALANCE) if least[:-1] == cost[:-1] else nodes)
    search.run()
    if search.found is None:
        return start
    best = State(problem)
    for vm, server in enumerate(search.found):
        if server != NOWHERE:
            best.put(vm, server)
    return best


class Bounds:
    """Lower bounds of the cost of an incomplete placement."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.able = sorted({server for eligible in set(problem.eligible) for server in eligible})

    def of(self, state: State, rest: t.Sequence[int], unplaced: int, limit: Cost | None = None) -> list[int]:
        """Return a lower bound of the cost of any completion; stops early if it already differs from ``limit``.

        :arg rest: VMs not decided yet.
        :arg unplaced: number of VMs decided to stay without a server.
        """
        found = [unplaced + self._unplaced(state, rest)]
        for level in (self._ranks, self._others):
            if limit is not None and tuple(found) != limit[: len(found)]:
                break
            found += level(state, rest)
        return found

    def _unplaced(self, state: State, rest: t.Sequence[int]) -> int:
        problem, more = self.problem, 0
        for limits, used, sizes in ((problem.memory_limit, state.memory, problem.memory), (problem.vcpu_limit, state.vcpus, problem.vcpus)):
            free = sum(limits[server] - used[server] for server in self.able)
            more = max(more, _fewest([sizes[vm] for vm in rest], sum(sizes[vm] for vm in rest) - free))
        return more

    def _ranks(self, state: State, rest: t.Sequence[int]) -> list[int]:
        left = [0] * len(self.problem.groups)
        for vm in rest:
            for group in self.problem.groups_of[vm]:
                left[group] += 1
        ranks = [self._rank(state, group, left[group]) for group in state.ranks]
        return [max(ranks, default=0), sum(ranks)]

    def _others(self, state: State, rest: t.Sequence[int]) -> list[int]:
        return [state.apart, self._moves(state, rest), state.spread, state.balance]

    def _rank(self, state: State, index: int, left: int) -> int:
        counts = state.counts[index]
        # a server may be lost if the remaining members are a majority
        spare = sum(counts.values()) + left - self.problem.groups[index].needed
        if spare < 1:
            return 2
        if max(counts.values(), default=0) <= spare and sum(max(0, spare - counts.get(server, 0)) for server in self.able) >= left:
            return 0
        if any(1 <= number <= spare for number in counts.values()) or (left and any(counts.get(server, 0) < spare for server in self.able)):
            return 1
        return 2

    def _moves(self, state: State, rest: t.Sequence[int]) -> int:
        problem = self.problem
        moves = 0
        staying: dict[int, list[int]] = {}
        for vm in rest:
            here = problem.current[vm]
            if here == NOWHERE:
                continue
            if here not in problem.eligible[vm]:
                moves += problem.move_cost[vm]
            else:
                staying.setdefault(here, []).append(vm)
        for here, vms in staying.items():
            over = state.memory[here] + sum(problem.memory[vm] for vm in vms) - problem.memory_limit[here]
            moves += _fewest([problem.memory[vm] for vm in vms], over)
        undecided = sum(problem.move_cost[vm] for vm in rest)
        return state.moves - undecided + moves


def _fewest(sizes: t.Sequence[int], over: int) -> int:
    """Return the minimum number of sizes whose sum is at least ``over``."""
    count = 0
    for size in sorted(sizes, reverse=True) if over > 0 else ():
        over, count = over - size, count + 1
        if over <= 0:
            break
    return count


class _Search:
    """Depth-first search of all placements that may be better than the best known one."""

    def __init__(self, problem: Problem, bounds: Bounds, best: Cost, nodes: int) -> None:
        self.problem = problem
        self.bounds = bounds
        self.best = best
        self.nodes = nodes
        self.found: list[int] | None = None
        self.state = State(problem)
        self.kinds = [self._kind(vm) for vm in range(len(problem.vms))]
        self.order = sorted(range(len(problem.vms)), key=self._precedence)
        self.unplaced = 0

    def _kind(self, vm: int) -> t.Any:
        """Return the kind of a VM; VMs of one kind are interchangeable."""
        problem = self.problem
        pools, credit = (tuple(sorted(sizes[vm].items())) for sizes in (problem.pools, problem.credit))
        return (problem.memory[vm], problem.vcpus[vm], problem.eligible[vm], problem.groups_of[vm], problem.current[vm], problem.move_cost[vm], pools, credit)

    def _precedence(self, vm: int) -> t.Any:
        groups = [self.problem.groups[group] for group in self.problem.groups_of[vm]]
        loose = all(group.kind == SPREAD for group in groups)
        return (len(self.problem.eligible[vm]) != 1, loose, -self.problem.memory[vm], self.kinds[vm], vm)

    def run(self) -> None:
        """Search until all is examined, or no nodes are left."""
        self._descend(0)

    def _descend(self, depth: int) -> bool:
        self.nodes -= 1
        if self.nodes < 0:
            return False
        if depth == len(self.order):
            cost = (self.unplaced,) + self.state.cost()[1:]
            if cost < self.best:
                self.best, self.found = cost, list(self.state.place)
            return True
        if tuple(self.bounds.of(self.state, self.order[depth:], self.unplaced, self.best)) >= self.best:
            return True
        vm = self.order[depth]
        # interchangeable VMs are placed in the order of servers; those without a server come last
        least = NOWHERE
        if depth and self.kinds[self.order[depth - 1]] == self.kinds[vm]:
            previous = self.state.place[self.order[depth - 1]]
            least = len(self.problem.servers) if previous == NOWHERE else previous
        for server in self._choices(vm, least):
            self.state.put(vm, server)
            done = self._descend(depth + 1)
            self.state.take(vm)
            if not done:
                return False
        self.unplaced += 1
        done = self._descend(depth + 1) if self.unplaced <= self.best[0] else True
        self.unplaced -= 1
        return done

    def _choices(self, vm: int, least: int) -> list[int]:
        found = []
        for server in self.problem.eligible[vm]:
            if server >= least and self.state.fits(vm, server):
                self.state.put(vm, server)
                found.append((self.state.cost(), server))
                self.state.take(vm)
        return [server for unused, server in sorted(found)]
