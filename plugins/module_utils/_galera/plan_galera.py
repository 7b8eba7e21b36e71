# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide how a Galera cluster is started, without I/O: which member bootstraps it, which ones join.

Decisions that the Galera documentation leaves open:

* A member does not answer or its position cannot be read: refused, it may have the newest rows. It is not needed if all members of the last
  Primary Component answer (``plan_return``).
* Positions tie: a running member starts, then one that Galera marked as safe, then the first in the list.
* An operator may force a member. This overrules the decisions above, never a Primary Component or another cluster's uuid. Databases
  that joining would wipe are then set aside; if there is a Primary Component, only if the forced member is in it.
* Several Primary Components have the same uuid, as after a forced start while the majority was unreachable: refused. Each has rows
  that the others lack, and a position does not show which ones.
* Galera marked a member as the last to leave, but its position is lower than another's, or another member is marked too: the highest
  position starts, the contradiction is reported, and the data of the marked member is set aside. With the same uuid, the member
  would keep rows that no other member has. For the same reason such a member is refused when a Primary Component exists.
* A witness (garbd) has a vote, but no data and no position: it never starts a cluster and is not waited for. Left alone, it may be a Primary
  Component without data, so it is killed before a member starts the cluster: a member that serves clients with it loses its majority.
* Joining would wipe databases that the newest member lacks, or of a member without a position, as after its ``grastate.dat`` was lost: refused.
* No member has data, but an interrupted run has set some aside: refused, because the new cluster would be empty.
* A member is ahead of the forced member: Galera would not let it join, so its data is set aside and its newer rows are lost. A member
  that is ahead of an existing Primary Component is refused: it returns after such a loss.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._galera.plan_return import Report, View, newest

NO_UUID = "00000000-0000-0000-0000-000000000000"

# With more members, a write waits for too many of them.
LARGEST_SENSIBLE = 5


@dataclasses.dataclass(frozen=True)
class Member:
    """State of one member.

    :arg running: the server answers and takes part in replication.
    :arg primary: the member is in a Primary Component.
    :arg uuid: cluster that the data belongs to; ``None`` if the server was never a member or lost its data.
    :arg seqno: position of the last transaction, -1 if it cannot be read.
    :arg databases: databases on its disk.
    :arg aside: directories with the data of a server that has none, because an interrupted run set it aside.
    :arg configuration: configuration number of the component, which counts membership changes.
    :arg size: number of members in the component.
    :arg node: id of the member in its component, ``None`` if unknown.
    :arg view: ids of all members of the component, empty if unknown.
    :arg last: the saved view of the last Primary Component that it was in, with ``names`` by node id.
    :arg caught_up: it had applied all changes in it.
    """

    name: str
    running: bool = False
    primary: bool = False
    uuid: str | None = None
    seqno: int = -1
    safe_to_bootstrap: bool = False
    databases: tuple[str, ...] = ()
    aside: tuple[str, ...] = ()
    configuration: int = -1
    size: int = 0
    node: str | None = None
    view: tuple[str, ...] = ()
    last: View | None = None
    caught_up: bool = False
    names: t.Mapping[str, str] = dataclasses.field(default_factory=dict)

    @classmethod
    def from_facts(cls, name: str, facts: t.Mapping[str, t.Any]) -> Member:
        """Build a member from the result of ``galera_info``."""
        uuid, saved = facts.get("cluster_uuid"), facts.get("saved_view")
        return cls(
            name=name,
            running=bool(facts.get("running")),
            primary=bool(facts.get("primary")),
            uuid=None if uuid in (None, "", NO_UUID) else str(uuid),
            seqno=int(facts.get("seqno", -1)),
            safe_to_bootstrap=bool(facts.get("safe_to_bootstrap")),
            databases=tuple(facts.get("databases") or ()),
            aside=tuple(facts.get("aside") or ()),
            configuration=int(facts.get("configuration", -1)),
            size=int(facts.get("size", 0)),
            node=facts.get("node") or None,
            view=tuple(facts.get("view") or ()),
            last=View(saved["id"], 0, tuple(saved["members"])) if saved else None,
            caught_up=bool(facts.get("caught_up")),
            names=dict(saved["members"]) if saved else {},
        )

    def report(self) -> Report:
        """Return what a guard would report."""
        caught_up, position = self.last.id if self.last and self.caught_up else None, None if self.seqno < 0 else self.seqno
        return Report(self.name, "stopped", uuid=self.uuid, position=position, view=self.last, caught_up=caught_up, names=self.names)


