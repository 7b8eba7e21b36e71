# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide how a RabbitMQ cluster is started, without I/O: first member, joiners, health.

Decisions that the RabbitMQ documentation leaves open:

* A running cluster is joined; a second one is never started. Two clusters, or unlisted nodes, are refused.
* No member is in a cluster yet: the one that has users, queues or virtual hosts starts, else a running one, else the first in the list.
* All are stopped or wait: one of the last group of members with a majority starts first (``plan_return``), which the guards of the members
  arrange among themselves. Otherwise refused, because queues and messages may be lost; an operator may force a member.
* With Khepri each majority of the members has all metadata, and starts by itself.
* A witness has a vote, but no clients: it never starts a new cluster and need not answer.
* A member without data that the others know has lost its disk: they forget it, then it joins again.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._rabbitmq.plan_return import Saved, first_member

#: States of a member that has no clients, because it was to be restarted.
MAINTENANCE = ("draining", "under maintenance", "drained")
# The first release whose maintainers support Khepri; it is not enabled by default there.
_KHEPRI = (4, 0)


@dataclasses.dataclass(frozen=True)
class Member:
    """State of one member.

    :arg node: Erlang node name, e.g. ``rabbit@metal1``.
    :arg running: the broker is running.
    :arg known: nodes of its cluster as it knows them, itself included; empty if it has no data.
    :arg last: nodes that were running when it stopped, as it recorded them.
    :arg served: groups of nodes with a majority that it was in since all were running.
    :arg khepri: its metadata are in Khepri, not in Mnesia.
    :arg contents: what it has in addition to a fresh broker, as text; ``None`` if unknown.
    :arg cookie: ``same`` as requested, ``other`` or ``none``.
    :arg paused: its unit is started and the broker is not running: it waits for others.
    """

    name: str
    node: str
    running: bool = False
    known: tuple[str, ...] = ()
    last: tuple[str, ...] = ()
    served: tuple[tuple[str, ...], ...] = ()
    khepri: bool = False
    contents: tuple[str, ...] | None = ()
    cookie: str = "same"
    paused: bool = False

    @classmethod
    def from_facts(cls, name: str, node: str, facts: t.Mapping[str, t.Any]) -> Member:
        """Build a member from the result of ``rabbitmq_info``."""
        contents = facts.get("contents")
        return cls(
            name=name,
            node=node,
            running=bool(facts.get("running")),
            known=tuple(facts.get("members") or ()),
            last=tuple(facts.get("last_running") or ()),
            served=tuple(tuple(group) for group in facts.get("served") or ()),
            khepri=bool(facts.get("khepri")),
            contents=None if contents is None else tuple(contents),
            cookie=str(facts.get("cookie") or "none"),
            paused=bool(facts.get("paused")),
        )

    @property
    def clustered(self) -> bool:
        """Return whether it is in a cluster with other nodes."""
        return len(self.known) > 1


@dataclasses.dataclass(frozen=True)
class Decision:
    """The decision.

    :arg action: ``none``, ``start`` (stopped members), ``join``, ``bootstrap`` (then the others join) or ``refuse``.
    :arg first: member that must run before the others are started or join.
    :arg start: stopped members with data of this cluster, in starting order.
    :arg join: members that join, one by one in this order.
    :arg forget: nodes that the cluster must forget first.
    :arg forced: the first member starts without the nodes it would wait for.
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
        """Return plain values for Ansible."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in dataclasses.asdict(self).items()}


def decide(
    members: t.Mapping[str, Member | None],
    nodes: t.Mapping[str, str],
    force: str | None = None,
    gone: t.Sequence[str] = (),
    witnesses: t.Sequence[str] = (),
) -> Decision:
    """Decide which member starts the cluster and which members join.

    :arg members: all configured members, in order; ``None`` for a member that does not answer.
    :arg nodes: Erlang node name of each member.
    :arg force: member that the operator chose to start from.
    :arg gone: nodes that left permanently and may be forgotten.
    :arg witnesses: members that vote only.
    """
    decision = _decide(members, nodes, force, gone, witnesses)
    return dataclasses.replace(decision, warnings=_size_warnings(len(members)))


