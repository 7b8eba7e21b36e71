# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide how the clustered databases of OVN are formed, without I/O: first member, joiners, members to remove.

The decision is made for each database separately, because a run may be killed between the two:

* A cluster that has a leader is joined; a second one is never created. Two clusters, or unlisted servers, are refused.
* No member has data: the first member creates the cluster. A member that does not answer may have data, so this is refused then.
* A member without data whose address the cluster knows has lost its disk: the cluster removes its old server, then it joins as a new one.
* A member whose address the cluster does not know any more was removed: its data are moved away, and it joins as a new one.
* No leader although the members with data are running: more than half are missing. Refused; the operator may force a member, whose data
  then become a new cluster. A forced member never overrules a cluster that has a leader.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

NORTHBOUND, SOUTHBOUND = "OVN_Northbound", "OVN_Southbound"
DATABASES = (NORTHBOUND, SOUTHBOUND)
#: Ports between members.
RAFT_PORTS: t.Mapping[str, int] = {NORTHBOUND: 6643, SOUTHBOUND: 6644}
NONE, STANDALONE, CLUSTERED = "none", "standalone", "clustered"

_SERVER = re.compile(r"\s*(?P<short>[0-9a-f]{4}) \([0-9a-f?]{4} at (?P<address>\S+?)\)(?P<rest>.*)")
_AGO = re.compile(r"last msg (\d+) ms ago")


def raft_address(address: str, database: str) -> str:
    """Return the address of a member for its peers."""
    host = f"[{address}]" if ":" in address else address
    return f"ssl:{host}:{RAFT_PORTS[database]}"


def parse_status(text: str) -> dict[str, t.Any]:
    """Return the used parts of the output of ``cluster/status``.

    :returns: ``status``, ``role``, ``term``, ``leader`` (address of the leader, empty if unknown), ``servers`` (addresses) and ``silent`` (servers
        that have not answered the leader for five seconds; known to the leader only).
    """
    fields: dict[str, str] = {}
    servers: dict[str, str] = {}
    silent: list[str] = []
    own = ""
    for line in text.splitlines():
        found = _SERVER.match(line)
        if found:
            servers[found["short"]] = found["address"]
            if "(self)" in found["rest"]:
                own = found["short"]
            ago = _AGO.search(found["rest"])
            if ago and int(ago[1]) > 5000:
                silent.append(found["address"])
        elif ": " in line and not line.startswith(" "):
            name, unused, value = line.partition(": ")
            fields.setdefault(name, value.strip())
    leader = own if fields.get("Leader") == "self" else fields.get("Leader", "")
    return {
        "status": fields.get("Status", ""),
        "role": fields.get("Role", ""),
        "term": int(fields["Term"]) if fields.get("Term", "").isdecimal() else 0,
        "leader": servers.get(leader, ""),
        "servers": sorted(servers.values()),
        "silent": sorted(silent) if fields.get("Role") == "leader" else [],
    }


@dataclasses.dataclass(frozen=True)
class Look:
    """One database of one member.

    :arg file: kind of its file, ``none``, ``standalone`` or ``clustered``.
    :arg cluster: ID of its cluster, empty before it has joined.
    :arg running: its server is running.
    :arg leader: address of the leader it follows or is, empty without a quorum.
    :arg servers: addresses of all servers of its cluster, as it knows them.
    """

    file: str = NONE
    cluster: str = ""
    running: bool = False
    leader: str = ""
    servers: tuple[str, ...] = ()

    @classmethod
    def from_facts(cls, facts: t.Mapping[str, t.Any]) -> Look:
        """Build it from the result of ``ovn_database_info``."""
        return cls(
            str(facts.get("file") or NONE),
            str(facts.get("cluster") or ""),
            bool(facts.get("running")),
            str(facts.get("leader") or ""),
            tuple(facts.get("servers") or ()),
        )


