# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""RabbitMQ's decisions, pure: who starts a cluster, who joins it, who is healthy.

What is decided where the sources leave it open:

* a cluster that runs is joined, never rivalled; two at once, or nodes nobody listed, are refused;
* nobody is a member yet: the one that has users, queues or vhosts starts, else one that runs, else the first in the list;
* all are stopped: a node waits at its start for those it saw running when it stopped. So there must be a set of members that
  wait for none outside of it; the one that stopped last starts first. Otherwise refused, because messages may be lost;
  an operator may force a member;
* a member without data that the others know has lost its disk: they forget it, then it joins anew.
"""

from __future__ import annotations

import dataclasses
import typing as t


@dataclasses.dataclass(frozen=True)
class Member:
    """What is known of one member.

    :arg node: its Erlang name, e.g. ``rabbit@metal1``.
    :arg running: its broker serves.
    :arg known: the nodes it takes for members of its cluster, itself included; empty when it has no data.
    :arg last: the nodes that ran, by its own note, when it stopped.
    :arg contents: what it keeps beside a fresh broker's own, in words; ``None`` when that cannot be told.
    :arg cookie: ``same`` as is wanted, ``other`` or ``none``.
    :arg paused: its node is up and its broker is not, as in a minority.
    """

    name: str
    node: str
    running: bool = False
    known: tuple[str, ...] = ()
    last: tuple[str, ...] = ()
    contents: tuple[str, ...] | None = ()
    cookie: str = "same"
    paused: bool = False

    @classmethod
    def from_facts(cls, name: str, node: str, facts: t.Mapping[str, t.Any]) -> Member:
        """A member from what ``rabbitmq_info`` returns."""
        contents = facts.get("contents")
        return cls(
            name=name,
            node=node,
            running=bool(facts.get("running")),
            known=tuple(facts.get("members") or ()),
            last=tuple(facts.get("last_running") or ()),
            contents=None if contents is None else tuple(contents),
            cookie=str(facts.get("cookie") or "none"),
            paused=bool(facts.get("paused")),
        )

    @property
    def clustered(self) -> bool:
        """Whether it knows others than itself."""
        return len(self.known) > 1


@dataclasses.dataclass(frozen=True)
class Decision:
    """What is to happen.

    :arg action: ``none``, ``start`` (members that stopped), ``join``, ``bootstrap`` (then the others join) or ``refuse``.
    :arg first: the member that has to run before the others are looked after.
    :arg start: members with data of this cluster that do not run, in the order in which they are started.
    :arg join: members that are to become members, one by one in this order.
    :arg forget: nodes that are to be forgotten by the cluster first.
    :arg forced: the first one starts without those it would wait for.
    """

    action: str
    reason: str
    first: str | None = None
    start: tuple[str, ...] = ()
    join: tuple[str, ...] = ()
    forget: tuple[str, ...] = ()
    forced: bool = False
    hint: str | None = None
    warnings: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, t.Any]:
        """Plain values, for Ansible."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in dataclasses.asdict(self).items()}


def decide(
    members: t.Mapping[str, Member | None],
    nodes: t.Mapping[str, str],
    force: str | None = None,
    gone: t.Sequence[str] = (),
) -> Decision:
    """Who starts the cluster and who joins.

    :arg members: all that the cluster is to have, in order; ``None`` for one that does not answer.
    :arg nodes: the Erlang name of each.
    :arg force: the member an operator chose to start from.
    :arg gone: nodes that left for good and may be forgotten.
    """
    decision = _decide(members, nodes, force, gone)
    return dataclasses.replace(decision, warnings=_size_warnings(len(members)))


