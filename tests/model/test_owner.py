# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A VM never runs on two servers, older data never replace newer ones, and someone serves again: explored, and each condition of the table is needed.

``--whole`` explores more states, in an hour. Figures and traces are printed (``pytest -s``).
"""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.plan_owner import TABLE
from tests.model.explorer import explore
from tests.model.owner_model import Owner

STATES = (20_000, pytest.param(2_000_000, marks=pytest.mark.whole))
EXPLORED: dict[str, dict[str, t.Any]] = {
    "two faults": {"late": 0},
    "a late message": {"faults": 1, "operations": 1},
    "three faults": {"faults": 3, "operations": 1, "late": 0},
    "two faults, a late message": {},
    "a fault, three operations": {"faults": 1, "operations": 3, "writes": 0, "late": 0},
}
#: A move to B.
MOVE = ("A: begun, to B", "A shuts", "A: received on B")
COPIED = (*MOVE, "A: stopped", "A copies", "A: arrived on B")
MOVED = (*COPIED, "A: handed over", "B: taken")


def within(**settings: t.Any) -> dict[str, t.Any]:
    """Return settings of an exploration that is small enough."""
    return {"faults": 0, "operations": 1, "writes": 0, "late": 0, **settings}


#: Event, role, path of the condition: where its absence is found.
WITHOUT: dict[tuple[str, str, str], dict[str, t.Any]] = {
    ("stopped", "owner", "running"): within(begin=("A: begun, to B", "A: received on B")),
    ("handed over", "owner", "destination"): within(begin=(*MOVE, "A: stopped")),
    ("confirmed", "former", "owner"): within(begin=(*COPIED, "A: handed over")),
    ("received", "none", "operation"): within(
        operations=2, late=1,
        begin=("A: begun live, to B", "A: received on B", "A migrates", "A: received on B will", "A: handed over", "A resumes", "B: taken", "A: confirmed",
               "B: begun live, to A", "B: received on A", "B migrates", "B: handed over to A"),
    ),
    ("received", "none", "step"): within(faults=1, late=1, begin=(*COPIED[:-1], "A: arrived on B will", "B is installed", "B has power")),
    ("received", "incoming", "step"): within(late=1, begin=(*MOVE[:2], "A: received on B will", *MOVE[2:], *COPIED[3:], "A: handed over")),
    ("begun", "owner", "epoch"): within(operations=3, begin=(*MOVED, "A: asked back", "B: removed and created")),
    ("asked back", "former", "owner"): within(operations=2, begin=MOVED[:-1]),
    ("asked back", "former", "data"): within(faults=1, operations=3, begin=(*MOVED, "A: confirmed")),
    ("arrived", "incoming", "token"): within(
        operations=2, late=1,
        begin=(*COPIED[:-1], "A: arrived on B will", "A: begun, to B", "B: discarded", "A: received on B", "A: stopped"),
    ),
    ("taken", "incoming", "handed over"): within(begin=COPIED),
    ("taken", "incoming", "data"): within(
        faults=1, late=1, begin=(*MOVE, "A: received on B will", *COPIED[3:], "A: handed over", "B is installed", "B has power")
    ),
    ("discarded", "incoming", "kept"): within(begin=(*COPIED, "A: handed over")),
    ("taken", "former", "handed over"): within(begin=MOVED),
    ("taken over", "former", "proof"): within(faults=1, operations=2, late=1, begin=MOVED[:-1]),
    ("taken over", "former", "data"): within(faults=1, operations=2, begin=(*MOVED, "A: confirmed")),
}  # fmt: skip
#: Rules of the machines: the argument of the model without it, and where that is found.
RULES: dict[str, tuple[dict[str, t.Any], dict[str, t.Any]]] = {
    "a record is flushed": ({"flushes": False}, within(faults=1, begin=MOVED[:-1])),
    "an unreadable record refuses": ({"closed": False}, within(faults=2, begin=MOVED)),
    "an answer ends with the record": ({"again": False}, within(operations=2, late=1, begin=MOVED[:-1])),
}


def found(settings: dict[str, t.Any], name: str, **without: t.Any) -> None:
    """Require a counterexample without something, and none with it."""
    result = explore(Owner(**settings, **without), limit=12_000)
    print(f"\nwithout {name}: {result}")
    assert result.problem, f"without {name}: {result}"
    whole = explore(Owner(**settings), limit=max(2 * result.states, 500))
    assert not whole.problem, str(whole)


@pytest.mark.parametrize("states", STATES)
@pytest.mark.parametrize("settings", EXPLORED.values(), ids=EXPLORED)
def test_one_server_runs_the_vm_with_its_data(settings: dict[str, t.Any], states: int) -> None:
    result = explore(Owner(**settings), limit=states)
    print(f"\n{result}")
    assert not result.problem, str(result)


def test_each_condition_is_listed() -> None:
    assert {(row.event, row.roles[0], condition.name) for row in TABLE for condition in row.conditions} == set(WITHOUT)


@pytest.mark.parametrize("which", WITHOUT, ids=" - ".join)
def test_each_condition_is_needed(which: tuple[str, str, str]) -> None:
    table = [row._replace(conditions=tuple(each for each in row.conditions if (row.event, row.roles[0], each.name) != which)) for row in TABLE]
    found(WITHOUT[which], " - ".join(which), table=table)


@pytest.mark.parametrize("name", RULES)
def test_each_rule_of_the_machines_is_needed(name: str) -> None:
    without, settings = RULES[name]
    found(settings, name, **without)
