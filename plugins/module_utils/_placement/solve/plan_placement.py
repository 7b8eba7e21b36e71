# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which VM stands on which server.

The best placement is the one with, in this order: the fewest VMs without a server; quorums that
survive the loss of most servers; the fewest members of one group side by side; the fewest moves; VMs
that do the same work spread out; memory used evenly.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_node import ROLE_COMPUTE, ROLE_VIRT
from ansible_collections.reduced.footprint.plugins.module_utils._placement.request.model_placement import PlacementQuestion
from ansible_collections.reduced.footprint.plugins.module_utils._placement.solve.plan_exact import NODES, refine
from ansible_collections.reduced.footprint.plugins.module_utils._placement.solve.plan_matching import Match, match_servers
from ansible_collections.reduced.footprint.plugins.module_utils._placement.solve.plan_problem import LEVELS, NOWHERE, Problem, State
from ansible_collections.reduced.footprint.plugins.module_utils._placement.solve.plan_search import search


@dataclasses.dataclass(frozen=True)
class Placement:
    """The answer: ``place`` gives for each VM the index of its server or ``NOWHERE``.

    ``proven`` is how many of the leading :data:`LEVELS` no other placement can beat.
    """

    question: PlacementQuestion
    problem: Problem
    state: State
    matches: tuple[Match, ...]
    proven: int

    @property
    def place(self) -> t.Sequence[int]:
        """For each VM the index of its server or ``NOWHERE``."""
        return self.state.place

    @property
    def feasible(self) -> bool:
        """Whether every VM and every wish has a server."""
        return not self.state.unplaced and all(match.server is not None for match in self.matches)

    @property
    def optimal(self) -> dict[str, bool]:
        """For each level of the objective whether nothing can be better."""
        return {name: index < self.proven for index, name in enumerate(LEVELS)}

    def assignment(self) -> dict[str, str]:
        """VM id → server name, for those that have one."""
        servers = self.question.servers
        return {vm.details.id: servers[server].name for vm, server in zip(self.question.vms, self.place) if server != NOWHERE}


def plan_placement(question: PlacementQuestion, nodes: int = NODES) -> Placement:
    """Match the wanted servers, place the VMs.

    :arg nodes: how much may be looked at to prove that nothing is better.
    :raises RefusedError: a compute role in a VM that does not ask for nested virtualisation.
    """
    refuse_compute(question)
    matches, problem = pose(question)
    state, proven = refine(problem, search(problem), nodes)
    return Placement(question, problem, state, matches, proven)


def pose(question: PlacementQuestion) -> tuple[tuple[Match, ...], Problem]:
    """The wishes for whole servers filled, and what is left as a problem."""
    index_of = {server.name: index for index, server in enumerate(question.servers)}
    busy = {index_of[vm.current] for vm in question.vms if vm.current in index_of} | {index_of[vm.host] for vm in question.vms if vm.host}
    matches = match_servers(question.servers, question.wanted, busy)
    taken = frozenset(match.server for match in matches if match.server is not None and ROLE_VIRT not in match.wanted.roles)
    return matches, Problem(question, taken, _metal(question, matches))


def refuse_compute(question: PlacementQuestion) -> None:
    """Refuse compute inside a VM, unless nested is asked for.

    :raises RefusedError: naming the VM.
    """
    for vm in question.vms:
        if ROLE_COMPUTE in vm.details.roles and not vm.nested:
            raise RefusedError(
                f"VM {vm.details.name} has the role {ROLE_COMPUTE}; compute belongs on metal.",
                f"{vm.details.path}.roles",
                "Give the role to a physical server, or set nested: true in the VM details if nested virtualisation is meant.",
            )


def _metal(question: PlacementQuestion, matches: t.Sequence[Match]) -> dict[str, list[int]]:
    """Role → servers that fill it themselves; a wish without a server counts as ``NOWHERE``."""
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
