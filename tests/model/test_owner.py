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
from tests.model.owner_state import VOTERS

STATES = (20_000, pytest.param(400_000, marks=pytest.mark.whole))
EXPLORED: dict[str, dict[str, t.Any]] = {
    "a standby and a witness, two faults": {"late": 0},
    "a standby and a witness, a late message": {"faults": 1, "operations": 1},
    "a standby alone, two faults": {"late": 0, "voters": VOTERS[:1]},
    "no standby, a late message": {"faults": 1, "voters": ()},
}
#: A move to B.
MOVE = ("A: begun, to B", "A shuts", "A: received on B")
COPIED = (*MOVE, "A: stopped", "A copies", "A: arrived on B")
PROMISED = (*COPIED, "A: promised on C", "A: promised on V")
MOVED = (*PROMISED, "A: handed over", "B: taken")
FREELY = (*COPIED, "A: handed over", "B: taken")
#: Back to A, before A has taken it.
BACK = ("B: begun, to A", "B: received on A", "B: stopped", "B: arrived on A", "B: handed over to A")
CLAIM = ("C: claimed", "C: promised on V")
LOST_SERVER = (*CLAIM, "C: claim promised", "A loses power", "C: proof", "C: taken over")
WIPED = ("V is installed again", "V has power")


def within(**settings: t.Any) -> dict[str, t.Any]:
    """Return settings of an exploration that is small enough."""
    return {"faults": 0, "operations": 1, "writes": 0, "late": 0, **settings}


#: Event, role, path of the condition: where its absence is found.
WITHOUT: dict[tuple[str, str, str], dict[str, t.Any]] = {
    ("created", "none", "answers"): within(faults=1, begin=("A is installed again", "A has power")),
    ("stopped", "owner", "running"): within(voters=(), begin=("A: begun, to B", "A: received on B")),
    ("handed over", "owner", "destination"): within(voters=(), begin=(*MOVE, "A: stopped")),
    ("handed over", "owner", "promises"): within(faults=1, operations=2, begin=(*COPIED, *CLAIM, "C: claim promised")),
    ("learned", "owner", "epoch"): within(operations=0, faults=1),
    ("confirmed", "former", "owner"): within(voters=(), begin=(*COPIED, "A: handed over")),
    ("received", "none", "epoch"): within(voters=(), operations=2, late=1, begin=("A: begun, to B", "A: received on B will", *FREELY[1:], *BACK)),
    ("received", "none", "step"): within(voters=(), faults=1, late=1, begin=(*COPIED[:-1], "A: arrived on B will", "B is installed", "B has power")),
    ("arrived", "incoming", "token"): within(
        voters=(), operations=2, late=1,
        begin=(*COPIED[:-1], "A: arrived on B will", "A: begun, to B", "B: discarded", "A: received on B", "A: stopped"),
    ),
    ("taken", "incoming", "handed over"): within(voters=(), begin=COPIED),
    ("taken", "incoming", "data"): within(
        voters=(), faults=1, late=1, begin=(*MOVE, "A: received on B will", *COPIED[3:], "A: handed over", "B is installed", "B has power")
    ),
    ("discarded", "incoming", "kept"): within(voters=(), begin=(*COPIED, "A: handed over")),
    ("prepared", "none", "permit"): within(faults=2, begin=(*LOST_SERVER, *WIPED, "A has power")),
    ("prepared", "none", "start"): within(
        faults=2, operations=2, voters=VOTERS[:1],
        begin=("C: claimed", "C: claim promised", "A loses", "C: proof", "C: taken over", "C: begun, to A", "A has power", "A: learned from C",
               "C: received on A", "C: stopped", "C copies", "C: arrived on A", "C: handed over", "A: taken", "C: confirmed"),
    ),
    ("copied", "standby", "operation"): within(
        faults=1, operations=2, late=1, voters=VOTERS[:1], begin=(*COPIED, "A: copied on C will", "A: promised on C", "A: handed over")
    ),
    ("copied", "standby", "copy"): within(late=1, writes=1),
    ("promised", "standby", "promise"): within(
        faults=2, operations=2, late=1,
        begin=(
            *COPIED, "A: prepared on C will", "A: promised on C", "A: promised on V", "A: handed over",
            "C is installed", "C has power", "the late", "C: claimed",
        ),
    ),
    ("promised", "standby", "step"): within(faults=2, begin=(*CLAIM, "C: claim promised", *WIPED, "A: prepared on V")),
    ("promised", "standby", "epoch"): within(
        faults=2, operations=2, begin=("A: begun, to B", "A: received on B", *LOST_SERVER, "C: learned on V", "A has power")
    ),
    ("released", "standby", "promise"): within(faults=1, operations=2, begin=(*PROMISED, "A: handed over")),
    ("claimed", "standby", "operation"): within(faults=1, operations=2, voters=VOTERS[:1], begin=(*COPIED, "A: promised on C", "A: handed over")),
    ("claimed", "standby", "start"): within(faults=1, starts="free", begin=("A loses power",)),
    ("claimed", "former", "proof"): within(faults=1, operations=2, voters=(), begin=FREELY),
    ("claimed", "former", "data"): within(faults=1, operations=2, voters=(), begin=MOVE),
    ("claim promised", "standby", "promises"): within(faults=1, late=1, begin=("C: claimed", "C: promised on V will")),
    ("taken over", "standby", "promises"): within(faults=2, begin=(*CLAIM, "C: claim promised", *WIPED, "A: prepared on V", "A loses", "C: proof")),
    ("taken over", "standby", "proof"): within(faults=1, begin=("A loses", "C: claimed", "C: proof", "A has power")),
}  # fmt: skip
#: Rules of the machines: the argument of the model without it, and where that is found.
RULES: dict[str, tuple[dict[str, t.Any], dict[str, t.Any]]] = {
    "a record is flushed": ({"flushes": False}, within(faults=1, voters=(), begin=FREELY[:-1])),
    "an unreadable record refuses": ({"closed": False}, within(faults=2, begin=(*LOST_SERVER, "A has power"))),
    "an answer ends with the boot": ({"boots": False}, within(faults=1, late=1, begin=("V answers A", *LOST_SERVER))),
    "an answer ends with the record": ({"again": False}, within(faults=1, late=1, begin=("C answers V", *LOST_SERVER))),
    "silence is not absence": ({"silent": True}, within(faults=3, begin=("A is installed again", "A has power", "C loses power", "V loses power"))),
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