def differences(
    looks: t.Mapping[str, t.Mapping[str, t.Any] | None], nodes: t.Mapping[str, str], gone: t.Sequence[str] = (), witnesses: t.Sequence[str] = ()
) -> list[str]:
    """Return what a run has to do with a cluster or to report about it; empty if all members serve in one cluster with the wanted cookie.

    :arg looks: members with their result of ``rabbitmq_info``, to which all nodes were given as expected; empty for one that does not answer.
    """
    members = {name: Member.from_facts(name, node, facts) if (facts := looks.get(name)) else None for name, node in nodes.items()}
    decision = decide(members, nodes, None, tuple(gone or ()), tuple(witnesses))
    found = [decision.reason] if decision.action != "none" else []
    for name, node in nodes.items():
        facts = looks.get(name) or {"problems": [f"{node} does not answer"], "members": nodes.values(), "cookie": "same", "unresolved": []}
        found += [f"{name}: {why}." for why in (*facts["problems"], *facts["unresolved"])]
        found += [f"{name} has another cookie."] if facts["cookie"] != "same" else []
        found += [f"{name} is not in the cluster of all members."] if set(facts["members"]) != set(nodes.values()) else []
        found += [f"{name} has its metadata in Mnesia."] if len(nodes) == 1 and not facts.get("khepri") and offers_khepri(facts.get("version")) else []
    return found + list(decision.warnings)


def offers_khepri(version: str | None) -> bool:
    """Return whether a cluster with one member of this release gets its metadata into Khepri."""
    return tuple(int(part) for part in re.findall("[0-9]+", version or "")) >= _KHEPRI


def _decide(
    members: t.Mapping[str, Member | None], nodes: t.Mapping[str, str], force: str | None, gone: t.Sequence[str], witnesses: t.Sequence[str]
) -> Decision:
    if not members:
        return Decision("refuse", "the cluster has no members.", hint="Add hosts to its inventory group.")
    if force and members.get(force) is None:
        why = "does not answer" if force in members else "is not among the members"
        return Decision("refuse", f"{force} is forced to start the cluster, but {why}.", hint="Force a member that answers, or none.")
    if force in witnesses:
        return Decision("refuse", f"{force} is forced to start the cluster, but is a witness.", hint="Force a member that has clients.")
    known = _with_known([member for member in members.values() if member])
    missing = tuple(name for name, member in members.items() if not member)
    clustered = [member for member in known if member.clustered]
    refused = _unlisted(clustered, nodes, gone) or _two_clusters(clustered) or _cookies(clustered)
    if refused:
        return refused
    if not clustered:
        return _new(known, missing, force, witnesses)
    alone = [member for member in known if member.khepri and member.running and not member.clustered]
    if alone and not any(member.running for member in clustered) and all(alone[0].node in member.known for member in clustered):
        return _again(alone[0], known)
    listed = tuple(dict.fromkeys(node for member in clustered for node in member.known))
    # a member that the others know, but that knows none of them, has lost its disk
    lost = tuple(member.node for member in known if not member.clustered and member.node in listed)
    forget = lost + tuple(node for node in gone if node in listed and node not in nodes.values())
    # with Khepri, the cluster sends some of its data to a member that has lost its disk and was started
    sent = {member.node for member in known if member.node in lost and not member.khepri} if any(member.khepri for member in clustered) else set()
    refused = _would_wipe([member for member in known if not member.clustered and member.node not in sent])
    if refused:
        return refused
    alive = [member for member in clustered if member.running]
    join = tuple(member.name for member in known if not member.clustered)
    if alive:
        start = tuple(member.name for member in clustered if not member.running)
        if not start and not join and not forget:
            return Decision("none", "all members that answer are in the running cluster.", alive[0].name)
        return Decision("join" if join else "start", f"{alive[0].name} is in a running cluster.", alive[0].name, start, join, forget)
    if not force and any(member.paused for member in clustered) and len(lost) * 2 >= len(listed):
        return _majority_lost(lost, clustered, nodes)
    return _restart(clustered, listed, nodes, join, forget, force, witnesses)


def _with_known(members: t.Sequence[Member]) -> list[Member]:
    """Complete stopped members with Khepri, whose files do not name the cluster, with what the others know."""
    lists = {node: member.known for member in members for node in member.known if member.clustered}
    return [
        dataclasses.replace(member, known=lists.get(member.node, member.known)) if member.khepri and not member.running and not member.clustered else member
        for member in members
    ]


