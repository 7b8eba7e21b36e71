# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The smallest change that would give every VM a server: each is tried out before it is told."""

from __future__ import annotations

import copy
import dataclasses
import math
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import GIB, MIB, size_text
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_node import ROLE_VIRT, HostCapacity, HostFacts
from ansible_collections.reduced.footprint.plugins.module_utils._placement.report.plan_losses import GRADES
from ansible_collections.reduced.footprint.plugins.module_utils._placement.request.model_placement import PlacementQuestion, PlanServer
from ansible_collections.reduced.footprint.plugins.module_utils._placement.solve.plan_exact import refine
from ansible_collections.reduced.footprint.plugins.module_utils._placement.solve.plan_placement import Placement, pose
from ansible_collections.reduced.footprint.plugins.module_utils._placement.solve.plan_problem import NOWHERE, Problem, State
from ansible_collections.reduced.footprint.plugins.module_utils._placement.solve.plan_search import search

# Larger questions are answered without trying out: their changes fit, smaller ones may too.
_SMALL = 240
_MOST_SERVERS = 8
_NODES = 200
_MEMORY_STEP = 256
_RATIO_STEP = 0.25


@dataclasses.dataclass(frozen=True)
class Change:
    """One change after which all VMs fit: ``kind``, the server or VM, how much in ``unit``, in words.

    ``least`` tells whether less of the same was tried and is not enough; ``moves`` and ``ha_grade``
    are what the plan would be then.
    """

    kind: str
    target: str
    amount: float
    unit: str
    text: str
    least: bool = True
    moves: int = 0
    ha_grade: str = ""

    def as_dict(self) -> dict[str, t.Any]:
        """For a result."""
        return dataclasses.asdict(self)


# A change, and the problem as it is then.
Tried = t.Tuple[Change, Problem]


def changes(placement: Placement) -> tuple[Change, ...]:
    """What would make it fit, the least trouble first: what keeps the availability, a setting, then hardware."""
    problem, state = placement.problem, placement.state
    unplaced = [vm for vm, server in enumerate(state.place) if server == NOWHERE]
    if not unplaced:
        return ()
    if len(problem.vms) * len(problem.servers) > _SMALL:
        return (_server_like_the_others(placement, unplaced),)
    found: list[Tried | None] = [*_settings(placement, unplaced)]
    able = [index for index, server in enumerate(problem.servers) if server.capacity and ROLE_VIRT in server.roles and index not in problem.taken]
    found.append(_memory(placement, able[:_MOST_SERVERS], unplaced))
    for pool in sorted({pool for vm in unplaced for pool in problem.pools[vm]}):
        tried = filter(None, (_pool(placement, server, pool, unplaced) for server in able[:_MOST_SERVERS]))
        found += sorted(tried, key=lambda one: (one[0].amount, one[0].target))[:1]
    if len(unplaced) == 1:
        found.append(_smaller(placement, unplaced[0]))
    found.append(_another_server(placement, unplaced))
    priced = [_priced(placement, *one) for one in found if one is not None]
    return tuple(sorted(priced, key=lambda change: GRADES.index(change.ha_grade)))


def _solve(problem: Problem) -> State:
    state = search(problem)
    return refine(problem, state, _NODES)[0] if state.unplaced else state


def _fits(problem: Problem) -> bool:
    return not _solve(problem).unplaced


def _priced(placement: Placement, change: Change, changed: Problem) -> Change:
    """The change with what else it brings about."""
    after = _solve(changed)
    said = []
    if after.moves:
        said.append(f"{after.moves} VM{'s move' if after.moves > 1 else ' moves'}")
    if after.cost()[1] > placement.state.cost()[1]:
        said.append(f"high availability becomes {_grade(after)}")
    text = change.text + (f" ({' and '.join(said)} then)" if said else "")
    return dataclasses.replace(change, text=text, moves=after.moves, ha_grade=_grade(after))


def _grade(state: State) -> str:
    return GRADES[state.cost()[1]] if state.ranks else "none"


def _least(most: int, good: t.Callable[[int], bool]) -> int | None:
    """The least number from 1 to ``most`` that is good, ``None`` when even the most is not."""
    if most < 1 or not good(most):
        return None
    low, high = 1, most
    while low < high:
        middle = (low + high) // 2
        if good(middle):
            high = middle
        else:
            low = middle + 1
    return low


