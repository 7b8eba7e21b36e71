# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The HA grade of a placement."""

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._placement.report.plan_availability import grade_availability

CASES = [
    ("nothing deployed", {}, "none", {}),
    ("one server", {"c1": "a", "c2": "a", "c3": "a"}, "none", {"a": False}),
    ("two and one", {"c1": "a", "c2": "a", "c3": "b"}, "restart", {"a": False, "b": True}),
    ("one each", {"c1": "a", "c2": "b", "c3": "c"}, "quorum", {"a": True, "b": True, "c": True}),
    ("two members never survive", {"c1": "a", "c2": "b"}, "none", {"a": False, "b": False}),
    ("five on three", {"c1": "a", "c2": "a", "c3": "b", "c4": "b", "c5": "c"}, "quorum", {"a": True, "b": True, "c": True}),
    ("five, three together", {"c1": "a", "c2": "a", "c3": "a", "c4": "b", "c5": "c"}, "restart", {"a": False, "b": True, "c": True}),
]


@pytest.mark.parametrize("members, grade, survives", [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_grade(members: dict[str, str], grade: str, survives: dict[str, bool]) -> None:
    availability = grade_availability(members)
    assert availability.grade == grade
    assert {loss.server: loss.survives for loss in availability.losses} == survives


def test_sentence_names_server_members_and_numbers() -> None:
    loss = grade_availability({"c1": "a", "c2": "a", "c3": "b"}).losses[0]
    assert loss.sentence() == "without a (c1, c2) 1 of 3 remain and 2 are needed: the control plane stops until it is back"
