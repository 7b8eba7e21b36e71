# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Find changes that would give every VM a server; each is verified by planning with it."""

from __future__ import annotations

import copy
import dataclasses
import math
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import GIB, MIB, size_text
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_node import ROLE_VIRT, ROLE_WITNESS, HostCapacity, HostFacts
from ansible_collections.reduced.footprint.plugins.module_utils._placement.report.plan_losses import GRADES
from ansible_collections.reduced.footprint.plugins.module_utils._placement.request.model_placement import QUORUM, PlacementQuestion, PlanServer
from ansible_collections.reduced.footprint.plugins.module_utils._placement.solve.plan_placement import Placement, pose
from ansible_collections.reduced.footprint.plugins.module_utils._placement.solve.plan_problem import NOWHERE, UNMEASURED, Problem, State
from ansible_collections.reduced.footprint.plugins.module_utils._placement.solve.plan_reasons import listing
from ansible_collections.reduced.footprint.plugins.module_utils._placement.solve.plan_search import search

# For larger problems (VMs × servers) only an additional server is advised.
_SMALL = 240
_MOST_SERVERS = 8
_TRIALS = 20000
_MEMORY_STEP = 256
_RATIO_STEP = 0.25
_UNLIMITED = 10**9

# A change as text, and the placement after it.
Tried = t.Tuple[str, State]


def changes(placement: Placement) -> tuple[str, ...]:
    """Return changes of which any one gives all VMs a server: settings before hardware, and those that lower the availability last."""
    problem = placement.problem
    unplaced = [vm for vm, server in enumerate(placement.state.place) if server == NOWHERE]
    if not unplaced or measure_advice(placement):
        return ()
    if len(problem.vms) * len(problem.servers) > _SMALL:
        return (_server_text(placement, unplaced),)
    able = [index for index, server in enumerate(problem.servers) if server.capacity and ROLE_VIRT in server.roles and index not in problem.taken]
    found = [*_ratio(placement), *_settings(placement, unplaced), *_memory(placement, able[:_MOST_SERVERS], unplaced)]
    for pool in sorted({pool for vm in unplaced for pool in problem.pools[vm]}):
        found += _pool(placement, able[:_MOST_SERVERS], pool, unplaced)
    found += _another_server(placement, unplaced)
    found.sort(key=lambda one: GRADES.index(_grade(one[1])))
    return tuple(text + _effect(placement.state, after) for text, after in found)


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
    return search(problem, _TRIALS)


def _grade(state: State) -> str:
    return GRADES[state.cost()[1]] if state.ranks else "none"


def _effect(before: State, after: State) -> str:
    return f" (then high availability becomes {_grade(after)})" if after.cost()[1] > before.cost()[1] else ""


def _with(problem: Problem, **changed: t.Any) -> Problem:
    other = copy.copy(problem)
    for name, value in changed.items():
        setattr(other, name, value)
    return other


def _at(values: t.Sequence[t.Any], index: int, value: t.Any) -> list[t.Any]:
    return [*values[:index], value, *values[index + 1 :]]


def _ratio(placement: Placement) -> t.Iterator[Tried]:
    """Yield the ratio that is sufficient for a placement without a limit of vCPUs."""
    problem = placement.problem
    after = _solve(_with(problem, vcpu_limit=[_UNLIMITED if server.capacity else 0 for server in problem.servers]))
    if not after.unplaced:
        hosts = [(index, server.capacity) for index, server in enumerate(problem.servers) if server.capacity]
        most = max((after.vcpus[index] + capacity.others_vcpus) / capacity.facts.cpus for index, capacity in hosts)
        yield f"increase vcpu_ratio to {math.ceil(most / _RATIO_STEP) * _RATIO_STEP:g}", after