def _decide(members: t.Mapping[str, Member | None], nodes: t.Mapping[str, str], force: str | None, gone: t.Sequence[str]) -> Decision:
    if not members:
        return Decision("refuse", "the cluster has no members.", hint="Put hosts into its group.")
    if force and members.get(force) is None:
        why = "does not answer" if force in members else "is not among the members"
        return Decision("refuse", f"{force} is forced to start the cluster, but {why}.", hint="Force a member that answers, or none.")
    known = [member for member in members.values() if member]
    missing = tuple(name for name, member in members.items() if not member)
    clustered = [member for member in known if member.clustered]
    refused = _strangers(clustered, nodes, gone) or _two_clusters(clustered) or _cookies(clustered)
    if refused:
        return refused
    if not clustered:
        return _new(known, missing, force)
    listed = tuple(dict.fromkeys(node for member in clustered for node in member.known))
    # who is known to the others but knows nobody has lost its disk
    lost = tuple(member.node for member in known if not member.clustered and member.node in listed)
    forget = lost + tuple(node for node in gone if node in listed and node not in nodes.values())
    refused = _would_wipe([member for member in known if not member.clustered])
    if refused:
        return refused
    alive = [member for member in clustered if member.running]
    join = tuple(member.name for member in known if not member.clustered)
    if alive:
        start = tuple(member.name for member in clustered if not member.running)
        if not start and not join and not forget:
            return Decision("none", "all members that answer are in the running cluster.", alive[0].name)
        return Decision("join" if join else "start", f"{alive[0].name} is in a running cluster.", alive[0].name, start, join, forget)
    if any(member.paused for member in clustered) and len(lost) * 2 >= len(listed):
        return _majority_lost(lost, clustered, nodes)
    return _restart(clustered, listed, nodes, join, forget, force)


def _size_warnings(size: int) -> tuple[str, ...]:
    if size > 1 and size % 2 == 0:
        return (f"{size} members: an even number survives no more losses than {size - 1}, and two halves both pause.",)
    return ()


def _strangers(clustered: t.Sequence[Member], nodes: t.Mapping[str, str], gone: t.Sequence[str]) -> Decision | None:
    for member in clustered:
        strange = [node for node in member.known if node not in nodes.values() and node not in gone]
        if strange:
            return Decision(
                "refuse",
                f"{member.name} is in a cluster with {', '.join(strange)}, which is no member of this one.",
                hint="If it left for good name it in rabbitmq_gone_nodes; if the cluster is a foreign one take the host out of the group.",
            )
        if member.node not in member.known:
            return Decision(
                "refuse",
                f"{member.name} is a member under another name: it knows {', '.join(member.known)}, and is to be {member.node}.",
                hint="Set rabbitmq_node_host to the name it has.",
            )
    return None


def _majority_lost(lost: t.Sequence[str], left: t.Sequence[Member], nodes: t.Mapping[str, str]) -> Decision:
    names = ", ".join(name for name, node in nodes.items() if node in lost)
    keeps = ", ".join(member.name for member in left)
    return Decision(
        "refuse",
        f"{names} lost their data, half of the cluster or more: {keeps} alone serves nobody, and quorum queues had most of their replicas there.",
        hint=f"Bring the data back. If they are gone for good stop the service on {keeps} and name one of these in rabbitmq_force_boot.",
    )


def _two_clusters(clustered: t.Sequence[Member]) -> Decision | None:
    for member in clustered[1:]:
        first = clustered[0]
        if not set(first.known) & set(member.known):
            return Decision(
                "refuse",
                f"there are two clusters: {', '.join(first.known)} and {', '.join(member.known)}.",
                hint="Take the members of the wrong one out of the group, or move their data directories away.",
            )
    return None


def _cookies(clustered: t.Sequence[Member]) -> Decision | None:
    other = [member.name for member in clustered if member.running and member.cookie != "same"]
    if not other:
        return None
    return Decision(
        "refuse",
        f"the Erlang cookie of {', '.join(other)} is another one than rabbitmq_erlang_cookie; a running cluster has to keep its own.",
        hint="Give the cluster's cookie, or stop the service on all members and run again: they then get the new one together.",
    )


def _would_wipe(members: t.Sequence[Member]) -> Decision | None:
    filled = [member for member in members if member.contents]
    if not filled:
        return None
    what = "; ".join(f"{member.name}: {', '.join(member.contents or ())}" for member in filled)
    return Decision(
        "refuse",
        f"a broker that is no member has contents ({what}); joining would wipe them.",
        hint="Export and delete them, or take the host out of the group.",
    )


def _new(known: t.Sequence[Member], missing: t.Sequence[str], force: str | None) -> Decision:
    """Nobody is in a cluster."""
    if missing and not force:
        return Decision(
            "refuse",
            f"no member that answers is in a cluster, and {', '.join(missing)} does not answer: it may run one.",
            hint="Bring it back, or name the member to start from in rabbitmq_force_boot.",
        )
    filled = [member for member in known if member.contents]
    unread = [member for member in known if member.contents is None]
    running = [member for member in known if member.running]
    forced = [member for member in known if member.name == force]
    first = (forced or filled or running or unread or list(known))[0]
    refused = _would_wipe([member for member in known if member is not first])
    if refused:
        return refused
    others = tuple(member.name for member in known if member is not first)
    if first.running and not others:
        return Decision("none", f"{first.name} runs, and there is no other member.", first.name)
    if first.running:
        return Decision("join", f"{first.name} runs; the others join it.", first.name, join=others)
    return Decision("bootstrap", f"there is no cluster yet; {first.name} starts it.", first.name, join=others)


