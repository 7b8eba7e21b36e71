# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Place VMs on servers.

The best placement is the one with, in this order: the fewest VMs without a server; quorums that survive the loss of most
servers; the fewest members of one group on the same server; the fewest moves; VMs of one role spread out; memory used evenly.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_node import ROLE_COMPUTE, ROLE_VIRT, ROLE_WITNESS
from ansible_collections.reduced.footprint.plugins.module_utils._placement.request.model_placement import PlacementQuestion
from ansible_collections.reduced.footprint.plugins.module_utils._placement.solve.plan_matching import Match, match_servers
from ansible_collections.reduced.footprint.plugins.module_utils._placement.solve.plan_problem import NOWHERE, Problem, State
from ansible_collections.reduced.footprint.plugins.module_utils._placement.solve.plan_search import TRIALS, search


@dataclasses.dataclass(frozen=True)
class Placement:
    """The result: ``place`` has for each VM the index of its server or ``NOWHERE``."""

    question: PlacementQuestion
    problem: Problem
    state: State
    matches: tuple[Match, ...]

    @property
    def place(self) -> t.Sequence[int]:
        """For each VM the index of its server or ``NOWHERE``."""
        return self.state.place

    @property
    def feasible(self) -> bool:
        """Whether every VM and every request has a server."""
        return not self.state.unplaced and all(match.server is not None for match in self.matches)

    def assignment(self) -> dict[str, str]:
        """Return VM id → server name, without VMs that have no server."""
        servers = self.question.servers
        return {vm.details.id: servers[server].name for vm, server in zip(self.question.vms, self.place) if server != NOWHERE}


def plan_placement(question: PlacementQuestion, trials: int = TRIALS) -> Placement:
    """Assign whole servers to requests, and place the VMs.

    :arg trials: maximum number of servers to examine in the search for a better placement.
    """
    refuse_roles(question)
    matches, problem = pose(question)
    return Placement(question, problem, search(problem, trials), matches)


def pose(question: PlacementQuestion) -> tuple[tuple[Match, ...], Problem]:
    """Assign whole servers to requests, and return the placement of VMs as a problem."""
    index_of = {server.name: index for index, server in enumerate(question.servers)}
    busy = {index_of[vm.current] for vm in question.vms if vm.current in index_of} | {index_of[vm.host] for vm in question.vms if vm.host}
    matches = match_servers(question.servers, question.wanted, busy)
    taken = frozenset(match.server for match in matches if match.server is not None and ROLE_VIRT not in match.wanted.roles)
    return matches, Problem(question, taken, _metal(question, matches))


def refuse_roles(question: PlacementQuestion) -> None:
    """Refuse the role compute in a VM without ``nested: true``, and the role witness in any VM of the servers it votes about."""
    for vm in question.vms:
        if ROLE_WITNESS in vm.details.roles:
            raise RefusedError(
                f"VM {vm.details.name} has the role {ROLE_WITNESS}, but would be lost together with the server it votes about.",
                f"{vm.details.path}.roles",
                "Assign the role to a third machine, e.g. the retired source of the migration.",
            )
        if ROLE_COMPUTE in vm.details.roles and not vm.nested:
            raise RefusedError(
                f"VM {vm.details.name} has the role {ROLE_COMPUTE}; compute belongs on metal.",
                f"{vm.details.path}.roles",
                "Assign the role to a physical server, or set nested: true in the VM details to use nested virtualisation.",
            )


def _metal(question: PlacementQuestion, matches: t.Sequence[Match]) -> dict[str, list[int]]:
    """Return role → servers that have it on metal; a request without a server counts as ``NOWHERE``."""
    roles: dict[int, list[str]] = {index: list(server.roles) for index, server in enumerate(question.servers)}
    found: dict[str, list[int]] = {}
    for match in matches:
        if match.server is not None:
            roles[match.server] += match.wanted.roles
        else:
            for role in match.wanted.roles:
                found.setdefault(role, []).append(NOWHERE)
    for index, names in roles.items():
        for role in dict.fromkeys(names):
            found.setdefault(role, []).append(index)
    return found