def _memory(placement: Placement, servers: t.Sequence[int], unplaced: t.Sequence[int]) -> t.Iterator[Tried]:
    """Yield the server that needs the least additional memory, and a sufficient amount."""
    problem, found = placement.problem, []
    for server in servers:
        limit = problem.memory_limit[server]
        after = _solve(_with(problem, memory_limit=_at(problem.memory_limit, server, limit + sum(problem.memory[vm] for vm in unplaced))))
        if not after.unplaced:
            found.append((-(-max(1, after.memory[server] - limit) // _MEMORY_STEP) * _MEMORY_STEP, server, after))
    for amount, server, after in sorted(found, key=lambda one: one[:2])[:1]:
        yield f"add {size_text(amount * MIB)} of memory to {problem.servers[server].name}", after


def _pool(placement: Placement, servers: t.Sequence[int], pool: str, unplaced: t.Sequence[int]) -> t.Iterator[Tried]:
    problem, found = placement.problem, []
    asked = sum(problem.pools[vm].get(pool, 0) for vm in unplaced)
    for server in servers:
        limits = problem.pool_limit[server]
        if pool in limits:
            after = _solve(_with(problem, pool_limit=_at(problem.pool_limit, server, {**limits, pool: limits[pool] + asked})))
            if not after.unplaced:
                found.append((-(-max(1, after.pools[server].get(pool, 0) - limits[pool]) // GIB), server, after))
    for amount, server, after in sorted(found, key=lambda one: one[:2])[:1]:
        yield f"add {amount} GiB to the pool {pool} of {problem.servers[server].name}, or increase thin_ratio if its disks stay sparse", after


def _settings(placement: Placement, unplaced: t.Sequence[int]) -> t.Iterator[Tried]:
    """Yield changes without new hardware: a pin, strict groups, moves, the configuration of a server."""
    for text, changed in _ideas(placement.question, placement, unplaced):
        after = _solve(pose(dataclasses.replace(placement.question, **changed))[1])
        if not after.unplaced:
            yield text, after


def _ideas(question: PlacementQuestion, placement: Placement, unplaced: t.Sequence[int]) -> t.Iterator[tuple[str, dict[str, t.Any]]]:
    """Yield changes to try, with the changed attributes of the question."""
    policy = question.policy
    if policy.strict_groups:
        text = "remove strict_groups, so that members share a server where necessary"
        yield text, {"policy": dataclasses.replace(policy, strict_groups=())}
    if not policy.allow_moves:
        text = "set allow_moves: true, so that VMs can be moved to make room"
        yield text, {"policy": dataclasses.replace(policy, allow_moves=True)}
    for vm in unplaced:
        name, host = question.vms[vm].details.name, question.vms[vm].host
        if host:
            yield f"do not pin {name} to {host}", {"vms": _replaced(question.vms, vm, host=None)}
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
                yield text, {"servers": _replaced(question.servers, index, **{field: have | names})}
        lacking = sorted(kinds - server.hypervisors) if server.hypervisors is not None else []
        if lacking:
            servers = _replaced(question.servers, index, hypervisors=server.hypervisors | kinds)
            yield f"make {', '.join(lacking)} usable on {server.name}", {"servers": servers}


def _replaced(values: t.Sequence[t.Any], index: int, **changed: t.Any) -> tuple[t.Any, ...]:
    return tuple(_at(values, index, dataclasses.replace(values[index], **changed)))


def _another_server(placement: Placement, unplaced: t.Sequence[int]) -> t.Iterator[Tried]:
    question = placement.question
    memory, cpus = _sufficient(placement, unplaced)
    capacity = HostCapacity(HostFacts(memory, cpus, "", "", "", "", None), question.policy.capacity)
    nothing: frozenset[str] = frozenset()
    # not a valid name, so it never equals that of a server
    server = PlanServer("another server", (ROLE_VIRT,), capacity, None, None, None, nothing, nothing, None, {}, None, None, (), "")
    after = _solve(pose(dataclasses.replace(question, servers=(*question.servers, server)))[1])
    if not after.unplaced:
        yield _server_text(placement, unplaced), after


def _sufficient(placement: Placement, unplaced: t.Sequence[int]) -> tuple[int, int]:
    """Return the memory (MiB) and the CPUs of a server that carries all unplaced VMs."""
    problem, policy = placement.problem, placement.question.policy.capacity
    memory = -(-sum(problem.memory[vm] for vm in unplaced) // _MEMORY_STEP) * _MEMORY_STEP + policy.memory_reserve_mib
    return memory, max(1, math.ceil(sum(problem.vcpus[vm] for vm in unplaced) / policy.vcpu_ratio))


def _server_text(placement: Placement, unplaced: t.Sequence[int]) -> str:
    memory, cpus = _sufficient(placement, unplaced)
    return f"add a server with at least {size_text(memory * MIB)} of memory and {cpus} CPU{'s' if cpus > 1 else ''}"
