# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Evaluate the control plane: the members of each service and their state.

A member is ``ok``, ``wip`` (starting or joining) or ``down``. A service is

* ``ok`` if all its members are ``ok``;
* ``wip`` if it serves and all other members are starting or joining;
* ``degraded`` if it serves with fewer members;
* ``unknown`` if no host answers, or no member in time;
* ``down`` if it does not serve.

Witnesses count as votes of the database, and are never ``down`` as a service: without them the others serve.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import plan_health
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._galera import plan_galera
from ansible_collections.reduced.footprint.plugins.module_utils._ovn import plan_ovn
from ansible_collections.reduced.footprint.plugins.module_utils._service.model_openstack import OPENSTACK
from ansible_collections.reduced.footprint.plugins.module_utils._topology.model_services import BUILT_IN
from ansible_collections.reduced.footprint.plugins.module_utils._topology.plan_deploy_order import members, with_leaving, witnesses_of

OK, WIP, DEGRADED, UNKNOWN, DOWN = "ok", "wip", "degraded", "unknown", "down"
#: From best to worst.
STATES = (OK, WIP, DEGRADED, UNKNOWN, DOWN)
Members = t.Mapping[str, t.Sequence[str]]
Looks = t.Mapping[str, t.Optional[t.Mapping[str, t.Any]]]
_FALSE = ("false", "no", "off", "0")
_TRUE = ("true", "yes", "on", "1")
#: URL path by scheme and port.
_PATHS = {("https", 5000): "/v3", ("http", 5000): "/v3"}


def members_of(
    groups: t.Mapping[str, t.Sequence[str]], hostvars: t.Mapping[str, t.Mapping[str, t.Any]], hosts: t.Iterable[str] = ()
) -> dict[str, list[str]]:
    """Return service → its members, by the same rule as the roles.

    The members are the hosts of the group in the variable ``<service>_group``, else of the group with the name of the service, else of
    ``controller``; services of the cloud are on ``controller`` only if ``footprint_cloud`` is true. Witnesses are members of RabbitMQ as
    well, unless ``rabbitmq_witness`` is false.

    :arg hosts: those that ask; if they are of an environment, the variables of other environments do not count.
    """
    asking = _variables(hostvars, [hostvars[host] for host in hosts if host in hostvars])
    services = with_leaving(BUILT_IN, any(str(variables.get("footprint_witness_leaves", False)).lower() in _TRUE for variables in asking))
    found = {}
    cloud = any(str(variables.get("footprint_cloud", False)).lower() in _TRUE for variables in asking)
    for name in plan_health.SERVICES:
        group = next((str(variables[f"{name}_group"]) for variables in asking if variables.get(f"{name}_group")), None)
        found[name] = [str(host) for host in members(services[name], groups, group, cloud)]
    for name, there in found.items():
        if str(next((variables[f"{name}_witness"] for variables in asking if f"{name}_witness" in variables), True)).lower() not in _FALSE:
            there += witnesses_of(services[name], there, found[plan_health.WITNESS])
    return found


def answers(results: t.Mapping[str, t.Sequence[t.Mapping[str, t.Any]]], partly: str = "") -> dict[str, dict[str, t.Any]]:
    """Return ``found``, each host with its answers by key, empty unless it has all, and ``errors``, the reason for each host that could not be read.

    :arg results: the key of each answer with the results of a loop over the hosts.
    :arg partly: a host that needs only the first answer.
    """
    found: dict[str, dict[str, t.Any]] = {}
    errors: dict[str, str] = {}
    for key, listed in results.items():
        for one in listed:
            mine = found.setdefault(one["item"], {})
            if key in one:
                mine[key] = one[key]
            if one.get("failed") or one.get("unreachable"):
                errors.setdefault(one["item"], str(one.get("msg") or ""))
    first, *others = results
    for host, mine in found.items():
        if first not in mine or (host != partly and any(key not in mine for key in others)):
            mine.clear()
        elif host == partly:
            found[host] = {**{key: [] for key in others}, **mine}
    return {"found": found, "errors": errors}


def environments_of(
    groups: t.Mapping[str, t.Sequence[str]], hostvars: t.Mapping[str, t.Mapping[str, t.Any]]
) -> dict[str, dict[str, list[str]]]:
    """Return each environment of the inventory with its members, see :func:`members_of`; one with an empty name if no host is of an environment."""
    asking: dict[str, str] = {}
    for host, variables in hostvars.items():
        if variables.get("footprint_environment"):
            asking.setdefault(str(variables["footprint_environment"]), host)
    return {name: members_of(groups, hostvars, [host]) for name, host in sorted(asking.items())} or {"": members_of(groups, hostvars)}


def reports_of(environments: t.Mapping[str, Members], looks: Looks) -> t.Iterator[tuple[str, Report]]:
    """Yield the name and state of each service of each environment; the name begins with that of the environment if there are several.

    :arg environments: as returned by :func:`environments_of`.
    """
    for environment, members in environments.items():
        # an address of another environment is not one that this one should have
        own = {host: looks.get(host) for hosts in members.values() for host in hosts}
        for name, report in evaluate(members, own).items():
            yield (f"{environment}: {name}" if len(environments) > 1 else name), report


