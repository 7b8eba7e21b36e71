# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Members of a Galera cluster, and what Galera does with them; ``galera_transitions`` lists it.

A position counts transactions and changes of the view. A member has one on its disk and one in memory, which is further while its receive queue is not
applied. Views are numbered in the order in which they were installed; the guards do not use that number. Time is not modelled: an event may come at any
moment, so a timeout, a slow poll or a late answer is another order of events. A member that hangs and resumes is one that is cut off and whose guard
does not act.
"""

from __future__ import annotations

import dataclasses
import functools
import typing as t

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
    :arg old: a report of a member that it still gives, and to whom: those that were in no Primary Component and not restarted since.
    :arg pending: action that a guard has decided on and not carried out yet.
    :arg runs: how often a run of the role may decide who starts the cluster.
    :arg run: who shall start the cluster, as a run has decided, and the other members with data that it saw.
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
    old: tuple[int, tuple[t.Any, ...], frozenset[int]] | None
    pending: tuple[int, str] | None
    runs: int = 0
    run: tuple[int, frozenset[int]] | None = None


def ended(member: Member, process: str = STARTING) -> Member:
    """Return a member whose process was killed; systemd has started it again unless something else is said."""
    return member._replace(process=process, primary=False, full=False, isolated=False, joined=False, memory=member.disk)


@dataclasses.dataclass
class Cluster:
    """What the model of a cluster consists of, and what Galera does.

    :arg size: number of members with data.
    :arg witness: a witness votes.
    :arg faults: number of faults.
    :arg commits: number of transactions.
    :arg late: how often a guard may act late.
    :arg stale: how often a report may be old.
    :arg runs: how often a run of the role may start the cluster, at any time after it has decided so.
    :arg ends: a member that joins ends when it has lost its donor.
    :arg holds: a guard that must wait for the restart of a witness (``Step.hold``) does.
    :arg restores: restarted servers restore their saved view, as without the rule that the view is renamed first.
    :arg copies: a member that joins may be without data meanwhile (SST).
    :arg symmetric: treat states that differ in the names of members only as one: a quick look, not a proof, because names decide between equal
        positions. Names in a trace change meanwhile.
    :arg begin: beginnings of events after which the exploration starts; they count as faults too.
    :arg counted: positions that a change of the view takes; 0 is not what Galera does, and shows what does not depend on it.
    :arg reverse: the other order of names, which decides between equal positions.
    """

    size: int = 3
    witness: bool = False
    faults: int = 3
    commits: int = 2
    late: int = 1
    stale: int = 1
    runs: int = 0
    restores: bool = False
    ends: bool = True
    holds: bool = True
    copies: bool = False
    symmetric: bool = False
    reverse: bool = False
    begin: tuple[str, ...] = ()
    counted: int = 1

    def __post_init__(self) -> None:
        self.names = "abcde"[: self.size][:: -1 if self.reverse else 1] + ("g" if self.witness else "")
        self.all = range(len(self.names))
        self.data = range(self.size)
        self._same: dict[t.Any, t.Any] = {}

    def start(self) -> State:
        """Return a cluster in which all serve."""
        members = [Member() for unused in self.data] + [Member(disk=-1) for unused in self.all[self.size :]]
        return State(
            tuple(members), frozenset(), (frozenset(self.all),), 0, (), False, self.faults, self.commits, self.late, self.stale, None, None, self.runs
        )

    # -- helpers

    def changed(self, state: State, changes: t.Mapping[int, Member], **more: t.Any) -> State:
        return state._replace(members=tuple(changes.get(i, member) for i, member in enumerate(state.members)), **more)

    def normal(self, state: State) -> State:
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
            old = (old[0], (*report[:4], order[report[4]], *report[5:7], views[report[7]], *report[8:]), old[2])
        return state._replace(
            members=members, views=tuple(state.views[view] for view in used), acked=order[state.acked],
            ordered=tuple(order[position] for position in state.ordered), old=old,
        )  # fmt: skip

    def canonical(self, state: State) -> State:
        """Return the state with its members in an order that does not depend on their names, unless a guard still has a decision or report by name."""
        if state.pending or state.old or state.run:
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

    def linked(self, state: State, i: int, j: int) -> bool:
        return (min(i, j), max(i, j)) not in state.cuts

    def components(self, state: State) -> list[frozenset[int]]:
        """Return the groups of servers that reach each other, over others too."""
        return _components(tuple(self._talks(member) for member in state.members), tuple(m.isolated for m in state.members), state.cuts)

    def _talks(self, member: Member) -> bool:
        return member.process in (STARTING, RUNNING)

    def starts(self, member: Member) -> Member:
        """Return a stopped server that is started."""
        return member._replace(process=STARTING, joined=self.restores and member.view >= 0)

    def killed(self, i: int, member: Member) -> Member:
        """Return a server that was killed and started again; the witness keeps nothing."""
        return self.starts(ended(member)) if i < self.size else ended(member)._replace(view=-1, caught=False)

    # -- Galera

    def settle(self, state: State, group: frozenset[int]) -> list[State]:
        """Return the states after the members that reach each other have agreed on their component."""
        return self.settled(state, group, None)

    def settled(self, state: State, group: frozenset[int], leaver: int | None) -> list[State]:
        members = state.members
        by_view: dict[int, set[int]] = {}
        for i in group:
            if members[i].primary:
                by_view.setdefault(members[i].view, set()).add(i)
        quorate = [view for view, here in by_view.items() if 2 * len(here) + (leaver is not None and leaver in state.views[view]) > len(state.views[view])]
        if len(quorate) > 1:
            # Galera compares numbers of views, which do not show what is newer
            return [
                self.changed(state, {i: self.killed(i, members[i]) for view in quorate if view != survives for i in by_view[view]}) for survives in quorate
            ]
        if quorate:
            if leaver is None and all(members[i].primary and members[i].view == quorate[0] for i in group) and state.views[quorate[0]] == group:
                return []
            came = [i for i in by_view[quorate[0]] if members[i].full] or self._newest_in_memory(state, group)
            return [self.install(state, group, came)]
        remerged = self._remerge(state, group)
        if remerged is not None:
            return [self.install(state, group, remerged)]
        changes = {i: members[i]._replace(primary=False) for i in group if members[i].primary}
        return [self.changed(state, changes)] if changes else []

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
        if full or not self.restores:
            return full
        best = max(members[i].disk for i in joined)
        return [i for i in joined if members[i].disk == best]

    def _newest_in_memory(self, state: State, group: t.Iterable[int]) -> list[int]:
        """Return the members with the newest state of those that had the complete state of a component since they were started."""
        full = {i: (state.members[i].view, state.members[i].memory) for i in group if state.members[i].full}
        return [i for i, newest in full.items() if newest == max(full.values())]

    def install(self, state: State, group: frozenset[int], came: t.Sequence[int]) -> State:
        """Install a Primary Component with the state of ``came``."""
        members, position = state.members, max((state.members[i].memory for i in came), default=-1)
        changes = {}
        for i in group:
            member = members[i]
            full = position >= 0 and (i >= self.size or member.memory == position)
            # the change of the view has a position too; it is applied at once if nothing is queued
            disk = position + self.counted if full and member.disk == position else member.disk
            changes[i] = member._replace(
                primary=True, full=full, joined=True, view=len(state.views), caught=False,
                process=RUNNING if full else member.process, disk=disk, memory=position + self.counted if full else disk,
            )  # fmt: skip
        lost = position < state.acked and any(changes[i].full for i in group if i < self.size)
        return self.changed(state, changes, views=(*state.views, group), lost=state.lost or lost)

    def whole(self, state: State) -> list[frozenset[int]]:
        """Return the components that can commit: all members of the view reach each other."""
        return [
            group
            for group in self.components(state)
            if all(state.members[i].primary for i in group)
            and len({state.members[i].view for i in group}) == 1
            and state.views[state.members[min(group)].view] == group
            and any(state.members[i].full for i in group if i < self.size)
        ]


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
