# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The comparison of clocks."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_clock import clock_skew, compare_clocks
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_status import build_status


def clock(offset: float, uncertainty: float = 0.01, synchronized: bool | None = True) -> dict[str, t.Any]:
    return {"offset_seconds": offset, "uncertainty_seconds": uncertainty, "synchronized": synchronized}


@pytest.mark.parametrize(
    ("clocks", "ok", "pair"),
    [
        ({"c1": clock(0.0), "c2": clock(0.5), "c3": clock(-0.2)}, True, ("c2", "c3")),
        ({"c1": clock(0.0), "c2": clock(30.0), "c3": clock(0.1)}, False, ("c2", "c1")),
        # the control node itself may be wrong: only the differences of the members count
        ({"c1": clock(3600.0), "c2": clock(3600.5)}, True, ("c2", "c1")),
        # what a slow connection leaves uncertain is not refused, and does not hide a pair that is known for certain
        ({"c1": clock(0.0), "c2": clock(9.0, 8.0)}, True, ("c2", "c1")),
        ({"c1": clock(0.0), "c2": clock(9.0, 8.0), "c3": clock(-4.0)}, False, ("c2", "c3")),
        ({"c1": clock(0.0), "c2": clock(40.0, 42.0), "c3": clock(-4.0)}, False, ("c1", "c3")),
        ({"c1": clock(0.0), "c2": clock(2.02)}, True, ("c2", "c1")),
        ({"c1": clock(0.0), "c2": clock(2.03)}, False, ("c2", "c1")),
    ],
)
def test_the_pair_that_differs_most_decides(clocks: dict[str, t.Any], ok: bool, pair: tuple[str, str]) -> None:
    found = clock_skew(clocks, 2.0)
    assert (found["ok"], (found["ahead"], found["behind"])) == (ok, pair), found["text"]


def test_the_text_names_the_host_that_is_wrong() -> None:
    found = clock_skew({"c1": clock(0.0), "c2": clock(0.01), "c3": clock(-31.5)})
    assert found["text"] == "c2 is 31.510 s ahead of c3 (± 0.020 s), and 2 s are allowed; against the others: c3 -31.500 s"


@pytest.mark.parametrize("clocks", [{}, {"c1": clock(1.0)}, {"c1": clock(1.0), "c2": {}}, {"c1": clock(1.0), "c2": None}])
def test_one_clock_cannot_be_compared(clocks: dict[str, t.Any]) -> None:
    assert compare_clocks(clocks) is None
    assert clock_skew(clocks)["ok"]


def test_another_limit() -> None:
    clocks = {"c1": clock(0.0), "c2": clock(0.5)}
    assert clock_skew(clocks, 1)["ok"] and not clock_skew(clocks, 0.1)["ok"]


def test_the_status_shows_it() -> None:
    report = build_status({"clocks": compare_clocks({"c1": clock(0.0), "c2": clock(0.25)})})
    assert report["lines"] == ["ok   clocks: 2 hosts differ by 0.250 s at most (± 0.020 s)"] and report["clocks"]["skew_seconds"] == 0.25
    report = build_status({"clocks": compare_clocks({"c1": clock(0.0), "c2": clock(7.0, synchronized=False)})})
    assert (report["ok"], report["state"]) == (False, "degraded")
    assert report["lines"][0].startswith("DEGRADED clocks: c2 is 7.000 s ahead of c1")
    assert report["lines"][1] == "NOTE clocks: no time service synchronizes c2"
    assert build_status({})["clocks"] == {}
