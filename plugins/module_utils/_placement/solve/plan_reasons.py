# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The reasons for a placement, or for a VM without a server, as text with numbers."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import MIB, size_text
from ansible_collections.reduced.footprint.plugins.module_utils._placement.request.model_placement import SPREAD
from ansible_collections.reduced.footprint.plugins.module_utils._placement.solve.plan_problem import NOWHERE, Problem, State

_MOST_NAMES = 4


def listing(names: t.Sequence[str], most: int = _MOST_NAMES) -> str:
    """Return ``a``, ``a and b``, or ``a, b and 7 more``."""
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1]))) if names else "none"


def shortage(problem: Problem, state: State, vm: int, server: int) -> str | None:
    """Return why a VM does not fit on a server now, as the end of a sentence that starts with the server; ``None`` if it fits."""
    forbidden = problem.forbids(vm, server)
    if forbidden:
        return forbidden
    found = []
    asked, free = problem.memory[vm], problem.memory_limit[server] - state.memory[server]
    if asked > free:
        found.append(f"is short of {size_text((asked - free) * MIB)} of memory (requested {size_text(asked * MIB)}, free {_size(free * MIB)})")
    asked, free = problem.vcpus[vm], problem.vcpu_limit[server] - state.vcpus[server]
    if asked > free:
        found.append(f"is short of {asked - free} vCPUs (requested {asked}, free {max(0, free)})")
    for pool, size in problem.demand(vm, server).items():
        left = problem.pool_limit[server][pool] - state.pools[server].get(pool, 0)
        if size > 0 and size > left:
            found.append(f"is short of {size_text(size - left)} in pool {pool} (requested {size_text(size)}, free {_size(left)})")
    for group in problem.groups_of[vm]:
        if problem.groups[group].strict and state.counts[group].get(server):
            found.append(f"already carries another member of {problem.groups[group].name}, which is in strict_groups")
    return " and ".join(found) or None


def _size(size: int) -> str:
    return size_text(size) if size > 0 else "nothing"


def reason(problem: Problem, state: State, vm: int) -> str:
    """Return the reason for the placement of a VM."""
    here, before = state.place[vm], problem.current[vm]
    if here == before:
        return "stays on its current server" if problem.vms[vm].exists else "listed on this server"
    if before != NOWHERE:
        return _why_moved(problem, state, vm)
    if problem.pinned[vm] == here:
        return "pinned by host"
    together, apart = _other_members(problem, state, vm)
    eligible = problem.eligible[vm]
    if together:
        return f"together with {listing(together)}: every other server lacks capacity or already has a member"
    if len(eligible) == 1:
        return f"the only server that can run it{_why_only(problem, vm, here)}"
    if apart:
        return f"on a different server than {listing(apart)}"
    likes = [problem.groups[group].name for group in problem.groups_of[vm] if problem.groups[group].kind == SPREAD]
    what = f"spreads {listing(likes)} and the load" if likes else "spreads the load"
    return f"{what} over the {len(eligible)} servers that can run it" if len(eligible) < len(problem.servers) else f"{what} over the servers"


def _why_only(problem: Problem, vm: int, here: int) -> str:
    others = [f"{problem.servers[server].name} {problem.forbids(vm, server)}" for server in range(len(problem.servers)) if server != here][: _MOST_NAMES + 1]
    if not others or len(others) > _MOST_NAMES:
        return ""
    return f": {'; '.join(others)}"


def _why_moved(problem: Problem, state: State, vm: int) -> str:
    here, before = state.place[vm], problem.current[vm]
    name = problem.servers[before].name
    what = f"is listed on {name}, planned here" if problem.vms[vm].exists is False else "moves"
    forbidden = problem.forbids(vm, before)
    if forbidden:
        return f"{what} because {name} {forbidden}"
    there = _members_on(problem, state, vm, before)
    if len(there) > len(_members_on(problem, state, vm, here)):
        return f"{what} away from {listing(there)} on {name}"
    full = shortage(problem, state, vm, before)
    if full:
        return f"{what} because {name} {full} in addition to the other VMs"
    return f"{what} from {name} for a better placement of other VMs".replace(f"here from {name}", "here")


def _members_on(problem: Problem, state: State, vm: int, server: int) -> list[str]:
    """Return other members on a server, including metal, of the VM's groups whose members should be apart."""
    found: list[str] = []
    for group in problem.groups_of[vm]:
        if problem.groups[group].kind == SPREAD:
            continue
        found += [problem.vms[other].details.name for other in sorted(state.on[server]) if other != vm and group in problem.groups_of[other]]
        if problem.groups[group].metal.get(server):
            found.append(f"{problem.servers[server].name} itself")
    return list(dict.fromkeys(found))


def _other_members(problem: Problem, state: State, vm: int) -> tuple[list[str], list[str]]:
    """Return other members of the VM's groups on the same server, and those on other servers."""
    here = state.place[vm]
    together = _members_on(problem, state, vm, here)
    apart: list[str] = []
    for group in problem.groups_of[vm]:
        if problem.groups[group].kind != SPREAD:
            apart += [problem.vms[other].details.name for other in problem.members[group] if other != vm and state.place[other] not in (NOWHERE, here)]
            apart += [problem.servers[server].name for server in problem.groups[group].metal if server != here]
    return together, list(dict.fromkeys(apart))


def why_unplaced(problem: Problem, state: State, vm: int) -> list[str]:
    """Return for each server why a VM does not fit; with many servers, for each kind of reason."""
    if not problem.servers:
        return ["there are no servers"]
    texts = [shortage(problem, state, vm, index) or "has capacity only after moves that make the plan worse" for index in range(len(problem.servers))]
    if len(problem.servers) <= 12:
        return [f"{server.name} {text}" for server, text in zip(problem.servers, texts)]
    kinds: dict[str, list[str]] = {}
    for server, text in zip(problem.servers, texts):
        kinds.setdefault(text.partition(" (")[0].partition(" of ")[0], []).append(f"{server.name} {text}")
    return [alike[0] + (f"; and {len(alike) - 1} more servers for similar reasons" if len(alike) > 1 else "") for unused, alike in sorted(kinds.items())]
