# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from benchmarks import migrate


def measured(size: int = 4, data: float = 2.0, offline: float = 30.0, cold: float = 31.0, rate: int = 1024) -> dict[str, object]:
    parts = {"final": 1.0, "fixup": 0.1, "verify": 0.9}
    return {"size": size, "rate": rate, "offline": offline, "data": data, "parts": parts, "predicted": 2.1, "final_bytes": 1 << 20, "cold": cold}


def report(*found: dict[str, object], unit: int = 100) -> str:
    many = {"files": 1_000_000, "unit_bytes": unit << 20, "worker_bytes": 40 << 20}
    return migrate.report({"sizes": found, "rates": [], "many": many, "machine": {"cores": "2"}})


def test_all_targets_met() -> None:
    text = report(measured(1, data=1.9), measured())
    assert "MISS" not in text and "| 15.0 × | met |" in text and "| one more GiB, seconds of the pause |  | 0.0333 |" in text


@pytest.mark.parametrize("bad", [report(measured(data=3.1)), report(measured(cold=34.0)), report(measured(), unit=151)], ids=["long", "slow", "fat"])
def test_missed_target_is_reported(bad: str) -> None:
    assert bad.count("MISS") == 1
