# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Galera's decisions, pure: who may start a cluster, who joins, who is ready, when to form it anew.

Only the standard library is used, nothing of this collection: the role installs this very file on the
members, where the health check and the guard decide with the same code.

What is decided where the sources leave it open:

* a member that does not answer: refused, because it may hold the newest rows, or serve them right now;
* positions that tie: the member that runs, then the one Galera itself marked as safe, then the first in the list;
* a position nobody can read: refused, because it may be the highest;
* an operator may force a member, which overrules these three, never a living Primary Component or a foreign uuid;
* several Primary Components of one uuid, as a forced start beside an unreachable majority leaves them: refused, because each has
  rows of its own, and a position cannot tell which ones;
* a member Galera marked as the last one to leave, at a lower position than another or beside one so marked: the highest position
  starts, the contradiction is told, and the data of the marked one are to be set aside, for with the same uuid it would keep rows
  that nobody else has; for the same reason such a member is refused beside a living Primary Component;
* a member that is ahead of the forced one has rows that this loses; Galera would not let it join, so its data are to be set
  aside. One that is ahead of a living Primary Component comes back from such a loss: refused.
"""

from __future__ import annotations

import dataclasses
import typing as t

NO_UUID = "00000000-0000-0000-0000-000000000000"

# Above this a write waits for too many members.
LARGEST_SENSIBLE = 5


@dataclasses.dataclass(frozen=True)
class Member:
    """What is known of one member.

    :arg running: its server answers and takes part in replication.
    :arg primary: it is in a Primary Component.
    :arg uuid: of the cluster its data belongs to; ``None`` when it never belonged to one or lost its data.
    :arg seqno: the position of its last transaction, -1 when it cannot be read.
    :arg databases: databases of a server that never was a member; joining would wipe them.
    :arg configuration: the number of its component's configuration, which counts changes of membership.
    :arg size: how many members its component has.
    :arg node: the id under which it is in its component, ``None`` when it is not known.
    :arg view: the ids of all members of its component, empty when they are not known.
    """

    name: str
    running: bool = False
    primary: bool = False
    uuid: str | None = None
    seqno: int = -1
    safe_to_bootstrap: bool = False
    databases: tuple[str, ...] = ()
    configuration: int = -1
    size: int = 0
    node: str | None = None
    view: tuple[str, ...] = ()

    @classmethod
    def from_facts(cls, name: str, facts: t.Mapping[str, t.Any]) -> Member:
        """A member from what ``galera_info`` returns."""
        uuid = facts.get("cluster_uuid")
        return cls(
            name=name,
            running=bool(facts.get("running")),
            primary=bool(facts.get("primary")),
            uuid=None if uuid in (None, "", NO_UUID) else str(uuid),
            seqno=int(facts.get("seqno", -1)),
            safe_to_bootstrap=bool(facts.get("safe_to_bootstrap")),
            databases=tuple(facts.get("databases") or ()),
            configuration=int(facts.get("configuration", -1)),
            size=int(facts.get("size", 0)),
            node=facts.get("node") or None,
            view=tuple(facts.get("view") or ()),
        )


@dataclasses.dataclass(frozen=True)
class Decision:
    """What is to happen.

    :arg action: ``none``, ``join``, ``bootstrap`` (then the others join) or ``refuse``.
    :arg bootstrap: the member that starts the cluster, if one has to.
    :arg join: who joins afterwards, one by one in this order.
    :arg uuid: the cluster all of them belong to, ``None`` for a new one.
    :arg discard: those who join, but whose data have to be set aside before.
    """

    action: str
    reason: str
    bootstrap: str | None = None
    join: tuple[str, ...] = ()
    uuid: str | None = None
    hint: str | None = None
    warnings: tuple[str, ...] = ()
    discard: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, t.Any]:
        """Plain values, for Ansible."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in dataclasses.asdict(self).items()}


