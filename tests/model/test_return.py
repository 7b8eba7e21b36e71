# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""No return of a Galera cluster loses what was acknowledged: explored, and each condition of the decision is needed.

``--whole`` explores three members with three faults, in hours. Figures and traces are printed (``pytest -s``).
"""

from __future__ import annotations

import pathlib
import sys
import types
import typing as t
import unittest.mock

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._galera import plan_return
from tests.model.explorer import Result, explore
from tests.model.galera_model import Galera
from tests.model.galera_state import RUNNING, STARTING, State
from tests.model.galera_transitions import TRANSITIONS, Transition

SOURCE = pathlib.Path(plan_return.__file__).read_text("utf-8")
PLAIN = {"late": 0, "stale": 0, "commits": 1}
#: What is explored completely.
ALWAYS: dict[str, dict[str, t.Any]] = {
    "two members, two faults, late guards, old reports": {"size": 2, "faults": 2, "commits": 1, "copies": True},
    "two and a witness, two faults, copies": {**PLAIN, "size": 2, "witness": True, "faults": 2, "copies": True},
    "three members, two faults": {**PLAIN, "size": 3, "faults": 2},
    "two members, two faults, a run of the role": {**PLAIN, "size": 2, "faults": 2, "runs": 1, "copies": True},
}
LONG: dict[str, dict[str, t.Any]] = {
    "two members, three faults, late guards, old reports": {"size": 2, "faults": 3, "commits": 1, "copies": True},
    "two and a witness, three faults, copies": {**PLAIN, "size": 2, "witness": True, "faults": 3, "copies": True},
    "two and a witness, late guards, old reports": {"size": 2, "witness": True, "faults": 2, "commits": 1},
    "two and a witness, copies, two transactions": {**PLAIN, "size": 2, "witness": True, "faults": 2, "commits": 2, "copies": True},
    "three members, late guards": {"size": 3, "faults": 2, "commits": 1, "stale": 0},
    "three members, old reports": {"size": 3, "faults": 2, "commits": 1, "late": 0},
    "three members, three faults": {**PLAIN, "size": 3, "faults": 3},
    "two members, a run of the role, late guards, old reports": {"size": 2, "faults": 3, "commits": 1, "runs": 2},
    "two and a witness, a run of the role": {**PLAIN, "size": 2, "witness": True, "faults": 3, "runs": 1},
    "three members, a run of the role": {**PLAIN, "size": 3, "faults": 2, "runs": 1},
    "three members, equal positions": {**PLAIN, "size": 3, "faults": 2, "counted": 0},
}


@pytest.mark.parametrize("settings", [*ALWAYS.values(), *(pytest.param(each, marks=pytest.mark.whole) for each in LONG.values())], ids=[*ALWAYS, *LONG])
def test_nothing_is_lost_and_service_returns(settings: dict[str, t.Any]) -> None:
    result = explore(Galera(**settings))
    print(f"\n{result}")
    assert result.complete and not result.problem, str(result)


class Without(t.NamedTuple):
    """The decision, or a rule for guards, without one condition.

    :arg old, new: text of the decision that is replaced.
    :arg finds: the violation that must be found.
    """

    name: str
    old: str
    new: str
    finds: str
    settings: t.Mapping[str, t.Any]


TWO, THREE, VOTE = {"size": 2}, {"size": 3}, {"size": 2, "witness": True}
#: A change of the view takes no position, so that more members are equal.
EQUAL = {"size": 3, "faults": 2, "counted": 0}
#: The writer lost power; what it acknowledged is in the queues of the others.
QUEUED = ("a, b, c order", "a applies", "a loses power", "b, c agree")
#: One serves with the witness, the other one joins.
JOINS = ("a is cut off", "a agree", "b, g agree", "b, g order", "b applies", "all links are back", "a, b, g agree")
#: One was cut off, and the others have acknowledged something since.
NEWER = ("a is cut off", "a agree", "b, c agree", "b, c order", "b applies")
OLD_REPORT = ("the server of b", "b gives the same report", "a, b, g agree")
STOPPED = ("the operator stops a", "the operator stops b", "the operator starts a", "the operator starts b")
ALONE = (*STOPPED[:2], "g is cut off", *STOPPED[2:])
CRASHED = ("the server of a", "the server of b")
#: Not among them: who loses the component isolates itself at once. It is a second protection if a view was restored nevertheless.
CONDITIONS = (
    Without("the one that formed it connects", 'return Step("connect", "formed', 'return Step("none", "formed', "STUCK", TWO),
    Without("the others connect", 'return Step("connect", f"{serving', 'return Step("none", f"{serving', "STUCK", TWO),
    Without("only one that serves is followed", "report.primary and report.ready and not", "report.primary and not", "STUCK", {**VOTE, "begin": JOINS}),
    Without("not before it connects", "report.ready and not report.isolated)", "report.ready)", "TWO", EQUAL),
    Without("all of the last component have it as their view", "all(_has_view(known.get(name), view) for name in data)", "True", "STUCK", VOTE),
    Without("one of them had caught up", "or report.caught_up != view.id", "", "LOST", {**THREE, "begin": QUEUED}),
    Without("otherwise all answer", "last[0] if last else tuple(reports)", "last[0] if last else tuple(known)", "TWO", TWO),
    Without(
        "a changing position is waited for", "if known[name].uuid]", "if known[name].uuid and known[name].position is not None]", "LOST", {**TWO, "commits": 2}
    ),
    Without("the highest position", "if report.position == highest)", ")", "LOST", TWO),
    Without("no other member believes that it is Primary", "return report.primary or (", "return (", "STUCK", {**VOTE, "ends": False}),
    Without("no other member may re-merge", '(report.state == "running" and not report.isolated) or', "", "TWO", EQUAL),
    Without("a waiting member leaves the witness", 'or (report.state == "starting" and report.joined)', "", "STUCK", {**VOTE, "begin": JOINS}),
    Without("a witness that may be Primary alone is waited for", "hold=witnesses > 0 and not found.proved", "hold=False", "LOST", {**VOTE, "begin": ALONE}),
    Without("nothing is proved without a last component", "proved=bool(last)", "proved=True", "LOST", {**VOTE, "begin": ALONE}),
    Without("a run that is late decides again", "return None if forced or me in found.equal else found.reason", "return None", "TWO", {**TWO, "runs": 1}),
    Without("a run asks who may be Primary", "if report and name != me and may_be_primary(report)]", "if False]", "LOST", {**TWO, "runs": 1}),
    Without("one in a component without data leaves it", "if may_be_primary(own) and not own.isolated:", "if False:", "STUCK", {**VOTE, "begin": JOINS}),
)  # fmt: skip


def changed(old: str, new: str) -> dict[str, t.Any]:
    """Return the decisions with one text replaced."""
    assert SOURCE.count(old) == 1, old
    module = types.ModuleType("changed_plan_return")
    # its data classes look there for their module
    with unittest.mock.patch.dict(sys.modules, {module.__name__: module}):
        exec(compile(SOURCE.replace(old, new), module.__name__, "exec"), module.__dict__)  # pylint: disable=exec-used
    return {"decide": module.step, "confirm": module.unconfirmed}


def found(result: Result, name: str, finds: str) -> None:
    """Print a counterexample, and require it."""
    print(f"\nwithout: {name}: {result}")
    assert result.problem and result.problem.startswith(finds), f"without the condition: {name}: {result}"


@pytest.mark.parametrize("condition", CONDITIONS, ids=[each.name for each in CONDITIONS])
def test_each_condition_is_needed(condition: Without) -> None:
    settings = {**PLAIN, "faults": 3, **condition.settings, **changed(condition.old, condition.new)}
    found(explore(Galera(**settings), limit=90_000, lively=condition.finds == "STUCK"), condition.name, condition.finds)


@pytest.mark.parametrize(
    ("name", "finds", "settings"),
    [
        ("a restarted server does not restore its view", "LOST", {**THREE, "restores": True, "begin": NEWER}),
        ("a report from before the own loss is not used", "TWO", {**VOTE, "stale": 1, "forgets": False, "begin": OLD_REPORT}),
        ("the others are asked again before a cluster is bootstrapped", "LOST", {**VOTE, "late": 1, "stale": 1, "asks_again": False, "begin": CRASHED}),
    ],
)  # fmt: skip
def test_each_rule_for_guards_is_needed(name: str, finds: str, settings: dict[str, t.Any]) -> None:
    found(explore(Galera(**{**PLAIN, "faults": 3, **settings}), limit=150_000, lively=False), name, finds)


def described(model: Galera, state: State, name: str) -> str:
    """Return the state of a member in one word."""
    member = state.members[model.names.index(name)]
    if member.primary:
        return "synced" if member.full else "joining"
    if member.process == STARTING and name != "g":
        return "waiting"
    return "isolated" if member.isolated else "lost" if member.process in (RUNNING, STARTING) else "stopped"


@pytest.mark.parametrize("each", TRANSITIONS, ids=[each.name for each in TRANSITIONS])
def test_transitions_of_galera(each: Transition) -> None:
    model = Galera(size=len(each.members.replace("g", "")), witness="g" in each.members, restores=each.restores, holds=False, faults=9)
    state = model.start()
    for step in each.steps:
        events = list(model.events(state))
        if step.startswith("not: "):
            assert not [text for text, _after in events if text.startswith(step[5:])]
            continue
        after = [after for text, after in events if text.startswith(step)]
        assert after, f"{step}: {[text for text, _after in events]}"
        state = after[0]
    assert {name: described(model, state, name) for name in each.then} == dict(each.then)
