# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The states of the model of a VM and its servers."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.model_owner import ARRIVED, FORMER, INCOMING, OWNER, Answer, Counterpart, Record
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.plan_owner import Event

A, B, C, V = NAMES = ("A", "B", "C", "V")
VOTERS = (Counterpart(C, "standby"), Counterpart(V, "voter"))
UUID = "6d1d2c5e-52f4-4d0b-9c7a-0f2b7e5f4a11"
#: Epoch in which they were written, and a number that grows with each write.
Data = t.Optional[t.Tuple[int, int]]


class Machine(t.NamedTuple):
    """A machine.

    :arg unflushed: the record before the last write, as long as that may be lost with the power.
    :arg permit: in memory: it may run the VM since its boot.
    :arg proof: in memory, of a standby: the former owner is off; the token of the claim that all had promised then, or empty.
    """

    record: Record | None
    data: Data = None
    running: bool = False
    on: bool = True
    readable: bool = True
    permit: bool = False
    proof: str | None = None
    unflushed: tuple[Record | None, ...] = ()


class State(t.NamedTuple):
    """Everything.

    :arg last: the data that must be served; those that a proof gave up do not count.
    :arg late: answers and commands that may still be late.
    :arg answer: a late answer: for whom, from whom, what.
    :arg command: a late command: for whom, the event, the data with it.
    :arg wiped: a machine was installed again, so a person may have to name it.
    """

    machines: tuple[Machine, ...]
    last: Data
    faults: int
    operations: int
    writes: int
    late: int
    token: int = 0
    answer: tuple[str, str, Answer] | None = None
    command: tuple[str, Event, Data] | None = None
    bad: str = ""
    wiped: bool = False

    def of(self, name: str) -> Machine:
        """Return a machine."""
        return self.machines[NAMES.index(name)]

    def on(self, name: str, **values: t.Any) -> State:
        """Return the state with another machine."""
        place = NAMES.index(name)
        return self._replace(machines=(*self.machines[:place], self.machines[place]._replace(**values), *self.machines[place + 1 :]))

    def is_off(self, name: str) -> bool:
        """Whether no other server can run the VM: each is off, or does not own it."""
        others = [self.of(other) for other in NAMES[:3] if other != name]
        return not any(each.running or (each.on and each.record is not None and each.record.role == OWNER) for each in others)

    def lost(self, machine: Machine) -> str:
        """Return the server that a person names, because it was installed again."""
        record = machine.record
        if record is None or record.role not in (FORMER, INCOMING):
            return ""
        lost = record.operation.by if record.role == INCOMING and record.operation else record.to
        there = self.of(lost).record
        # one that was installed again may have received late commands
        had = there is not None and (
            there.role in (OWNER, FORMER) or there.role == INCOMING and there.operation is not None and there.operation.step == ARRIVED
        )
        return "" if had else lost
