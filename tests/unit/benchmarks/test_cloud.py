# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the benchmark of the cloud makes of its samples."""

from __future__ import annotations

from benchmarks import cloud
from benchmarks.cloud import ALL, DIRECT, Rate


def test_rates_are_compared_with_those_of_the_same_round() -> None:
    def rate(target: str, number: int, value: float, failed: int = 0) -> Rate:
        return Rate("nova", target, number, value, 0.1, 0.2, failed)

    # in the second round the machine is half as fast
    rates = [rate(DIRECT, 0, 100), rate(ALL, 0, 80), rate(ALL, 1, 40, failed=1), rate(DIRECT, 1, 50)]
    assert cloud.api_rows(rates) == [
        ["nova", DIRECT, "75.0", "1.00", "100", "200", "0"],
        ["nova", ALL, "60.0", "0.80", "100", "200", "1"],
    ]
    assert cloud.api_rows([rate(ALL, 0, 80)]) == [["nova", ALL, "80.0", "", "100", "200", "0"]]