def _with(problem: Problem, **changed: t.Any) -> Problem:
    other = copy.copy(problem)
    for name, value in changed.items():
        setattr(other, name, value)
    return other


def _at(values: t.Sequence[t.Any], index: int, value: t.Any) -> list[t.Any]:
    return [*values[:index], value, *values[index + 1 :]]


def _memory(placement: Placement, servers: t.Sequence[int], unplaced: t.Sequence[int]) -> Tried | None:
    """The server that would need the least more memory, and how much."""
    problem = placement.problem
    best: tuple[int, int] | None = None
    most = -(-sum(problem.memory[vm] for vm in unplaced) // _MEMORY_STEP)
    for server in servers:
        # only what needs less than the best so far is looked at closely
        steps = _least(best[0] - 1 if best else most, lambda steps, server=server: _fits(_more_memory(problem, server, steps)))
        if steps is not None:
            best = (steps, server)
    if best is None:
        return None
    name, amount = problem.servers[best[1]].name, best[0] * _MEMORY_STEP
    text = f"give {name} {size_text(amount * MIB)} more memory"
    return Change("memory", name, amount, "MiB", text), _more_memory(problem, best[1], best[0])


def _more_memory(problem: Problem, server: int, steps: int) -> Problem:
    return _with(problem, memory_limit=_at(problem.memory_limit, server, problem.memory_limit[server] + steps * _MEMORY_STEP))


def _pool(placement: Placement, server: int, pool: str, unplaced: t.Sequence[int]) -> Tried | None:
    problem = placement.problem
    limits = problem.pool_limit[server]
    if pool not in limits:
        return None

    def changed(steps: int) -> Problem:
        return _with(problem, pool_limit=_at(problem.pool_limit, server, {**limits, pool: limits[pool] + steps * GIB}))

    steps = _least(-(-sum(problem.pools[vm].get(pool, 0) for vm in unplaced) // GIB), lambda steps: _fits(changed(steps)))
    if steps is None:
        return None
    name = problem.servers[server].name
    text = f"give the pool {pool} of {name} {steps} GiB more, or raise thin_ratio if its disks stay sparse"
    return Change("pool", name, steps, "GiB", text), changed(steps)


def _smaller(placement: Placement, vm: int) -> Tried | None:
    problem = placement.problem
    asked = problem.memory[vm]

    def changed(steps: int) -> Problem:
        return _with(problem, memory=_at(problem.memory, vm, asked - steps * _MEMORY_STEP))

    steps = _least((asked - 1) // _MEMORY_STEP, lambda steps: _fits(changed(steps)))
    if steps is None:
        return None
    name, left = problem.vms[vm].details.name, asked - steps * _MEMORY_STEP
    text = f"make {name} {size_text(left * MIB)} instead of {size_text(asked * MIB)}"
    return Change("smaller_vm", name, left, "MiB", text), changed(steps)


def _settings(placement: Placement, unplaced: t.Sequence[int]) -> t.Iterator[Tried]:
    """Changes nobody has to buy: a ratio, a pin, a group that is too strict, moves that are not allowed, equipment."""
    problem, question = placement.problem, placement.question
    steps = _least(int(64 / _RATIO_STEP), lambda steps: _fits(_ratio(problem, steps)))
    if steps is not None:
        ratio = question.policy.capacity.vcpu_ratio + steps * _RATIO_STEP
        yield Change("vcpu_ratio", "", ratio, "vCPUs per CPU", f"raise vcpu_ratio to {ratio:g}"), _ratio(problem, steps)
    for change, changed in _ideas(question, placement, unplaced):
        other = pose(dataclasses.replace(question, **changed))[1]
        if _fits(other):
            yield change, other


def _ideas(question: PlacementQuestion, placement: Placement, unplaced: t.Sequence[int]) -> t.Iterator[tuple[Change, dict[str, t.Any]]]:
    """What could be tried, with what it changes in the question."""
    policy = question.policy
    if policy.strict_groups:
        text = "leave strict_groups out, so that members stand together where they must"
        yield Change("strict_groups", "", 0, "", text), {"policy": dataclasses.replace(policy, strict_groups=())}
    if not policy.allow_moves:
        text = "set allow_moves: true, so that what stands somewhere may make room"
        yield Change("allow_moves", "", 0, "", text), {"policy": dataclasses.replace(policy, allow_moves=True)}
    for vm in unplaced:
        name, host = question.vms[vm].details.name, question.vms[vm].host
        if host:
            yield Change("host", name, 0, "", f"do not pin {name} to {host}"), {"vms": _replaced(question.vms, vm, host=None)}
    details = [question.vms[vm].details for vm in unplaced]
    wanted = [
        ("bridges", {nic.bridge for one in details for nic in one.nics if nic.bridge}, "bridge"),
        ("networks", {nic.network for one in details for nic in one.nics if nic.network}, "network"),
        ("pools", {pool for vm in unplaced for pool in placement.problem.pools[vm]}, "pool"),
    ]
    kinds = {"qemu" if one.hypervisor == "auto" else one.hypervisor for one in details}
    for index, server in enumerate(question.servers[:_MOST_SERVERS]):
        for field, names, word in wanted:
            have = getattr(server, field)
            missing = sorted(names - have) if have is not None else []
            if missing:
                text = f"give {server.name} the {word} {', '.join(missing)}"
                yield Change(word, server.name, len(missing), "", text), {"servers": _replaced(question.servers, index, **{field: have | names})}
        lacking = sorted(kinds - server.hypervisors) if server.hypervisors is not None else []
        if lacking:
            servers = _replaced(question.servers, index, hypervisors=server.hypervisors | kinds)
            yield Change("hypervisor", server.name, len(lacking), "", f"make {', '.join(lacking)} work on {server.name}"), {"servers": servers}


def _ratio(problem: Problem, steps: int) -> Problem:
    limits = []
    for server, limit in zip(problem.servers, problem.vcpu_limit):
        more = math.floor(server.capacity.facts.cpus * steps * _RATIO_STEP) if server.capacity else 0
        limits.append(limit + more)
    return _with(problem, vcpu_limit=limits)


def _replaced(values: t.Sequence[t.Any], index: int, **changed: t.Any) -> tuple[t.Any, ...]:
    return tuple(_at(values, index, dataclasses.replace(values[index], **changed)))


def _another_server(placement: Placement, unplaced: t.Sequence[int]) -> Tried | None:
    """One more server like the others, as small as it may be."""
    question = placement.question
    whole = _server_like_the_others(placement, unplaced)
    reserve = question.policy.capacity.memory_reserve_mib
    cpus = _cpus(placement, unplaced)

    def changed(steps: int) -> Problem:
        return pose(dataclasses.replace(question, servers=(*question.servers, _server(steps * _MEMORY_STEP + reserve, cpus, placement))))[1]

    steps = _least(int(whole.amount - reserve) // _MEMORY_STEP, lambda steps: _fits(changed(steps)))
    if steps is None:
        return None
    memory = steps * _MEMORY_STEP + reserve
    return dataclasses.replace(whole, amount=memory, text=_server_text(memory, cpus), least=True), changed(steps)


def _server_like_the_others(placement: Placement, unplaced: t.Sequence[int]) -> Change:
    """A server that takes all VMs without one; not tried out, nor the least."""
    problem = placement.problem
    memory = -(-sum(problem.memory[vm] for vm in unplaced) // _MEMORY_STEP) * _MEMORY_STEP + placement.question.policy.capacity.memory_reserve_mib
    text = _server_text(memory, _cpus(placement, unplaced))
    return Change("server", "", memory, "MiB", text, least=False, ha_grade=_grade(placement.state))


def _cpus(placement: Placement, unplaced: t.Sequence[int]) -> int:
    vcpus = sum(placement.problem.vcpus[vm] for vm in unplaced)
    return max(1, math.ceil(vcpus / placement.question.policy.capacity.vcpu_ratio))


def _server_text(memory_mib: int, cpus: int) -> str:
    return f"add a server with at least {size_text(memory_mib * MIB)} of memory and {cpus} CPU{'s' if cpus > 1 else ''}"


def _server(memory_mib: int, cpus: int, placement: Placement) -> PlanServer:
    capacity = HostCapacity(HostFacts(memory_mib, cpus, "", "", "", "", None), placement.question.policy.capacity)
    nothing: frozenset[str] = frozenset()
    # no legal name of a server, so that it is nobody's
    return PlanServer("another server", (ROLE_VIRT,), capacity, None, None, None, nothing, nothing, None, {}, None, None, (), "")