def _size_warnings(size: int) -> tuple[str, ...]:
    if size > 1 and size % 2 == 0:
        return (f"{size} members: an even number tolerates no more failures than {size - 1}, and if it splits in halves, both pause.",)
    return ()


def _unlisted(clustered: t.Sequence[Member], nodes: t.Mapping[str, str], gone: t.Sequence[str]) -> Decision | None:
    for member in clustered:
        unlisted = [node for node in member.known if node not in nodes.values() and node not in gone]
        if unlisted:
            return Decision(
                "refuse",
                f"{member.name} is in a cluster with {', '.join(unlisted)}, which is not in the inventory group.",
                hint="If that node left permanently, add it to rabbitmq_gone_nodes; if this is another cluster, remove the host from the group.",
            )
        if member.node not in member.known:
            return Decision(
                "refuse",
                f"{member.name} is a member under another name: its cluster has {', '.join(member.known)}, expected {member.node}.",
                hint="Set rabbitmq_node_host to the existing name.",
            )
    return None


def _majority_lost(lost: t.Sequence[str], left: t.Sequence[Member], nodes: t.Mapping[str, str]) -> Decision:
    names = ", ".join(name for name, node in nodes.items() if node in lost)
    keeps = ", ".join(member.name for member in left)
    return Decision(
        "refuse",
        f"{names} lost their data, half of the cluster or more: {keeps} has no majority and is paused, and most replicas of quorum queues were there.",
        hint=f"Restore the data. If it is lost permanently, set rabbitmq_force_boot to one of {keeps}.",
    )


def _two_clusters(clustered: t.Sequence[Member]) -> Decision | None:
    for member in clustered[1:]:
        first = clustered[0]
        if not set(first.known) & set(member.known):
            return Decision(
                "refuse",
                f"there are two clusters: {', '.join(first.known)} and {', '.join(member.known)}.",
                hint="Remove the members of the wrong cluster from the group, or move their data directories away.",
            )
    return None


def _cookies(clustered: t.Sequence[Member]) -> Decision | None:
    other = [member.name for member in clustered if member.running and member.cookie != "same"]
    if not other:
        return None
    return Decision(
        "refuse",
        f"the Erlang cookie of {', '.join(other)} differs from rabbitmq_erlang_cookie; it cannot be changed while the cluster is running.",
        hint="Set rabbitmq_erlang_cookie to the cluster's cookie, or stop the service on all members and run again: all of them then get the new one.",
    )


def _would_wipe(members: t.Sequence[Member]) -> Decision | None:
    filled = [member for member in members if member.contents]
    if not filled:
        return None
    what = "; ".join(f"{member.name}: {', '.join(member.contents or ())}" for member in filled)
    return Decision(
        "refuse",
        f"a broker outside the cluster has contents ({what}); joining would wipe them.",
        hint="Export and delete them, or remove the host from the group.",
    )


def _new(known: t.Sequence[Member], missing: t.Sequence[str], force: str | None, witnesses: t.Sequence[str]) -> Decision:
    """Decide when no member is in a cluster."""
    silent = [name for name in missing if name not in witnesses]
    if silent and not force:
        return Decision(
            "refuse",
            f"no member that answers is in a cluster, and {', '.join(silent)} does not answer: it may be in one.",
            hint="Start that member, or set rabbitmq_force_boot to the member to start from.",
        )
    able = [member for member in known if member.name not in witnesses]
    filled = [member for member in able if member.contents]
    unread = [member for member in able if member.contents is None]
    running = [member for member in able if member.running]
    forced = [member for member in able if member.name == force]
    first = (forced or filled or running or unread or able)[0]
    refused = _would_wipe([member for member in known if member is not first])
    if refused:
        return refused
    others = tuple(member.name for member in known if member is not first)
    if first.running and not others:
        return Decision("none", f"{first.name} is running, and there is no other member.", first.name)
    if first.running:
        return Decision("join", f"{first.name} is running; the others join it.", first.name, join=others)
    return Decision("bootstrap", f"no cluster exists yet; {first.name} starts it.", first.name, join=others)


def _again(first: Member, known: t.Sequence[Member]) -> Decision:
    """Decide when a member with Khepri was forced to start alone: no other one belongs to its cluster any more."""
    refused = _would_wipe([member for member in known if not member.clustered and member is not first])
    others = tuple(member.name for member in known if member is not first)
    return refused or Decision("join", f"{first.name} was forced to start alone; the others join it again.", first.name, join=others)


