# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Evaluate the control plane: the members of each service and their state.

A member is ``ok``, ``wip`` (starting or joining) or ``down``. A service is

* ``ok`` if all its members are ``ok``;
* ``wip`` if it serves and all other members are starting or joining;
* ``degraded`` if it serves with fewer members;
* ``down`` if it does not serve.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._galera import plan_galera
from ansible_collections.reduced.footprint.plugins.module_utils._topology.model_services import BUILT_IN
from ansible_collections.reduced.footprint.plugins.module_utils._topology.plan_deploy_order import members

OK, WIP, DEGRADED, DOWN = "ok", "wip", "degraded", "down"
#: From best to worst.
STATES = (OK, WIP, DEGRADED, DOWN)
# Galera states of members that are not Synced yet.
_JOINING = ("Joining", "Joined", "Donor/Desynced", "Initialized", "Inconsistent")
_STARTING = ("activating", "reloading")
# Status in HAProxy of a server that gets clients.
SERVING = ("UP", "no check")
#: URL path by scheme and port.
_PATHS = {("https", 5000): "/v3", ("http", 5000): "/v3"}


@dataclasses.dataclass(frozen=True)
class Service:
    """A service of a control plane.

    :arg units: its systemd units; each is a tuple of alternative names.
    :arg majority: whether it needs more than half of its members to serve; other services need one.
    """

    name: str
    units: tuple[tuple[str, ...], ...]
    majority: bool = False

    def needed(self, members: int) -> int:
        """Return how many of its members it needs to serve."""
        return members // 2 + 1 if self.majority else 1


#: Ordered by dependencies.
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
    """Return service → its members, by the same rule as the roles.

    The members are the hosts of the group in the variable ``<service>_group``, else of the group with the name of the service, else of
    ``controller``.
    """
    found = {}
    for name in SERVICES:
        group = next((str(variables[f"{name}_group"]) for variables in hostvars.values() if variables.get(f"{name}_group")), None)
        found[name] = [str(host) for host in members(BUILT_IN[name], groups, group)]
    return found


def problems(name: str, seen: t.Mapping[str, t.Any], size: int | None = None) -> list[str]:
    """Return why a member of a service is unhealthy; empty if it is healthy.

    :arg seen: its result of the module ``controlplane_info``.
    :arg size: expected number of members of its cluster; ``None`` accepts any.
    """
    if not seen.get("units"):
        return ["it is not installed"]
    found = [f"{unit} is {entry['state']}" for unit, entry in sorted(seen["units"].items()) if entry["state"] != "active"]
    return found or _CHECKS[name](seen, size)


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
    found = [f"{name} does not reach {', '.join(others)}" for name, others in sorted((facts.get("partitions") or {}).items()) if others]
    if size is not None and len(facts.get("running") or ()) != size:
        found.append(f"its cluster has {len(facts.get('running') or ())} of {size} members")
    return found + [f"alarm {alarm}" for alarm in facts.get("alarms") or ()]


def _memcached(seen: t.Mapping[str, t.Any], unused: int | None) -> list[str]:
    return [] if (seen.get("facts") or {}).get("version") else ["it does not answer"]


def _load_balancer(seen: t.Mapping[str, t.Any], unused: int | None) -> list[str]:
    facts = seen.get("facts") or {}
    if facts.get("frontends") is None:
        return ["its HAProxy does not answer"]
    # in FAULT the unit is active, but the virtual address does not move to this member
    faults = sorted(name for name, state in (facts.get("vrrp") or {}).items() if state == "FAULT")
    return [f"its VRRP instance {name} is in FAULT and cannot take over the virtual address (check journalctl -u keepalived)" for name in faults]


def _keystone(seen: t.Mapping[str, t.Any], unused: int | None) -> list[str]:
    return [] if (seen.get("facts") or {}).get("version") else ["it does not answer"]


_CHECKS: t.Mapping[str, t.Callable[[t.Mapping[str, t.Any], int | None], list[str]]] = {
    "galera": _galera,
    "rabbitmq": _rabbitmq,
    "memcached": _memcached,
    "load_balancer": _load_balancer,
    "keystone": _keystone,
}


def on_its_way(name: str, seen: t.Mapping[str, t.Any]) -> bool:
    """Whether an unhealthy member is starting or joining."""
    units = (seen.get("units") or {}).values()
    if any(unit["state"] in _STARTING for unit in units):
        return all(unit["state"] in ("active", *_STARTING) for unit in units)
    facts = seen.get("facts") or {}
    return name == "galera" and bool(facts.get("primary")) and str(facts.get("local_state") or "").startswith(_JOINING)


@dataclasses.dataclass(frozen=True)
class Member:
    """The state of a member of a service."""

    host: str
    state: str
    why: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Return its name and its problems."""
        return f"{self.host}: {', '.join(self.why)}" if self.why else self.host


@dataclasses.dataclass(frozen=True)
class Report:
    """The state of a service.

    :arg writer: frontend → the only member to which its clients are sent.
    :arg holders: virtual address → the hosts that hold it.
    :arg position: position of its cluster, as text.
    :arg why: problems of the service that are not problems of a single member.
    :arg clear: connections in plain text that could be encrypted.
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
    def healthy(self) -> int:
        """Return the number of healthy members."""
        return sum(1 for member in self.members if member.state == OK)

    @property
    def text(self) -> str:
        """Return its state in one line."""
        problems_found = "; ".join([*self.why, *(member.text for member in self.members if member.state != OK)])
        count = f"{self.healthy}/{len(self.members)}"
        return " ".join([count, *([f"({problems_found})"] if problems_found else []), *([self.position] if self.position else [])])

    def as_dict(self) -> dict[str, t.Any]:
        """Return plain values for JSON."""
        return {
            "state": self.state,
            "up": self.healthy,
            "all": len(self.members),
            "members": {member.host: {"state": member.state, "why": list(member.why)} for member in self.members},
            "position": self.position,
            "why": list(self.why),
            "writer": dict(self.writer),
            "virtual_addresses": {address: list(names) for address, names in self.holders.items()},
            "links": list(self.links),
            "clear": self.clear,
        }