@dataclasses.dataclass(frozen=True)
class Decision:
    """The decision.

    :arg action: ``none``, ``join``, ``bootstrap`` (then the others join) or ``refuse``.
    :arg bootstrap: member that must start the cluster, if any.
    :arg join: members that join afterwards, one by one in this order.
    :arg uuid: cluster of all members, ``None`` for a new one.
    :arg discard: joining members whose data must be set aside first.
    :arg silence: witnesses that must be stopped before a member starts the cluster; afterwards they join again.
    """

    action: str
    reason: str
    bootstrap: str | None = None
    join: tuple[str, ...] = ()
    uuid: str | None = None
    hint: str | None = None
    warnings: tuple[str, ...] = ()
    discard: tuple[str, ...] = ()
    silence: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, t.Any]:
        """Return plain values for Ansible."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in dataclasses.asdict(self).items()}


def decide(members: t.Mapping[str, Member | None], force: str | None = None, witnesses: t.Mapping[str, bool | None] | None = None) -> Decision:
    """Decide which member starts the cluster and which members join.

    :arg members: all configured members, in order; ``None`` for a member that does not answer.
    :arg force: member that the operator chose to start from.
    :arg witnesses: witness → whether it is running, ``None`` if it does not answer.
    """
    witnesses = witnesses or {}
    warnings = _size_warnings(len(members), len(witnesses))
    if not members:
        return Decision("refuse", "the cluster has no members.", hint="Add hosts to its inventory group.")
    if force and members.get(force) is None:
        why = "does not answer" if force in members else "is not among the members"
        return Decision("refuse", f"{force} is forced to start the cluster, but {why}.", hint="Force a member that answers, or none.")
    known = [member for member in members.values() if member]
    missing = tuple(name for name, member in members.items() if not member)
    alive = [member for member in known if member.primary]
    decision = _join(known, alive, force) if alive else _start(known, missing, force)
    if decision.action == "bootstrap":
        decision = dataclasses.replace(decision, silence=tuple(name for name, running in witnesses.items() if running))
        warnings += tuple(f"the witness {name} does not answer; it has no data, and joins later." for name, running in witnesses.items() if running is None)
    return dataclasses.replace(decision, warnings=warnings + decision.warnings)


def _size_warnings(size: int, witnesses: int = 0) -> tuple[str, ...]:
    if size > LARGEST_SENSIBLE:
        return (f"{size} members: every write waits for all members; more than {LARGEST_SENSIBLE} make writes slow.",)
    size += witnesses
    if size > 1 and size % 2 == 0:
        return (f"{size} members: an even number tolerates no more failures than {size - 1}, and if it splits in halves, both stop.",)
    return ()


def _join(known: t.Sequence[Member], alive: t.Sequence[Member], force: str | None) -> Decision:
    """Decide while a Primary Component exists: no other member may start one."""
    uuids = sorted({str(member.uuid) for member in alive})
    if len(uuids) > 1:
        return Decision(
            "refuse",
            f"there are {len(uuids)} clusters at once: {_by_uuid(alive)}.",
            hint="Stop the server of the wrong cluster and move its data directory away.",
        )
    apart = components(alive)
    if len(apart) > 1:
        return Decision("refuse", f"{describe_components(apart)}.", hint=KEEP_ONE, uuid=uuids[0])
    best = max(alive, key=lambda member: member.seqno)
    wiped = _wiped(known, best, alive)
    refused = _foreign(known, uuids[0]) or _refuse_wiping(wiped, any(member.name == force for member in alive))
    if refused:
        return refused
    ahead = [member for member in known if not member.primary and member.uuid and member.seqno > best.seqno]
    if ahead:
        return Decision(
            "refuse",
            f"{', '.join(f'{member.name} (position {member.seqno})' for member in ahead)} is ahead of the running cluster "
            f"({best.name}, position {best.seqno}): it has rows that the cluster has lost; joining would wipe them.",
            hint="Inspect these rows, then move the data directory away.",
        )
    last = [member for member in known if member.safe_to_bootstrap and not member.running and member.uuid]
    if last:
        return Decision(
            "refuse",
            f"{', '.join(f'{member.name} (position {member.seqno})' for member in last)} was the last member to leave (safe_to_bootstrap), but the "
            f"cluster runs without it ({best.name}, position {best.seqno}): it may have rows that the cluster has lost, and would keep them.",
            hint="Inspect these rows, then move the data directory away.",
        )
    join = tuple(member.name for member in known if not member.primary)
    if not join:
        return Decision("none", "all members are in the Primary Component.", uuid=uuids[0])
    reason = f"{alive[0].name} is in a Primary Component{_and_aside(wiped)}."
    return Decision("join", reason, join=join, uuid=uuids[0], discard=tuple(wiped))


def _start(known: t.Sequence[Member], missing: t.Sequence[str], force: str | None) -> Decision:
    """Choose the member that starts the cluster when no Primary Component exists."""
    found = newest({**{member.name: member.report() for member in known}, **dict.fromkeys(missing)})
    silent = [name for name in missing if name in found.waits_for]
    if silent and not force:
        return Decision(
            "refuse",
            f"no member is in a Primary Component, and {', '.join(silent)} does not answer: it may hold newer rows or be serving clients.",
            hint="Start that member, or set galera_force_bootstrap to the member to start from.",
        )
    with_state = [member for member in known if member.uuid]
    if not with_state:
        return _start_new(known, force)
    chosen = next((member for member in known if member.name == force), None)
    if chosen and not chosen.uuid:
        return Decision(
            "refuse",
            f"{chosen.name} is forced to start the cluster, but has no data of a cluster; {', '.join(m.name for m in with_state)} has.",
            hint="Force a member that has a position, or first move the data directories of the others away.",
        )
    uuids = {str(member.uuid) for member in with_state}
    if len(uuids) > 1 and not chosen:
        return Decision(
            "refuse",
            f"the members' data belong to different clusters: {_by_uuid(with_state)}.",
            hint="Move the data directory of the wrong cluster away.",
        )
    uuid = str((chosen or with_state[0]).uuid)
    refused = _foreign(known, uuid)
    if refused:
        return refused
    discard: tuple[str, ...] = ()
    if chosen:
        discard = tuple(member.name for member in with_state if member.seqno > t.cast(Member, chosen).seqno)
        reason = f"{chosen.name} (position {chosen.seqno}) was forced by the operator"
        reason += f"; newer rows of {', '.join(discard)} are lost." if discard else "."
    else:
        # the first one of equal ones
        chosen = max((m for m in known if m.name in found.equal), key=lambda member: (member.running, member.safe_to_bootstrap), default=None)
        ahead = [member.name for member in with_state if chosen and member.seqno > chosen.seqno]
        if not chosen or ahead:
            unread = f"the position of {', '.join(found.waits_for)} cannot be read; it may be the newest."
            reason = f"{found.reason}, but {', '.join(ahead)} is ahead." if ahead else unread if found.waits_for else f"{found.reason}."
            return Decision("refuse", reason, hint="Check the journal of that member, or set galera_force_bootstrap to the member to start from.")
        reason = f"no member is in a Primary Component; {chosen.name} has the highest position {chosen.seqno}."
    wiped = _wiped(known, chosen)
    refused = _refuse_wiping(wiped, bool(force))
    if refused:
        return refused
    doubtful = _contradictions(with_state, chosen)
    warnings = tuple(doubtful.values())
    reason = " ".join([reason[:-1] + _and_aside(wiped) + ".", *warnings])
    discard = tuple(m.name for m in known if m.name in {*discard, *doubtful, *wiped})
    return Decision("bootstrap", reason, chosen.name, tuple(m.name for m in known if m is not chosen), uuid, warnings=warnings, discard=discard)


def _contradictions(with_state: t.Sequence[Member], chosen: Member) -> dict[str, str]:
    """Find members marked as the last to leave although a position or another mark contradicts it; returns a warning for each."""
    return {
        member.name: f"{member.name} is marked as the last member to leave (safe_to_bootstrap) at position {member.seqno}, but {chosen.name} "
        f"{'is also marked, at' if chosen.safe_to_bootstrap else 'is at'} position {chosen.seqno}: both may have served clients separately, "
        f"so the data of {member.name} is set aside."
        for member in with_state
        if member is not chosen and member.safe_to_bootstrap and not member.running and (member.seqno < chosen.seqno or chosen.safe_to_bootstrap)
    }


KEEP_ONE = (
    "Each has rows the others lack. Back up one member of each (backup_database -e galera_backup_member=NAME), decide which one to keep, stop "
    "MariaDB on all members of the others, move their data directories away, and run recover_database. A member that keeps its data "
    "would join with rows that no other member has, and Galera would not detect it."
)


def primary_members(looks: t.Mapping[str, t.Mapping[str, t.Any] | None]) -> list[Member]:
    """Return the members that are in a Primary Component.

    :arg looks: member → result of ``galera_info``.
    """
    return [Member.from_facts(name, facts) for name, facts in looks.items() if facts and facts.get("primary")]


def components(alive: t.Sequence[Member]) -> list[tuple[Member, ...]]:
    """Group members by Primary Component, the component with the highest position first.

    Members are probed one after the other, and the membership may change meanwhile. So two members count as separated only if neither
    has the other in its view. If ids are unknown, they count as separated when configuration number or size differs, which may be a
    false alarm.
    """
    found: list[list[Member]] = []
    for member in alive:
        together = [group for group in found if not all(_apart(member, other) for other in group)]
        found = [group for group in found if group not in together]
        found.append([other for group in together for other in group] + [member])
    return sorted((tuple(group) for group in found), key=lambda group: (-max(member.seqno for member in group), group[0].name))


def _apart(one: Member, other: Member) -> bool:
    if one.node and other.node and one.view and other.view:
        return one.node not in other.view and other.node not in one.view
    return (one.configuration, one.size) != (other.configuration, other.size)


def describe_components(apart: t.Sequence[t.Sequence[Member]]) -> str:
    """Describe the members of each Primary Component, and which component has the highest position."""
    positions = [max(member.seqno for member in group) for group in apart]
    parts = [
        f"{', '.join(member.name for member in group)} (size {group[0].size}, configuration {group[0].configuration}, position {position})"
        for group, position in zip(apart, positions)
    ]
    equal = "their positions are equal, which does not mean that their rows are"
    ahead = equal if positions[0] == positions[1] else f"that of {apart[0][0].name} has committed more"
    return f"there are {len(apart)} Primary Components of the cluster {apart[0][0].uuid} at once: {' and '.join(parts)}; {ahead}"


def describe(members: t.Mapping[str, Member | None], decision: Decision, witnesses: t.Mapping[str, bool | None] | None = None) -> list[str]:
    """Return one line per member and witness, so that the operator can check the decision."""
    lines = []
    for name, running in (witnesses or {}).items():
        state = {None: "does not answer", True: "running", False: "stopped"}[running]
        part = "is stopped until the cluster is started" if name in decision.silence else "no change"
        lines.append(f"{name}: witness, {state}, a vote without data; {part}")
    for name, member in members.items():
        part = "starts the cluster" if name == decision.bootstrap else "joins" if name in decision.join else "no change"
        if decision.action == "refuse":
            part = "no change"
        elif name in decision.discard:
            part = "joins after its own data is set aside"
        if member is None:
            lines.append(f"{name}: does not answer; no change")
            continue
        state = "in a Primary Component" if member.primary else "running without quorum" if member.running else "stopped"
        position = f"position {member.seqno}" if member.seqno >= 0 else "position unknown"
        where = f"{position} of cluster {member.uuid}" if member.uuid else "no data of a cluster"
        where += f", databases {', '.join(member.databases)}" if member.databases else ""
        where += ", was the last member to leave" if member.safe_to_bootstrap and not member.running else ""
        lines.append(f"{name}: {state}, {where}; {part}")
    return lines


def _start_new(known: t.Sequence[Member], force: str | None) -> Decision:
    """Choose the member that starts a new cluster: the forced member, the member that has databases, else the first."""
    filled = [member for member in known if member.databases]
    first = next((member for member in known if member.name == force), None) or (filled or known)[0]
    emptied = [member for member in known if member.aside]
    if first.aside or (emptied and not force):
        what = "; ".join(f"{member.name}: {', '.join(member.aside)}" for member in emptied)
        reason = f"an interrupted run set the data aside ({what}), and a new cluster would be empty."
        return Decision("refuse", reason, hint="Repeat that run, usually restore_database, or rename a directory back to that of the server.")
    wiped = _wiped(known, first)
    refused = _refuse_wiping({**_wiped([first]), **wiped} if wiped else {}, bool(force))
    if refused:
        return refused
    reason = f"no cluster exists yet; {first.name} starts it"
    reason += (f" with its databases {', '.join(first.databases)}" if first.databases else "") + _and_aside(wiped) + "."
    return Decision("bootstrap", reason, first.name, tuple(member.name for member in known if member is not first), discard=tuple(wiped))


def _foreign(known: t.Sequence[Member], uuid: str) -> Decision | None:
    foreign = [member for member in known if member.uuid and member.uuid != uuid]
    if not foreign:
        return None
    return Decision(
        "refuse",
        f"the data of {_by_uuid(foreign)} belongs to another cluster than {uuid}; joining would wipe it.",
        hint="Move the data directory away if it is not needed.",
    )


def _wiped(known: t.Sequence[Member], newest: Member | None = None, alive: t.Sequence[Member] = ()) -> dict[str, str]:
    """Return member → databases that it would lose by joining, because ``newest`` lacks them, or which rows they have is unknown."""
    kept = newest.databases if newest else ()
    lost = {m.name: [name for name in m.databases if not m.uuid or name not in kept] for m in known if m not in (newest, *alive)}
    return {name: ", ".join(databases) for name, databases in lost.items() if databases}


def _refuse_wiping(wiped: t.Mapping[str, str], chosen: bool) -> Decision | None:
    if chosen or not wiped:
        return None
    reason = f"joining would wipe databases that the cluster may not have ({_listed(wiped)})."
    return Decision(
        "refuse",
        reason,
        hint="Run recover_database -e galera_force_bootstrap=NAME with the member whose data counts, one of the running members if there are any: "
        "the data of the others is set aside.",
    )


def _and_aside(wiped: t.Mapping[str, str]) -> str:
    return f"; databases that only others may have are set aside ({_listed(wiped)})" if wiped else ""


def _listed(wiped: t.Mapping[str, str]) -> str:
    return "; ".join(f"{name}: {databases}" for name, databases in wiped.items())


def _by_uuid(members: t.Sequence[Member]) -> str:
    return ", ".join(f"{member.name} ({member.uuid})" for member in members)
