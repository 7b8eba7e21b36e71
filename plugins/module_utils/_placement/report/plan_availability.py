# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The effect of losing one physical server on a quorum."""

from __future__ import annotations

import dataclasses
import typing as t

GRADE_WORDS = {
    "none": "none: the control plane does not survive the loss of a server",
    "restart": "restart: the control plane survives the loss of some servers; after the loss of another it stops until that server is back",
    "quorum": "quorum: the control plane survives the loss of any one server",
}


@dataclasses.dataclass(frozen=True)
class Loss:
    """The loss of ``server``: its members, and whether the remaining ones are a majority.

    ``absent`` members have no server: they count for the size of the quorum, but not as remaining members.
    """

    server: str
    members: tuple[str, ...]
    left: int
    needed: int
    absent: int = 0

    @property
    def survives(self) -> bool:
        """Whether the members on the other servers are a majority of all members."""
        return self.left >= self.needed

    def sentence(self) -> str:
        """The loss as text."""
        names = ", ".join(self.members)
        end = "the control plane continues" if self.survives else "the control plane stops until it is back"
        return f"without {self.server} ({names}) {self.left} of {self.left + len(self.members) + self.absent} remain and {self.needed} are needed: {end}"


@dataclasses.dataclass(frozen=True)
class Availability:
    """The grade of a placement: ``none``, ``restart`` or ``quorum``, and each server's loss."""

    grade: str
    losses: tuple[Loss, ...]

    @property
    def words(self) -> str:
        """The grade and its meaning as text."""
        return GRADE_WORDS[self.grade]


def grade_availability(members: t.Mapping[str, str], absent: int = 0) -> Availability:
    """Grade the placement of the members of one quorum.

    :arg members: member name → physical server that carries it (itself, for a member on metal).
    :arg absent: number of members without a server.
    :returns: ``quorum`` if any one server can be lost, ``restart`` if only some can, ``none`` if every loss stops the control
        plane or there are no members.
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
