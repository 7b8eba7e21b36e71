# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Convert a placement to a report of plain values: placements with reasons, the effect of losses, and assumptions."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_node import ROLE_COMPUTE, ROLE_VIRT
from ansible_collections.reduced.footprint.plugins.module_utils._placement.report.plan_availability import GRADE_WORDS
from ansible_collections.reduced.footprint.plugins.module_utils._placement.report.plan_losses import Losses, ha_grade, quorums
from ansible_collections.reduced.footprint.plugins.module_utils._placement.request.model_placement import QUORUM
from ansible_collections.reduced.footprint.plugins.module_utils._placement.solve.plan_advice import changes, measure_advice, witness_advice
from ansible_collections.reduced.footprint.plugins.module_utils._placement.solve.plan_placement import Placement
from ansible_collections.reduced.footprint.plugins.module_utils._placement.solve.plan_problem import NOWHERE
from ansible_collections.reduced.footprint.plugins.module_utils._placement.solve.plan_reasons import listing, reason, why_unplaced
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.plan_isolation import container_warnings
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_standby import SPACE_FACTOR

DISCLAIMER = (
    "PERFORMANCE: controllers, tenants and the master share processors, memory and disks; a busy tenant slows the control plane down, "
    "and a small footprint is slow. ISOLATION: a tenant who breaks out of a virtual machine has access to the host of the controllers; "
    "containers (hypervisor lxc) share the host's kernel. AVAILABILITY: full high availability requires three physical servers, each with one "
    "controller, or two of them and a witness. MAINTENANCE: VMs are maintained by their users; the collection never stops or removes a VM "
    "that was removed from a list."
)

_MOST_EXPLAINED = 20


def build_report(placement: Placement) -> dict[str, t.Any]:
    """Return the report, in the format of the module's result."""
    found = quorums(placement)
    grade = ha_grade(found)
    losses = Losses(placement)
    servers = [_server(placement, index, losses) for index in range(len(placement.problem.servers))]
    entries = [_entry(placement, vm) for vm in range(len(placement.problem.vms))]
    return {
        "cluster": placement.question.cluster,
        "feasible": placement.feasible,
        "ha_grade": grade,
        "ha": _ha_words(placement, found, grade, servers),
        "placements": [entry for entry in entries if entry["server"]],
        "unplaced": _unplaced(placement),
        "moves": [{key: entry[key] for key in ("id", "name", "previous", "server", "reason")} for entry in entries if entry["action"] == "move"],
        "servers": servers,
        "standbys": [_standby(vm) for vm in placement.problem.vms if vm.details.standby],
        "wanted": [_wanted(placement, match) for match in placement.matches],
        "overcommit": _overcommit(servers),
        "changes": list(changes(placement)),
        "advice": [*measure_advice(placement), *witness_advice(placement)],
        "warnings": _warnings(placement),
        "labels": _labels(placement),
        "disclaimer": DISCLAIMER,
    }


def _entry(placement: Placement, vm: int) -> dict[str, t.Any]:
    problem = placement.problem
    details, here, before = problem.vms[vm].details, placement.place[vm], problem.current[vm]
    return {
        "id": details.id,
        "name": details.name,
        "server": problem.servers[here].name if here != NOWHERE else None,
        "previous": problem.servers[before].name if before != NOWHERE else None,
        # a VM that is only listed on a server need not be moved
        "action": "place" if before == NOWHERE or problem.vms[vm].exists is False else "stay" if before == here else "move",
        "hypervisor": _hypervisor(placement, vm, here),
        "memory_mib": details.memory_mib,
        "vcpus": details.cpu,
        "roles": list(details.roles),
        "anti_affinity": list(problem.vms[vm].groups),
        "reason": reason(problem, placement.state, vm) if here != NOWHERE else "",
    }


def _hypervisor(placement: Placement, vm: int, server: int) -> str:
    """Return the hypervisor type of a VM, with ``auto`` resolved if the usable types of the server are known."""
    kind = placement.problem.vms[vm].details.hypervisor
    usable = placement.problem.servers[server].hypervisors if server != NOWHERE else None
    return kind if kind != "auto" or usable is None else "kvm" if "kvm" in usable else "qemu"


def _unplaced(placement: Placement) -> list[dict[str, t.Any]]:
    problem = placement.problem
    found = []
    for vm, server in enumerate(placement.place):
        if server == NOWHERE:
            details = problem.vms[vm].details
            why = why_unplaced(problem, placement.state, vm) if len(found) < _MOST_EXPLAINED else ["similar to those above"]
            found.append({"id": details.id, "name": details.name, "memory_mib": details.memory_mib, "vcpus": details.cpu, "reasons": why})
    return found


