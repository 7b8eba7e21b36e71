# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One VM on three servers between which it is moved: what can happen to its records and data, and what must hold.

A has the VM. Each transition is one durable write, or one act, of one machine, so a crash between any two of them is explored; a message that is
lost is one that is never sent. What is left out:

* A false word of a person: a server that is named as lost never runs the VM again.
* More than one answer, and one command, that are late at the same time.
* The last data, while they are only on a disk that is lost: no one can serve them, so they do not count.
* The start of a VM on its standby from a copy, which is older by definition.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import plan_owner
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.model_owner import (
    FORMER,
    INCOMING,
    LIVE,
    OWNER,
    STOPPED,
    Record,
)
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.plan_owner import TABLE, Event, Row
from tests.model.owner_state import NAMES, UUID, A, Machine, State


@dataclasses.dataclass
class Owner:
    """The model.

    :arg table: the transitions.
    :arg faults, operations, writes, late: how many there are at most; operations are those that an operator begins.
    :arg flushes: a record is on the disk before the next act.
    :arg closed: a record that cannot be read refuses the start.
    :arg again: an answer is not used after the own record has changed, or the machine has asked for something else.
    """

    table: t.Sequence[Row] = TABLE
    faults: int = 2
    operations: int = 2
    writes: int = 1
    late: int = 1
    flushes: bool = True
    closed: bool = True
    again: bool = True
    begin: t.Sequence[str] = ()

    def __post_init__(self) -> None:
        #: States from which service returns.
        self.good: set[t.Any] = set()
        self._parts: dict[t.Any, t.Any] = {}
        self._steps: dict[t.Any, t.Any] = {}

    def start(self) -> State:
        """Return the first state, after ``begin``."""
        owner = Machine(Record("lab", "m", UUID, "m", 1, OWNER, A), (1, 0), True)
        state = State((owner, Machine(None), Machine(None)), (1, 0), self.faults, self.operations, self.writes, self.late)
        for step in self.begin:
            found = [after for text, after in self.events(state) if text.startswith(step)]
            assert found, f"{step}: {[text for text, after in self.events(state)]}"
            state = found[0]
        return state

    # -- the table on a machine

    def read(self, state: State, name: str) -> Record | None:
        """Return what a machine answers now, ``None`` if it does not, or has no record."""
        machine = state.of(name)
        return machine.record if machine.on and machine.readable else None

    def answers(self, state: State, me: str) -> t.Iterator[tuple[str, dict[str, Record]]]:
        """Return what others answer a machine, also with the late answer."""
        found = {name: answer for name in NAMES if name != me and (answer := self.read(state, name)) is not None}
        yield "", found
        if state.answer and state.answer[0] == me:
            yield f" (with the late answer of {state.answer[1]})", {**found, state.answer[1]: state.answer[2]}

    def step(self, record: Record | None, event: Event) -> t.Any:
        """Return the record after an event, or an error."""
        key = (record, event._replace(answers=tuple(dict(event.answers).items())))
        if key not in self._steps:
            try:
                self._steps[key] = plan_owner.step(record, event, self.table)
            except RefusedError as error:
                self._steps[key] = error
        return self._steps[key]

    # -- what can happen

    def events(self, state: State) -> t.Iterator[tuple[str, State]]:
        """Return everything that can happen next."""
        if not state.bad:
            for text, after in (*self._acts(state), *self._operators(state), *self._late(state), *self._faults(state)):
                if after is not None and after != state:
                    yield text, after

    def _acts(self, state: State) -> t.Iterator[tuple[str, State | None]]:
        for name in NAMES:
            machine = state.of(name)
            if machine.on:
                yield from self._libvirt(state, name, machine)
            if machine.on and machine.readable and machine.record:
                # earlier answers are not used after it has asked for something else
                asking = state._replace(answer=None) if self.again and state.answer and state.answer[0] == name else state
                for to, event in self._commands(state, name, machine.record):
                    dropped = asking.on(name, dropped=machine.record.token) if event.name == "cancelled" else asking
                    yield f"{name}: {event.name} on {to}", self.event(dropped, to, event)
                for text, answers in self.answers(state, name):
                    for what, after in self._decides(state, name, machine, answers):
                        if text and after is not None and "removes" in after.bad:
                            # a disk that is lost between an answer and its use
                            after = after._replace(bad="", last=None)
                        yield f"{what}{text}", after

    def _libvirt(self, state: State, name: str, machine: Machine) -> t.Iterator[tuple[str, State | None]]:
        record = machine.record
        if not machine.running and machine.data is not None:
            # without a record, a managed VM is refused; one that arrives while it runs is only started by its source
            why = "unreadable" if not machine.readable and self.closed else "no record" if record is None or record.role == INCOMING else None
            if machine.readable and record and why is None:
                why = plan_owner.refusal({**record._asdict(), "operation": record.operation._asdict() if record.operation else None}, True)
            if why is None:
                yield f"{name} starts the VM", self._runs(state, name)
        if machine.running and state.writes and machine.data:
            # the epoch is that of the owner who started it; its record may be unreadable now
            data = (record.epoch if record else machine.data[0], machine.data[1] + 1)
            yield f"the VM writes on {name}", state.on(name, data=data)._replace(last=data, writes=state.writes - 1)
        if (machine.running or machine.paused) and record and record.role == OWNER and record.operation and record.operation.step != LIVE:
            yield f"{name} shuts the VM down", state.on(name, running=False, paused=False)

    def _runs(self, state: State, name: str) -> State:
        data = state.of(name).data
        bad = "" if state.last in (None, data) else f"LOST: {name} starts with data {data}, not {state.last}"
        return state.on(name, running=True, paused=False)._replace(bad=bad)

    def _commands(self, state: State, name: str, record: Record) -> t.Iterator[tuple[str, Event]]:
        """Return what a machine asks others to do."""
        operation = record.operation
        if record.role == OWNER and operation and operation.by == name:
            yield operation.to, Event("received", token=operation.token, to=name, of=record)
            if operation.step == STOPPED and state.of(operation.to).data == state.of(name).data:
                yield operation.to, Event("arrived", token=operation.token)
        there = state.of(record.to).record
        if record.role != FORMER or not operation or operation.to != name or not there or there.operation and there.operation.to != name:
            return
        # the way back
        yield record.to, Event("cancelled")
        if operation.token != state.of(name).dropped:
            yield record.to, Event("begun", here=name, token=operation.token, to=name, answers=((name, record),))  # type: ignore[arg-type]
            if there.operation and there.operation.step == STOPPED and state.of(name).data in (state.of(record.to).data, state.last):
                yield record.to, Event("handed over", answers=((name, record),), complete=True)  # type: ignore[arg-type]

    def event(self, state: State, name: str, event: Event, **values: t.Any) -> State | None:
        """Return the state after an event on a machine and the write of its record, ``None`` if it is refused or cannot be read."""
        machine = state.of(name)
        if not machine.on or not machine.readable:
            return None
        if event.name == "received":
            live = machine.record and machine.record.operation and machine.record.operation.step == LIVE
            event = event._replace(complete=bool(machine.running or machine.paused or live and machine.data))
        after = self.step(machine.record, event._replace(here=event.here or name, answers=dict(event.answers)))
        if isinstance(after, RefusedError) or (after == machine.record and not values):
            return None
        if self.again and after != machine.record and state.answer and state.answer[0] == name:
            state = state._replace(answer=None)
        return state.on(name, record=after, **{"unflushed": () if self.flushes else (machine.record,), **values})

    def _decides(self, state: State, name: str, machine: Machine, answers: t.Mapping[str, Record]) -> t.Iterator[tuple[str, State | None]]:
        record = machine.record
        if record is None:
            return
        if record.role == OWNER and record.operation:
            yield from self._moves(state, name, record, answers)
        if record.role == INCOMING:
            yield f"{name}: taken", self.event(state, name, Event("taken", answers=answers, complete=machine.data is not None))
            yield f"{name}: discarded", self._removed(state, self.event(state, name, Event("discarded", answers=answers), data=None, paused=False), name)
        if record.role == FORMER:
            yield f"{name}: taken again", self.event(state, name, Event("taken", answers=answers))
            yield f"{name}: confirmed", self._removed(state, self.event(state, name, Event("confirmed", answers=answers), data=None), name)
            there = state.of(record.to)
            if there.paused and there.record and record.operation and record.operation.to == record.to and there.record.token in (record.token, None):
                yield f"{name} resumes the VM on {record.to}", self._runs(state, record.to)

    def _moves(self, state: State, name: str, record: Record, answers: t.Mapping[str, Record]) -> t.Iterator[tuple[str, State | None]]:
        machine, operation = state.of(name), record.operation
        if operation is None:
            return
        there = state.of(operation.to)
        yield f"{name}: stopped", self.event(state, name, Event("stopped", running=machine.running or machine.paused)) if operation.step != LIVE else None
        if operation.by == name:
            # a return is cancelled by the one that asked for it
            yield f"{name}: cancelled", self.event(state, name, Event("cancelled"))
        reached = there.on and there.readable and there.record is not None
        receives = reached and there.record is not None and there.record.role == INCOMING and there.record.token == operation.token
        # its disks there are those of the former owner
        returns = reached and there.record is not None and there.record.role == FORMER and there.record.token == operation.token
        if operation.step == STOPPED and (receives or returns) and there.data != machine.data:
            bad = "" if there.data is None or machine.data is None or machine.data >= there.data else f"OLDER: {machine.data} replace {there.data}"
            yield f"{name} copies the data to {operation.to}", state.on(operation.to, data=machine.data)._replace(bad=bad)
        if operation.step == LIVE and receives and machine.running:
            yield f"{name} migrates the VM to {operation.to}", state.on(name, running=False).on(operation.to, data=machine.data, paused=True)
        complete = there.on and there.data is not None and there.data in (machine.data, state.last) and (operation.step != LIVE or there.paused)
        event = Event("handed over", answers=answers, complete=complete and not machine.running)
        if there.record is None or there.record.role != FORMER:
            yield f"{name}: handed over to {operation.to}", self.event(state, name, event)

    def _removed(self, before: State, after: State | None, name: str) -> State | None:
        """Return the state after the data of a machine were removed."""
        if after and before.last is not None and before.of(name).data == before.last and all(each.data != before.last for each in after.machines):
            return after._replace(bad=f"LOST: {name} removes the last valid data")
        return after

    def _operators(self, state: State) -> t.Iterator[tuple[str, State | None]]:
        if not state.operations:
            return
        less = state._replace(operations=state.operations - 1, token=state.token + 1)
        for name, machine in zip(NAMES, state.machines):
            for to in NAMES[:2]:
                for live in (False, True):
                    if to != name and not (live and not machine.running):
                        event = Event("begun", token=str(less.token), to=to, live=live)
                        yield f"{name}: begun{' live' if live else ''}, to {to}", self.event(less, name, event)
            if machine.record and machine.record.role == FORMER:
                there = self.read(state, machine.record.to)
                answers = {machine.record.to: there} if there else {}
                yield f"{name}: asked back", self.event(less, name, Event("asked back", token=str(less.token), answers=answers))
                # a person may name the wrong machine as well
                lost = state.lost(machine)
                # what it had is given up by name
                data = (machine.record.epoch + 2, machine.data[1] if machine.data else 0)
                after = self.event(less, name, Event("taken over", lost=lost or "another"), data=data)
                bad = "" if machine.data else f"LOST: {name} takes over without data"
                yield f"{name}: taken over, because {lost or 'another'} is lost", after._replace(last=data, bad=bad) if after else None
            record = machine.record
            if record and record.role == OWNER and record.operation is None and machine.on and machine.readable:
                yield from self._removals(less._replace(last=None), name, record, (0, (state.last or (0, 0))[1] + 1))
            if record and record.role == OWNER and record.operation and record.operation.step == STOPPED and machine.data == state.last:
                there = state.of(record.operation.to)
                if there.record and there.record.role == FORMER and there.record.token == record.token and there.data:
                    yield f"a person gives up what the VM wrote on {name}", less._replace(last=there.data)

    def _removals(self, state: State, name: str, record: Record, data: tuple[int, int]) -> t.Iterator[tuple[str, State | None]]:
        """Return what follows the removal of a VM with its disks, after which a new one of that name may begin with other data."""
        removed = self.event(state.on(name, running=False, paused=False), name, Event("removed"), data=None)
        yield f"{name}: removed", removed
        for other in NAMES if removed else ():
            there = state.of(other).record
            if there and there.role == INCOMING:
                # copied again from the beginning
                removed = t.cast("State", removed).on(other, data=None)
        new = Record(record.cluster, record.id, record.uuid, record.name, to=name)
        yield f"{name}: removed and created again", removed.on(name, record=new, data=data)._replace(last=data) if removed else None

    def _late(self, state: State) -> t.Iterator[tuple[str, State | None]]:
        if state.command:
            to, event = state.command
            yield f"the late command {event.name} reaches {to}", self.event(state, to, event)
            yield "the late command is lost", state._replace(command=None)
        if state.answer:
            yield "the late answer is lost", state._replace(answer=None)
        if not state.late:
            return
        less = state._replace(late=state.late - 1)
        for name, machine in zip(NAMES, state.machines):
            if not machine.on or machine.record is None or not machine.readable:
                continue
            for other in NAMES:
                answer = self.read(state, other)
                if other != name and answer is not None and not state.answer:
                    yield f"{other} answers {name}, which is late to use it", less._replace(answer=(name, other, answer))
            if not state.command:
                for to, event in self._commands(state, name, machine.record):
                    if event.name != "cancelled":
                        yield f"{name}: {event.name} on {to} will be late", less._replace(command=(to, event._replace(answers=tuple(event.answers))))

    def _faults(self, state: State) -> t.Iterator[tuple[str, State | None]]:
        for name, machine in zip(NAMES, state.machines):
            if not machine.on:
                yield f"{name} has power again", state.on(name, on=True)
            if not machine.readable:
                yield f"{name} can be read again", state.on(name, readable=True)
            if not state.faults or not machine.on:
                continue
            less = state._replace(faults=state.faults - 1)
            yield f"{name} loses power", self._off(less, name)
            if machine.unflushed:
                yield f"{name} loses power, and its last write", self._off(less, name).on(name, record=machine.unflushed[0])
            if machine.readable and machine.record is not None:
                yield f"{name} cannot be read", less.on(name, readable=False)
            if not state.wiped and (machine.record is not None or machine.data is not None):
                yield f"{name} is installed again", self._wiped(less, name)

    def _off(self, state: State, name: str) -> State:
        if state.answer and state.answer[0] == name:
            # an answer ends with the boot
            state = state._replace(answer=None)
        return state.on(name, running=False, paused=False, on=False, unflushed=())

    def _wiped(self, state: State, name: str) -> State:
        after = self._off(state, name).on(name, record=None, data=None, readable=True)._replace(wiped=True)
        # what the source may have given up counts only when a person says so
        valid = [each for each in after.machines if each.record and each.record.role != INCOMING]
        return after if any(each.data == state.last for each in valid) else after._replace(last=None)

    # -- what must hold

    def violation(self, state: State) -> str | None:
        """Return why a state must not be."""
        running = [name for name, machine in zip(NAMES, state.machines) if machine.running]
        return f"TWO run the VM: {', '.join(running)}" if len(running) > 1 else state.bad or None

    def returns(self, state: State) -> tuple[str | None, list[tuple[str, State]]]:
        """Return why no one serves, although nothing fails any more, all machines answer, and each does what is due."""
        more: list[tuple[str, State]] = []
        machines = tuple(machine._replace(on=True, readable=True, unflushed=()) for machine in state.machines)
        now = state._replace(machines=machines, answer=None, command=None, faults=0, operations=0, late=0, writes=0)
        seen: list[t.Any] = []
        while not now.bad:
            # what is not there any more no one can serve
            if now.machines in self.good or any(each.running for each in now.machines) or now.last is None:
                self.good.update(seen)
                return None, []
            seen.append(now.machines)
            found = next((each for kind in (self._due, self._last_resort) for each in kind(now) if each[1] and each[1].machines not in seen), None)
            if found is None or len(seen) > 60:
                return "STUCK: all machines answer, and no one serves", more
            more.append(t.cast("tuple[str, State]", found))
            now = t.cast("State", found[1])
        return now.bad, more

    def _due(self, state: State) -> t.Iterator[tuple[str, State | None]]:
        """Return what machines do by themselves, most urgent first."""
        found = list(self._acts(state))
        for word in (" starts ", " resumes ", "taken", "handed over", "cancelled", "discarded"):
            yield from (each for each in found if word in each[0])

    def _last_resort(self, state: State) -> t.Iterator[tuple[str, State | None]]:
        """Return what a person lets them do, who is named the machine that is missing."""
        if state.wiped:
            yield from (found for found in self._operators(state._replace(operations=1)) if "taken over" in found[0])
        for name, machine in zip(NAMES, state.machines):
            record = machine.record
            # one that is asked for, by a machine that has given up, or that was installed again
            asked = record and record.operation and record.operation.by != name
            if record and asked and (record.role == OWNER or state.wiped and record.role == INCOMING) and machine.data == state.last:
                yield f"a person removes the record on {name}", state.on(name, record=record._replace(role=OWNER, operation=None))

    def shared(self, state: State) -> State:
        """Return an equal state that shares its machines with others."""
        return state._replace(machines=self._parts.setdefault(state.machines, tuple(self._parts.setdefault(each, each) for each in state.machines)))
