# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Members of a Galera cluster, their guards, and what can happen to them.

A position counts transactions. A member has one on its disk and one in memory, which is further while its receive queue is not applied. Views are
numbered in the order in which they were installed; the guards do not use that number. Time is not modelled: an event may come at any moment, so a
timeout, a slow poll or a late answer is another order of events. A member that hangs and resumes is one that is cut off and whose guard does not act.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._galera import plan_return
from ansible_collections.reduced.footprint.plugins.module_utils._galera.plan_return import Report, Step, View

#: State of the server: its machine has no power; an operator stopped it; its guard did, to form a component; it waits or joins; it answers SQL.
OFF, STOPPED, FORMING, STARTING, RUNNING = "off", "stopped", "forming", "starting", "running"


class Member(t.NamedTuple):
    """A member or the witness.

    :arg primary: it believes that it is in a Primary Component.
    :arg full: it had the complete state of a component since its process was started.
    :arg joined: this process was in ``view``.
    :arg disk: position on disk, -1 without data; of the witness always -1.
    :arg memory: position in memory.
    :arg view: index of the saved view, -1 if there is none.
    :arg caught: its guard saw it caught up in ``view``.
    """

    process: str = RUNNING
    primary: bool = True
    full: bool = True
    isolated: bool = False
    joined: bool = True
    disk: int = 0
    memory: int = 0
    view: int = 0
    caught: bool = True


class State(t.NamedTuple):
    """The whole cluster.

    :arg cuts: pairs of members without a link.
    :arg views: members of each view as a set.
    :arg acked: highest acknowledged position.
    :arg ordered: positions of transactions that are not acknowledged yet.
    :arg lost: a component serves without something that was acknowledged.
    :arg faults, commits, late, stale: how many more there may be.
    :arg old: a report of a member that others may still have.
    :arg pending: action that a guard has decided on and not carried out yet.
    """

    members: tuple[Member, ...]
    cuts: frozenset[tuple[int, int]]
    views: tuple[frozenset[int], ...]
    acked: int
    ordered: tuple[int, ...]
    lost: bool
    faults: int
    commits: int
    late: int
    stale: int
    old: tuple[int, tuple[t.Any, ...]] | None
    pending: tuple[int, str] | None


def ended(member: Member, process: str = STARTING) -> Member:
    """Return a member whose process was killed; systemd has started it again unless something else is said."""
    return member._replace(process=process, primary=False, full=False, isolated=False, joined=False, memory=member.disk)


