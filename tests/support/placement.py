# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the tests of placement share: questions in short, and a judge that shares no code with the planner."""

from __future__ import annotations

import itertools
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._host.node.plan_capacity import shortages
from ansible_collections.reduced.footprint.plugins.module_utils._placement.request.model_placement import (
    PlacementQuestion,
    parse_placement_policy,
    parse_wanted,
)
from ansible_collections.reduced.footprint.plugins.module_utils._placement.request.model_server import parse_question

GIB = 1024**3


def server(name: str = "metal1", memory: t.Any = 8, cpus: int = 4, **more: t.Any) -> dict[str, t.Any]:
    """A server that keeps nothing for itself, so that numbers in tests are round."""
    return {"name": name, "memory": memory, "cpus": cpus, "memory_reserve": 0, **more}


def servers(*memories: t.Any, **more: t.Any) -> list[dict[str, t.Any]]:
    """metal1, metal2, ... of these sizes."""
    return [server(f"metal{number}", memory, **more) for number, memory in enumerate(memories, 1)]


def controllers(number: int = 3, ram: t.Any = 2, **more: t.Any) -> list[dict[str, t.Any]]:
    """c1, c2, ... of the role controller."""
    return [{"id": f"c{index}", "cpu": 1, "ram": ram, "roles": ["controller"], **more} for index in range(1, number + 1)]


def question(machines: t.Any, vms: t.Any = (), wanted: t.Any = (), current: t.Any = None, **policy: t.Any) -> PlacementQuestion:
    """A question as the module would parse it."""
    return parse_question("lab", machines, list(vms), parse_wanted(list(wanted)), parse_placement_policy(**policy), current)


def allowed(asked: PlacementQuestion, where: t.Mapping[str, str]) -> bool:
    """Whether an assignment (VM id → server) breaks no rule."""
    for host in asked.servers:
        vms = [vm for vm in asked.vms if where.get(vm.details.id) == host.name]
        if not vms:
            continue
        if "virt" not in host.roles or host.capacity is None:
            return False
        # the check virt_node itself would make; pools are measured as empty here
        if shortages([vm.details for vm in vms], host.capacity, asked.policy.pool):
            return False
        for vm in vms:
            if vm.host not in (None, host.name):
                return False
            able = {"kvm", "qemu"} if vm.details.hypervisor == "auto" else {vm.details.hypervisor}
            if host.hypervisors is not None and not able & host.hypervisors:
                return False
            if host.bridges is not None and any(nic.bridge and nic.bridge not in host.bridges for nic in vm.details.nics):
                return False
            if not asked.policy.allow_moves and vm.current not in (None, host.name) and vm.host != host.name:
                return False
        for group in asked.policy.strict_groups:
            if sum(group in (*vm.details.roles, *vm.groups) for vm in vms) > 1:
                return False
    return True


def worth(asked: PlacementQuestion, where: t.Mapping[str, str]) -> tuple[t.Any, ...]:
    """How good an assignment is, counted from scratch; the smaller the better."""
    memory = {host.name: 0 for host in asked.servers}
    groups: dict[str, list[str | None]] = {}
    explicit = set(asked.policy.apart_roles)
    for vm in asked.vms:
        place = where.get(vm.details.id)
        if place is not None:
            memory[place] += vm.details.memory_mib
        explicit.update(vm.groups)
        for group in {*vm.details.roles, *vm.groups}:
            groups.setdefault(group, []).append(place)
    ranks, apart, spread = [], 0, 0
    for group, places in groups.items():
        pairs = sum(1 for one, other in itertools.combinations(places, 2) if one is not None and one == other)
        if group in asked.policy.quorum_roles:
            ranks.append(_rank(places))
        if group in asked.policy.quorum_roles or group in explicit:
            apart += pairs
        else:
            spread += pairs
    moves = sum(1 for vm in asked.vms if vm.current is not None and where.get(vm.details.id) != vm.current)
    balance = 0
    for host in asked.servers:
        limit = host.capacity.memory_for_vms_mib if host.capacity else 0
        balance += memory[host.name] ** 2 * (10**12 // limit) if limit else 0
    return (len(asked.vms) - len(where), max(ranks, default=0), sum(ranks), apart, moves, spread, balance)


def _rank(places: t.Sequence[str | None]) -> int:
    needed = len(places) // 2 + 1
    there = [place for place in places if place is not None]
    survived = [len(there) - there.count(place) >= needed for place in set(there)]
    return 0 if survived and all(survived) else 1 if any(survived) else 2


def every_assignment(asked: PlacementQuestion) -> t.Iterator[dict[str, str]]:
    """All that break no rule; for small questions."""
    names = [None, *(host.name for host in asked.servers)]
    ids = [vm.details.id for vm in asked.vms]
    for places in itertools.product(names, repeat=len(ids)):
        where = {vm_id: place for vm_id, place in zip(ids, places) if place is not None}
        if allowed(asked, where):
            yield where
