# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from benchmarks.provision import Recap, Sample, MeasurementError, recap, verdicts

PLAY = """
PLAY RECAP *********************************************************************
localhost                  : ok=1    changed=1    unreachable=0    failed=0    skipped=0    rescued=0    ignored=0
sim000                     : ok=9    changed=0    unreachable=0    failed=0    skipped=3    rescued=0    ignored=0
sim001                     : ok=8    changed=0    unreachable=0    failed=0    skipped=2    rescued=1    ignored=0
"""


def sample(hosts: int, seconds: float, tasks: int = 12, ratio: float = 2.5) -> Sample:
    return Sample(hosts, seconds / ratio, seconds, ratio, hosts * 0.5, Recap(hosts, tasks, 3))


def test_skipped_tasks_count_as_tasks():
    assert recap(PLAY) == Recap(2, 12, 3)


def test_a_run_that_changed_something_is_not_counted():
    with pytest.raises(MeasurementError, match="1 hosts changed, sim001 first"):
        recap(PLAY.replace("ok=8    changed=0", "ok=8    changed=1"))
    assert recap(PLAY.replace("ok=8    changed=0", "ok=8    changed=1"), changes=True).hosts == 2


def test_targets_are_judged():
    good = [sample(1, 4), sample(10, 20), sample(178, 178 * 2.2)]
    assert [line[-1] for line in verdicts(good)] == ["ok", "ok", "ok"]
    bad = [sample(1, 4, tasks=13, ratio=3.1), sample(10, 20), sample(178, 178 * 2.6)]
    assert [line[-1] for line in verdicts(bad)] == ["MISS", "MISS", "MISS"]