def _server(placement: Placement, index: int, losses: Losses) -> dict[str, t.Any]:
    problem, state = placement.problem, placement.state
    server = problem.servers[index]
    wanted = [match.wanted for match in placement.matches if match.server == index]
    capacity = server.capacity
    result: dict[str, t.Any] = {
        "name": server.name,
        "roles": list(dict.fromkeys([*server.roles, *(role for one in wanted for role in one.roles)])),
        "wanted_by": wanted[0].name if wanted else None,
        "carries": ROLE_VIRT in server.roles and capacity is not None and index not in problem.taken,
        "vms": [problem.vms[vm].details.name for vm in sorted(state.on[index], key=lambda vm: (-problem.memory[vm], vm))],
        "lost": losses.of(index).as_dict(),
    }
    if capacity is not None:
        used, vcpus, cpus = state.memory[index], state.vcpus[index], capacity.facts.cpus
        result["memory_mib"] = {
            "total": capacity.facts.memory_mib,
            "reserve": capacity.policy.memory_reserve_mib,
            "others": capacity.others_mib,
            "limit": problem.memory_limit[index],
            "used": used,
            "free": problem.memory_limit[index] - used,
        }
        ratio = round((vcpus + capacity.others_vcpus) / cpus, 2)
        result["vcpus"] = {"cpus": cpus, "limit": problem.vcpu_limit[index], "used": vcpus, "others": capacity.others_vcpus, "per_cpu": ratio}
        result["pools"] = {name: _pool(placement, index, name) for name in sorted(capacity.pools)}
    return result


def _pool(placement: Placement, index: int, name: str) -> dict[str, t.Any]:
    """Return the size of a pool and of its disks; ``promised`` includes the used space of other volumes."""
    problem, state = placement.problem, placement.state
    pool = problem.servers[index].capacity.pools[name]
    asked = sum(problem.pools[vm].get(name, 0) for vm in state.on[index])
    still = state.pools[index].get(name, 0) + problem.copy_demand[index].get(name, 0)
    promised = pool.capacity - pool.available + still
    return {
        "capacity_bytes": pool.capacity,
        "available_bytes": pool.available,
        "asked_bytes": asked,
        "promised_bytes": promised,
        "ratio": round(promised / pool.capacity, 2) if pool.capacity else 0.0,
    }


def _standby(vm: t.Any) -> dict[str, t.Any]:
    standby = vm.details.standby
    needed = SPACE_FACTOR * sum(disk.size or 0 for disk in vm.details.disks)
    return {
        "id": vm.details.id,
        "name": vm.details.name,
        "server": standby.server,
        "interval_seconds": standby.interval,
        "copies": standby.copies,
        "needed_bytes": needed,
    }


def _overcommit(servers: t.Sequence[t.Mapping[str, t.Any]]) -> list[str]:
    """Return overcommitted vCPUs and pools as text."""
    found = []
    for server in servers:
        vcpus = server.get("vcpus")
        if vcpus and vcpus["per_cpu"] > 1:
            found.append(f"{server['name']}: {vcpus['used'] + vcpus['others']} vCPUs on {vcpus['cpus']} CPUs ({vcpus['per_cpu']:g} per CPU)")
        for name, pool in server.get("pools", {}).items():
            if pool["ratio"] > 1:
                found.append(f"{server['name']}: disks in pool {name} may grow to {pool['ratio']:g} times its capacity")
    return found


def _wanted(placement: Placement, match: t.Any) -> dict[str, t.Any]:
    return {
        "name": match.wanted.name,
        "server": placement.problem.servers[match.server].name if match.server is not None else None,
        "match": match.wanted.match,
        "roles": list(match.wanted.roles),
        "reason": match.reason,
    }


def _ha_words(placement: Placement, found: t.Mapping[str, t.Any], grade: str, servers: t.Sequence[t.Mapping[str, t.Any]]) -> list[str]:
    if not found:
        roles = ", ".join(placement.question.policy.quorum_roles) or "empty"
        return [f"none: no role needs a majority (quorum_roles: {roles})"]
    words = [GRADE_WORDS[grade]]
    fatal = [server["name"] for server in servers if server["lost"]["quorums_lost"]]
    if fatal:
        words.append(f"the loss of {listing(fatal, 8)} {'alone' if len(fatal) == 1 else '(any of them alone)'} stops the control plane")
    places = {loss.server for one in found.values() for loss in one.losses}
    if grade != "quorum" and len(places) < 3:
        words.append("full high availability requires one controller on each of three servers, or on each of two servers and a witness")
    return words


