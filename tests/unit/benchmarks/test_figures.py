# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from benchmarks import figures
from benchmarks.figures import CHECK, CREATE, FLOOR, MIB, OURS, PEER, PING, SAME, Sample, Samples, Verdict, bend, verdicts


def sample(who: str, what: str, seconds: float, number: int = 0, false: int | None = None) -> Sample:
    return Sample(who, what, 50, number, seconds, false_changes=false)


def alone(size: int, cpu: float, rss: int = 60) -> Sample:
    return Sample(OURS, "process", size, 0, cpu, cpu, rss * MIB)


def good() -> list[Sample]:
    return [
        sample(FLOOR, CREATE, 10),
        sample(OURS, CREATE, 11.5),
        sample(PEER, CREATE, 60),
        *[sample(PING, SAME, 1) for unused in range(10)],
        *[sample(OURS, SAME, 1.3, false=0) for unused in range(10)],
        sample(PEER, SAME, 50, false=50),
        sample(OURS, CHECK, 1.3, false=0),
    ]


LINE = {size: alone(size, 0.3 + size / 1000) for size in (50, 100, 200)}


def judged(samples: list[Sample], module: dict[int, Sample] | None = None) -> dict[str, Verdict]:
    return {verdict.target: verdict for verdict in verdicts(Samples(samples), LINE if module is None else module, 50, 200)}


def missed(samples: list[Sample], module: dict[int, Sample] | None = None) -> list[str]:
    return [target for target, verdict in judged(samples, module).items() if not verdict.met]


def test_all_targets_met() -> None:
    assert missed(good()) == []


@pytest.mark.parametrize(
    "spoiled, expected",
    [
        (sample(OURS, CREATE, 12.6), "create and start 50, of"),
        (sample(OURS, CREATE, 31), "faster than community.libvirt"),
        (sample(OURS, SAME, 1.41, false=0), "no change at 50, of a ping"),
        (sample(OURS, SAME, 5.1, false=0), "no change at 50, faster"),
        (sample(OURS, SAME, 1.3, false=1), "false changes at 50, no change"),
        (sample(OURS, CHECK, 1.3, false=1), "false changes at 50, check mode"),
    ],
)
def test_missed_target_is_reported(spoiled: Sample, expected: str) -> None:
    others = [one for one in good() if (one.who, one.what) != (spoiled.who, spoiled.what)]
    times = 10 if spoiled.what == SAME else 1
    assert any(expected in target for target in missed(others + [spoiled] * times))


def test_memory_and_growth_are_checked() -> None:
    assert any("peak memory" in target for target in missed(good(), {**LINE, 200: alone(200, 0.5, rss=121)}))
    assert any("growth" in target for target in missed(good(), {**LINE, 200: alone(200, 1.0)}))


def test_nothing_measured_is_a_miss_and_says_so() -> None:
    found = verdicts(Samples([]), {}, 50, 200)
    assert not any(verdict.met for verdict in found)
    assert {row[2] for row in figures.verdict_rows(found)} == {"not measured"}
    assert {row[3] for row in figures.verdict_rows(found)} == {"MISS"}


def test_too_few_runs_prove_no_absence_of_false_changes() -> None:
    few = [one for one in good() if (one.who, one.what) != (OURS, SAME)] + [sample(OURS, SAME, 1.3, false=0)] * 9
    assert [target for target in missed(few) if "false" in target] == ["false changes at 50, no change (9 runs)"]


def test_ratios_are_taken_inside_rounds() -> None:
    # the second round ran on a machine five times as slow
    samples = Samples([sample(OURS, SAME, 2, 0), sample(PING, SAME, 1, 0), sample(OURS, SAME, 10, 1), sample(PING, SAME, 5, 1)])
    assert samples.ratio(OURS, PING, SAME, 50) == 2
    assert samples.ratio(PEER, PING, SAME, 50) is None


@pytest.mark.parametrize(
    "costs, expected",
    [({50: 1, 100: 2, 200: 4}, 1), ({1: 9, 50: 1, 100: 2, 200: 6}, 2), ({50: 1, 100: 2}, None), ({50: 1, 100: 3, 200: 3}, 0)],
)
def test_bend(costs: dict[int, float], expected: float | None) -> None:
    assert bend(costs) == expected
