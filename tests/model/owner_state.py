# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The states of the model of a VM and its servers."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.model_owner import FORMER, OWNER, Record
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.plan_owner import Event

A, B, C = NAMES = ("A", "B", "C")
UUID = "6d1d2c5e-52f4-4d0b-9c7a-0f2b7e5f4a11"
#: Epoch in which they were written, and a number that grows with each write.
Data = t.Optional[t.Tuple[int, int]]


class Machine(t.NamedTuple):
    """A machine.

    :arg dropped: the token of a return that was given up.
    :arg unflushed: the record before the last write, as long as that may be lost with the power.
    :arg paused: the VM has arrived with its memory, and its source has not resumed it yet.
    """

    record: Record | None
    data: Data = None
    running: bool = False
    paused: bool = False
    on: bool = True
    readable: bool = True
    dropped: str = ""
    unflushed: tuple[Record | None, ...] = ()


class State(t.NamedTuple):
    """Everything.

    :arg last: the data that must be served; those that a proof gave up do not count.
    :arg late: answers and commands that may still be late.
    :arg answer: a late answer: for whom, from whom, what.
    :arg command: a late command: for whom, the event.
    :arg wiped: a machine was installed again, so a person may have to name it.
    """

    machines: tuple[Machine, ...]
    last: Data
    faults: int
    operations: int
    writes: int
    late: int
    token: int = 0
    answer: tuple[str, str, Record] | None = None
    command: tuple[str, Event] | None = None
    bad: str = ""
    wiped: bool = False

    def of(self, name: str) -> Machine:
        """Return a machine."""
        return self.machines[NAMES.index(name)]

    def on(self, name: str, **values: t.Any) -> State:
        """Return the state with another machine."""
        place = NAMES.index(name)
        return self._replace(machines=(*self.machines[:place], self.machines[place]._replace(**values), *self.machines[place + 1 :]))

    def lost(self, machine: Machine) -> str:
        """Return the server that a person names, because it was installed again."""
        record = machine.record
        if record is None or record.role != FORMER:
            return ""
        there = self.of(record.to)
        # one that was installed again may have received late commands
        had = there.data is not None or there.record is not None and there.record.role in (OWNER, FORMER)
        return "" if had else record.to