def _variables(hostvars: t.Mapping[str, t.Mapping[str, t.Any]], asking: t.Sequence[t.Mapping[str, t.Any]]) -> list[t.Mapping[str, t.Any]]:
    """Return the variables of the hosts of one environment, then those of hosts that are in none, such as servers; of all hosts if none asks."""
    environments = sorted({str(variables["footprint_environment"]) for variables in asking if variables.get("footprint_environment")})
    if len(environments) > 1:
        raise InputError(
            f"the hosts of this run are of several environments ({', '.join(environments)}), which have members of their own.",
            hint="Limit the run to one, for example with --limit and the group of its name.",
        )
    found = list(hostvars.values())
    if not environments:
        return found
    return [one for one in found if str(one.get("footprint_environment") or "") == environments[0]] + [
        one for one in found if not one.get("footprint_environment")
    ]


@dataclasses.dataclass(frozen=True)
class Member:
    """The state of a member of a service; ``silent`` if nothing is known of it."""

    host: str
    state: str
    why: tuple[str, ...] = ()
    silent: bool = False

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
    :arg witnesses: those that vote in it without being members.
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
    witnesses: tuple[Member, ...] = ()

    @property
    def votes(self) -> int:
        """Return the number of its members and witnesses."""
        return len(self.members) + len(self.witnesses)

    @property
    def healthy_votes(self) -> int:
        """Return the number of its healthy members and witnesses."""
        return self.healthy + sum(1 for witness in self.witnesses if witness.state == OK)

    @property
    def needed(self) -> int:
        """Return how many healthy votes it needs to serve."""
        return plan_health.SERVICES[self.name].needed(self.votes)

    @property
    def unhealthy(self) -> tuple[Member, ...]:
        """Return its members and witnesses that are not healthy."""
        return tuple(one for one in (*self.members, *self.witnesses) if one.state != OK)

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


def evaluate(members: Members, looks: Looks, wanted: plan_health.Wanted = plan_health.ANY) -> dict[str, Report]:
    """Return the state of each service; services without hosts and services that are not installed on any host are omitted.

    :arg members: service → its hosts.
    :arg looks: host → ``controlplane`` as returned by ``controlplane_info``, empty or ``None`` for a host that does not answer.
    """
    holders = _holders(looks)
    writers = writers_of(looks)
    found = {}
    for name, hosts in members.items():
        parts = {host: ((looks.get(host) or {}).get("services") or {}).get(name) for host in hosts}
        if not hosts or not any(part and part.get("units") for part in parts.values()) and any(looks.get(host) for host in hosts):
            continue
        states = tuple(_member(name, host, parts[host], looks, wanted) for host in hosts)
        why = _disagreements(name, {host: part for host, part in parts.items() if part}, holders)
        found[name] = Report(
            name,
            OK,
            states,
            _position(name, parts),
            tuple(why),
            writers if name == "galera" else {},
            holders if name == "load_balancer" else {},
            _links(name, looks),
            _clear(name, parts),
        )
    for name, report in found.items():
        voting = tuple(one for other, more in found.items() if plan_health.SERVICES[other].votes_in == name for one in more.members)
        found[name] = dataclasses.replace(report, witnesses=voting)
        found[name] = dataclasses.replace(found[name], state=_state(found[name]))
    return found


def _member(name: str, host: str, seen: t.Mapping[str, t.Any] | None, looks: Looks, wanted: plan_health.Wanted) -> Member:
    if not looks.get(host):
        return Member(host, DOWN, ("does not answer",), not any(looks.values()))
    why = plan_health.problems(name, seen or {}, wanted)
    if not why:
        return Member(host, OK)
    return Member(host, WIP if plan_health.on_its_way(name, seen or {}) else DOWN, tuple(why), bool((seen or {}).get("unknown")))


def _state(report: Report) -> str:
    witness = bool(plan_health.SERVICES[report.name].votes_in)
    if not witness and (report.why or not report.healthy or report.healthy_votes < report.needed):
        return UNKNOWN if all(member.silent for member in report.members) else DOWN
    if report.healthy == len(report.members) and not report.why:
        return OK
    return WIP if all(member.state in (OK, WIP) for member in report.members) and not report.why else DEGRADED


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
    if name == "ovn_database":
        return plan_ovn.separate({host: (part.get("facts") or {}).get("databases") or {} for host, part in parts.items()})
    if name == "load_balancer":
        return [f"{address} is on {' and '.join(names) or 'no host'}" for address, names in holders.items() if len(names) != 1]
    return []


def _holders(looks: Looks) -> dict[str, tuple[str, ...]]:
    """Return virtual address → the hosts that hold it."""
    found: dict[str, list[str]] = {}
    for host, look in sorted(looks.items()):
        for address in plan_health.balancer(look).get("virtual_addresses") or ():
            found.setdefault(str(address), [])
    for host, look in sorted(looks.items()):
        for address in found:
            if address in ((look or {}).get("addresses") or ()):
                found[address].append(host)
    return {address: tuple(names) for address, names in sorted(found.items())}


def writers_of(looks: Looks) -> dict[str, str]:
    """Return frontend → the only member to which its clients are sent, as reported by the load balancer with the virtual address."""
    holders = {names[0] for names in _holders(looks).values() if len(names) == 1}
    found: dict[str, str] = {}
    for host in sorted(holders) or sorted(looks):
        for name, frontend in (plan_health.balancer(looks[host]).get("frontends") or {}).items():
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
    if name == "ovn_database" and facts:
        return plan_ovn.leaders([fact.get("databases") or {} for fact in facts])
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


def _links(name: str, looks: Looks) -> tuple[str, ...]:
    """Return the URLs of a service for clients."""
    ports = {"galera": [3306], "keystone": [5000], **{one.name: [api.public_port or api.default_port for api in one.apis] for one in OPENSTACK.values()}}
    found = []
    for look in looks.values():
        for front in plan_health.balancer(look).get("fronts") or ():
            if front.get("scheme") and front["port"] in ports.get(name, ()):
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
