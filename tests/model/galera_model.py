# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Guards of a Galera cluster, what can happen to its members, and what must hold.

What is left out, because no guard can prevent it:

An operator stops the only member with complete data while another one is still joining, and at this moment a member or witness with an older state
connects. The joining member keeps the majority, because the other one left in an orderly way, and Galera takes the older state.

"""

from __future__ import annotations

import dataclasses
import itertools
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._galera import plan_return
from ansible_collections.reduced.footprint.plugins.module_utils._galera.plan_return import Report, Step, View

from tests.model.galera_state import FORMING, OFF, RUNNING, STARTING, STOPPED, Cluster, Member, State, ended


@dataclasses.dataclass
class Galera(Cluster):
    """The model.

    :arg decide: the decision of the guards.
    :arg forgets: a guard uses no report that was made before its own server was last in a component or restarted.
    :arg asks_again: a guard asks the others again after it has stopped its server to form a component.
    :arg confirm: the decision of a member that a run starts the cluster with.
    """

    decide: t.Callable[..., Step] = plan_return.step
    forgets: bool = True
    asks_again: bool = True
    confirm: t.Callable[..., str | None] = plan_return.unconfirmed

    def __post_init__(self) -> None:
        super().__post_init__()
        #: States from which service returns.
        self.good: set[State] = set()
        self._decisions: dict[t.Any, Step] = {}

    def start(self) -> State:
        """Return the state after the events in ``begin``."""
        state = super().start()
        for step in self.begin:
            state = next(after for text, after in self.events(state) if text.startswith(step))
        return state

    # -- guards

    def report(self, state: State, i: int) -> tuple[t.Any, ...]:
        """Return what the guard of a member reports, as a tuple."""
        member = state.members[i]
        primary = member.primary and member.process == RUNNING
        position = member.disk if member.process != RUNNING or member.memory == member.disk else -2
        return (
            "stopped" if member.process == FORMING else member.process, primary, primary and member.full, member.disk >= 0, position,
            member.joined, member.isolated, member.view, member.caught, member.process == STOPPED,
        )  # fmt: skip

    def decision(self, state: State, me: int, stale: bool) -> Step:
        """Return the decision of a guard."""
        reports = []
        for i in self.data:
            if stale and state.old and i == state.old[0] and self.linked(state, me, i) and state.members[i].process != OFF:
                reports.append(state.old[1])
            elif i == me or (self.linked(state, me, i) and state.members[i].process != OFF):
                reports.append(self.report(state, i))
            else:
                reports.append(None)
        key = (me, tuple(reports), state.views)
        found = self._decisions.get(key)
        if found is None:
            objects = {self.names[i]: self._object(i, report, state.views) if report else None for i, report in enumerate(reports)}
            found = self._decisions[key] = self.decide(self.names[me], objects, int(self.witness))
        return found

    def _object(self, i: int, report: tuple[t.Any, ...], views: t.Sequence[frozenset[int]]) -> Report:
        state, primary, ready, data, position, joined, isolated, view, caught, failed = report
        saved = View(f"view {view}", view, tuple(sorted(self.names[j] for j in views[view]))) if view >= 0 else None
        return Report(
            self.names[i], state, primary, ready, "uuid" if data else None, position if position >= 0 else None, joined, isolated, saved,
            saved.id if saved and caught else None, self.names[i], {name: "garb" if name == "g" else name for name in self.names},
            "stopped by an operator" if failed else None,
        )  # fmt: skip

    def act(self, state: State, me: int, action: str) -> State:
        """Carry out the action of a guard."""
        member = state.members[me]
        if member.process == FORMING:
            if action == "form":
                return self.install(self.changed(state, {me: member._replace(process=STARTING, full=True)}), frozenset([me]), [me])
            return self.changed(state, {me: self.starts(member)})
        if action == "isolate" and member.process == RUNNING:
            return self.changed(state, {me: member._replace(isolated=True)})
        if action == "connect":
            return self.changed(state, {me: member._replace(isolated=False)})
        if action == "restart":
            return self.changed(state, {me: self.starts(ended(member))})
        if action == "form":
            if member.process == RUNNING and member.isolated:
                return state if member.primary else self.install(state, frozenset([me]), [me])
            # it asks the others again before it starts the cluster
            stopped = self.changed(state, {me: ended(member, FORMING)})
            return stopped if self.asks_again else self.act(stopped, me, action)
        return state

    def _noted(self, state: State, me: int) -> State:
        member = state.members[me]
        if member.primary and member.full and member.process == RUNNING and member.memory == member.disk and not member.caught:
            return self.changed(state, {me: member._replace(caught=True)})
        return state

    # -- what can happen

    def events(self, state: State) -> t.Iterator[tuple[str, State]]:
        """Return everything that can happen next."""
        if state.lost:
            return
        found = itertools.chain(self._galera(state), self._guards(state), self._runs(state), self._others(state), self._faults(state) if state.faults else ())
        for text, after in found:
            if after.views is not state.views or after.old is not state.old or any(
                new is not old and (new.disk, new.memory, new.view) != (old.disk, old.memory, old.view)
                for new, old in zip(after.members, state.members)
            ):
                after = self.normal(after)
            if after.old and self.forgets:
                users = frozenset(i for i in after.old[2] if self._uses_old(state.members[i], after.members[i]))
                after = after._replace(old=(*after.old[:2], users) if users else None)
            if self.symmetric:
                after = self.canonical(after)
            if after != state:
                yield text, after

    def _alone(self, state: State) -> bool:
        """Return whether the witness is Primary alone: a server that has started may not have connected to it yet."""
        return self.witness and state.members[self.size].primary and state.views[state.members[self.size].view] == frozenset([self.size])

    def _uses_old(self, before: Member, after: Member) -> bool:
        return not after.primary and after.process == before.process and after.joined >= before.joined

    def _galera(self, state: State) -> t.Iterator[tuple[str, State]]:
        groups = self.components(state)
        # sooner than a server that has ended starts again
        if self._alone(state):
            g = self.size
            yield f"{self.names[g]} has lost all connections, and is restarted", self.changed(state, {g: self.killed(g, state.members[g])})
        for group in groups:
            for after in self.settle(state, group):
                yield f"{self._list(group)} agree on their component: {self._described(after, group)}", after
        for i, member in enumerate(state.members):
            if i < self.size and member.process == RUNNING and member.memory > member.disk:
                yield f"{self.names[i]} applies its queue", self._applied(state, i)
            donor = self._donor(state, groups, i)
            if donor is not None:
                text = f"{self.names[i]} receives what it lacks from {self.names[donor]}"
                position = state.members[donor].memory
                yield text, self.changed(state, {i: member._replace(full=True, process=RUNNING, disk=position, memory=position)})
                if self.copies and member.disk >= 0:
                    text = f"{self.names[i]} removes its data to receive all of {self.names[donor]}"
                    yield text, self.changed(state, {i: member._replace(disk=-1, memory=-1)})
            elif self.ends and self._without_donor(state, groups, i):
                yield f"{self.names[i]} has lost its donor, leaves the others, and starts again", self._left(state, i, STARTING)
                yield f"{self.names[i]} has lost its donor, crashes, and starts again", self.changed(state, {i: self.starts(ended(member))})
        if state.commits:
            for group in self.whole(state):
                changes = {i: state.members[i]._replace(memory=state.members[i].memory + 1) for i in group if state.members[i].full}
                ordered = (*state.ordered, max(member.memory for member in changes.values()))
                yield f"{self._list(group)} order a transaction", self.changed(state, changes, commits=state.commits - 1, ordered=ordered)

    def _applied(self, state: State, i: int) -> State:
        member = state.members[i]
        state = self.changed(state, {i: member._replace(disk=member.memory)})
        if not (member.primary and member.full):
            return state
        acked = max([position for position in state.ordered if position <= member.memory], default=state.acked)
        return state._replace(acked=max(acked, state.acked), ordered=tuple(position for position in state.ordered if position > acked))

    def _donor(self, state: State, groups: t.Sequence[frozenset[int]], i: int) -> int | None:
        member = state.members[i]
        if i >= self.size or not member.primary or member.full:
            return None
        group = next((each for each in groups if i in each), frozenset())
        # a donor comes to the request after all that was ordered before it
        return next((j for j in sorted(group) if j < self.size and self._gives(state.members[j], member.view)), None)

    def _without_donor(self, state: State, groups: t.Sequence[frozenset[int]], i: int) -> bool:
        """Return whether a member joins and no other one that it reaches has the complete state of its component."""
        member = state.members[i]
        if i >= self.size or member.full or not member.joined:
            return False
        group = next(each for each in groups if i in each)
        return not member.primary or not any(state.members[j].full and state.members[j].view == member.view for j in group if j < self.size)

    def _gives(self, donor: Member, view: int) -> bool:
        return donor.full and donor.view == view and donor.memory == donor.disk

    def _guards(self, state: State) -> t.Iterator[tuple[str, State]]:
        for me in self.data:
            if state.members[me].process == OFF:
                continue
            name = self.names[me]
            if state.pending and state.pending[0] == me:
                action = state.pending[1]
                yield f"the guard of {name} carries out what it decided: {action}", self.act(state, me, action)._replace(pending=None)
                continue
            again = state.members[me].process == FORMING
            for stale in (False, True) if state.old and me in state.old[2] and not again else (False,):
                step = self.decision(state, me, stale)
                text = f"the guard of {name}{' (with the old report)' if stale else ''}: {step.action} ({step.reason})"
                noted = self._noted(state, me)
                if self.holds and step.hold and self._alone(state):
                    continue
                yield text, self.act(noted, me, step.action)
                if state.late and not state.pending and not again and step.action in ("isolate", "connect", "restart", "form"):
                    yield f"the guard of {name} decides, and is late: {step.action}", noted._replace(late=state.late - 1, pending=(me, step.action))
        if state.pending:
            yield f"the guard of {self.names[state.pending[0]]} is killed before it acts", state._replace(pending=None)
        if state.stale and state.old is None:
            for i in self.data:
                if state.members[i].process != OFF:
                    old = (i, self.report(state, i), frozenset(self.data) - {i})
                    yield f"{self.names[i]} gives the same report for some time", state._replace(stale=state.stale - 1, old=old)

    def _runs(self, state: State) -> t.Iterator[tuple[str, State]]:
        """A run of the role reaches every member that has power, over links that are not theirs."""
        if state.run is None:
            if state.runs:
                yield from self._decided(state)
            return
        me, others = state.run
        member, free = state.members[me], state._replace(run=None)
        yield "the run is killed", free
        if member.process == OFF or member.primary:
            return
        if not self._confirmed(state, me):
            return
        text = f"the run starts the cluster with {self.names[me]}"
        if member.process == RUNNING:
            (group,) = (each for each in self.components(state) if me in each)
            yield text, self.install(free, group, self._newest_in_memory(state, group) or [me])
        else:
            yield text, self.install(self.changed(free, {me: ended(member)._replace(full=True)}), frozenset([me]), [me])

    def _decided(self, state: State) -> t.Iterator[tuple[str, State]]:
        here = [i for i in self.data if state.members[i].process != OFF]
        seen = {self.names[i]: self._object(i, self.report(state, i), state.views) if i in here else None for i in self.data}
        if any(report and report.primary for report in seen.values()):
            return
        found = plan_return.newest(seen)
        others = frozenset(i for i in here if state.members[i].disk >= 0)
        for name in found.equal:
            me = self.names.index(name)
            yield f"a run decides that {name} starts the cluster", state._replace(runs=state.runs - 1, run=(me, others - {me}))

    def _confirmed(self, state: State, me: int) -> bool:
        """Whether the member starts the cluster, after what the guards report now."""
        here = {i for i in self.data if state.members[i].process != OFF and self.linked(state, me, i)} | {me}
        seen = {self.names[i]: self._object(i, self.report(state, i), state.views) if i in here else None for i in self.data}
        return not self.confirm(self.names[me], seen, False)

    def _others(self, state: State) -> t.Iterator[tuple[str, State]]:
        if state.cuts:
            yield "all links are back", state._replace(cuts=frozenset())
        if state.old:
            yield "the old report is too old", state._replace(old=None)
        for i, member in enumerate(state.members):
            if member.process == OFF:
                # takes longer than a report is used
                yield f"{self.names[i]} has power again", self.changed(state, {i: self.starts(member)}, old=None, pending=None)
            if member.process == STOPPED:
                yield f"the operator starts {self.names[i]}", self.changed(state, {i: self.starts(member)})

    def _faults(self, state: State) -> t.Iterator[tuple[str, State]]:
        less = state.faults - 1
        pairs = list(itertools.combinations(self.all, 2))
        for i, j in pairs:
            if (i, j) not in state.cuts:
                yield f"the link {self.names[i]}-{self.names[j]} is cut", state._replace(cuts=state.cuts | {(i, j)}, faults=less)
        for i, member in enumerate(state.members):
            name = self.names[i]
            own = frozenset(pair for pair in pairs if i in pair)
            if not own <= state.cuts:
                yield f"{name} is cut off", state._replace(cuts=state.cuts | own, faults=less)
            if member.process in (STARTING, RUNNING):
                yield f"the server of {name} is killed and starts again", self.changed(state, {i: self.killed(i, member)}, faults=less)
            if i >= self.size or member.process == OFF:
                continue
            pending = None if state.pending and state.pending[0] == i else state.pending
            yield f"{name} loses power", self.changed(state, {i: ended(member, OFF)}, faults=less, pending=pending)
            # not while another one joins: see the docstring of the module
            if member.process == RUNNING and member.full and not any(
                other.primary and not other.full and other.view == member.view for other in state.members[: self.size]
            ):
                yield f"the operator stops {name}", self._left(state, i, STOPPED)._replace(faults=less)

    def _left(self, state: State, i: int, process: str) -> State:
        """End a server in an orderly way: it leaves its component, which shrinks."""
        member = state.members[i]
        group = next(each for each in self.components(state) if i in each)
        after = self.changed(state, {i: ended(member._replace(disk=member.memory), process)._replace(view=-1, caught=False)})
        rest = group - {i}
        # a witness stays Primary alone
        if not member.primary or not rest:
            return after
        found = self.settled(after, rest, i)
        return found[0] if found else after

    # -- what must hold

    def violation(self, state: State) -> str | None:
        """Return why a state must not be."""
        if state.lost:
            return "LOST: a component serves without something that was acknowledged"
        if len(self.whole(state)) > 1:
            return "TWO Primary Components"
        return None

    def returns(self, state: State) -> tuple[str | None, list[tuple[str, State]]]:
        """Return why not all serve again, although all are back, nothing fails, and the guards act in turn."""
        more: list[tuple[str, State]] = []
        now = state._replace(cuts=frozenset(), old=None, faults=0, commits=0, late=0, stale=0, runs=0, run=None)
        seen: list[State] = []
        while True:
            now = self.normal(now)
            if now in self.good or self._well(now):
                self.good.update(seen)
                return None, []
            if now in seen:
                return "STUCK: all are back, and service does not return", more[:40]
            seen.append(now)
            now = self._round(now, more)
            if now.lost:
                return "LOST: a component serves without something that was acknowledged", more

    def _round(self, state: State, more: list[tuple[str, State]]) -> State:
        """Return the state after everything that can happen without a fault has happened once."""
        for kind in (self._others, self._guards, self._galera):
            for number in itertools.count():
                found = next(((text, after) for text, after in kind(state) if self._moves(text, state, after)), None)
                if found is None or number > 9:
                    break
                more.append(found)
                state = found[1]
                if state.lost:
                    return state
        return state

    def _moves(self, text: str, before: State, after: State) -> bool:
        return "killed before" not in text and "removes" not in text and self.normal(after) != self.normal(before)

    def _well(self, state: State) -> bool:
        whole = self.whole(state)
        return len(whole) == 1 and whole[0] == frozenset(self.all) and all(
            state.members[i].full and state.members[i].disk == state.members[i].memory for i in self.data
        )  # fmt: skip

    # -- words

    def _list(self, group: t.Iterable[int]) -> str:
        return ", ".join(self.names[i] for i in sorted(group))

    def _described(self, state: State, group: frozenset[int]) -> str:
        here = [i for i in group if state.members[i].primary]
        if not here:
            return "not Primary"
        behind = [i for i in here if i < self.size and not state.members[i].full]
        return f"Primary at position {max(state.members[i].memory for i in here)}" + (f", {self._list(behind)} lacks data" if behind else "")
