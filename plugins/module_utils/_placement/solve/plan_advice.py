# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Find the smallest change that would give every VM a server; each change is verified before it is returned."""

from __future__ import annotations

import copy
import dataclasses
import math
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import GIB, MIB, size_text
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_node import ROLE_VIRT, ROLE_WITNESS, HostCapacity, HostFacts
from ansible_collections.reduced.footprint.plugins.module_utils._placement.report.plan_losses import GRADES
from ansible_collections.reduced.footprint.plugins.module_utils._placement.request.model_placement import QUORUM, PlacementQuestion, PlanServer
from ansible_collections.reduced.footprint.plugins.module_utils._placement.solve.plan_exact import refine
from ansible_collections.reduced.footprint.plugins.module_utils._placement.solve.plan_placement import Placement, pose
from ansible_collections.reduced.footprint.plugins.module_utils._placement.solve.plan_problem import NOWHERE, UNMEASURED, Problem, State
from ansible_collections.reduced.footprint.plugins.module_utils._placement.solve.plan_reasons import listing
from ansible_collections.reduced.footprint.plugins.module_utils._placement.solve.plan_search import search

# For larger problems (VMs × servers) changes are not verified: they are sufficient, but smaller ones may be as well.
_SMALL = 240
_MOST_SERVERS = 8
_NODES = 200
_MEMORY_STEP = 256
_RATIO_STEP = 0.25