def _restart(
    clustered: t.Sequence[Member],
    listed: t.Sequence[str],
    nodes: t.Mapping[str, str],
    join: tuple[str, ...],
    forget: tuple[str, ...],
    force: str | None,
) -> Decision:
    """All members are stopped."""
    chosen = [member for member in clustered if member.name == force]
    if force and not chosen:
        return Decision("refuse", f"{force} is forced to start the cluster, but has no data of it.", hint="Force a member that has data.")
    ready = sorted(_closed(clustered), key=lambda member: len(member.last))
    if not ready and not chosen:
        awaited = sorted(set(listed) - {member.node for member in clustered})
        names = [name for name, node in nodes.items() if node in awaited] or awaited
        return Decision(
            "refuse",
            f"all members are stopped, and {', '.join(names)} ran when the others stopped: it may hold newer messages, and they wait for it.",
            hint="Bring it back, or name the member to start from in rabbitmq_force_boot.",
        )
    first = (ready or chosen)[0]
    order = (first.name, *(member.name for member in clustered if member is not first))
    reason = f"all members are stopped; {first.name} stopped last." if ready else f"{first.name} was forced by the operator."
    return Decision("start", reason, first.name, order, join, forget, forced=not ready)


def _closed(members: t.Sequence[Member]) -> list[Member]:
    """The largest set of members of which none waits for a node outside of it."""
    left = list(members)
    while True:
        nodes = {member.node for member in left}
        stay = [member for member in left if set(member.last or member.known) <= nodes]
        if len(stay) == len(left):
            return left
        left = stay


def problems(status: t.Mapping[str, t.Any] | None, node: str, expected: t.Sequence[str] = ()) -> tuple[str, ...]:
    """Why a member must not be relied on; empty when it is healthy.

    :arg status: what ``rabbitmq-diagnostics cluster_status`` says on it, ``None`` when it does not answer.
    :arg expected: the nodes that have to run; empty to ask for this one only.
    """
    if status is None:
        return (f"{node} does not answer",)
    running = list(status.get("running_nodes") or ())
    if node not in running:
        return (f"the broker of {node} does not serve: it is starting, stopped, or paused because it sees no majority",)
    found = [f"{other} does not run" for other in expected if other not in running]
    strange = [other for other in status.get("disk_nodes") or () if expected and other not in expected]
    found += [f"{other} is a member that nobody asked for" for other in strange]
    found += [f"{one} is parted from {', '.join(others)}" for one, others in (status.get("partitions") or {}).items() if others]
    found += [f"alarm: {alarm_text(alarm)}" for alarm in status.get("alarms") or ()]
    state = (status.get("maintenance_status") or {}).get(node)
    if state not in (None, "not under maintenance", "unknown"):
        found.append(f"{node} is {state}")
    return tuple(found)


def alarm_text(alarm: t.Any) -> str:
    """An alarm in words; a list of pairs or a mapping, as versions differ."""
    if isinstance(alarm, t.Mapping):
        return " ".join(f"{value}" for _key, value in sorted(alarm.items(), key=lambda item: str(item[0])))
    return str(alarm)


def lacking_replicas(queues: t.Sequence[t.Mapping[str, t.Any]], node: str, size: int, wanted: int = 3) -> tuple[tuple[str, str], ...]:
    """Quorum queues that are to get a replica on a node, as pairs of vhost and name.

    A member that joined, or joined anew with an empty disk, carries none by itself.

    :arg queues: each with ``vhost``, ``name``, ``type`` and ``members``.
    :arg size: how many members the cluster has now.
    :arg wanted: how many replicas a queue has at most by itself.
    """
    quorum = [queue for queue in queues if queue.get("type") in ("quorum", "rabbit_quorum_queue")]
    having = [(queue, tuple(queue.get("members") or ())) for queue in quorum]
    return tuple((str(queue["vhost"]), str(queue["name"])) for queue, on in having if node not in on and len(on) < min(size, wanted))
