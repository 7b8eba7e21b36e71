# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One VM on three servers with a voter: what can happen to its records and data, and what must hold.

A runs the VM, C is its standby, B is a server to which it may be moved, V is a witness. Each transition is one durable write, or one act, of one
machine, so a crash between any two of them is explored; a message that is lost is one that is never sent. What is left out:

* A false word of a person: a proof is true when it is obtained.
* More than one answer, and one command, that are late at the same time.
* Two machines that are installed again: if these are the standby and the witness, no machine knows of their promises any more.
* The last data, while they are only on a disk that is lost: no one can serve them, so they do not count.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import plan_owner
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.model_owner import (
    ASK,
    FORMER,
    FREE,
    INCOMING,
    MOVE,
    OWNER,
    PERSON,
    POWER_OFF,
    PROMISED,
    STANDBY,
    STOPPED,
    TAKEOVER,
    VOTER,
    Absent,
    Answer,
    Counterpart,
    Known,
    Proof,
    Record,
)
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.plan_owner import TABLE, Event, Row
from tests.model.owner_state import NAMES, UUID, VOTERS, A, B, C, Data, Machine, State, V


@dataclasses.dataclass
class Owner:
    """The model.

    :arg table: the transitions.
    :arg faults, operations, writes, late: how many there are at most; operations are those that an operator begins.
    :arg voters: a standby and a witness, or fewer; without any the VM starts freely with its server.
    :arg flushes: a record is on the disk before the next act.
    :arg closed: a record that cannot be read refuses the start.
    :arg silent: a machine that does not answer counts as one without a record.
    :arg asks_after_proof: a standby reads the promises after it obtained the proof.
    :arg again: an answer is not used after the own record has changed.
    :arg boots: an answer from before a restart is not used after it.
    """

    table: t.Sequence[Row] = TABLE
    faults: int = 2
    operations: int = 2
    writes: int = 1
    late: int = 1
    voters: t.Sequence[Counterpart] = VOTERS
    starts: str = ASK
    flushes: bool = True
    closed: bool = True
    silent: bool = False
    asks_after_proof: bool = True
    boots: bool = True
    again: bool = True
    begin: t.Sequence[str] = ()

    def __post_init__(self) -> None:
        #: States from which service returns.
        self.good: set[t.Any] = set()
        self._parts: dict[t.Any, t.Any] = {}
        self._steps: dict[t.Any, t.Any] = {}

    def start(self) -> State:
        """Return the first state, after ``begin``."""
        record = Record("lab", "m", UUID, "m", 1, OWNER, A, "", tuple(self.voters), self.starts if self.voters else FREE)
        standby = Machine(record._replace(role=STANDBY), (1, 0)) if self.voters else Machine(None)
        others = (standby, Machine(record._replace(role=VOTER) if len(self.voters) > 1 else None))
        state = State((Machine(record, (1, 0), True, permit=True), Machine(None), *others), (1, 0), self.faults, self.operations, self.writes, self.late)
        for step in self.begin:
            found = [after for text, after in self.events(state) if text.startswith(step)]
            assert found, f"{step}: {[text for text, after in self.events(state)]}"
            state = found[0]
        return state

    # -- the table on a machine

    def read(self, state: State, name: str) -> Answer | None:
        """Return what a machine answers now, ``None`` if it does not."""
        machine = state.of(name)
        if not (machine.on and machine.readable):
            return Absent() if self.silent else None
        return Known(machine.record) if machine.record else Absent()

    def answers(self, state: State, me: str) -> t.Iterator[tuple[str, dict[str, Answer]]]:
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

    def event(self, state: State, name: str, event: Event, **values: t.Any) -> State | None:
        """Return the state after an event on a machine and the write of its record, ``None`` if it is refused or cannot be read."""
        machine = state.of(name)
        if not machine.on or not machine.readable:
            return None
        after = self.step(machine.record, event._replace(here=name))
        if isinstance(after, RefusedError) or (after == machine.record and not values):
            return None
        if self.again and after != machine.record and state.answer and state.answer[0] == name:
            state = state._replace(answer=None)
        return state.on(name, record=after, **{"unflushed": () if self.flushes else (machine.record,), **values})

    # -- what can happen

    def events(self, state: State) -> t.Iterator[tuple[str, State]]:
        """Return everything that can happen next."""
        if not state.bad:
            for text, after in (*self._acts(state), *self._operators(state), *self._late(state), *self._faults(state)):
                if after is not None and after != state:
                    yield text, after

    def _acts(self, state: State) -> t.Iterator[tuple[str, State | None]]:
        for name in NAMES[:3]:
            machine = state.of(name)
            if machine.on:
                yield from self._libvirt(state, name, machine)
            if machine.on and machine.readable:
                yield from self._pushes(state, name, machine)
                for text, answers in self.answers(state, name):
                    for what, after in self._decides(state, name, machine, answers):
                        if text and after is not None and "removes" in after.bad:
                            # a disk that is lost between an answer and its use
                            after = after._replace(bad="", last=None)
                        yield f"{what}{text}", after
        if state.of(V).on:
            for text, answers in self.answers(state, V):
                yield f"V: released{text}", self.event(state, V, Event("released", answers=answers))
                yield from self._learns(state, V, answers, text)

    def _libvirt(self, state: State, name: str, machine: Machine) -> t.Iterator[tuple[str, State | None]]:
        record = machine.record
        if not machine.running and machine.data is not None:
            # without a record, a managed VM is refused
            why = "unreadable" if not machine.readable and self.closed else None
            if machine.readable:
                values = {**record._asdict(), "operation": record.operation._asdict() if record.operation else None} if record else None
                why = plan_owner.refusal(values, machine.permit) if values else "no record"
            if why is None:
                bad = "" if state.last in (None, machine.data) else f"LOST: {name} starts with data {machine.data}, not {state.last}"
                yield f"{name} starts the VM", state.on(name, running=True)._replace(bad=bad)
        if machine.running and state.writes and machine.data:
            # the epoch is that of the owner who started it; its record may be unreadable now
            data = (record.epoch if record else machine.data[0], machine.data[1] + 1)
            yield f"the VM writes on {name}", state.on(name, data=data)._replace(last=data, writes=state.writes - 1)
        if machine.running and record and record.operation and record.operation.kind == MOVE:
            yield f"{name} shuts the VM down", state.on(name, running=False)

    def _pushes(self, state: State, name: str, machine: Machine) -> t.Iterator[tuple[str, State | None]]:
        for to, event, data in self._commands(state, name, machine):
            yield f"{name}: {event.name} on {to}", self._command(state, to, event, data)

    def _commands(self, state: State, name: str, machine: Machine) -> t.Iterator[tuple[str, Event, Data]]:
        """Return what a machine asks others to do."""
        record = machine.record
        if not record or record.role == VOTER:
            return
        operation = record.operation
        if operation and (operation.kind == TAKEOVER or operation.kind == MOVE and record.role == OWNER):
            if record.role == OWNER:
                yield operation.to, Event("received", token=operation.token, to=name, of=record), None
                if operation.step == STOPPED and state.of(operation.to).data == machine.data:
                    yield operation.to, Event("arrived", token=operation.token), None
            for voter in sorted(record.voters - {name}):
                yield voter, Event("promised", token=operation.token, to=operation.to, of=record), None
        if record.role == OWNER:
            for other in sorted(record.voters - {name}):
                yield other, Event("learned", of=record), None
                yield other, Event("prepared", of=record, permitted=machine.permit, complete=other == C), machine.data
            if C in record.voters and name != C and machine.permit:
                yield C, Event("copied", of=record), machine.data

    def _command(self, state: State, to: str, event: Event, data: Data) -> State | None:
        if event.name not in ("copied", "prepared") or not event.complete and event.name == "prepared":
            return self.event(state, to, event)
        if (old := state.of(to).data) and event.name == "copied":
            event = event._replace(complete=data is not None and data >= old)
        after = self.event(state, to, event, data=data)
        if after is not None and old is not None and data is not None and data < old:
            return after._replace(bad=f"OLDER: data {data} replace {old} on {to}")
        return after

    def _learns(self, state: State, name: str, answers: t.Mapping[str, Answer], text: str) -> t.Iterator[tuple[str, State | None]]:
        for other, answer in answers.items():
            if isinstance(answer, Known):
                yield f"{name}: learned from {other}{text}", self.event(state, name, Event("learned", of=answer.record))

    def _decides(self, state: State, name: str, machine: Machine, answers: t.Mapping[str, Answer]) -> t.Iterator[tuple[str, State | None]]:
        record = machine.record
        if record is None:
            if name == A and self.voters:
                machines = (Counterpart(B, "source"), *self.voters)
                new = Record("lab", "m", UUID, "m", counterparts=machines, start=ASK)
                after = self.event(state, name, Event("created", of=new, answers=answers), data=(0, 0))
                after = after.on(name, record=after.of(name).record._replace(counterparts=tuple(self.voters))) if after else None  # type: ignore[union-attr]
                yield "A: created", after._replace(last=after.last if any(m.data for m in state.machines) else (0, 0)) if after else None
            return
        yield from self._learns(state, name, answers, "")
        if record.role == OWNER:
            yield from self._moves(state, name, machine, answers)
            for other in sorted(record.voters):
                answer = answers.get(other)
                if isinstance(answer, Known) and not machine.permit and plan_owner.may_permit(answer.record, record.epoch):
                    yield f"{name}: permit from {other}", state.on(name, permit=True)
        if record.role == INCOMING:
            yield f"{name}: taken", self.event(state, name, Event("taken", answers=answers), permit=True)
            yield f"{name}: discarded", self._removed(state, self.event(state, name, Event("discarded", answers=answers), data=None), name)
        if record.role == FORMER:
            yield f"{name}: confirmed", self._removed(state, self.event(state, name, Event("confirmed", answers=answers), data=None), name)
        if record.role in (STANDBY, VOTER):
            yield f"{name}: released", self.event(state, name, Event("released", answers=answers))
        if record.operation and record.operation.kind == TAKEOVER:
            yield f"{name}: withdrawn", self.event(state, name, Event("withdrawn"), proof=None)
            yield f"{name}: claim promised", self.event(state, name, Event("claim promised", answers=answers))
            yield from self._proves(state, name, machine, answers)

    def _moves(self, state: State, name: str, machine: Machine, answers: t.Mapping[str, Answer]) -> t.Iterator[tuple[str, State | None]]:
        record = machine.record
        operation = record.operation if record else None
        if record is None or operation is None or operation.kind != MOVE:
            return
        there = state.of(operation.to)
        yield f"{name}: stopped", self.event(state, name, Event("stopped", running=machine.running))
        yield f"{name}: cancelled", self.event(state, name, Event("cancelled"))
        receives = there.on and there.readable and there.record is not None and there.record.role == INCOMING and there.record.token == operation.token
        if operation.step == STOPPED and receives and there.data != machine.data:
            bad = "" if there.data is None or machine.data is None or machine.data >= there.data else f"OLDER: {machine.data} replace {there.data}"
            yield f"{name} copies the data to {operation.to}", state.on(operation.to, data=machine.data)._replace(bad=bad)
        yield f"{name}: handed over to {operation.to}", self.event(state, name, Event("handed over", answers=answers))

    def _proves(self, state: State, name: str, machine: Machine, answers: t.Mapping[str, Answer]) -> t.Iterator[tuple[str, State | None]]:
        record = machine.record
        operation = record.operation if record else None
        if record is None or operation is None:
            return
        claim = operation.token if operation.step == PROMISED else ""
        if machine.proof != claim and state.is_off(name):
            answer = None if self.asks_after_proof and state.answer and state.answer[0] == name else state.answer
            yield f"{name}: proof{'' if claim else ' before the promises'}", state.on(name, proof=claim)._replace(answer=answer)
        if machine.proof is not None:
            proof = Proof(POWER_OFF, claim=machine.proof)
            # what the copy does not have is given up by name
            data = (record.epoch + 1, machine.data[1] if machine.data else 0)
            event = Event("taken over", answers=answers, proof=proof)
            after = self.event(state, name, event, data=data, permit=True, proof=None)
            bad = "" if machine.data else f"LOST: {name} takes over without data"
            yield f"{name}: taken over", after._replace(last=data, bad=bad) if after else None

    def _removed(self, before: State, after: State | None, name: str) -> State | None:
        """Return the state after the data of a machine were removed."""
        if after and before.last is not None and before.of(name).data == before.last and all(each.data != before.last for each in after.machines):
            return after._replace(bad=f"LOST: {name} removes the last valid data")
        return after

    def _operators(self, state: State) -> t.Iterator[tuple[str, State | None]]:
        if not state.operations:
            return
        less = state._replace(operations=state.operations - 1, token=state.token + 1)
        token = str(less.token)
        for name in NAMES[:3]:
            for to in (A, B):
                if to != name:
                    yield f"{name}: begun, to {to}", self.event(less, name, Event("begun", token=token, to=to))
            machine = state.of(name)
            yield f"{name}: claimed", self.event(less, name, Event("claimed", token=token, proof=Proof(PERSON)), proof=None)
            lost = state.lost(machine)
            if lost:
                proof = Proof(PERSON, lost)
                after = self.event(less, name, Event("discarded", proof=proof), data=None)
                yield f"{name}: discarded, because {lost} is lost", after._replace(last=after.last if machine.data != after.last else None) if after else None
                yield f"{name}: claimed, because {lost} is lost", self.event(less, name, Event("claimed", token=token, proof=proof), proof=None)

    def _late(self, state: State) -> t.Iterator[tuple[str, State | None]]:
        if state.command:
            to, event, data = state.command
            yield f"the late command {event.name} reaches {to}", self._command(state, to, event, data)
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
                for to, event, data in self._commands(state, name, machine):
                    yield f"{name}: {event.name} on {to} will be late", less._replace(command=(to, event._replace(answers=()), data))

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
        if state.answer and state.answer[0] == name and self.boots:
            state = state._replace(answer=None)
        return state.on(name, running=False, on=False, permit=False, proof=None, unflushed=())

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
            if now.machines in self.good or any(each.running for each in now.machines) or not any(each.data for each in now.machines):
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
        for word in (" starts ", "learned", "taken", "permit", "handed over", "cancelled", "discarded", "released", "promised on", "claim promised", "proof"):
            yield from (each for each in found if word in each[0])

    def _last_resort(self, state: State) -> t.Iterator[tuple[str, State | None]]:
        """Return what a person lets them do, who is named the machine that is missing."""
        yield from (found for found in self._acts(state) if "withdrawn" in found[0])
        if not state.wiped:
            return
        for name, machine in zip(NAMES, state.machines):
            record = machine.record
            if record and record.role == OWNER:
                if record.voters and not any(state.of(voter).record for voter in record.voters - {name}):
                    yield f"a person permits the start on {name}", state.on(name, permit=True)
                return
        yield from sorted(self._operators(state._replace(operations=1)), key=lambda each: state.of(each[0][0]).data != state.last)
        yield from (found for found in self._acts(state) if "created" in found[0] or "prepared" in found[0])

    def shared(self, state: State) -> State:
        """Return an equal state that shares its machines with others."""
        return state._replace(machines=self._parts.setdefault(state.machines, tuple(self._parts.setdefault(each, each) for each in state.machines)))