@dataclasses.dataclass
class Galera:
    """The model.

    :arg size: number of members with data.
    :arg witness: a witness votes.
    :arg faults: number of faults.
    :arg commits: number of transactions.
    :arg late: how often a guard may act late.
    :arg stale: how often a report may be old.
    :arg restores: restarted servers restore their saved view, as without the rule that the view is renamed first.
    :arg copies: a member that joins may be without data meanwhile (SST).
    :arg symmetric: treat states that differ in the names of members only as one; names in a trace change meanwhile.
    :arg reverse: the other order of names, which decides between equal positions.
    :arg decide: the decision of the guards.
    """

    size: int = 3
    witness: bool = False
    faults: int = 3
    commits: int = 2
    late: int = 1
    stale: int = 1
    restores: bool = False
    copies: bool = False
    symmetric: bool = False
    reverse: bool = False
    decide: t.Callable[..., Step] = plan_return.step

    def __post_init__(self) -> None:
        self.names = "abcde"[: self.size][:: -1 if self.reverse else 1] + ("g" if self.witness else "")
        self.all = range(len(self.names))
        self.data = range(self.size)
        self.good: set[State] = set()
        self._same: dict[t.Any, t.Any] = {}
        self._decisions: dict[t.Any, Step] = {}

    def start(self) -> State:
        """Return a cluster in which all serve."""
        members = [Member() for _ in self.data] + [Member(disk=-1) for _ in self.all[self.size :]]
        return State(
            tuple(members), frozenset(), (frozenset(self.all),), 0, (), False, self.faults, self.commits, self.late, self.stale, None, None
        )

    # -- helpers

    def _with(self, state: State, changes: t.Mapping[int, Member], **more: t.Any) -> State:
        return state._replace(members=tuple(changes.get(i, member) for i, member in enumerate(state.members)), **more)

    def _normal(self, state: State) -> State:
        """Return the state without what no longer matters, so that equal situations are equal states."""
        old = state.old
        used = sorted({member.view for member in state.members if member.view >= 0} | ({old[1][7]} if old and old[1][7] >= 0 else set()))
        found = {position for member in state.members for position in (member.disk, member.memory)} | {state.acked, *state.ordered}
        if old:
            found.add(old[1][4])
        order = {position: rank for rank, position in enumerate(sorted(position for position in found if position >= 0))}
        if used == list(range(len(state.views))) and all(position == rank for position, rank in order.items()):
            return state
        views = {view: number for number, view in enumerate(used)}
        views[-1] = order[-1] = -1
        order[-2] = -2
        members = tuple(
            member._replace(disk=order[member.disk], memory=order[member.memory], view=views[member.view]) for member in state.members
        )
        if old:
            report = old[1]
            old = (old[0], (*report[:4], order[report[4]], *report[5:7], views[report[7]], *report[8:]))
        return state._replace(
            members=members, views=tuple(state.views[view] for view in used), acked=order[state.acked],
            ordered=tuple(order[position] for position in state.ordered), old=old,
        )  # fmt: skip

    def _sorted(self, state: State) -> State:
        """Return the state with its members in an order that does not depend on their names, unless a guard still has a decision or report by name."""
        if state.pending or state.old:
            return state
        keys = [
            (state.members[i], [i in view for view in state.views], sum(i in pair for pair in state.cuts))
            for i in self.data
        ]
        order = sorted(self.data, key=keys.__getitem__)
        if order == list(self.data):
            return state
        now = {i: place for place, i in enumerate([*order, *self.all[self.size :]])}
        return state._replace(
            members=tuple(state.members[i] for i in now),
            cuts=frozenset((min(now[i], now[j]), max(now[i], now[j])) for i, j in state.cuts),
            views=tuple(frozenset(now[i] for i in view) for view in state.views),
        )

    def shared(self, state: State) -> State:
        """Return the state with parts that equal states share, to save memory."""
        same = self._same
        members = tuple(same.setdefault(member, member) for member in state.members)
        return state._replace(members=same.setdefault(members, members), views=same.setdefault(state.views, state.views))

    def _linked(self, state: State, i: int, j: int) -> bool:
        return (min(i, j), max(i, j)) not in state.cuts

    def components(self, state: State) -> list[frozenset[int]]:
        """Return the groups of servers that reach each other, over others too."""
        return _components(tuple(self._talks(member) for member in state.members), tuple(m.isolated for m in state.members), state.cuts)

    def _talks(self, member: Member) -> bool:
        return member.process in (STARTING, RUNNING)

    # -- Galera

    def settle(self, state: State, group: frozenset[int]) -> list[State]:
        """Return the states after the members that reach each other have agreed on their component."""
        return self._settled(state, group, None)

    def _settled(self, state: State, group: frozenset[int], leaver: int | None) -> list[State]:
        members = state.members
        by_view: dict[int, set[int]] = {}
        for i in group:
            if members[i].primary:
                by_view.setdefault(members[i].view, set()).add(i)
        quorate = [view for view, here in by_view.items() if 2 * len(here) + (leaver is not None and leaver in state.views[view]) > len(state.views[view])]
        if len(quorate) > 1:
            return [
                self._with(state, {i: self._killed(i, members[i]) for view in quorate if view != survives for i in by_view[view]}) for survives in quorate
            ]
        if quorate:
            if leaver is None and all(members[i].primary and members[i].view == quorate[0] for i in group) and state.views[quorate[0]] == group:
                return []
            came = [i for i in by_view[quorate[0]] if members[i].full] or self._newest_in_memory(state, group)
            return [self._install(state, group, came)]
        remerged = self._remerge(state, group)
        if remerged is not None:
            return [self._install(state, group, remerged)]
        changes = {i: members[i]._replace(primary=False) for i in group if members[i].primary}
        return [self._with(state, changes)] if changes else []

    def _remerge(self, state: State, group: frozenset[int]) -> list[int] | None:
        """Return whose state a component takes that Galera forms by itself, ``None`` if it does not form one."""
        members = state.members
        joined = [i for i in group if members[i].joined]
        if not joined:
            return None
        greatest = max(members[i].view for i in joined)
        if not all(j in group and members[j].joined and members[j].view == greatest for j in state.views[greatest]):
            return None
        full = self._newest_in_memory(state, group)
        if full:
            return full
        best = max(members[i].disk for i in joined)
        return [i for i in joined if members[i].disk == best]

    def _newest_in_memory(self, state: State, group: t.Iterable[int]) -> list[int]:
        """Return the members with the newest state of those that had the complete state of a component since they were started."""
        full = {i: (state.members[i].view, state.members[i].memory) for i in group if state.members[i].full}
        return [i for i, newest in full.items() if newest == max(full.values())]

    def _install(self, state: State, group: frozenset[int], came: t.Sequence[int]) -> State:
        """Install a Primary Component with the state of ``came``."""
        members, position = state.members, max((state.members[i].memory for i in came), default=-1)
        changes = {}
        for i in group:
            member = members[i]
            full = position >= 0 and (i >= self.size or member.memory == position)
            # the change of the view has a position too; it is applied at once if nothing is queued
            disk = position + 1 if full and member.disk == position else member.disk
            changes[i] = member._replace(
                primary=True, full=full, joined=True, view=len(state.views), caught=False,
                process=RUNNING if full else member.process, disk=disk, memory=position + 1 if full else disk,
            )  # fmt: skip
        lost = position < state.acked and any(changes[i].full for i in group if i < self.size)
        return self._with(state, changes, views=(*state.views, group), lost=state.lost or lost)

    def _whole(self, state: State) -> list[frozenset[int]]:
        """Return the components that can commit: all members of the view reach each other."""
        return [
            group
            for group in self.components(state)
            if all(state.members[i].primary for i in group)
            and len({state.members[i].view for i in group}) == 1
            and state.views[state.members[min(group)].view] == group
            and any(state.members[i].full for i in group if i < self.size)
        ]

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
            if stale and state.old and i == state.old[0] and i != me:
                reports.append(state.old[1])
            elif i == me or (self._linked(state, me, i) and state.members[i].process != OFF):
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
                return self._install(self._with(state, {me: member._replace(process=STARTING, full=True)}), frozenset([me]), [me])
            return self._with(state, {me: self._starts(member)})
        if action == "isolate" and member.process == RUNNING:
            return self._with(state, {me: member._replace(isolated=True)})
        if action == "connect":
            return self._with(state, {me: member._replace(isolated=False)})
        if action == "restart":
            return self._with(state, {me: self._starts(ended(member))})
        if action == "form":
            if member.process == RUNNING and member.isolated:
                return state if member.primary else self._install(state, frozenset([me]), [me])
            # it asks the others again before it starts the cluster
            return self._with(state, {me: ended(member, FORMING)})
        return state

    def _starts(self, member: Member) -> Member:
        return member._replace(process=STARTING, joined=self.restores and member.view >= 0)

    def _noted(self, state: State, me: int) -> State:
        member = state.members[me]
        if member.primary and member.full and member.process == RUNNING and member.memory == member.disk and not member.caught:
            return self._with(state, {me: member._replace(caught=True)})
        return state

    # -- what can happen

    def events(self, state: State) -> t.Iterator[tuple[str, State]]:
        """Return everything that can happen next."""
        if state.lost:
            return
        found = itertools.chain(self._galera(state), self._guards(state), self._others(state), self._faults(state) if state.faults else ())
        for text, after in found:
            if after.views is not state.views or after.old is not state.old or any(
                new is not old and (new.disk, new.memory, new.view) != (old.disk, old.memory, old.view)
                for new, old in zip(after.members, state.members)
            ):
                after = self._normal(after)
            if self.symmetric:
                after = self._sorted(after)
            if after != state:
                yield text, after

    def _galera(self, state: State) -> t.Iterator[tuple[str, State]]:
        groups = self.components(state)
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
                yield text, self._with(state, {i: member._replace(full=True, process=RUNNING, disk=position, memory=position)})
                if self.copies and member.disk >= 0:
                    yield f"{self.names[i]} removes its data to receive all of {self.names[donor]}", self._with(state, {i: member._replace(disk=-1, memory=-1)})
        if state.commits:
            for group in self._whole(state):
                changes = {i: state.members[i]._replace(memory=state.members[i].memory + 1) for i in group if state.members[i].full}
                ordered = (*state.ordered, max(member.memory for member in changes.values()))
                yield f"{self._list(group)} order a transaction", self._with(state, changes, commits=state.commits - 1, ordered=ordered)

    def _applied(self, state: State, i: int) -> State:
        member = state.members[i]
        state = self._with(state, {i: member._replace(disk=member.memory)})
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
            for stale in (False, True) if state.old and state.old[0] != me and not again else (False,):
                step = self.decision(state, me, stale)
                text = f"the guard of {name}{' (with the old report)' if stale else ''}: {step.action} ({step.reason})"
                noted = self._noted(state, me)
                yield text, self.act(noted, me, step.action)
                if state.late and not state.pending and not again and step.action in ("isolate", "connect", "restart", "form"):
                    yield f"the guard of {name} decides, and is late: {step.action}", noted._replace(late=state.late - 1, pending=(me, step.action))
        if state.pending:
            yield f"the guard of {self.names[state.pending[0]]} is killed before it acts", state._replace(pending=None)
        if state.stale and state.old is None:
            for i in self.data:
                if state.members[i].process != OFF:
                    yield f"the others keep the report of {self.names[i]}", state._replace(stale=state.stale - 1, old=(i, self.report(state, i)))

    def _others(self, state: State) -> t.Iterator[tuple[str, State]]:
        if state.cuts:
            yield "all links are back", state._replace(cuts=frozenset())
        if state.old:
            yield "the old report is too old", state._replace(old=None)
        for i, member in enumerate(state.members):
            if member.process == OFF:
                # takes longer than a report is used
                yield f"{self.names[i]} has power again", self._with(state, {i: self._starts(member)}, old=None, pending=None)
            if member.process == STOPPED:
                yield f"the operator starts {self.names[i]}", self._with(state, {i: self._starts(member)})

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
                yield f"the server of {name} is killed and starts again", self._with(state, {i: self._killed(i, member)}, faults=less)
            if i >= self.size or member.process == OFF:
                continue
            pending = None if state.pending and state.pending[0] == i else state.pending
            yield f"{name} loses power", self._with(state, {i: ended(member, OFF)}, faults=less, pending=pending)
            # not while another one joins: see the docstring of the module
            if member.process == RUNNING and member.full and not any(
                other.primary and not other.full and other.view == member.view for other in state.members[: self.size]
            ):
                yield f"the operator stops {name}", self._stopped(state, i)._replace(faults=less)

    def _killed(self, i: int, member: Member) -> Member:
        return self._starts(ended(member)) if i < self.size else ended(member)._replace(view=-1, caught=False)

    def _stopped(self, state: State, i: int) -> State:
        """Stop a server in an orderly way: it leaves its component, which shrinks."""
        member = state.members[i]
        group = next(each for each in self.components(state) if i in each)
        after = self._with(state, {i: ended(member._replace(disk=member.memory), STOPPED)._replace(view=-1, caught=False)})
        rest = group - {i}
        if not member.primary or not rest:
            return after
        found = self._settled(after, rest, i)
        return found[0] if found else after

    # -- what must hold

    def violation(self, state: State) -> str | None:
        """Return why a state must not be."""
        if state.lost:
            return "LOST: a component serves without something that was acknowledged"
        if len(self._whole(state)) > 1:
            return "TWO Primary Components"
        return None

    def returns(self, state: State) -> tuple[str | None, list[tuple[str, State]]]:
        """Return why not all serve again, although all are back, nothing fails, and the guards act in turn."""
        more: list[tuple[str, State]] = []
        now = state._replace(cuts=frozenset(), old=None, faults=0, commits=0, late=0, stale=0)
        seen: list[State] = []
        while True:
            now = self._normal(now)
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
        return "killed before" not in text and "removes" not in text and self._normal(after) != self._normal(before)

    def _well(self, state: State) -> bool:
        whole = self._whole(state)
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


@functools.lru_cache(maxsize=None)
def _components(talks: tuple[bool, ...], isolated: tuple[bool, ...], cuts: frozenset[tuple[int, int]]) -> list[frozenset[int]]:
    groups: list[set[int]] = []
    for i in range(len(talks)):
        if not talks[i]:
            continue
        linked = [
            group for group in groups
            if not isolated[i] and any(not isolated[j] and (min(i, j), max(i, j)) not in cuts for j in group)
        ]  # fmt: skip
        groups = [group for group in groups if group not in linked] + [set([i]).union(*linked)]
    return [frozenset(group) for group in groups]
