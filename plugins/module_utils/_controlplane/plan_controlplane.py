# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The control plane in one look: which service stands on whom, and how well.

A member is ``ok``, ``wip`` (it is just starting or joining) or ``down``. A service is

* ``ok`` when all its members are;
* ``wip`` when it serves and those that are missing are on their way;
* ``degraded`` when it serves with fewer;
* ``down`` when it does not serve.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._galera import plan_galera
from ansible_collections.reduced.footprint.plugins.module_utils._topology.model_services import BUILT_IN
from ansible_collections.reduced.footprint.plugins.module_utils._topology.plan_deploy_order import members

OK, WIP, DEGRADED, DOWN = "ok", "wip", "degraded", "down"
#: From good to bad.
STATES = (OK, WIP, DEGRADED, DOWN)
# What Galera calls members that are on their way to Synced.
_JOINING = ("Joining", "Joined", "Donor/Desynced", "Initialized", "Inconsistent")
_STARTING = ("activating", "reloading")
# What HAProxy says of a server it sends clients to.
SERVING = ("UP", "no check")
#: What clients call a port at a virtual address.
_PATHS = {("https", 5000): "/v3", ("http", 5000): "/v3"}


@dataclasses.dataclass(frozen=True)
class Service:
    """One service of a control plane.

    :arg units: what systemd calls its parts; of a tuple of names the first that is there counts.
    :arg majority: whether it serves only while more than half of its members do; others serve while one does.
    """

    name: str
    units: tuple[tuple[str, ...], ...]
    majority: bool = False

    def needed(self, members: int) -> int:
        """How many of so many members it needs to serve."""
        return members // 2 + 1 if self.majority else 1


#: In the order in which they depend on each other.
SERVICES: t.Mapping[str, Service] = {
    service.name: service
    for service in (
        Service("galera", (("mariadb.service",),), majority=True),
        Service("rabbitmq", (("rabbitmq-server.service",),), majority=True),
        Service("memcached", (("memcached.service",),)),
        Service("load_balancer", (("haproxy.service",), ("keepalived.service",))),
        Service("keystone", (("footprint-keystone.service", "keystone.service", "apache2.service", "httpd.service"),)),
    )
}


def members_of(groups: t.Mapping[str, t.Sequence[str]], hostvars: t.Mapping[str, t.Mapping[str, t.Any]]) -> dict[str, list[str]]:
    """Service → its members, by the rule of the roles.

    That is the group a host's variable ``<service>_group`` names, else the group of the service's own name, else ``controller``.
    """
    found = {}
    for name in SERVICES:
        told = next((str(variables[f"{name}_group"]) for variables in hostvars.values() if variables.get(f"{name}_group")), None)
        found[name] = [str(host) for host in members(BUILT_IN[name], groups, told)]
    return found


def problems(name: str, seen: t.Mapping[str, t.Any], size: int | None = None) -> list[str]:
    """Why one member of a service is not well; empty when it is.

    :arg seen: what the module ``controlplane_info`` found of it.
    :arg size: how many members its cluster is to have; ``None`` takes any.
    """
    if not seen.get("units"):
        return ["it is not installed"]
    found = [f"{unit} is {entry['state']}" for unit, entry in sorted(seen["units"].items()) if entry["state"] != "active"]
    return found or _JUDGES[name](seen, size)


def _galera(seen: t.Mapping[str, t.Any], size: int | None) -> list[str]:
    facts = seen.get("facts")
    if not facts:
        return ["its server does not answer"]
    if not facts.get("ready"):
        return list(facts.get("problems") or ()) or ["its server runs without replication" if facts.get("standalone") else "its server does not answer"]
    if size is not None and facts.get("size") != size:
        return [f"its cluster has {facts.get('size')} of {size} members"]
    return []


def _rabbitmq(seen: t.Mapping[str, t.Any], size: int | None) -> list[str]:
    facts = seen.get("facts")
    if not facts:
        return ["it does not answer"]
    found = [f"{name} does not see {', '.join(others)}" for name, others in sorted((facts.get("partitions") or {}).items()) if others]
    if size is not None and len(facts.get("running") or ()) != size:
        found.append(f"its cluster has {len(facts.get('running') or ())} of {size} members")
    return found + [f"alarm {alarm}" for alarm in facts.get("alarms") or ()]


def _memcached(seen: t.Mapping[str, t.Any], unused: int | None) -> list[str]:
    return [] if (seen.get("facts") or {}).get("version") else ["it does not answer"]


def _load_balancer(seen: t.Mapping[str, t.Any], unused: int | None) -> list[str]:
    facts = seen.get("facts") or {}
    if facts.get("frontends") is None:
        return ["its HAProxy does not answer"]
    # its unit is well all the same, and the address stays away from it for good
    faults = sorted(name for name, state in (facts.get("vrrp") or {}).items() if state == "FAULT")
    return [f"its VRRP instance {name} is in FAULT, it takes no virtual address (journalctl -u keepalived tells why)" for name in faults]