def decide(members: t.Mapping[str, Member | None], force: str | None = None) -> Decision:
    """Who starts the cluster and who joins.

    :arg members: all that the cluster is to have, in order; ``None`` for one that does not answer.
    :arg force: the member an operator chose to recover from.
    """
    warnings = _size_warnings(len(members))
    if not members:
        return Decision("refuse", "the cluster has no members.", hint="Put hosts into its group.")
    if force and members.get(force) is None:
        why = "does not answer" if force in members else "is not among the members"
        return Decision("refuse", f"{force} is forced to start the cluster, but {why}.", hint="Force a member that answers, or none.")
    known = [member for member in members.values() if member]
    missing = tuple(name for name, member in members.items() if not member)
    alive = [member for member in known if member.primary]
    decision = _join(known, alive) if alive else _start(known, missing, force)
    return dataclasses.replace(decision, warnings=warnings + decision.warnings)


def _size_warnings(size: int) -> tuple[str, ...]:
    if size > LARGEST_SENSIBLE:
        return (f"{size} members: every write waits for all of them; more than {LARGEST_SENSIBLE} make writes slow.",)
    if size > 1 and size % 2 == 0:
        return (f"{size} members: an even number survives no more losses than {size - 1}, and two halves both stop.",)
    return ()


def _join(known: t.Sequence[Member], alive: t.Sequence[Member]) -> Decision:
    """A Primary Component lives: nobody else may start one."""
    uuids = sorted({str(member.uuid) for member in alive})
    if len(uuids) > 1:
        return Decision(
            "refuse",
            f"there are {len(uuids)} clusters at once: {_by_uuid(alive)}.",
            hint="Stop the server of the wrong one and move its data directory away.",
        )
    apart = components(alive)
    if len(apart) > 1:
        return Decision("refuse", f"{describe_components(apart)}.", hint=KEEP_ONE, uuid=uuids[0])
    refused = _foreign(known, uuids[0]) or _would_wipe([member for member in known if member not in alive])
    if refused:
        return refused
    newest = max(alive, key=lambda member: member.seqno)
    ahead = [member for member in known if not member.primary and member.uuid and member.seqno > newest.seqno]
    if ahead:
        return Decision(
            "refuse",
            f"{', '.join(f'{member.name} (position {member.seqno})' for member in ahead)} is ahead of the cluster that lives "
            f"({newest.name}, position {newest.seqno}): it has rows which the cluster has lost; joining would wipe them.",
            hint="Look at them, then move its data directory away.",
        )
    last = [member for member in known if member.safe_to_bootstrap and not member.running and member.uuid]
    if last:
        return Decision(
            "refuse",
            f"{', '.join(f'{member.name} (position {member.seqno})' for member in last)} was the last one to leave (safe_to_bootstrap), yet the "
            f"cluster lives without it ({newest.name}, position {newest.seqno}): it may have rows which the cluster has lost, and would keep them.",
            hint="Look at them, then move its data directory away.",
        )
    join = tuple(member.name for member in known if not member.primary)
    if not join:
        return Decision("none", "all members are in the Primary Component.", uuid=uuids[0])
    return Decision("join", f"{alive[0].name} is in a living Primary Component.", join=join, uuid=uuids[0])


