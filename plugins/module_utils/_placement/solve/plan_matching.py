# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Assign physical servers to requests for whole servers.

As many requests as possible are satisfied, with the smallest servers that match: a request for 16 GiB does not get a server with
128 GiB if a smaller one matches. A server is never split.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import MIB, size_text
from ansible_collections.reduced.footprint.plugins.module_utils._placement.request.model_placement import AT_LEAST, EXACT, PlanServer, WantedServer

# The kernel reports less memory than is installed, and disks are smaller than their nominal size: this share is sufficient.
_REPORTED = 0.95


@dataclasses.dataclass(frozen=True)
class Match:
    """A request, the index of its server (``None`` if there is none), and the reason."""

    wanted: WantedServer
    server: int | None
    reason: str


def mismatch(wanted: WantedServer, server: PlanServer) -> str | None:
    """Return why a server does not match a request; ``None`` if it does."""
    if wanted.host is not None and wanted.host != server.name:
        return f"is not {wanted.host}, to which host pins the request"
    if wanted.arch is not None and wanted.arch != server.arch:
        return f"is {server.arch}, not {wanted.arch}" if server.arch else "does not report its architecture"
    for what, asked, has, tolerant, text in (
        ("memory", wanted.memory_mib, server.memory_mib, True, lambda number: size_text(number * MIB)),
        ("CPUs", wanted.cpus, server.cpus, False, str),
        ("disk", wanted.disk, server.disk, True, size_text),
    ):
        if asked is None:
            continue
        if has is None:
            return f"does not report its {what}"
        least = asked * _REPORTED if tolerant else asked
        if has < least or (wanted.match == EXACT and has > asked):
            return f"has {text(has)} {what}, not {'exactly' if wanted.match == EXACT else 'at least'} {text(asked)}"
    return None


def match_servers(servers: t.Sequence[PlanServer], wanted: t.Sequence[WantedServer], busy: t.AbstractSet[int] = frozenset()) -> tuple[Match, ...]:
    """Assign servers to the requests, in their order.

    :arg busy: servers that carry VMs now; they are used only if no other server matches.
    """
    kinds: dict[WantedServer, list[int]] = {}
    for index, one in enumerate(wanted):
        kinds.setdefault(dataclasses.replace(one, name="", roles=(), path=""), []).append(index)
    room = [len(indexes) for indexes in kinds.values()]
    fits = [tuple(number for number, kind in enumerate(kinds) if mismatch(kind, server) is None) for server in servers]
    held: list[list[int]] = [[] for unused in kinds]

    # The sets of servers that can be used together form a matroid: adding the smallest server first, whenever the assignment
    # can be rearranged for it, gives the smallest set.
    def size(server: int) -> t.Any:
        one = servers[server]
        return (server in busy, one.memory_mib or 0, one.cpus or 0, one.disk or 0, server)

    def find(server: int, seen: set[int]) -> bool:
        for kind in fits[server]:
            if kind in seen:
                continue
            seen.add(kind)
            if len(held[kind]) < room[kind]:
                held[kind].append(server)
                return True
            for position, other in enumerate(held[kind]):
                if any(another not in seen for another in fits[other]) and find(other, seen):
                    held[kind][position] = server
                    return True
        return False

    hopeless: set[tuple[int, ...]] = set()
    for server in sorted(range(len(servers)), key=size):
        # a server that could not be added cannot be added later either
        if fits[server] and fits[server] not in hopeless and not find(server, set()):
            hopeless.add(fits[server])
    chosen: dict[int, int] = {}
    for indexes, holders in zip(kinds.values(), held):
        chosen.update(zip(indexes, sorted(holders)))
    return tuple(_explain(index, one, chosen, servers, wanted) for index, one in enumerate(wanted))


def _explain(index: int, one: WantedServer, chosen: t.Mapping[int, int], servers: t.Sequence[PlanServer], wanted: t.Sequence[WantedServer]) -> Match:
    if index in chosen:
        server = servers[chosen[index]]
        if one.host is not None:
            return Match(one, chosen[index], "pinned by host")
        if one.match == EXACT:
            return Match(one, chosen[index], "matches the request exactly")
        more = [] if one.memory_mib is None or server.memory_mib is None else [max(0, server.memory_mib - one.memory_mib)]
        text = f", with {size_text(more[0] * MIB)} of memory more than requested" if more and more[0] else ""
        return Match(one, chosen[index], f"the smallest remaining server that matches the request{text}")
    able = [number for number, server in enumerate(servers) if mismatch(one, server) is None]
    if able:
        takers = {place: wanted[who].name for who, place in chosen.items()}
        listed = ", ".join(f"{servers[number].name} (by {takers.get(number, 'another')})" for number in able[:5])
        return Match(one, None, f"every matching server is used: {listed}")
    if not servers:
        return Match(one, None, "there are no servers")
    why = [f"{server.name} {mismatch(one, server)}" for server in servers[:5]]
    text = "; ".join(why) + (f"; and {len(servers) - 5} more" if len(servers) > 5 else "")
    if one.match == EXACT:
        larger = dataclasses.replace(one, match=AT_LEAST)
        enough = [server.name for server in servers if mismatch(larger, server) is None]
        if enough:
            text += f". {enough[0]} would match with match: at_least"
    return Match(one, None, text)