def evaluate(members: t.Mapping[str, t.Sequence[str]], looks: t.Mapping[str, t.Mapping[str, t.Any] | None]) -> dict[str, Report]:
    """Return the state of each service; services without hosts and services that are not installed on any host are omitted.

    :arg members: service → its hosts.
    :arg looks: host → ``controlplane`` as returned by ``controlplane_info``, or ``None`` for a host that does not answer.
    """
    holders = _holders(looks)
    writers = writers_of(looks)
    found = {}
    for name, hosts in members.items():
        parts = {host: ((looks.get(host) or {}).get("services") or {}).get(name) for host in hosts}
        if not hosts or not any(part and part.get("units") for part in parts.values()) and any(looks.get(host) for host in hosts):
            continue
        states = tuple(_member(name, host, parts[host], looks.get(host) is not None) for host in hosts)
        why = _disagreements(name, {host: part for host, part in parts.items() if part}, holders)
        state = _state(SERVICES[name], states, why)
        found[name] = Report(
            name,
            state,
            states,
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
    healthy = [member for member in members if member.state == OK]
    if why or len(healthy) < service.needed(len(members)):
        return DOWN
    if len(healthy) == len(members):
        return OK
    return WIP if all(member.state in (OK, WIP) for member in members) else DEGRADED


def _disagreements(name: str, parts: t.Mapping[str, t.Mapping[str, t.Any]], holders: t.Mapping[str, t.Sequence[str]]) -> list[str]:
    """Return problems that are found by comparing the members."""
    if name == "galera":
        uuids = sorted({str(part["facts"]["cluster_uuid"]) for part in parts.values() if (part.get("facts") or {}).get("ready")})
        if len(uuids) > 1:
            return [f"there are {len(uuids)} separate clusters: {', '.join(uuids)}"]
        apart = plan_galera.components(plan_galera.primary_members({host: part.get("facts") for host, part in parts.items()}))
        return [f"{plan_galera.describe_components(apart)} (see docs/database.md for how to keep one)"] if len(apart) > 1 else []
    if name == "rabbitmq":
        views = {tuple(part["facts"]["running"]) for part in parts.values() if part.get("facts")}
        whole = max((len(view) for view in views), default=0)
        apart = [view for view in views if len(view) * 2 <= whole]
        return [f"a part of the cluster is partitioned: {', '.join(view)}" for view in sorted(apart)]
    if name == "load_balancer":
        return [f"{address} is on {' and '.join(names) or 'no host'}" for address, names in holders.items() if len(names) != 1]
    return []


def _holders(looks: t.Mapping[str, t.Mapping[str, t.Any] | None]) -> dict[str, tuple[str, ...]]:
    """Return virtual address → the hosts that hold it."""
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
    """Return frontend → the only member to which its clients are sent, as reported by the load balancer with the virtual address."""
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
    """Return which connections of a service are in plain text although TLS is supported, and the guide for changing this."""
    facts = [part["facts"] for part in parts.values() if part and part.get("facts")]
    parties = []
    if name == "galera" and any(fact.get("tls") == "off" for fact in facts):
        parties.append("its members")
    if name == "rabbitmq" and any(fact.get("tls") in ("off", "both") for fact in facts):
        parties.append("clients")
    guide = {"galera": "docs/database.md", "rabbitmq": "docs/messaging.md"}.get(name)
    return f"plain text with {' and '.join(parties)} ({guide}, Encryption)" if parties else ""


def _links(name: str, looks: t.Mapping[str, t.Mapping[str, t.Any] | None]) -> tuple[str, ...]:
    """Return the URLs of a service for clients."""
    ports = {"galera": 3306, "keystone": 5000}
    found = []
    for look in looks.values():
        for front in _balancer(look).get("fronts") or ():
            if front.get("scheme") and front["port"] == ports.get(name):
                found.append(f"{front['scheme']}://{front['address']}:{front['port']}{_PATHS.get((front['scheme'], front['port']), '')}")
    return tuple(sorted(set(found)))


def worst(states: t.Iterable[str]) -> str:
    """Return the worst of several states."""
    return max(states, key=STATES.index, default=OK)


def table(reports: t.Mapping[str, Report]) -> list[str]:
    """Return the services as the lines of a table."""
    heads = ("service", "members", "state", "details")
    rows = [(name, f"{one.healthy}/{len(one.members)}", one.state, "; ".join(_notes(one))) for name, one in reports.items()]
    if not rows:
        return []
    widths = [max(len(row[column]) for row in [heads, *rows]) for column in range(3)]
    return ["  ".join([*(cell.ljust(width) for cell, width in zip(row, widths)), row[3]]).rstrip() for row in [heads, *rows]]


def _notes(one: Report) -> t.Iterator[str]:
    yield from one.why
    yield from (member.text for member in one.members if member.state != OK)
    yield from (f"{name} is served by {member} only" for name, member in one.writer.items())
    yield from (f"{address} is on {names[0]}" for address, names in one.holders.items() if len(names) == 1)
    if one.position:
        yield one.position
    if one.clear:
        yield one.clear
    yield from one.links