def _start(known: t.Sequence[Member], missing: t.Sequence[str], force: str | None) -> Decision:
    """Nobody is in a Primary Component: choose who starts it."""
    if missing and not force:
        return Decision(
            "refuse",
            f"no member serves, and {', '.join(missing)} does not answer: it may hold newer rows, or serve them right now.",
            hint="Bring it back, or name the member to start from in galera_force_bootstrap.",
        )
    with_state = [member for member in known if member.uuid]
    if not with_state:
        return _start_new(known, force)
    chosen = next((member for member in known if member.name == force), None)
    if chosen and not chosen.uuid:
        return Decision(
            "refuse",
            f"{chosen.name} is forced to start the cluster, but has no data of one; {', '.join(m.name for m in with_state)} has.",
            hint="Force a member that has data.",
        )
    uuids = {str(member.uuid) for member in with_state}
    if len(uuids) > 1 and not chosen:
        return Decision(
            "refuse",
            f"the members' data belong to different clusters: {_by_uuid(with_state)}.",
            hint="Move the data directory of the wrong one away.",
        )
    uuid = str((chosen or with_state[0]).uuid)
    refused = _foreign(known, uuid) or _would_wipe(known)
    if refused:
        return refused
    discard: tuple[str, ...] = ()
    if chosen:
        discard = tuple(member.name for member in with_state if member.seqno > t.cast(Member, chosen).seqno)
        reason = f"{chosen.name} (position {chosen.seqno}) was forced by the operator"
        reason += f"; newer rows are lost, which {', '.join(discard)} had." if discard else "."
    else:
        unknown = [member.name for member in with_state if member.seqno < 0]
        if unknown:
            return Decision(
                "refuse",
                f"the position of {', '.join(unknown)} cannot be read; it may be the newest.",
                hint="Look at its journal, or name the member to start from in galera_force_bootstrap.",
            )
        order = [member.name for member in known]
        chosen = max(with_state, key=lambda m: (m.seqno, m.running, m.safe_to_bootstrap, -order.index(m.name)))
        reason = f"no member serves; {chosen.name} has the highest position {chosen.seqno}."
    doubtful = _contradictions(with_state, chosen)
    warnings = tuple(doubtful.values())
    reason = " ".join([reason, *warnings])
    discard = tuple(m.name for m in with_state if m.name in discard or m.name in doubtful)
    return Decision("bootstrap", reason, chosen.name, tuple(m.name for m in known if m is not chosen), uuid, warnings=warnings, discard=discard)


def _contradictions(with_state: t.Sequence[Member], chosen: Member) -> dict[str, str]:
    """Members that claim to have left last, which the positions or another member's claim deny, and the words for it."""
    return {
        member.name: f"{member.name} is marked as the last one to leave (safe_to_bootstrap) at position {member.seqno}, yet {chosen.name} "
        f"{'is marked so too' if chosen.safe_to_bootstrap else 'is'} at {chosen.seqno}: the two may have served apart from each other, "
        f"so the data of {member.name} are set aside."
        for member in with_state
        if member is not chosen and member.safe_to_bootstrap and not member.running and (member.seqno < chosen.seqno or chosen.safe_to_bootstrap)
    }


KEEP_ONE = (
    "Each has rows the others lack. Back up one member of each (backup_database -e galera_backup_member=NAME), decide which one to keep, stop "
    "MariaDB on all members of the others, move their data directories away, and run recover_database. A member that keeps its data "
    "would join with rows nobody else has, and Galera would not notice."
)


def primary_members(looks: t.Mapping[str, t.Mapping[str, t.Any] | None]) -> list[Member]:
    """Those of the members that are in a Primary Component, from what ``galera_info`` returns of each."""
    return [Member.from_facts(name, facts) for name, facts in looks.items() if facts and facts.get("primary")]


