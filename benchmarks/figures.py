# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ratios, targets, growth and tables of measurements, without measuring."""

from __future__ import annotations

import dataclasses
import statistics
import typing as t

# contenders
OURS, PEER, FLOOR, PING, READ = "vm_define", "community.libvirt", "floor", "ping", "read twice"
CLOUD = "virt_cloud_instance"
# measurements
CREATE, SAME, CHECK, DEFINE, DEFINED = "create and start", "no change", "check mode", "define only", "defined only, no change"
WHATS = (CREATE, SAME, CHECK, DEFINE, DEFINED)

#: Maximum cost of a domain with many domains, relative to few, for growth that counts as linear.
BEND = 1.5
MIB = 1024 * 1024


@dataclasses.dataclass(frozen=True)
class Sample:
    """The measurement of one process.

    ``seconds`` is the wall clock time from start to end, ``cpu`` the CPU time with children, ``rss`` its peak memory in bytes.
    ``false_changes`` is the number of domains reported as changed although they were not; ``None`` if not counted.
    """

    who: str
    what: str
    size: int
    round: int
    seconds: float
    cpu: float = 0.0
    rss: int = 0
    false_changes: int | None = None


@dataclasses.dataclass(frozen=True)
class Verdict:
    """One target: ``value`` as measured, ``None`` if not measured, and not met then."""

    target: str
    limit: str
    value: float | None
    met: bool
    unit: str = ""

    @property
    def text(self) -> str:
        """The value as text for the table."""
        if self.value is None:
            return "not measured"
        return f"{self.value:.0f}{self.unit}" if self.unit != " ×" else f"{self.value:.2f}{self.unit}"


class Samples:
    """All samples of one run."""

    def __init__(self, samples: t.Iterable[Sample]) -> None:
        self.all = tuple(samples)

    def of(self, who: str, what: str, size: int) -> list[Sample]:
        """Return the samples of one row, in order of time."""
        return [sample for sample in self.all if (sample.who, sample.what, sample.size) == (who, what, size)]

    def seconds(self, who: str, what: str, size: int) -> float | None:
        """Return the median wall clock time of a row; ``None`` without samples."""
        found = [sample.seconds for sample in self.of(who, what, size)]
        return statistics.median(found) if found else None

    def ratio(self, who: str, other: str, what: str, size: int, allowance: t.Callable[[float], float] = float) -> float | None:
        """Return the time of ``who`` relative to ``other``: the median of the ratios of all rounds.

        A temporarily slow machine affects all contenders of a round.

        :arg allowance: function of the other's seconds, whose result is the divisor.
        """
        ratios = []
        for number in self.rounds(what, size):
            mine, theirs = self.in_round(who, what, size, number), self.in_round(other, what, size, number)
            if mine and theirs and allowance(theirs) > 0:
                ratios.append(mine / allowance(theirs))
        return statistics.median(ratios) if ratios else None

    def rounds(self, what: str, size: int) -> list[int]:
        """Return the numbers of the rounds of a row, ascending."""
        return sorted({sample.round for sample in self.all if (sample.what, sample.size) == (what, size)})

    def in_round(self, who: str, what: str, size: int, number: int) -> float | None:
        """Return the median wall clock time of one contender in one round."""
        found = [sample.seconds for sample in self.of(who, what, size) if sample.round == number]
        return statistics.median(found) if found else None

    def false_changes(self, who: str, what: str, size: int) -> tuple[int, int] | None:
        """Return the number of false changes, and of runs in which they were counted."""
        found = [sample.false_changes for sample in self.of(who, what, size) if sample.false_changes is not None]
        return (sum(found), len(found)) if found else None


def bend(costs: t.Mapping[int, float]) -> float | None:
    """Return the cost of an additional domain between the two largest sizes, relative to that between the two sizes before.

    1 is linear; ``None`` with less than three sizes. A first step without cost counts as a thousandth of the second.
    """
    sizes = sorted(costs)[-3:]
    if len(sizes) < 3:
        return None
    small, middle, large = sizes
    early = (costs[middle] - costs[small]) / (middle - small)
    late = (costs[large] - costs[middle]) / (large - middle)
    return late / max(early, abs(late) / 1000, 1e-9)


