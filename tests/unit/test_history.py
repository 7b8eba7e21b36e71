# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The check of transactions after faults, with histories that must pass and histories that must fail; the plan of the faults."""

from __future__ import annotations

import copy
import pathlib
import sys
import typing as t

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("lab", "tests/consistency")]

import fault_plan  # noqa: E402
from rflab import history  # noqa: E402
from rflab.history import ACCOUNTS, FAILED, LISTS, OK, REGISTERS, START, UNKNOWN, Operation, Tables  # noqa: E402


def done(kind: str, number: int, outcome: str = OK, **more: t.Any) -> Operation:
    """One transaction per second, each within half a second."""
    return Operation(kind, number, float(number), number + 0.5, outcome, **more)


#: One of each outcome of each kind.
HISTORY = [
    done("insert", 1), done("insert", 2), done("insert", 3, FAILED), done("insert", 4, UNKNOWN), done("insert", 5), done("insert", 6),
    done("delete", 10, key=2), done("delete", 11, FAILED, key=5), done("delete", 12, UNKNOWN, key=6),
    done("append", 20), done("append", 21), done("append", 22, FAILED), done("append", 23, UNKNOWN),
    done("swap", 30), done("swap", 31, UNKNOWN, read=30), done("swap", 32, read=31), done("swap", 33, FAILED, read=30),
    done("transfer", 40, accounts=(0, 1), amount=7), done("transfer", 41, FAILED, accounts=(1, 2), amount=3),
    done("transfer", 42, UNKNOWN, accounts=(2, 0), amount=2),
]  # fmt: skip


def tables() -> Tables:
    """What a member has after it: the undecided insert, delete, append and transfer did not take place, the undecided swap did."""
    accounts = dict.fromkeys(range(ACCOUNTS), START)
    accounts[0], accounts[1] = START - 7, START + 7
    lists: dict[int, list[int]] = {**{key: [] for key in range(LISTS)}, 0: [20, 21]}
    return Tables({1, 5, 6}, lists, {**dict.fromkeys(range(REGISTERS), 0), 0: 32}, accounts, {40: (0, 1, 7)})


def kinds(found: Tables, operations: t.Sequence[Operation] = tuple(HISTORY)) -> set[tuple[str, int]]:
    return {(problem.kind, problem.number) for problem in history.check(operations, found)}


def test_what_was_acknowledged_and_is_there_passes() -> None:
    assert not history.check(HISTORY, tables())


def undecided(found: Tables) -> None:
    found.rows.add(4)
    found.rows.remove(6)
    found.lists[0].append(23)
    found.transfers[42] = (2, 0, 2)
    found.accounts[2] -= 2
    found.accounts[0] += 2


def test_an_undecided_transaction_may_be_there_or_not() -> None:
    found = tables()
    undecided(found)
    assert not kinds(found)
    assert kinds(tables(), [each for each in HISTORY if each.outcome != UNKNOWN]) == {("wrong", 31), ("lost", 30)}, "no client has written its number"


@pytest.mark.parametrize(
    "change, problems",
    [
        (lambda found: found.rows.remove(1), {("lost", 1)}),
        (lambda found: found.rows.remove(5), {("lost", 5)}),
        (lambda found: found.rows.add(2), {("revived", 2)}),
        (lambda found: found.rows.add(3), {("revived", 3)}),
        (lambda found: found.rows.add(99), {("wrong", 99)}),
        (lambda found: found.rows.clear(), {("lost", 1), ("lost", 5)}),
        (lambda found: found.lists.clear(), {("lost", 20), ("lost", 21)}),
        (lambda found: found.lists.update({0: [20], 1: [21]}), {("lost", 21), ("wrong", 21)}),
        (lambda found: found.lists[0].append(22), {("revived", 22)}),
        (lambda found: found.lists[0].append(20), {("wrong", 20), ("wrong", 21)}),
        (lambda found: found.lists[0].reverse(), {("wrong", 21)}),
        (lambda found: found.registers.update({0: 30}), {("lost", 32)}),
        (lambda found: found.registers.update({0: 33}), {("lost", 32), ("revived", 33)}),
        (lambda found: found.registers.update({0: 77}), {("lost", 30), ("lost", 32), ("wrong", 77)}),
        (lambda found: found.registers.clear(), {("lost", 30), ("lost", 32)}),
        (lambda found: found.transfers.clear(), {("lost", 40), ("wrong", 0), ("wrong", 1)}),
        (lambda found: found.transfers.update({41: (1, 2, 3)}), {("revived", 41), ("wrong", 1), ("wrong", 2)}),
        (lambda found: found.accounts.update({1: START}), {("wrong", 1), ("wrong", 0)}),
        (lambda found: found.accounts.clear(), {("wrong", key) for key in range(ACCOUNTS)}),
    ],
)
def test_what_contradicts_an_acknowledgement_is_found(change: t.Callable[[Tables], t.Any], problems: set[tuple[str, int]]) -> None:
    found = copy.deepcopy(tables())
    change(found)
    assert kinds(found) == problems


def test_two_swaps_of_the_same_value_are_a_lost_update() -> None:
    assert kinds(tables(), [*HISTORY, done("swap", 34, read=30)]) == {("lost", 34)}


def test_tables_that_differ_between_members_are_found() -> None:
    same = {"a.one": "1", "a.two": "2"}
    assert not history.divergent({"metal1": same, "metal2": dict(same)})
    assert history.divergent({"metal1": same, "metal2": {**same, "a.two": "3"}}) == ["a.two"]
    assert history.divergent({"metal1": same, "metal2": {"a.one": "1"}, "metal3": same}) == ["a.two"]


@pytest.mark.parametrize("members, witnesses", [(2, 1), (3, 0), (3, 1)])
@pytest.mark.parametrize("name", fault_plan.SCENARIOS)
def test_a_round_is_the_same_for_the_same_seed_and_names_only_its_voters(name: str, members: int, witnesses: int) -> None:
    for seed in range(50):
        one = fault_plan.parse(f"{name}:{seed}")
        steps = one.steps(members, witnesses)
        assert steps == fault_plan.parse(str(one)).steps(members, witnesses)
        assert [step.at for step in steps] == sorted(step.at for step in steps) and steps[-1].at < 40
        named = {voter for step in steps for each in step.voters for voter in (each if isinstance(each, tuple) else (each,))}
        assert named <= set(range(members + witnesses))


@pytest.mark.parametrize("text, words", [("older:3", "unknown faults older; known are kill, "), ("kill:x", "NAME:SEED or SEED"), ("", "NAME:SEED or SEED")])
def test_an_unknown_round_is_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        fault_plan.parse(text)
