# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The placement problem in numbers: limits, demands, and the cost of a placement.

The cost is a tuple that is compared lexicographically; lower is better. Its elements are named in :data:`LEVELS`.
"""

from __future__ import annotations

import dataclasses
import math
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import CapacityError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import size_text
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_node import ROLE_COMPUTE, ROLE_VIRT, ROLE_WITNESS
from ansible_collections.reduced.footprint.plugins.module_utils._placement.request.model_placement import APART, QUORUM, SPREAD, PlacementQuestion, PlanVm
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_standby import SPACE_FACTOR

# VMs without a server; the worst grade of a quorum (0 quorum, 1 restart, 2 none) and the sum of all grades; pairs on one server
# that should be apart; VMs that do not stay on their server, moved or unplaced; pairs of one role on one server; how unevenly
# memory is used.
LEVELS = ("unplaced", "quorum", "quorums", "apart", "moves", "spread", "balance")

NOWHERE = -1
UNMEASURED = "was not measured, so its memory and CPUs are not known"
_SCALE = 10**12

Cost = t.Tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Group:
    """VMs with a common role or a common group in ``anti_affinity``.

    ``size`` counts all members, also those on metal and those without a server, and in a quorum the witnesses; ``metal`` is the
    number of members and witnesses on metal by server.
    """

    name: str
    kind: str
    strict: bool
    size: int
    metal: t.Mapping[int, int]

    @property
    def needed(self) -> int:
        """Number of members that are a majority."""
        return self.size // 2 + 1


def quorum_rank(group: Group, counts: t.Mapping[int, int]) -> int:
    """Return 0 if any one server can be lost, 1 if only some can, 2 if none can."""
    holders = [number for number in counts.values() if number]
    placed = sum(holders)
    surviving = sum(1 for number in holders if placed - number >= group.needed)
    return 2 if not surviving else 0 if surviving == len(holders) else 1


class Problem:
    """The question with precomputed values; servers and VMs are indexes.

    :arg taken: servers that are assigned whole and carry no VMs.
    :arg metal: role → servers that have it on metal, ``NOWHERE`` for a request without a server.
    """

    def __init__(self, question: PlacementQuestion, taken: t.AbstractSet[int] = frozenset(), metal: t.Mapping[str, t.Sequence[int]] | None = None) -> None:
        self.question = question
        self.servers = question.servers
        self.vms = question.vms
        self.taken = taken
        index_of = {server.name: index for index, server in enumerate(self.servers)}
        policy = question.policy
        self.memory_limit = [server.capacity.memory_for_vms_mib if server.capacity else 0 for server in self.servers]
        self.vcpu_limit = [server.capacity.vcpus_for_vms if server.capacity else 0 for server in self.servers]
        self.pool_limit: list[dict[str, int]] = [self._pool_limits(server) for server in self.servers]
        #: Bytes of each pool of a server that copies of VMs of other servers still need.
        self.copy_demand: list[dict[str, int]] = [{} for unused in self.servers]
        self._reserve_copies(index_of, policy.pool)
        self.memory = [vm.details.memory_mib for vm in self.vms]
        self.vcpus = [vm.details.cpu for vm in self.vms]
        self.pools = [_pool_demand(vm, policy.pool) for vm in self.vms]
        self.pinned = [index_of[vm.host] if vm.host else NOWHERE for vm in self.vms]
        self.current = [index_of.get(vm.current, NOWHERE) if vm.current else NOWHERE for vm in self.vms]
        # to leave the server that only lists a VM costs less than all moves of existing VMs
        listed = [place != NOWHERE and vm.exists is False for vm, place in zip(self.vms, self.current)]
        self.move_weight = 1 + sum(listed)
        self.move_cost = [0 if place == NOWHERE else 1 if new else self.move_weight for place, new in zip(self.current, listed)]
        self.fixed = [self._stays(index) for index in range(len(self.vms))]
        for server in range(len(self.servers)):
            if self.servers[server].capacity is None:
                # capacity unknown: its current VMs fit, and no others
                here = [vm for vm, place in enumerate(self.fixed) if place == server]
                self.memory_limit[server] = sum(self.memory[vm] for vm in here)
                self.vcpu_limit[server] = sum(self.vcpus[vm] for vm in here)
        self.weight = [_SCALE // limit if limit else 0 for limit in self.memory_limit]
        self.credit = [self._credit(index) for index in range(len(self.vms))]
        self.groups, self.groups_of = self._group(metal or {})
        self.members: list[list[int]] = [[] for unused in self.groups]
        for vm, groups in enumerate(self.groups_of):
            for group in groups:
                self.members[group].append(vm)
        self._eligible: dict[t.Any, tuple[int, ...]] = {}
        self.signature = [self._signature(index) for index in range(len(self.vms))]
        self.eligible = [self._eligible_for(index) for index in range(len(self.vms))]

    def _stays(self, vm: int) -> int:
        """Return the server a VM cannot leave, because moves are not allowed or the server was not measured."""
        place = self.current[vm]
        if place == NOWHERE or self.pinned[vm] not in (NOWHERE, place):
            return NOWHERE
        return place if not self.question.policy.allow_moves or self.servers[place].capacity is None else NOWHERE

    def _pool_limits(self, server: t.Any) -> dict[str, int]:
        """Return the bytes of each pool that are available to more volumes."""
        if not server.capacity:
            return {}
        ratio, reserve = self.question.policy.thin_ratio, self.question.policy.capacity.pool_reserve
        return {
            name: max(0, math.floor(pool.capacity * ratio) - pool.capacity + pool.available - (reserve if pool.reserve is None else pool.reserve))
            for name, pool in server.capacity.pools.items()
        }

    def _reserve_copies(self, index_of: t.Mapping[str, int], default_pool: str) -> None:
        """Take the space of copies from the pools of the standbys."""
        for vm in self.vms:
            standby = vm.details.standby
            if standby is None:
                continue
            index = index_of[standby.server]
            server, limits = self.servers[index], self.pool_limit[index]
            held = server.copies.get(vm.details.id, 0)
            for pool, size in sorted(_pool_demand(vm, default_pool).items()):
                if pool not in limits:
                    if server.pools is not None and pool not in server.pools:
                        raise CapacityError(f"{standby.server} has no pool {pool}.", f"{vm.details.path}.standby", "Create it there with the same path.")
                    continue
                needed = SPACE_FACTOR * size
                credited = min(held, needed) if pool in server.credits else 0
                held -= credited
                if needed - credited > limits[pool]:
                    raise CapacityError(
                        f"the copies of {vm.details.name} need {size_text(needed - credited)} more in the pool {pool} of {standby.server} (one copy, and the"
                        f" disk when the VM is started there), {size_text(limits[pool]) if limits[pool] else 'nothing'} is free.",
                        f"{vm.details.path}.standby",
                        "Enlarge the pool, use another server, or remove standby.",
                    )
                limits[pool] -= needed - credited
                self.copy_demand[index][pool] = self.copy_demand[index].get(pool, 0) + needed - credited

    def _credit(self, vm: int) -> dict[str, int]:
        """Return the bytes of each pool of its current server that a VM already uses."""
        place = self.current[vm]
        if place == NOWHERE or self.vms[vm].exists is False or not self.servers[place].capacity:
            return {}
        server, found = self.servers[place], {}
        for pool, asked in self.pools[vm].items():
            if pool not in server.credits:
                continue
            volumes = server.capacity.pools[pool].volumes
            disks = [disk for disk in self.vms[vm].details.disks if (disk.pool or self.question.policy.pool) == pool]
            if volumes:
                found[pool] = sum(min(disk.size or 0, volumes.get(disk.name, (0, 0))[1]) for disk in disks)
            else:
                found[pool] = asked  # volumes unknown: assumed to be fully allocated
        return found

    def _group(self, metal: t.Mapping[str, t.Sequence[int]]) -> tuple[tuple[Group, ...], list[tuple[int, ...]]]:
        policy = self.question.policy
        members: dict[str, list[int]] = {}
        apart = set(policy.apart_roles)
        for index, vm in enumerate(self.vms):
            apart.update(vm.groups)
            for name in dict.fromkeys((*vm.details.roles, *vm.groups)):
                members.setdefault(name, []).append(index)
        names = sorted(set(members) | {role for role in metal if role in policy.quorum_roles})
        groups: list[Group] = []
        of: list[list[int]] = [[] for unused in self.vms]
        for name in names:
            kind = QUORUM if name in policy.quorum_roles else APART if name in apart else SPREAD
            places = list(metal.get(name, ())) if name not in (ROLE_COMPUTE, ROLE_VIRT) else []
            # a witness votes in every quorum
            places += metal.get(ROLE_WITNESS, ()) if kind == QUORUM else ()
            size = len(members.get(name, ())) + len(places)
            if size < 2 and kind != QUORUM:
                continue
            counts: dict[int, int] = {}
            for place in places:
                if place != NOWHERE:
                    counts[place] = counts.get(place, 0) + 1
            for vm in members.get(name, ()):
                of[vm].append(len(groups))
            groups.append(Group(name, kind, name in policy.strict_groups, size, counts))
        return tuple(groups), [tuple(indexes) for indexes in of]

    def _signature(self, index: int) -> t.Any:
        vm = self.vms[index]
        return (
            vm.details.hypervisor,
            frozenset(nic.kernel_bridge for nic in vm.details.nics if nic.kernel_bridge),
            frozenset(nic.network for nic in vm.details.nics if nic.network),
            frozenset(self.pools[index]),
            self.pinned[index],
            # a VM that was started on its standby is there for now
            (vm.details.standby.server, self.current[index]) if vm.details.standby else None,
            self.fixed[index],
        )

    def _eligible_for(self, vm: int) -> tuple[int, ...]:
        key = self.signature[vm]
        if key not in self._eligible:
            # for thousands of VMs with only one possible server, check only that one
            fixed = self.pinned[vm] if self.pinned[vm] != NOWHERE else key[-1]
            asked = range(len(self.servers)) if fixed == NOWHERE else (fixed,)
            self._eligible[key] = tuple(server for server in asked if self.forbids(vm, server) is None)
        return self._eligible[key]

    def forbids(self, vm: int, server: int) -> str | None:
        """Return why a VM can never run on a server, as the end of a sentence that starts with the server; ``None`` if it can."""
        details, host = self.vms[vm].details, self.servers[server]
        if self.pinned[vm] not in (NOWHERE, server):
            return f"is not {self.vms[vm].host}, to which host pins the VM"
        if server in self.taken:
            return "is assigned as a whole server without VMs"
        if details.standby is not None and details.standby.server == host.name and self.current[vm] != server:
            return "is its standby, which must be another server"
        if ROLE_VIRT not in host.roles:
            return f"does not have the role {ROLE_VIRT}"
        if host.capacity is None and self.fixed[vm] != server:
            return UNMEASURED
        if self.fixed[vm] not in (NOWHERE, server):
            why = "which was not measured" if self.servers[self.fixed[vm]].capacity is None else "and moves are not allowed"
            return f"is not {self.servers[self.fixed[vm]].name}, the VM's current server, {why}"
        if host.hypervisors is not None:
            able = ("kvm", "qemu") if details.hypervisor == "auto" else (details.hypervisor,)
            if not host.hypervisors.intersection(able):
                why = "; ".join(host.hypervisor_reasons[kind] for kind in able if host.hypervisor_reasons.get(kind))
                return f"cannot run {details.hypervisor} guests" + (f" ({why})" if why else "")
        for what, have, wanted in (
            ("bridge", host.bridges, sorted(self.signature[vm][1])),
            ("network", host.networks, sorted(self.signature[vm][2])),
            ("pool", host.pools, sorted(self.pools[vm])),
        ):
            missing = [name for name in wanted if have is not None and name not in have]
            if missing:
                return f"has no {what} {', '.join(missing)}"
        return None

    def demand(self, vm: int, server: int) -> dict[str, int]:
        """Return the bytes that a VM still needs in the pools of a server with known size."""
        credit = self.credit[vm] if server == self.current[vm] else {}
        limits = self.pool_limit[server]
        return {pool: asked - credit.get(pool, 0) for pool, asked in self.pools[vm].items() if pool in limits}


def _pool_demand(vm: PlanVm, default_pool: str) -> dict[str, int]:
    """Return the size of disks per pool; disks with the size of their image are not counted."""
    found: dict[str, int] = {}
    for disk in vm.details.disks:
        name = disk.pool or default_pool
        found[name] = found.get(name, 0) + (disk.size or 0)
    return found


class State:
    """A mutable placement."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        count = len(problem.servers)
        self.place = [NOWHERE] * len(problem.vms)
        self.memory = [0] * count
        self.vcpus = [0] * count
        self.pools: list[dict[str, int]] = [{} for unused in range(count)]
        self.counts: list[dict[int, int]] = [dict(group.metal) for group in problem.groups]
        self.on: list[set[int]] = [set() for unused in range(count)]
        self.ranks = {index: quorum_rank(group, group.metal) for index, group in enumerate(problem.groups) if group.kind == QUORUM}
        self.unplaced = len(problem.vms)
        self.apart = sum(_pairs(counts) for group, counts in zip(problem.groups, self.counts) if group.kind != SPREAD)
        self.spread = sum(_pairs(counts) for group, counts in zip(problem.groups, self.counts) if group.kind == SPREAD)
        self.moves = sum(problem.move_cost)
        self.balance = 0

    def cost(self) -> Cost:
        """Return the cost, see :data:`LEVELS`."""
        return (self.unplaced, max(self.ranks.values(), default=0), sum(self.ranks.values()), self.apart, self.moves, self.spread, self.balance)

    def fits(self, vm: int, server: int) -> bool:
        """Return whether a VM fits on an eligible server."""
        problem = self.problem
        if self.memory[server] + problem.memory[vm] > problem.memory_limit[server] or self.vcpus[server] + problem.vcpus[vm] > problem.vcpu_limit[server]:
            return False
        if problem.pools[vm]:
            limits, used = problem.pool_limit[server], self.pools[server]
            for pool, asked in problem.demand(vm, server).items():
                if asked > 0 and used.get(pool, 0) + asked > limits[pool]:
                    return False
        return not any(problem.groups[group].strict and self.counts[group].get(server) for group in problem.groups_of[vm])

    def put(self, vm: int, server: int) -> None:
        """Place a VM that has no server."""
        self._change(vm, server, 1)
        self.place[vm] = server
        self.on[server].add(vm)

    def take(self, vm: int) -> int:
        """Remove a VM from its server, and return the server."""
        server = self.place[vm]
        self.place[vm] = NOWHERE
        self.on[server].discard(vm)
        self._change(vm, server, -1)
        return server

    def _change(self, vm: int, server: int, sign: int) -> None:
        problem = self.problem
        memory, used = problem.memory[vm], self.memory[server]
        after = used + sign * memory
        self.balance += problem.weight[server] * (after * after - used * used)
        self.memory[server] = after
        self.vcpus[server] += sign * problem.vcpus[vm]
        if problem.pools[vm]:
            pools = self.pools[server]
            for pool, asked in problem.demand(vm, server).items():
                pools[pool] = pools.get(pool, 0) + sign * asked
        self.unplaced -= sign
        if problem.current[vm] == server:
            self.moves -= sign * problem.move_cost[vm]
        for group in problem.groups_of[vm]:
            counts, kind = self.counts[group], problem.groups[group].kind
            before = counts.get(server, 0)
            pairs = before if sign > 0 else 1 - before
            counts[server] = before + sign
            if kind == SPREAD:
                self.spread += pairs
                continue
            self.apart += pairs
            if kind == QUORUM:
                self.ranks[group] = quorum_rank(problem.groups[group], counts)


def _pairs(counts: t.Mapping[int, int]) -> int:
    return sum(number * (number - 1) // 2 for number in counts.values())
