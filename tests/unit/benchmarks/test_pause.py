# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Targets of the downtime."""

from __future__ import annotations

import pytest

from benchmarks.pause import Round, rows, verdicts


def test_a_round_is_held_against_a_boot_and_a_copy_of_nothing() -> None:
    one = Round(away=66.0, predicted=60.0, gap=66.5, boot=53.0, idle=2.0, parts={"boot": 52.0})
    assert one.ratio == pytest.approx(1.2)
    assert one.off == pytest.approx(-6 / 66)
    assert rows([one]) == [["1", "66.0", "60.0", "66.5", "53.0", "2.00", "1.20", "-9%"]]


@pytest.mark.parametrize(("away", "predicted", "met"), [(65.0, 60.0, ["met", "met"]), (66.0, 40.0, ["MISS", "MISS"]), (60.0, 90.0, ["met", "MISS"])])
def test_limits_that_are_missed(away: float, predicted: float, met: list[str]) -> None:
    assert [each[-1] for each in verdicts([Round(away, predicted, away, 48.0, 2.0, {})])] == met


def test_worst_prediction_counts() -> None:
    rounds = [Round(50.0, predicted, 50.0, 48.0, 2.0, {}) for predicted in (50.0, 49.0, 20.0)]
    assert verdicts(rounds)[1] == ["prediction error (worst)", "≤ 30%", "-60%", "MISS"]