@dataclasses.dataclass(frozen=True)
class Decision:
    """The decision for one database.

    :arg action: ``none``, ``create``, ``join``, ``start``, ``force`` or ``refuse``.
    :arg create: member that creates the cluster, from its standalone data if it has some.
    :arg force: member whose data become a new cluster.
    :arg join: members that join, one by one.
    :arg discard: members whose old data are moved away before they join.
    :arg seeds: addresses at which they join.
    :arg kick: addresses of servers that are removed first.
    :arg kicker: member that removes them.
    """

    action: str
    reason: str
    hint: str = ""
    create: str = ""
    force: str = ""
    join: tuple[str, ...] = ()
    discard: tuple[str, ...] = ()
    seeds: tuple[str, ...] = ()
    kick: tuple[str, ...] = ()
    kicker: str = ""
    warnings: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, t.Any]:
        """Return plain values for Ansible."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in dataclasses.asdict(self).items()}


def decide(
    looks: t.Mapping[str, Look | None], addresses: t.Mapping[str, str], database: str, force: str = "", gone: t.Sequence[str] = (), started: bool = True
) -> Decision:
    """Decide which member creates the cluster of a database and which members join it.

    :arg looks: all configured members, in order; ``None`` for a member that does not answer.
    :arg addresses: address of each member.
    :arg force: member that the operator chose to start from.
    :arg gone: addresses of members that left permanently.
    :arg started: this run has started the members that were stopped; before that none is forced, because together they may have a leader.
    """
    raft = {name: raft_address(addresses[name], database) for name in looks}
    left = {raft_address(address, database) for address in gone}
    warnings = _warnings(looks)
    found = _decide(looks, raft, database, force, left, started)
    return dataclasses.replace(found, warnings=warnings)


def decide_all(
    members: t.Mapping[str, t.Mapping[str, t.Mapping[str, t.Any]] | None],
    addresses: t.Mapping[str, str],
    force: str = "",
    gone: t.Sequence[str] = (),
    started: bool = True,
) -> dict[str, t.Any]:
    """Return the decisions for all databases in the form that the role uses.

    :arg members: name → database → facts, ``None`` for a member that does not answer.
    """
    found = {}
    for database in DATABASES:
        looks = {name: Look.from_facts(facts[database]) if facts else None for name, facts in members.items()}
        found[database] = decide(looks, addresses, database, force, gone, started)
    refused = [one for one in found.values() if one.action == "refuse"]
    answering = [name for name, facts in members.items() if facts]
    return {
        "refused": " ".join(dict.fromkeys(f"{one.reason} {one.hint}" for one in refused)),
        "reasons": list(dict.fromkeys(one.reason for one in found.values())),
        "warnings": list(dict.fromkeys(text for one in found.values() for text in one.warnings)),
        "begin": _begin(found),
        "start": [name for name in answering if any(_stopped(facts) for facts in (members[name] or {}).values())],
        "steps": {name: {database: _steps(one, name) for database, one in found.items()} for name in answering},
        "kick": {database: {"host": one.kicker, "addresses": list(one.kick)} for database, one in found.items() if one.kick},
    }


def _stopped(facts: t.Mapping[str, t.Any]) -> bool:
    return facts.get("file") == CLUSTERED and not facts.get("running")


def _begin(found: t.Mapping[str, Decision]) -> dict[str, dict[str, dict[str, bool]]]:
    """Return member → database → how it starts the cluster."""
    begin: dict[str, dict[str, dict[str, bool]]] = {}
    for database, one in found.items():
        if one.create or one.force:
            begin.setdefault(one.create or one.force, {})[database] = {"create" if one.create else "force": True}
    return begin


def _steps(decision: Decision, name: str) -> dict[str, t.Any]:
    found: dict[str, t.Any] = {}
    if name in decision.join:
        found["join"] = list(decision.seeds)
    if name in decision.discard:
        found["discard"] = True
    return found


def _decide(
    looks: t.Mapping[str, Look | None], raft: t.Mapping[str, str], database: str, force: str, left: t.Container[str], started: bool
) -> Decision:
    if not looks:
        return Decision("refuse", "the databases of OVN have no members.", "Add hosts to the inventory group.")
    known = {name: look for name, look in looks.items() if look}
    missing = [name for name in looks if name not in known]
    filled = {name: look for name, look in known.items() if look.file == CLUSTERED}
    serving = [name for name, look in filled.items() if look.running and look.leader]
    stopped = [name for name, look in filled.items() if not look.running]
    if force and not serving and stopped and not started:
        return Decision("start", f"{', '.join(stopped)} is stopped, and starts before {force} may be forced to start {database}.")
    if force and not serving:
        return _force(known, missing, filled, raft, database, force)
    if force in serving:
        # a run that was killed after the member was forced: the others still have the old cluster
        old = [name for name, look in filled.items() if look.cluster != filled[force].cluster]
        if old:
            return _forced(known, old, raft, force)
    servers = {server for name in serving for server in filled[name].servers}
    # removed from the cluster earlier, for example a witness that returns; one that has not joined yet has no cluster
    removed = tuple(name for name, look in filled.items() if servers and name not in serving and look.cluster and raft[name] not in servers)
    refused = _two_clusters(filled, database) or _unlisted({name: look for name, look in filled.items() if name not in removed}, raft, left, database)
    if refused:
        return refused
    if not filled:
        return _new(known, missing, raft, database)
    single = [name for name, look in known.items() if look.file == STANDALONE]
    if single:
        return Decision(
            "refuse",
            f"{database} on {', '.join(single)} is not clustered, but {', '.join(filled)} has a cluster.",
            "Move its file in /var/lib/ovn away if its contents are not needed, then run again.",
        )
    if not serving:
        return _no_leader(known, missing, filled, raft, database)
    empty = tuple(name for name, look in known.items() if look.file == NONE)
    kick = tuple(sorted(server for server in servers if server in [raft[name] for name in empty] or server in left and server not in raft.values()))
    # the members that the kicker must not remove are those that stay
    seeds = tuple(raft[name] for name in serving)
    join = (*empty, *removed)
    if join or kick:
        reason = f"{serving[0]} is in a cluster with a leader."
        if removed:
            reason += f" {', '.join(removed)} was removed from it, and joins again; its old files are kept."
        return Decision("join" if join else "kick", reason, "", join=join, discard=removed, seeds=seeds, kick=kick, kicker=serving[0])
    if stopped:
        return Decision("start", f"{', '.join(stopped)} is stopped.")
    return Decision("none", "all members that answer are in the cluster.", seeds=seeds)


def _new(known: t.Mapping[str, Look], missing: t.Sequence[str], raft: t.Mapping[str, str], database: str) -> Decision:
    if missing:
        return Decision(
            "refuse",
            f"no member that answers has {database}, and {', '.join(missing)} does not answer: it may have it.",
            "Start that member, or remove it from the group.",
        )
    single = [name for name, look in known.items() if look.file == STANDALONE]
    if len(single) > 1:
        return Decision(
            "refuse",
            f"{', '.join(single)} each have a {database} that is not clustered.",
            "Keep the file in /var/lib/ovn of the right one, move the others away, then run again.",
        )
    first = (single or list(known))[0]
    reason = f"{first} converts its {database} to a cluster." if single else f"no member has {database} yet; {first} creates it."
    return Decision("create", reason, create=first, join=tuple(name for name in known if name != first), seeds=(raft[first],))


def _no_leader(
    known: t.Mapping[str, Look], missing: t.Sequence[str], filled: t.Mapping[str, Look], raft: t.Mapping[str, str], database: str
) -> Decision:
    stopped = [name for name, look in filled.items() if not look.running]
    if stopped:
        return Decision("start", f"no server of {database} that answers has a leader; {', '.join(stopped)} is stopped and starts first.")
    servers = {server for look in filled.values() for server in look.servers}
    lost = [name for name, look in known.items() if look.file == NONE and raft[name] in servers]
    why = [f"{', '.join(missing)} does not answer"] if missing else []
    why += [f"{', '.join(lost)} lost the data"] if lost else []
    count = f"{len(filled)} of {len(servers)} servers" if servers else "the servers that answer"
    return Decision(
        "refuse",
        f"{database} has no leader: {count} are not a majority{' (' + '; '.join(why) + ')' if why else ''}.",
        f"Start the missing members. If they are lost permanently, set ovn_database_force to the member with the newest data, one of {', '.join(filled)}.",
    )


def _force(
    known: t.Mapping[str, Look], missing: t.Sequence[str], filled: t.Mapping[str, Look], raft: t.Mapping[str, str], database: str, force: str
) -> Decision:
    if force not in known:
        return Decision("refuse", f"{force} is forced to start {database}, but is not a member that answers.", "Force a member that answers, or none.")
    if force not in filled:
        if filled:
            return Decision("refuse", f"{force} is forced to start {database}, but has no data of it.", f"Force one of {', '.join(filled)}.")
        return _new(known, missing, raft, database)
    others = tuple(name for name in known if name != force)
    return Decision(
        "force",
        f"{force} was forced by the operator; what only others have of {database} is lost.",
        force=force,
        join=others,
        discard=tuple(name for name in others if known[name].file != NONE),
        seeds=(raft[force],),
    )


def _forced(known: t.Mapping[str, Look], old: t.Sequence[str], raft: t.Mapping[str, str], force: str) -> Decision:
    join = tuple(name for name, look in known.items() if name in old or look.file == NONE)
    return Decision("join", f"{force} was forced; {', '.join(old)} still has the old data.", join=join, discard=tuple(old), seeds=(raft[force],))


def _two_clusters(filled: t.Mapping[str, Look], database: str) -> Decision | None:
    clusters: dict[str, list[str]] = {}
    for name, look in filled.items():
        if look.cluster:
            clusters.setdefault(look.cluster, []).append(name)
    if len(clusters) < 2:
        return None
    text = "; ".join(f"{cluster[:8]} on {', '.join(names)}" for cluster, names in clusters.items())
    return Decision(
        "refuse",
        f"there are {len(clusters)} clusters of {database}: {text}.",
        "Stop the databases of the wrong one and move its files in /var/lib/ovn away, then run again: its members then join the other.",
    )


def _unlisted(filled: t.Mapping[str, Look], raft: t.Mapping[str, str], left: t.Container[str], database: str) -> Decision | None:
    for name, look in filled.items():
        unlisted = [server for server in look.servers if server not in raft.values() and server not in left]
        if unlisted:
            return Decision(
                "refuse",
                f"{name} is in a cluster of {database} with {', '.join(unlisted)}, which is not in the inventory group.",
                "If that member left permanently, add its address to ovn_database_gone; if this is another cluster, remove the host from the group.",
            )
    return None


def _warnings(looks: t.Mapping[str, Look | None]) -> tuple[str, ...]:
    size = len(looks)
    found = [f"{size} members: an even number tolerates no more failures than {size - 1}."] if size > 1 and size % 2 == 0 else []
    found += [f"{name} does not answer." for name, look in looks.items() if look is None]
    return tuple(found)


def problems(databases: t.Mapping[str, t.Mapping[str, t.Any]], size: int | None = None) -> tuple[str, ...]:
    """Return why a member is unhealthy; empty if it is healthy.

    :arg databases: result of ``ovn_database_info`` for each database.
    :arg size: expected number of servers, ``None`` to accept any.
    """
    found = []
    for name, facts in databases.items():
        if not facts.get("running"):
            found.append(f"{name} is not running")
        elif facts.get("status") != "cluster member":
            found.append(f"{name} is {facts.get('status') or 'not answering'}")
        elif not facts.get("leader"):
            found.append(f"{name} has no leader: a majority is missing")
        elif size is not None and len(facts.get("servers") or ()) != size:
            found.append(f"{name} has {len(facts.get('servers') or ())} of {size} servers")
    return tuple(found)


def separate(parts: t.Mapping[str, t.Mapping[str, t.Mapping[str, t.Any]]]) -> list[str]:
    """Return which databases have more than one cluster.

    :arg parts: member → its databases.
    """
    found = []
    for database in DATABASES:
        clusters = sorted({str(part[database]["cluster"]) for part in parts.values() if (part.get(database) or {}).get("cluster")})
        if len(clusters) > 1:
            found.append(f"there are {len(clusters)} separate clusters of {database}: {', '.join(clusters)}")
    return found


def leaders(parts: t.Iterable[t.Mapping[str, t.Mapping[str, t.Any]]]) -> str:
    """Return the leaders of the databases as text."""
    looks = list(parts)
    found = []
    for database in DATABASES:
        # of several views, the one with the highest term is the newest
        views = sorted((int(part[database].get("term") or 0), str(part[database]["leader"])) for part in looks if (part.get(database) or {}).get("leader"))
        if views:
            found.append(f"{database} is led by {views[-1][1].partition(':')[2].rpartition(':')[0]}")
    return ", ".join(found)
