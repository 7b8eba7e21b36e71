# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check what a member has against what was acknowledged to the clients of ``transactions``; without input and output."""

from __future__ import annotations

import collections
import dataclasses
import typing as t

OK, FAILED, UNKNOWN = "ok", "failed", "unknown"
LISTS, REGISTERS, ACCOUNTS, START = 40, 20, 40, 1000


@dataclasses.dataclass
class Operation:
    """One transaction; times are seconds of the monotonic clock.

    :ivar number: of this transaction; the row that it inserts, the value that it appends, the one that it writes to a register.
    :ivar outcome: ``ok`` acknowledged, ``failed`` certainly without effect, ``unknown`` undecided.
    :ivar key: row, list or register; the row that is deleted.
    :ivar read: value that a register had.
    :ivar accounts: from, to.
    """

    kind: str
    number: int
    begin: float
    end: float = 0.0
    outcome: str = UNKNOWN
    error: str = ""
    key: int = 0
    read: int = 0
    accounts: t.Tuple[int, ...] = ()
    amount: int = 0


@dataclasses.dataclass
class Tables:
    """What one member has: rows; list → values in order; register → value; account → balance; transfer → from, to, amount."""

    rows: t.Set[int]
    lists: t.Dict[int, t.List[int]]
    registers: t.Dict[int, int]
    accounts: t.Dict[int, int]
    transfers: t.Dict[int, t.Tuple[int, int, int]]


class Problem(t.NamedTuple):
    """One violation.

    :ivar kind: ``lost`` acknowledged and missing; ``revived`` failed, or deleted, and there; ``wrong`` contradicts what was acknowledged.
    """

    kind: str
    number: int
    text: str


def check(history: t.Sequence[Operation], tables: Tables) -> list[Problem]:
    """Return every violation of what was acknowledged, none if all is there exactly once. An undecided transaction may be there or not."""
    by_kind = collections.defaultdict(list)
    for operation in history:
        by_kind[operation.kind].append(operation)
    return [
        *_rows(by_kind["insert"], by_kind["delete"], tables.rows),
        *_lists(by_kind["append"], tables.lists),
        *_registers(by_kind["swap"], tables.registers),
        *_transfers(by_kind["transfer"], tables),
    ]


def _presence(operations: t.Iterable[Operation], there: t.Container[int]) -> t.Iterator[Problem]:
    """Yield acknowledged ones that are missing and failed ones that are there."""
    for each in operations:
        if each.outcome == OK and each.number not in there:
            yield Problem("lost", each.number, f"{each.kind} {each.number} was acknowledged at {each.end:.2f} and is missing")
        elif each.outcome == FAILED and each.number in there:
            yield Problem("revived", each.number, f"{each.kind} {each.number} failed with {each.error or 'no effect'} at {each.end:.2f} and is there")


def _unexpected(what: str, there: t.Iterable[int], operations: t.Iterable[Operation]) -> t.Iterator[Problem]:
    """Yield numbers that no client has written."""
    known = {each.number for each in operations}
    return (Problem("wrong", number, f"{what} {number} was never written") for number in there if number not in known)


def _rows(inserts: t.Sequence[Operation], deletes: t.Sequence[Operation], rows: t.Set[int]) -> t.Iterator[Problem]:
    deleted = {each.key: each for each in deletes if each.outcome != FAILED}
    yield from _presence((each for each in inserts if each.number not in deleted), rows)
    for key, each in deleted.items():
        if each.outcome == OK and key in rows:
            yield Problem("revived", key, f"row {key} was deleted at {each.end:.2f} and is there")
    yield from _unexpected("row", rows, inserts)


def _lists(appends: t.Sequence[Operation], lists: t.Mapping[int, t.Sequence[int]]) -> t.Iterator[Problem]:
    by_number = {each.number: each for each in appends}
    for key in range(LISTS):
        values = lists.get(key, [])
        yield from _presence((each for each in appends if each.key == key), set(values))
        yield from _unexpected(f"value in list {key}", values, (each for each in appends if each.key == key))
        for number, count in collections.Counter(values).items():
            if count > 1:
                yield Problem("wrong", number, f"value {number} is in list {key} {count} times")
        earliest = float("inf")
        for number in reversed(values):
            each = by_number.get(number)
            if each and each.outcome == OK:
                if earliest < each.begin:
                    yield Problem("wrong", number, f"value {number} of list {key} is before one that was acknowledged before it was sent")
                earliest = min(earliest, each.end)


def _registers(swaps: t.Sequence[Operation], registers: t.Mapping[int, int]) -> t.Iterator[Problem]:
    """Follow each register back from its last value: every acknowledged swap must be on the way."""
    by_number = {each.number: each for each in swaps}
    for key in range(REGISTERS):
        value = registers.get(key, 0)
        passed: set[int] = set()
        while value and value in by_number and by_number[value].key == key and value not in passed:
            passed.add(value)
            value = by_number[value].read
        if value:
            yield Problem("wrong", value, f"register {key} had the value {value}, which was never written, or twice")
        yield from _presence((each for each in swaps if each.key == key), passed)


def _transfers(transfers: t.Sequence[Operation], tables: Tables) -> t.Iterator[Problem]:
    yield from _presence(transfers, tables.transfers)
    yield from _unexpected("transfer", tables.transfers, transfers)
    balance = dict.fromkeys(range(ACCOUNTS), START)
    for one, other, amount in tables.transfers.values():
        balance[one] -= amount
        balance[other] += amount
    for key, wanted in balance.items():
        if tables.accounts.get(key) != wanted:
            yield Problem("wrong", key, f"account {key} has {tables.accounts.get(key)}, its transfers add up to {wanted}")
    if sum(tables.accounts.values()) != START * ACCOUNTS:
        yield Problem("wrong", 0, f"all accounts have {sum(tables.accounts.values())} together instead of {START * ACCOUNTS}")


def divergent(checksums: t.Mapping[str, t.Mapping[str, str]]) -> list[str]:
    """Return the tables that are not the same on all members: member → table → checksum."""
    tables = sorted({table for found in checksums.values() for table in found})
    return [table for table in tables if len({found.get(table) for found in checksums.values()}) > 1]