def verdicts(samples: Samples, module: t.Mapping[int, Sample], large: int, many: int) -> list[Verdict]:
    """Check the targets.

    :arg module: samples of the process of vm_define alone, by number of domains.
    :arg large: number of domains that are created and started, e.g. 50.
    :arg many: number of domains that are only defined, e.g. 200.
    """

    def limited(target: str, limit: float, value: float | None, unit: str = " ×") -> Verdict:
        return Verdict(target, f"≤ {limit:g}{unit}", value, value is not None and value <= limit, unit)

    def faster(target: str, limit: float, value: float | None) -> Verdict:
        turned = 1 / value if value else None
        return Verdict(target, f"≥ {limit:g} ×", turned, turned is not None and turned >= limit, " ×")

    start = samples.seconds(PING, SAME, large) or 0.0
    to_floor = samples.ratio(OURS, FLOOR, CREATE, large, lambda floor: 1.15 * floor + start)
    found = [
        limited(f"create and start {large}, of 1.15 × the floor plus one module start", 1, to_floor),
        faster(f"create and start {large}, faster than {PEER}", 2, samples.ratio(OURS, PEER, CREATE, large)),
        limited(f"no change at {large}, of a ping", 1.4, samples.ratio(OURS, PING, SAME, large)),
        faster(f"no change at {large}, faster than {PEER}", 10, samples.ratio(OURS, PEER, SAME, large)),
    ]
    for what, runs in ((SAME, 10), (CHECK, 1)):
        counted = samples.false_changes(OURS, what, large)
        enough = counted is not None and counted[1] >= runs
        suffix = f" ({counted[1]} runs)" if counted else ""
        met = enough and counted is not None and counted[0] == 0
        found.append(Verdict(f"false changes at {large}, {what}{suffix}", "0", float(counted[0]) if counted else None, met))
    largest = module.get(many)
    found.append(limited(f"peak memory of the module's process at {many}", 120, largest.rss / MIB if largest else None, " MiB"))
    found.append(limited("growth: cost of one more domain, many relative to few", BEND, bend({size: sample.cpu for size, sample in module.items()})))
    return found


def rows(samples: Samples) -> list[list[str]]:
    """Return the table of ratios of each contender, in the same rounds."""
    table = []
    for what in WHATS:
        for size in sorted({sample.size for sample in samples.all if sample.what == what}):
            for who in dict.fromkeys(sample.who for sample in samples.all if (sample.what, sample.size) == (what, size)):
                counted = samples.false_changes(who, what, size)
                ratio = samples.ratio(who, PING, what, size)
                ours = samples.ratio(who, OURS, what, size)
                table.append([
                    what,
                    str(size),
                    who,
                    f"{samples.seconds(who, what, size):.2f}",
                    f"{ratio:.2f}" if ratio else "",
                    f"{ours:.2f}" if ours else "",
                    f"{counted[0]} in {counted[1]}" if counted else "",
                    str(len(samples.of(who, what, size))),
                ])  # fmt: skip
    return table


HEADS = ("measurement", "domains", "contender", "seconds (median)", "× ping", "× vm_define", "false changes in runs", "samples")
MODULE_HEADS = ("domains", "seconds", "CPU seconds", "peak MiB")
VERDICT_HEADS = ("target", "limit", "measured", "")


def module_rows(module: t.Mapping[int, Sample]) -> list[list[str]]:
    """Return the table of the process of vm_define alone."""
    return [[str(size), f"{one.seconds:.2f}", f"{one.cpu:.2f}", f"{one.rss / MIB:.0f}"] for size, one in sorted(module.items())]


def verdict_rows(found: t.Iterable[Verdict]) -> list[list[str]]:
    """Return the table of targets, ``MISS`` if not met."""
    return [[one.target, one.limit, one.text, "met" if one.met else "MISS"] for one in found]


def plain(heads: t.Sequence[str], lines: t.Sequence[t.Sequence[str]]) -> str:
    """Format a table for a terminal."""
    widths = [max(len(line[column]) for line in [heads, *lines]) for column in range(len(heads))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in [heads, ["-" * width for width in widths], *lines])


def markdown(heads: t.Sequence[str], lines: t.Sequence[t.Sequence[str]]) -> str:
    """Format a table in Markdown."""
    return "\n".join(f"| {' | '.join(line)} |" for line in [list(heads), ["---"] * len(heads), *lines])