def _keystone(seen: t.Mapping[str, t.Any], unused: int | None) -> list[str]:
    return [] if (seen.get("facts") or {}).get("version") else ["it does not answer"]


_JUDGES: t.Mapping[str, t.Callable[[t.Mapping[str, t.Any], int | None], list[str]]] = {
    "galera": _galera,
    "rabbitmq": _rabbitmq,
    "memcached": _memcached,
    "load_balancer": _load_balancer,
    "keystone": _keystone,
}


def on_its_way(name: str, seen: t.Mapping[str, t.Any]) -> bool:
    """Whether a member that is not well is just starting or joining."""
    units = (seen.get("units") or {}).values()
    if any(unit["state"] in _STARTING for unit in units):
        return all(unit["state"] in ("active", *_STARTING) for unit in units)
    facts = seen.get("facts") or {}
    return name == "galera" and bool(facts.get("primary")) and str(facts.get("local_state") or "").startswith(_JOINING)


@dataclasses.dataclass(frozen=True)
class Member:
    """One member of a service as it was found."""

    host: str
    state: str
    why: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """Its name, with what is wrong."""
        return f"{self.host}: {', '.join(self.why)}" if self.why else self.host


@dataclasses.dataclass(frozen=True)
class Report:
    """One service as it was found.

    :arg writer: the members to which clients are sent alone, frontend → member.
    :arg holders: virtual address → who holds it.
    :arg position: where its cluster stands, in words.
    :arg why: what is wrong with the service although its members are well.
    :arg clear: what it says in plain text that could be encrypted.
    """

    name: str
    state: str
    members: tuple[Member, ...]
    position: str = ""
    why: tuple[str, ...] = ()
    writer: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    holders: t.Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    links: tuple[str, ...] = ()
    clear: str = ""

    @property
    def well(self) -> int:
        """How many members are well."""
        return sum(1 for member in self.members if member.state == OK)

    @property
    def text(self) -> str:
        """What is to be known of it, in one line."""
        wrong = "; ".join([*self.why, *(member.words for member in self.members if member.state != OK)])
        count = f"{self.well}/{len(self.members)}"
        return " ".join([count, *([f"({wrong})"] if wrong else []), *([self.position] if self.position else [])])

    def as_dict(self) -> dict[str, t.Any]:
        """Plain values, for machines."""
        return {
            "state": self.state,
            "up": self.well,
            "all": len(self.members),
            "members": {member.host: {"state": member.state, "why": list(member.why)} for member in self.members},
            "position": self.position,
            "why": list(self.why),
            "writer": dict(self.writer),
            "virtual_addresses": {address: list(names) for address, names in self.holders.items()},
            "links": list(self.links),
            "clear": self.clear,
        }


def judge(members: t.Mapping[str, t.Sequence[str]], looks: t.Mapping[str, t.Mapping[str, t.Any] | None]) -> dict[str, Report]:
    """How each service stands; those nobody has installed, and nobody was given a group for, are left out.

    :arg members: service → its hosts.
    :arg looks: host → what ``controlplane_info`` returned as ``controlplane``, or nothing for one that does not answer.
    """
    holders = _holders(looks)
    writers = writers_of(looks)
    found = {}
    for name, hosts in members.items():
        parts = {host: ((looks.get(host) or {}).get("services") or {}).get(name) for host in hosts}
        if not hosts or not any(part and part.get("units") for part in parts.values()) and any(looks.get(host) for host in hosts):
            continue
        standing = tuple(_member(name, host, parts[host], looks.get(host) is not None) for host in hosts)
        why = _disagreements(name, {host: part for host, part in parts.items() if part}, holders)
        state = _state(SERVICES[name], standing, why)
        found[name] = Report(
            name,
            state,
            standing,
            _position(name, parts),
            tuple(why),
            writers if name == "galera" else {},
            holders if name == "load_balancer" else {},
            _links(name, looks),
            _clear(name, parts),
        )
    return found


def _member(name: str, host: str, seen: t.Mapping[str, t.Any] | None, answers: bool) -> Member:
    if not answers:
        return Member(host, DOWN, ("does not answer",))
    why = problems(name, seen or {})
    if not why:
        return Member(host, OK)
    return Member(host, WIP if on_its_way(name, seen or {}) else DOWN, tuple(why))


def _state(service: Service, members: t.Sequence[Member], why: t.Sequence[str]) -> str:
    well = [member for member in members if member.state == OK]
    if why or len(well) < service.needed(len(members)):
        return DOWN
    if len(well) == len(members):
        return OK
    return WIP if all(member.state in (OK, WIP) for member in members) else DEGRADED


