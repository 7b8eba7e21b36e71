# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the benchmark of the control plane makes of its samples."""

from __future__ import annotations

from benchmarks import controlplane
from benchmarks.controlplane import Gap


def test_a_second_run_that_is_dear_or_changes_something_is_a_miss() -> None:
    assert controlplane.deploy_rows(400, 100, 0)[1] == ["again, nothing to change", "100", "25%", "0", "≤ 25% and 0: met"]
    assert controlplane.deploy_rows(400, 101, 0)[1][-1].endswith("MISS")
    assert controlplane.deploy_rows(400, 40, 1)[1][-1].endswith("MISS")


def test_failures_have_median_and_worst() -> None:
    gaps = [Gap("a", 1.0, 10, 0), Gap("b", 9.0, 10, 2), Gap("a", 4.0, 11, 0), Gap("a", 2.0, 12, 1)]
    assert controlplane.gap_rows(gaps) == [["a", "2.0", "4.0", "33", "1", "3"], ["b", "9.0", "9.0", "10", "2", "1"]]
    assert controlplane.gap_rows([]) == []