@dataclasses.dataclass(frozen=True)
class Change:
    """One change after which all VMs fit: ``kind``, the server or VM, the amount in ``unit``, and as text.

    ``least`` is true if a smaller amount was tried and is not enough; ``moves`` and ``ha_grade`` are those of the resulting plan.
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
        """The change as a result of the module."""
        return dataclasses.asdict(self)


# A change, and the changed problem.
Tried = t.Tuple[Change, Problem]


def changes(placement: Placement) -> tuple[Change, ...]:
    """Return changes after which all VMs fit, in order of effort: settings before hardware, and those that lower the availability last."""
    problem, state = placement.problem, placement.state
    unplaced = [vm for vm, server in enumerate(state.place) if server == NOWHERE]
    if not unplaced or measure_advice(placement):
        return ()
    if len(problem.vms) * len(problem.servers) > _SMALL:
        return (_sufficient_server(placement, unplaced),)
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


def measure_advice(placement: Placement) -> tuple[str, ...]:
    """Return the advice to measure the servers that may have room for VMs without a server; before, it is not known whether a change is necessary."""
    problem = placement.problem
    unplaced = [vm for vm, server in enumerate(placement.place) if server == NOWHERE]
    unknown = [index for index, server in enumerate(problem.servers) if server.capacity is None]
    names = [problem.servers[index].name for index in unknown if any(problem.forbids(vm, index) == UNMEASURED for vm in unplaced)]
    return (f"Measure {listing(names)}: let Ansible connect to {'it' if len(names) == 1 else 'them'}, or set node_capacity.",) if names else ()


def witness_advice(placement: Placement) -> tuple[str, ...]:
    """Return the advice to use a witness, or with one the VMs to remove, if two servers would then survive the loss of either of them; verified."""
    problem, question = placement.problem, placement.question
    able = [index for index, server in enumerate(problem.servers) if server.capacity and ROLE_VIRT in server.roles and index not in problem.taken]
    groups = [index for index, group in enumerate(problem.groups) if group.kind == QUORUM]
    witness = next((server.name for server in problem.servers if ROLE_WITNESS in server.roles), None)
    if len(able) != 2 or not groups or not placement.state.cost()[1]:
        return ()
    kept: set[int] = set()
    for group in groups:
        # the VMs that stay are those that are already apart
        members = sorted(problem.members[group], key=lambda vm: (problem.current[vm], vm))
        chosen = {problem.current[vm]: vm for vm in reversed(members)}.values()
        kept.update([*sorted(chosen), *(vm for vm in members if vm not in chosen)][:2])
    spare = [vm for group in groups for vm in problem.members[group] if vm not in kept]
    nothing: frozenset[str] = frozenset()
    # not a valid name, so it never equals that of a server
    third = PlanServer("a third machine", (ROLE_WITNESS,), None, None, None, None, nothing, nothing, None, {}, None, None, (), "")
    vms = tuple(vm for index, vm in enumerate(problem.vms) if index not in spare)
    after = _solve(pose(dataclasses.replace(question, servers=question.servers if witness else (*question.servers, third), vms=vms))[1])
    if after.unplaced or after.cost()[1]:
        return ()
    where = " and ".join(problem.servers[index].name for index in able)
    names = sorted(problem.vms[vm].details.name for vm in set(spare))
    saved = size_text(sum(problem.memory[vm] for vm in set(spare)) * MIB) if spare else ""
    without = f", without {', '.join(names)} ({saved} of memory saved)" if names else ""
    roles = ", ".join(problem.groups[index].name for index in groups)
    text = f"With {witness or 'a witness'}, {where} survive the loss of either server: one {roles} on each of them{without}"
    if witness:
        return (f"{text}.",)
    return (
        f"{text}, and a third machine with the role {ROLE_WITNESS}. It carries votes only, and 512 MiB of memory are sufficient: "
        "a single-board computer, a NAS, or the retired source of the migration.",
    )


def _solve(problem: Problem) -> State:
    state = search(problem)
    return refine(problem, state, _NODES)[0] if state.unplaced else state


def _fits(problem: Problem) -> bool:
    return not _solve(problem).unplaced


def _priced(placement: Placement, change: Change, changed: Problem) -> Change:
    """Return the change with its other effects."""
    after = _solve(changed)
    effects = []
    moves = after.moves // changed.move_weight
    if moves:
        effects.append(f"{moves} VM{'s move' if moves > 1 else ' moves'}")
    if after.cost()[1] > placement.state.cost()[1]:
        effects.append(f"high availability becomes {_grade(after)}")
    text = change.text + (f" (then {' and '.join(effects)})" if effects else "")
    return dataclasses.replace(change, text=text, moves=moves, ha_grade=_grade(after))


def _grade(state: State) -> str:
    return GRADES[state.cost()[1]] if state.ranks else "none"


def _least(most: int, good: t.Callable[[int], bool]) -> int | None:
    """Return the smallest number from 1 to ``most`` that is good, ``None`` if there is none."""
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
    """Return the server that needs the least additional memory, and the amount."""
    problem = placement.problem
    best: tuple[int, int] | None = None
    most = -(-sum(problem.memory[vm] for vm in unplaced) // _MEMORY_STEP)
    for server in servers:
        # search only for less than the best so far
        steps = _least(best[0] - 1 if best else most, lambda steps, server=server: _fits(_more_memory(problem, server, steps)))
        if steps is not None:
            best = (steps, server)
    if best is None:
        return None
    name, amount = problem.servers[best[1]].name, best[0] * _MEMORY_STEP
    text = f"add {size_text(amount * MIB)} of memory to {name}"
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
    text = f"add {steps} GiB to the pool {pool} of {name}, or increase thin_ratio if its disks stay sparse"
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
    text = f"reduce the memory of {name} from {size_text(asked * MIB)} to {size_text(left * MIB)}"
    return Change("smaller_vm", name, left, "MiB", text), changed(steps)


def _settings(placement: Placement, unplaced: t.Sequence[int]) -> t.Iterator[Tried]:
    """Yield changes without new hardware: a ratio, a pin, strict groups, moves, the configuration of a server."""
    problem, question = placement.problem, placement.question
    steps = _least(int(64 / _RATIO_STEP), lambda steps: _fits(_ratio(problem, steps)))
    if steps is not None:
        ratio = question.policy.capacity.vcpu_ratio + steps * _RATIO_STEP
        yield Change("vcpu_ratio", "", ratio, "vCPUs per CPU", f"increase vcpu_ratio to {ratio:g}"), _ratio(problem, steps)
    for change, changed in _ideas(question, placement, unplaced):
        other = pose(dataclasses.replace(question, **changed))[1]
        if _fits(other):
            yield change, other


def _ideas(question: PlacementQuestion, placement: Placement, unplaced: t.Sequence[int]) -> t.Iterator[tuple[Change, dict[str, t.Any]]]:
    """Yield changes to try, with the changed attributes of the question."""
    policy = question.policy
    if policy.strict_groups:
        text = "remove strict_groups, so that members share a server where necessary"
        yield Change("strict_groups", "", 0, "", text), {"policy": dataclasses.replace(policy, strict_groups=())}
    if not policy.allow_moves:
        text = "set allow_moves: true, so that VMs can be moved to make room"
        yield Change("allow_moves", "", 0, "", text), {"policy": dataclasses.replace(policy, allow_moves=True)}
    for vm in unplaced:
        name, host = question.vms[vm].details.name, question.vms[vm].host
        if host:
            yield Change("host", name, 0, "", f"do not pin {name} to {host}"), {"vms": _replaced(question.vms, vm, host=None)}
    details = [question.vms[vm].details for vm in unplaced]
    wanted = [
        ("bridges", {nic.kernel_bridge for one in details for nic in one.nics if nic.kernel_bridge}, "bridge"),
        ("networks", {nic.network for one in details for nic in one.nics if nic.network}, "network"),
        ("pools", {pool for vm in unplaced for pool in placement.problem.pools[vm]}, "pool"),
    ]
    kinds = {"qemu" if one.hypervisor == "auto" else one.hypervisor for one in details}
    for index, server in enumerate(question.servers[:_MOST_SERVERS]):
        for field, names, word in wanted:
            have = getattr(server, field)
            missing = sorted(names - have) if have is not None else []
            if missing:
                text = f"add the {word} {', '.join(missing)} to {server.name}"
                yield Change(word, server.name, len(missing), "", text), {"servers": _replaced(question.servers, index, **{field: have | names})}
        lacking = sorted(kinds - server.hypervisors) if server.hypervisors is not None else []
        if lacking:
            servers = _replaced(question.servers, index, hypervisors=server.hypervisors | kinds)
            yield Change("hypervisor", server.name, len(lacking), "", f"make {', '.join(lacking)} usable on {server.name}"), {"servers": servers}


def _ratio(problem: Problem, steps: int) -> Problem:
    limits = []
    for server, limit in zip(problem.servers, problem.vcpu_limit):
        more = math.floor(server.capacity.facts.cpus * steps * _RATIO_STEP) if server.capacity else 0
        limits.append(limit + more)
    return _with(problem, vcpu_limit=limits)


def _replaced(values: t.Sequence[t.Any], index: int, **changed: t.Any) -> tuple[t.Any, ...]:
    return tuple(_at(values, index, dataclasses.replace(values[index], **changed)))


def _another_server(placement: Placement, unplaced: t.Sequence[int]) -> Tried | None:
    """Return an additional server as small as possible."""
    question = placement.question
    whole = _sufficient_server(placement, unplaced)
    reserve = question.policy.capacity.memory_reserve_mib
    cpus = _cpus(placement, unplaced)

    def changed(steps: int) -> Problem:
        return pose(dataclasses.replace(question, servers=(*question.servers, _server(steps * _MEMORY_STEP + reserve, cpus, placement))))[1]

    steps = _least(int(whole.amount - reserve) // _MEMORY_STEP, lambda steps: _fits(changed(steps)))
    if steps is None:
        return None
    memory = steps * _MEMORY_STEP + reserve
    return dataclasses.replace(whole, amount=memory, text=_server_text(memory, cpus), least=True), changed(steps)


def _sufficient_server(placement: Placement, unplaced: t.Sequence[int]) -> Change:
    """Return a server that carries all unplaced VMs; not verified, and not the smallest."""
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
    # not a valid name, so it never equals that of a server
    return PlanServer("another server", (ROLE_VIRT,), capacity, None, None, None, nothing, nothing, None, {}, None, None, (), "")
