# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Find and prove the best placement: branch and bound, starting from the result of the heuristics."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._placement.request.model_placement import SPREAD
from ansible_collections.reduced.footprint.plugins.module_utils._placement.solve.plan_problem import LEVELS, NOWHERE, Cost, Problem, State

# Nodes to examine before the proof is abandoned, a few tenths of a second. Fewer if only balance is unproven.
NODES = 4000
_NODES_BALANCE = 800
_MOST_VMS = 60
_MOST_SERVERS = 24


def refine(problem: Problem, start: State, nodes: int = NODES) -> tuple[State, int]:
    """Search for the best placement, and prove that its levels cannot be improved.

    :arg start: the placement to improve.
    :returns: placement, and the number of leading :data:`LEVELS` that are proven optimal.
    """
    bounds = Bounds(problem)
    best, cost = start, start.cost()
    proven = _agree(bounds.of(State(problem), list(range(len(problem.vms))), 0), cost)
    if proven == len(LEVELS) or len(problem.vms) > _MOST_VMS or len(problem.servers) > _MOST_SERVERS:
        return best, proven
    search = _Search(problem, bounds, cost, min(nodes, _NODES_BALANCE) if proven == len(LEVELS) - 1 else nodes)
    if search.run():
        proven = len(LEVELS)
    if search.found is not None:
        best = State(problem)
        for vm, server in enumerate(search.found):
            if server != NOWHERE:
                best.put(vm, server)
        if proven < len(LEVELS):
            proven = max(0, _agree(bounds.of(State(problem), list(range(len(problem.vms))), 0), best.cost()))
    return best, proven


def _agree(bound: t.Sequence[int], cost: Cost) -> int:
    count = 0
    for low, real in zip(bound, cost):
        if low < real:
            break
        count += 1
    return count


class Bounds:
    """Lower bounds of the cost of an incomplete placement."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.able = sorted({server for eligible in set(problem.eligible) for server in eligible})
        self.able_set = frozenset(self.able)

    def of(self, state: State, rest: t.Sequence[int], unplaced: int, limit: Cost | None = None) -> list[int]:
        """Return a lower bound of the cost of any completion; stops early if it already differs from ``limit``.

        :arg rest: VMs not decided yet.
        :arg unplaced: number of VMs decided to stay without a server.
        """
        found: list[int] = []
        left = [0] * len(self.problem.groups)
        for vm in rest:
            for group in self.problem.groups_of[vm]:
                left[group] += 1
        for level in (self._unplaced, self._ranks, self._apart, self._moves, self._spread, lambda state, *unused: (state.balance,)):
            # as many more VMs cannot get a server: they add nothing to the other levels
            dropped = found[0] - unplaced if found else unplaced
            found.extend(level(state, rest, dropped, left))
            if limit is not None and tuple(found) != limit[: len(found)]:
                break
        return found

    def _unplaced(self, state: State, rest: t.Sequence[int], dropped: int, left: t.Sequence[int]) -> tuple[int, ...]:
        problem = self.problem
        unplaced, more = dropped, 0
        for limits, used, sizes in ((problem.memory_limit, state.memory, problem.memory), (problem.vcpu_limit, state.vcpus, problem.vcpus)):
            free = sum(limits[server] - used[server] for server in self.able)
            more = max(more, _fewest([sizes[vm] for vm in rest], sum(sizes[vm] for vm in rest) - free))
        return (unplaced + more,)

    def _ranks(self, state: State, rest: t.Sequence[int], dropped: int, left: t.Sequence[int]) -> tuple[int, ...]:
        ranks = [self._rank(state, group, left[group]) for group in state.ranks]
        return (max(ranks, default=0), sum(ranks))

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

    def _apart(self, state: State, rest: t.Sequence[int], dropped: int, left: t.Sequence[int]) -> tuple[int, ...]:
        return (state.apart + self._pairs(state, left, dropped, False),)

    def _spread(self, state: State, rest: t.Sequence[int], dropped: int, left: t.Sequence[int]) -> tuple[int, ...]:
        return (state.spread + self._pairs(state, left, dropped, True),)

    def _pairs(self, state: State, left: t.Sequence[int], dropped: int, spread: bool) -> int:
        """Return the minimum of pairs that members without a server add: each goes to the server with the fewest."""
        pairs = 0
        for index, group in enumerate(self.problem.groups):
            if left[index] <= dropped or (group.kind == SPREAD) is not spread:
                continue
            having = {0: len(self.able)}
            for server, number in state.counts[index].items():
                if number and server in self.able_set:
                    having[0] -= 1
                    having[number] = having.get(number, 0) + 1
            more, number = left[index] - dropped, 0
            while more and having:
                here = having.get(number, 0)
                take = min(more, here)
                pairs += take * number
                more -= take
                having[number + 1] = having.get(number + 1, 0) + take
                number += 1
        return pairs

    def _moves(self, state: State, rest: t.Sequence[int], dropped: int, left: t.Sequence[int]) -> tuple[int, ...]:
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
        return (state.moves - undecided + moves,)


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

    def run(self) -> bool:
        """Return whether the search was complete, so that the best placement is proven."""
        return self._descend(0)

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