def components(alive: t.Sequence[Member]) -> list[tuple[Member, ...]]:
    """The Primary Components in which members are, the one with the highest position first.

    Members are looked at one after the other, and the membership may change meanwhile. So two count as apart only when neither
    knows of the other. Without their ids they are when number or size of the configuration differs, which may be a false alarm.
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
    """Who is in which Primary Component, and which one has the highest position."""
    positions = [max(member.seqno for member in group) for group in apart]
    parts = [
        f"{', '.join(member.name for member in group)} (size {group[0].size}, configuration {group[0].configuration}, position {position})"
        for group, position in zip(apart, positions)
    ]
    if positions[0] == positions[1]:
        ahead = "their positions are the same, which does not mean that their rows are"
    else:
        ahead = f"that of {apart[0][0].name} has committed more"
    return f"there are {len(apart)} Primary Components of the cluster {apart[0][0].uuid} at once: {' and '.join(parts)}; {ahead}"


def describe(members: t.Mapping[str, Member | None], decision: Decision) -> list[str]:
    """One line for each member, for the operator who has to judge the decision."""
    lines = []
    for name, member in members.items():
        part = "starts the cluster" if name == decision.bootstrap else "joins" if name in decision.join else "stays"
        if decision.action == "refuse":
            part = "is left alone"
        elif name in decision.discard:
            part = "joins, its own data are set aside"
        if member is None:
            lines.append(f"{name}: does not answer; is left alone")
            continue
        state = "in a Primary Component" if member.primary else "running, cut off" if member.running else "stopped"
        position = f"position {member.seqno}" if member.seqno >= 0 else "position unknown"
        where = f"{position} of cluster {member.uuid}" if member.uuid else "no data of a cluster"
        where += f", databases {', '.join(member.databases)}" if member.databases else ""
        where += ", was the last one to leave" if member.safe_to_bootstrap and not member.running else ""
        lines.append(f"{name}: {state}, {where}; {part}")
    return lines


def _start_new(known: t.Sequence[Member], force: str | None) -> Decision:
    """Nobody has data of a cluster: the first starts it, or the one whose databases are to live on."""
    filled = [member for member in known if member.databases]
    first = next((member for member in known if member.name == force), None) or (filled or known)[0]
    refused = _would_wipe([member for member in known if member is not first])
    if refused:
        return refused
    reason = f"there is no cluster yet; {first.name} starts it"
    reason += f" with its databases {', '.join(first.databases)}." if first.databases else "."
    return Decision("bootstrap", reason, first.name, tuple(member.name for member in known if member is not first))


def _foreign(known: t.Sequence[Member], uuid: str) -> Decision | None:
    strangers = [member for member in known if member.uuid and member.uuid != uuid]
    if not strangers:
        return None
    return Decision(
        "refuse",
        f"the data of {_by_uuid(strangers)} belong to another cluster than {uuid}; joining would wipe them.",
        hint="Move its data directory away if it is not needed.",
    )


def _would_wipe(members: t.Sequence[Member]) -> Decision | None:
    filled = [member for member in members if not member.uuid and member.databases]
    if not filled:
        return None
    what = "; ".join(f"{member.name}: {', '.join(member.databases)}" for member in filled)
    return Decision(
        "refuse",
        f"there are databases on a server that never was a member ({what}); joining would wipe them.",
        hint="Dump and drop them, or remove the host from the group.",
    )


def _by_uuid(members: t.Sequence[Member]) -> str:
    return ", ".join(f"{member.name} ({member.uuid})" for member in members)


def problems(status: t.Mapping[str, str], uuid: str | None = None, serves: bool = False) -> tuple[str, ...]:
    """Why a member must not be used; empty when it is ready.

    :arg status: ``SHOW GLOBAL STATUS`` as a mapping.
    :arg uuid: the cluster it has to belong to, ``None`` to take any.
    :arg serves: whether it can be worked with is the question. A member that hands its data to a joiner can, mariabackup
        does not block it; a cluster of which one member is left would stand still otherwise while the second joins.
    """
    if serves and status.get("wsrep_local_state_comment") == "Donor/Desynced":
        status = {**status, "wsrep_local_state_comment": "Synced"}
    wanted = {
        "wsrep_cluster_status": "Primary",
        "wsrep_connected": "ON",
        "wsrep_ready": "ON",
        "wsrep_local_state_comment": "Synced",
    }
    found = [f"{name} is {status.get(name) or 'unknown'}, not {value}" for name, value in wanted.items() if status.get(name) != value]
    if uuid and status.get("wsrep_cluster_state_uuid") != uuid:
        found.append(f"wsrep_cluster_state_uuid is {status.get('wsrep_cluster_state_uuid') or 'unknown'}, not {uuid}")
    return tuple(found)


def may_reform(status: t.Mapping[str, str], configured: int, addresses: int) -> bool:
    """Whether a member may declare its component Primary although nobody can vouch for it.

    Galera does so by itself when all members of the last Primary Component meet again. It cannot when one of them
    lost that memory. Split-brain is impossible in one case, and only that is allowed: *every* member the cluster has
    is in this very component, so none is left that could be, or become, Primary elsewhere.

    :arg configured: how many members the cluster has by the role's own record.
    :arg addresses: how many the running server was told; both must agree, or the cluster is just being changed.
    """
    return (
        status.get("wsrep_cluster_status") == "non-Primary"
        and status.get("wsrep_connected") == "ON"
        and configured == addresses
        and status.get("wsrep_cluster_size") == str(configured)
    )