def _restart(
    clustered: t.Sequence[Member],
    listed: t.Sequence[str],
    nodes: t.Mapping[str, str],
    join: tuple[str, ...],
    forget: tuple[str, ...],
    force: str | None,
    witnesses: t.Sequence[str],
) -> Decision:
    """Decide when no member is running."""
    chosen = [member for member in clustered if member.name == force]
    if force and not chosen:
        return Decision("refuse", f"{force} is forced to start the cluster, but has no data of it.", hint="Force a member that has data.")
    names = {node: name for name, node in nodes.items()}
    first, awaited = chosen[0].node if force else None, tuple(sorted(set(listed) - {member.node for member in clustered}))
    if not force and any(member.khepri for member in clustered):
        first = clustered[0].node if 2 * len(clustered) > len(listed) else None
    elif not force:
        there = {member.node: Saved(member.known, member.last, member.served) for member in clustered}
        found = first_member({**dict.fromkeys(listed), **there}, [nodes[name] for name in witnesses if name in nodes])
        first, awaited = found.node, found.missing
    if not first:
        if awaited:
            why = f"no member is running, and {', '.join(names.get(node, node) for node in awaited)} may have served last, with newer queues and messages."
        else:
            why = "no member is running, and the members do not agree on who served last."
        return Decision("refuse", why, hint="Start that member, or set rabbitmq_force_boot to the member to start from.")
    order = (names[first], *(member.name for member in clustered if member.node != first))
    reason = f"{names[first]} was forced by the operator." if force else f"no member is running; {names[first]} served last."
    return Decision("start", reason, names[first], order, join, forget, forced=bool(force))


def problems(status: t.Mapping[str, t.Any] | None, node: str, expected: t.Sequence[str] = ()) -> tuple[str, ...]:
    """Return why a member is unhealthy; empty if it is healthy.

    :arg status: output of ``rabbitmq-diagnostics cluster_status`` on it, ``None`` if it does not answer.
    :arg expected: nodes that must be running; empty to check this node only.
    """
    if status is None:
        return (f"{node} does not answer",)
    running = list(status.get("running_nodes") or ())
    if node not in running:
        return (f"the broker of {node} is not running: it is starting, stopped, or paused without a majority",)
    found = [f"{other} is not running" for other in expected if other not in running]
    unexpected = [other for other in status.get("disk_nodes") or () if expected and other not in expected]
    found += [f"{other} is an unexpected member" for other in unexpected]
    found += [f"{one} is partitioned from {', '.join(others)}" for one, others in (status.get("partitions") or {}).items() if others]
    found += [f"alarm: {alarm_text(alarm)}" for alarm in status.get("alarms") or ()]
    state = (status.get("maintenance_status") or {}).get(node)
    if state not in (None, "not under maintenance", "unknown"):
        found.append(f"{node} is {state}")
    return tuple(found)


def node_name(environment: str) -> str:
    """Return the name of the node from the text of ``rabbitmq-env.conf``, empty without one."""
    found = re.search(r"(?m)^NODENAME=(\S+)", environment)
    return found[1] if found else ""


def alarm_text(alarm: t.Any) -> str:
    """Return an alarm as text.

    :arg alarm: a mapping or a string, depending on the RabbitMQ version.
    """
    if isinstance(alarm, t.Mapping):
        return " ".join(f"{value}" for _key, value in sorted(alarm.items(), key=lambda item: str(item[0])))
    return str(alarm)


def lacking_replicas(queues: t.Sequence[t.Mapping[str, t.Any]], node: str, size: int, wanted: int = 3) -> tuple[tuple[str, str], ...]:
    """Return the quorum queues that need a replica on a node, as pairs of vhost and name.

    RabbitMQ does not add replicas on a member that joins, or joins again with an empty disk.

    :arg queues: each with ``vhost``, ``name``, ``type`` and ``members``.
    :arg size: current number of members in the cluster.
    :arg wanted: maximum number of replicas that are added up to.
    """
    quorum = [queue for queue in queues if queue.get("type") in ("quorum", "rabbit_quorum_queue")]
    having = [(queue, tuple(queue.get("members") or ())) for queue in quorum]
    return tuple((str(queue["vhost"]), str(queue["name"])) for queue, on in having if node not in on and len(on) < min(size, wanted))