def _labels(placement: Placement) -> list[str]:
    """Return the servers that are controller and compute without VMs."""
    found = []
    for index, server in enumerate(placement.problem.servers):
        roles = {*server.roles, *(role for match in placement.matches if match.server == index for role in match.wanted.roles)}
        both = [role for role in placement.question.policy.quorum_roles if role in roles]
        if both and ROLE_COMPUTE in roles:
            found.append(
                f"alternative 1: {server.name} is {both[0]} and compute on metal: faster and simpler than VMs, "
                "but the resources of the control plane and of tenants are not isolated"
            )
    return found


def _warnings(placement: Placement) -> list[str]:
    problem, question = placement.problem, placement.question
    found: list[str] = []
    placed = [(vm, server) for vm, server in enumerate(placement.place) if server != NOWHERE]
    containers = [problem.vms[vm].details.name for vm, unused in placed if problem.vms[vm].details.hypervisor == "lxc"]
    found += container_warnings([(listing(containers, 8), "lxc", True)] if containers else [])
    slow = [problem.vms[vm].details.name for vm, server in placed if _is_emulated(placement, vm, server)]
    if slow:
        found.append(f"{listing(slow)} will be refused, or emulated (slow) if that is allowed: kvm is not proven to work on the server.")
    nested = [problem.vms[vm].details.name for vm, unused in placed if ROLE_COMPUTE in problem.vms[vm].details.roles]
    if nested:
        found.append(f"{listing(nested)} run tenants inside a VM (nested virtualisation), which is slow.")
    for group in problem.groups:
        if group.kind == QUORUM and group.size > 1 and group.size % 2 == 0:
            found.append(f"{group.size} members of {group.name} tolerate no more failures than {group.size - 1}: use an odd number.")
    found += _unknown(placement, placed)
    ids = {vm.details.id for vm in problem.vms}
    for server in problem.servers:
        others = [name for name in server.runs if name not in ids]
        for is_counted in (True, False):
            names = [name for name in others if (name in server.held) is is_counted]
            if names:
                end = "not available to the plan" if is_counted else "not counted"
                found.append(f"{server.name} has {listing(names)}, which are not in the VM details of this plan: they stay, and their memory is {end}.")
    if question.policy.thin_ratio > 1:
        found.append(f"pools are overcommitted up to {question.policy.thin_ratio:g} times: when a pool is full, writes fail for all VMs in it.")
    return found


def _is_emulated(placement: Placement, vm: int, server: int) -> bool:
    return placement.problem.vms[vm].details.hypervisor == "auto" and _hypervisor(placement, vm, server) == "qemu"


def _unknown(placement: Placement, placed: t.Sequence[tuple[int, int]]) -> t.Iterator[str]:
    """Return the assumptions made because of missing values."""
    problem = placement.problem
    used = sorted({server for unused, server in placed})
    unproven = [problem.servers[server].name for server in used if problem.servers[server].hypervisors is None]
    if unproven:
        yield f"The usable hypervisor types of {listing(unproven)} are not known; the requested ones are assumed to work."
    for kind, of in (("bridges", "kernel_bridge"), ("networks", "network")):
        asking = [server for vm, server in placed if any(getattr(nic, of) for nic in problem.vms[vm].details.nics)]
        unknown = {server for server in asking if getattr(problem.servers[server], kind) is None}
        if unknown:
            names = listing([problem.servers[server].name for server in sorted(unknown)])
            yield f"The {kind} of {names} are not known; the requested ones are assumed to exist."
    unsized = {server for vm, server in placed for pool in problem.pools[vm] if pool not in problem.servers[server].sized and problem.pools[vm][pool]}
    if unsized:
        yield f"The size of the pools of {listing([problem.servers[server].name for server in sorted(unsized)])} is not known; disks are not counted there."
    images = [problem.vms[vm].details.name for vm, unused in placed if any(disk.size is None and disk.image for disk in problem.vms[vm].details.disks)]
    if images:
        yield f"Disks of {listing(images)} take their size from an image and are not counted."
    unmeasured = [server.name for server in problem.servers if server.capacity is None and ROLE_VIRT in server.roles]
    if unmeasured:
        yield f"{listing(unmeasured)} {'was' if len(unmeasured) == 1 else 'were'} not measured, so nothing new is placed there."