def _disagreements(name: str, parts: t.Mapping[str, t.Mapping[str, t.Any]], holders: t.Mapping[str, t.Sequence[str]]) -> list[str]:
    """What only shows when the members are compared."""
    if name == "galera":
        uuids = sorted({str(part["facts"]["cluster_uuid"]) for part in parts.values() if (part.get("facts") or {}).get("ready")})
        if len(uuids) > 1:
            return [f"there are {len(uuids)} clusters at once: {', '.join(uuids)}"]
        apart = plan_galera.components(plan_galera.primary_members({host: part.get("facts") for host, part in parts.items()}))
        return [f"{plan_galera.describe_components(apart)} (docs/database.md tells how to keep one)"] if len(apart) > 1 else []
    if name == "rabbitmq":
        views = {tuple(part["facts"]["running"]) for part in parts.values() if part.get("facts")}
        whole = max((len(view) for view in views), default=0)
        apart = [view for view in views if len(view) * 2 <= whole]
        return [f"a part of the cluster is on its own: {', '.join(view)}" for view in sorted(apart)]
    if name == "load_balancer":
        return [f"{address} is on {' and '.join(names) or 'no host'}" for address, names in holders.items() if len(names) != 1]
    return []


def _holders(looks: t.Mapping[str, t.Mapping[str, t.Any] | None]) -> dict[str, tuple[str, ...]]:
    """Virtual address → the hosts that have it."""
    found: dict[str, list[str]] = {}
    for host, look in sorted(looks.items()):
        for address in _balancer(look).get("virtual_addresses") or ():
            found.setdefault(str(address), [])
    for host, look in sorted(looks.items()):
        for address in found:
            if address in ((look or {}).get("addresses") or ()):
                found[address].append(host)
    return {address: tuple(names) for address, names in sorted(found.items())}


def _balancer(look: t.Mapping[str, t.Any] | None) -> t.Mapping[str, t.Any]:
    return (((look or {}).get("services") or {}).get("load_balancer") or {}).get("facts") or {}


def writers_of(looks: t.Mapping[str, t.Mapping[str, t.Any] | None]) -> dict[str, str]:
    """Frontend → the member its clients are sent to alone, as the load balancer says that clients speak to."""
    holders = {names[0] for names in _holders(looks).values() if len(names) == 1}
    found: dict[str, str] = {}
    for host in sorted(holders) or sorted(looks):
        for name, frontend in (_balancer(looks[host]).get("frontends") or {}).items():
            if frontend.get("in_use"):
                found.setdefault(name, str(frontend["in_use"]))
    return found


def _position(name: str, parts: t.Mapping[str, t.Mapping[str, t.Any] | None]) -> str:
    facts = [part["facts"] for part in parts.values() if part and part.get("facts")]
    if name == "galera":
        ready = [fact for fact in facts if fact.get("ready")]
        return f"at {ready[0]['cluster_uuid']}:{max(int(fact['seqno']) for fact in ready)}" if ready else ""
    if name == "rabbitmq" and facts:
        return f"{max(len(fact['running']) for fact in facts)} running in the cluster"
    return ""


def _clear(name: str, parts: t.Mapping[str, t.Mapping[str, t.Any] | None]) -> str:
    """With whom a service speaks plain text although it could speak TLS, and where it is told how to change that."""
    facts = [part["facts"] for part in parts.values() if part and part.get("facts")]
    whom = []
    if name == "galera" and any(fact.get("tls") == "off" for fact in facts):
        whom.append("its members")
    if name == "rabbitmq" and any(fact.get("tls") in ("off", "both") for fact in facts):
        whom.append("clients")
    guide = {"galera": "docs/database.md", "rabbitmq": "docs/messaging.md"}.get(name)
    return f"plain text with {' and '.join(whom)} ({guide}, Encryption)" if whom else ""


def _links(name: str, looks: t.Mapping[str, t.Mapping[str, t.Any] | None]) -> tuple[str, ...]:
    """Where clients find it."""
    ports = {"galera": 3306, "keystone": 5000}
    found = []
    for look in looks.values():
        for front in _balancer(look).get("fronts") or ():
            if front.get("scheme") and front["port"] == ports.get(name):
                found.append(f"{front['scheme']}://{front['address']}:{front['port']}{_PATHS.get((front['scheme'], front['port']), '')}")
    return tuple(sorted(set(found)))


def worst(states: t.Iterable[str]) -> str:
    """The worst of several states."""
    return max(states, key=STATES.index, default=OK)


def table(reports: t.Mapping[str, Report]) -> list[str]:
    """The services as lines for people."""
    heads = ("service", "members", "state", "what is to know")
    rows = [(name, f"{one.well}/{len(one.members)}", one.state, "; ".join(_notes(one))) for name, one in reports.items()]
    if not rows:
        return []
    widths = [max(len(row[column]) for row in [heads, *rows]) for column in range(3)]
    return ["  ".join([*(cell.ljust(width) for cell, width in zip(row, widths)), row[3]]).rstrip() for row in [heads, *rows]]


def _notes(one: Report) -> t.Iterator[str]:
    yield from one.why
    yield from (member.words for member in one.members if member.state != OK)
    yield from (f"{name} is written to through {member}" if name == "mysql" else f"{name} is served by {member} alone" for name, member in one.writer.items())
    yield from (f"{address} is on {names[0]}" for address, names in one.holders.items() if len(names) == 1)
    if one.position:
        yield one.position
    if one.clear:
        yield one.clear
    yield from one.links
