# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which whole servers are assigned to requests, given those that are assigned already. No I/O."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import CapacityError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._metal.model_allocation import Assignment
from ansible_collections.reduced.footprint.plugins.module_utils._placement.request.model_placement import PlanServer, WantedServer
from ansible_collections.reduced.footprint.plugins.module_utils._placement.solve import plan_matching

_SHOWN = 5
Traits = t.Mapping[str, t.AbstractSet[str]]


class Allocation(t.NamedTuple):
    """The record afterwards, the changes, and request → reason of its server."""

    assigned: t.Mapping[str, Assignment]
    actions: tuple[str, ...]
    reasons: t.Mapping[str, str]


def mismatch(one: WantedServer, server: PlanServer, needs: Traits, has: Traits) -> str | None:
    """Return why a server does not match a request; ``None`` if it does.

    :arg needs: request → the traits that its server must have.
    :arg has: server → its traits.
    """
    missing = sorted(needs.get(one.name, frozenset()) - has.get(server.name, frozenset()))
    return f"does not have {' and '.join(missing)}" if missing else plan_matching.mismatch(one, server)


def _match(servers: t.Sequence[PlanServer], wanted: t.Sequence[WantedServer], needs: Traits, has: Traits) -> dict[str, str]:
    """Return request → server for as many requests as possible, with the smallest servers.

    The sets of servers that can be used together form a matroid: adding the smallest server first, whenever the assignment can be
    rearranged for it, gives the smallest set.
    """
    fits = {server.name: [one.name for one in wanted if mismatch(one, server, needs, has) is None] for server in servers}
    held: dict[str, str] = {}

    def find(server: str, seen: set[str]) -> bool:
        # requests without a server first, in their order
        for name in sorted(fits[server], key=held.__contains__):
            if name not in seen:
                seen.add(name)
                if name not in held or find(held[name], seen):
                    held[name] = server
                    return True
        return False

    for server in sorted(servers, key=lambda one: (one.memory_mib or 0, one.cpus or 0, one.disk or 0, one.name)):
        find(server.name, set())
    return held


def assign(
    servers: t.Sequence[PlanServer], wanted: t.Sequence[WantedServer], assigned: t.Mapping[str, Assignment], now: str, needs: Traits, has: Traits
) -> Allocation:
    """Assign a server to each request that has none; a request keeps the server that it has.

    Either all requests have a server afterwards, or nothing is assigned.

    :arg needs: request → the traits that its server must have.
    :arg has: server → its traits.
    """
    found = dict(assigned)
    actions, reasons = [], {}
    known = {server.name: server for server in servers}
    for one in wanted:
        held = assigned.get(one.name)
        if held is None:
            continue
        reasons[one.name] = f"assigned since {held.since}"
        why = mismatch(one, known[held.server], needs, has) if held.server in known else None
        if why:
            raise RefusedError(f"{one.name} has {held.server}, which {why}.", one.path, f"Release {one.name} first, or request what {held.server} has.")
    taken = {one.server for one in assigned.values()}
    free = [server for server in servers if server.name not in taken]
    fresh = [one for one in wanted if one.name not in assigned]
    without = []
    chosen = _match(free, fresh, needs, has)
    for one in fresh:
        server = chosen.get(one.name)
        if server is not None:
            found[one.name] = Assignment(one.name, server, now)
            reasons[one.name] = "the smallest free server that matches"
            actions.append(f"assign {server} to {one.name}")
            continue
        able = [each.name for each in servers if mismatch(one, each, needs, has) is None]
        if able:
            why = f"{', '.join(able[:_SHOWN])} would match, but {'is' if len(able) == 1 else 'are'} assigned"
        else:
            why = "; ".join(f"{each.name} {mismatch(one, each, needs, has)}" for each in servers[:_SHOWN]) or "there are no servers"
        without.append((one, f"no server for {one.name}: {why}"))
    if without:
        hint = "Add servers, request less, set match: at_least, or release a server."
        raise CapacityError(f"{'; '.join(text for _one, text in without)}.", without[0][0].path, hint)
    return Allocation(found, tuple(actions), reasons)


def release(names: t.Iterable[str], assigned: t.Mapping[str, Assignment]) -> Allocation:
    """Release the servers of requests; a request without a server is accepted."""
    gone = [name for name in dict.fromkeys(names) if name in assigned]
    return Allocation(
        {name: one for name, one in assigned.items() if name not in gone},
        tuple(f"release {assigned[name].server} from {name}" for name in gone),
        {},
    )
