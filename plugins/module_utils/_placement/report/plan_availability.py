# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the loss of one physical server does to a quorum."""

from __future__ import annotations

import dataclasses
import typing as t

GRADE_WORDS = {
    "none": "none: the controllers stop together",
    "restart": "restart: the control plane survives some losses; after the others it waits for the server to return",
    "quorum": "quorum: the control plane survives the loss of any one server",
}


@dataclasses.dataclass(frozen=True)
class Loss:
    """What happens when ``server`` is gone: who goes with it and whether a majority stays.

    ``absent`` members have no server at all: they count for the majority and never for what is left.
    """

    server: str
    members: tuple[str, ...]
    left: int
    needed: int
    absent: int = 0

    @property
    def survives(self) -> bool:
        """Whether the members on the other servers are still a majority of all."""
        return self.left >= self.needed

    def sentence(self) -> str:
        """The loss in plain words."""
        names = ", ".join(self.members)
        end = "the control plane goes on" if self.survives else "the control plane stops until it is back"
        return f"without {self.server} ({names}) {self.left} of {self.left + len(self.members) + self.absent} remain and {self.needed} are needed: {end}"


@dataclasses.dataclass(frozen=True)
class Availability:
    """The grade of a placement: ``none``, ``restart`` or ``quorum``, and each server's loss."""

    grade: str
    losses: tuple[Loss, ...]

    @property
    def words(self) -> str:
        """The grade with what it means."""
        return GRADE_WORDS[self.grade]


def grade_availability(members: t.Mapping[str, str], absent: int = 0) -> Availability:
    """Grade where the members of one quorum stand.

    :arg members: member name → physical server that carries it (itself, for a member on metal).
    :arg absent: members that belong to the quorum and stand nowhere.
    :returns: ``quorum`` when any one server can be lost, ``restart`` when only some can, ``none`` when
        every loss stops the control plane or there is nothing to lose.
    """
    needed = (len(members) + absent) // 2 + 1
    losses = []
    for server in sorted(set(members.values())):
        gone = tuple(sorted(name for name, place in members.items() if place == server))
        losses.append(Loss(server, gone, len(members) - len(gone), needed, absent))
    surviving = sum(1 for loss in losses if loss.survives)
    if not surviving:
        grade = "none"
    elif surviving == len(losses):
        grade = "quorum"
    else:
        grade = "restart"
    return Availability(grade, tuple(losses))
