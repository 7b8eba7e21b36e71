# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check that a witness is a machine of its own, and that its vote decides. No I/O."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_node import ROLE_VIRT, ROLE_WITNESS


class Machine(t.NamedTuple):
    """A host of the inventory.

    :arg server: the server it runs on, empty for a physical one.
    """

    name: str
    server: str = ""
    roles: tuple[str, ...] = ()
    path: str = ""

    @property
    def place(self) -> str:
        """The physical server whose loss takes it away."""
        return self.server or self.name


def check_places(witnesses: t.Sequence[Machine], members: t.Sequence[Machine]) -> None:
    """Check that no witness is lost together with a member that it votes about."""
    carried: dict[str, str] = {}
    for member in members:
        carried.setdefault(member.place, member.name)
    for witness in witnesses:
        hint = "Use a third machine: any small one with ssh, for example the retired source of the migration."
        if any(member.name == witness.name for member in members):
            raise RefusedError(f"{witness.name} cannot be a witness: it is a controller and has a vote already.", witness.path, hint)
        if ROLE_VIRT in witness.roles:
            raise RefusedError(f"{witness.name} cannot be a witness: it is a virt host, and its VMs would be lost together with its vote.", witness.path, hint)
        if witness.place in carried:
            raise RefusedError(
                f"{witness.name} cannot be a witness: it is on {witness.place} with {carried[witness.place]}, and both votes would be lost together.",
                witness.path,
                hint,
            )


def check_votes(witnesses: t.Sequence[Machine], members: t.Sequence[str], leaving: bool = False) -> None:
    """Check that the votes are an odd number, and that witnesses alone are never a majority.

    :arg leaving: the witnesses leave soon, so the number may be even.
    """
    if not witnesses or not members:
        return
    names, total = ", ".join(one.name for one in witnesses), len(members) + len(witnesses)
    if len(witnesses) >= len(members):
        raise RefusedError(
            f"{len(witnesses)} witnesses ({names}) for {len(members)} members with data ({', '.join(members)}) could outvote the data.",
            witnesses[-1].path,
            "Use fewer witnesses than members: one witness for two or four members.",
        )
    if total % 2 == 0 and not leaving:
        raise RefusedError(
            f"{len(members)} members with data ({', '.join(members)}) and {len(witnesses)} witnesses ({names}) have {total} votes: an even number "
            f"tolerates no more failures than {total - 1}.",
            witnesses[-1].path,
            f"Remove the role {ROLE_WITNESS} from {witnesses[-1].name}; the playbook remove_controller takes its vote away. To let a new member join before "
            "the witness leaves, set footprint_witness_leaves=true for both playbooks.",
        )
