# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compare the clocks of hosts. No I/O."""

from __future__ import annotations

import dataclasses
import statistics
import typing as t

#: Seconds by which the clocks of members may differ. Tokens and their revocations are compared in whole seconds.
LIMIT = 2.0


@dataclasses.dataclass(frozen=True)
class Clock:
    """The clock of a host.

    :arg offset: seconds it is ahead of the control node.
    :arg uncertainty: the largest error of this offset.
    :arg synchronized: whether a time service keeps it synchronized, ``None`` if unknown.
    """

    offset: float
    uncertainty: float
    synchronized: bool | None


@dataclasses.dataclass(frozen=True)
class Skew:
    """The difference of the clocks of several hosts.

    :arg seconds: the largest difference.
    :arg uncertainty: the largest error of this difference.
    :arg ahead: the host whose clock is ahead.
    :arg behind: the host whose clock is behind.
    :arg free: hosts whose clock no time service synchronizes.
    """

    seconds: float
    uncertainty: float
    ahead: str
    behind: str
    hosts: int
    free: tuple[str, ...]
    limit: float
    apart: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether the difference is within the limit; what is uncertain counts in favour of the clocks."""
        return self.seconds - self.uncertainty <= self.limit

    @property
    def text(self) -> str:
        """Return the finding as a sentence."""
        error = f"± {self.uncertainty:.3f} s"
        if self.ok:
            return f"{self.hosts} hosts differ by {self.seconds:.3f} s at most ({error})"
        return (
            f"{self.ahead} is {self.seconds:.3f} s ahead of {self.behind} ({error}), and {self.limit:g} s are allowed; "
            f"against the others: {', '.join(self.apart)}"
        )

    def as_dict(self) -> dict[str, t.Any]:
        """Return plain values for Ansible."""
        return {
            "ok": self.ok,
            "text": self.text,
            "skew_seconds": self.seconds,
            "uncertainty_seconds": self.uncertainty,
            "ahead": self.ahead,
            "behind": self.behind,
            "unsynchronized": list(self.free),
        }


def compare_clocks(found: t.Mapping[str, t.Mapping[str, t.Any] | None], limit: float = LIMIT) -> Skew | None:
    """Compare the clocks of all hosts that were measured.

    :arg found: host → ``clock`` as returned by ``clock_info``; empty for a host that was not measured.
    :returns: ``None`` if less than two hosts were measured.
    """
    clocks = {
        name: Clock(float(one["offset_seconds"]), float(one["uncertainty_seconds"]), one.get("synchronized"))
        for name, one in sorted(found.items())
        if one and one.get("offset_seconds") is not None
    }
    if len(clocks) < 2:
        return None
    # the pair with the largest certain difference; a slow connection alone must not hide another pair
    pairs = [(ahead, behind) for ahead in clocks for behind in clocks if ahead != behind]
    ahead, behind = max(pairs, key=lambda pair: (round(_certain(clocks, *pair), 6), clocks[pair[0]].offset - clocks[pair[1]].offset))
    middle = statistics.median(one.offset for one in clocks.values())
    return Skew(
        round(max(0.0, clocks[ahead].offset - clocks[behind].offset), 6),
        round(clocks[ahead].uncertainty + clocks[behind].uncertainty, 6),
        ahead,
        behind,
        len(clocks),
        tuple(name for name, one in clocks.items() if one.synchronized is False),
        limit,
        tuple(f"{name} {one.offset - middle:+.3f} s" for name, one in clocks.items() if abs(one.offset - middle) - one.uncertainty > limit / 2),
    )


def clock_skew(found: t.Mapping[str, t.Mapping[str, t.Any] | None], limit: float = LIMIT) -> dict[str, t.Any]:
    """Return the difference as plain values; see :func:`compare_clocks`."""
    skew = compare_clocks(found, float(limit))
    return skew.as_dict() if skew else {"ok": True, "text": "less than two hosts were measured"}


def _certain(clocks: t.Mapping[str, Clock], ahead: str, behind: str) -> float:
    return clocks[ahead].offset - clocks[behind].offset - clocks[ahead].uncertainty - clocks[behind].uncertainty
