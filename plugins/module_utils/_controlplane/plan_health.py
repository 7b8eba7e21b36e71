# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide whether the services of a host are healthy, from what it reports itself."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_fields import did_you_mean
from ansible_collections.reduced.footprint.plugins.module_utils._ovn import plan_ovn
from ansible_collections.reduced.footprint.plugins.module_utils._service.model_openstack import OPENSTACK

# Galera states of members that are not Synced yet.
_JOINING = ("Joining", "Joined", "Donor/Desynced", "Initialized")
_STARTING = ("activating", "reloading")
#: Seconds after which a guard that reports each second does not run.
_GUARD_SILENT = 30
# Status in HAProxy of a server that gets clients.
_SERVING = ("UP", "no check")
WITNESS = "witness"
#: Seconds of a round trip up to which a witness slows commits down by less than half.
_NEAR = 0.002
#: Stands for the name of the cluster in the name of a unit.
CLUSTER = "CLUSTER"


@dataclasses.dataclass(frozen=True)
class Service:
    """A service of a control plane.

    :arg units: its systemd units; each is a tuple of alternative names.
    :arg majority: whether it needs more than half of its members to serve; other services need one.
    :arg votes_in: the service whose quorum its members count in; it serves no clients itself.
    :arg programs: possible paths of its program, for units that do not belong to a package.
    :arg certificate: path of its certificate, which the roles renew.
    """

    name: str
    units: tuple[tuple[str, ...], ...]
    majority: bool = False
    votes_in: str = ""
    programs: tuple[str, ...] = ()
    certificate: str = ""

    def needed(self, votes: int) -> int:
        """Return how many of its votes it needs to serve."""
        return 0 if self.votes_in else votes // 2 + 1 if self.majority else 1


#: Ordered by dependencies.
SERVICES: t.Mapping[str, Service] = {
    service.name: service
    for service in (
        Service("galera", (("mariadb.service",),), majority=True, certificate="/etc/reduced.footprint/galera/certificate.pem"),
        Service("rabbitmq", (("rabbitmq-server.service",),), majority=True, certificate="/etc/rabbitmq/footprint-tls/certificate.pem"),
        Service(
            WITNESS,
            ((f"garbd@{CLUSTER}.service",),),
            votes_in="galera",
            programs=("/usr/bin/garbd", "/usr/sbin/garbd"),
            certificate=f"/etc/reduced.footprint/witness/{CLUSTER}/certificate.pem",
        ),
        Service("memcached", (("memcached.service",),)),
        Service("load_balancer", (("haproxy.service",), ("keepalived.service",)), certificate="/etc/haproxy/footprint-edge.pem"),
        Service("keystone", (("footprint-keystone.service", "keystone.service", "apache2.service", "httpd.service"),)),
        Service(
            "ovn_database",
            (("ovn-ovsdb-server-nb.service",), ("ovn-ovsdb-server-sb.service",)),
            majority=True,
            certificate="/etc/reduced.footprint/ovn/certificate.pem",
        ),
        *(
            Service(one.name, tuple((unit,) for unit in one.units), majority=one.majority, programs=(one.program,) if one.program else ())
            for one in OPENSTACK.values()
        ),
    )
}


def with_voted(names: t.Iterable[str]) -> list[str]:
    """Return services and those in whose quorum they vote."""
    return list(dict.fromkeys(one for name in names for one in (name, SERVICES[name].votes_in) if one))


@dataclasses.dataclass(frozen=True)
class Wanted:
    """What the services of a host must fulfil in addition to being healthy.

    :arg sizes: service → expected number of members of its cluster.
    :arg cluster_uuid: expected UUID of the Galera cluster; empty accepts any.
    :arg position: lowest accepted position (sequence number) of the Galera member.
    :arg frontends: servers to which the load balancer must send clients.
    """

    sizes: t.Mapping[str, int] = dataclasses.field(default_factory=dict)
    cluster_uuid: str = ""
    position: int = -1
    frontends: tuple[str, ...] = ()


ANY = Wanted()


def parse_wanted(value: t.Mapping[str, t.Any]) -> Wanted:
    """Parse the conditions from options of the module ``controlplane_info``."""
    sizes = {}
    for name, number in (value.get("sizes") or {}).items():
        if name not in SERVICES:
            raise InputError(f"unknown service {name!r}.", f"sizes.{name}", did_you_mean(name, SERVICES, f"Use some of {', '.join(SERVICES)}."))
        if not str(number).isdecimal() or int(number) < 1:
            raise InputError(f"{number!r} is not a valid number of members.", f"sizes.{name}", "Write NAME: NUMBER, e.g. {galera: 3}.")
        sizes[name] = int(number)
    return Wanted(sizes, str(value.get("cluster_uuid") or ""), int(value.get("position", -1)), tuple(value.get("frontends") or ()))


def problems(name: str, seen: t.Mapping[str, t.Any], wanted: Wanted = ANY) -> list[str]:
    """Return why a member of a service is unhealthy; empty if it is healthy.

    :arg seen: its result of the module ``controlplane_info``.
    """
    if seen.get("unknown"):
        return [f"unknown: {seen['unknown']}"]
    if not seen.get("units"):
        return ["it is not installed"]
    down = [(unit, entry) for unit, entry in sorted(seen["units"].items()) if entry["state"] != "active"]
    found = [f"{unit} {'failed, and is started again' if _failed(entry) else 'is ' + entry['state']}" for unit, entry in down]
    return [*found, *_guard(seen)] if found else _CHECKS[name](seen, wanted)


def host_problems(look: t.Mapping[str, t.Any], wanted: Wanted = ANY) -> list[tuple[str, str]]:
    """Return what is not as wanted on a host although its own services may be healthy, each with the service that is affected.

    A frontend without any healthy server is ignored: its service may not be deployed, and is checked itself.

    :arg look: ``controlplane`` as returned by ``controlplane_info``.
    """
    found = []
    for name, frontend in sorted((balancer(look).get("frontends") or {}).items()):
        if any(state["status"].startswith(_SERVING) for state in frontend["servers"].values()):
            away = [(server, state["status"]) for server, state in sorted(frontend["servers"].items()) if not state["status"].startswith(_SERVING)]
            found += [("load_balancer", f"it sends no clients of {name} to {server} ({status})") for server, status in away if server in wanted.frontends]
    if look.get("answers") is False:
        found.append(("galera", "no database answers at the virtual address"))
    return found


def _failed(unit: t.Mapping[str, t.Any]) -> bool:
    """Whether a unit ended by itself, and systemd starts it again after a pause."""
    return str(unit.get("sub") or "").startswith("auto-restart")


def _galera(seen: t.Mapping[str, t.Any], wanted: Wanted) -> list[str]:
    facts = seen.get("facts")
    if not facts:
        return ["its server does not answer", *_guard(seen)]
    if not facts.get("ready"):
        why = list(facts.get("problems") or ()) or ["its server runs without replication" if facts.get("standalone") else "its server does not answer"]
        return [*why, *_guard(seen)]
    found, size = _guard(seen), wanted.sizes.get("galera")
    if size is not None and facts.get("size") != size:
        found.append(f"its cluster has {facts.get('size')} of {size} members")
    if wanted.cluster_uuid and facts.get("cluster_uuid") != wanted.cluster_uuid:
        found.append(f"it belongs to the cluster {facts.get('cluster_uuid')}, not to {wanted.cluster_uuid}")
    if int(facts.get("seqno") or 0) < wanted.position:
        found.append(f"it is at position {facts.get('seqno')}, behind {wanted.position}")
    return found


def _guard(seen: t.Mapping[str, t.Any]) -> list[str]:
    """Return why the guard of a database member leaves it out, or that of a member of RabbitMQ does not let it start."""
    guard, waits = seen.get("guard"), seen.get("waits")
    found = [f"its guard does not let it start: {waits['reason']}"] if waits else []
    if guard and (guard["age_seconds"] is None or guard["age_seconds"] > _GUARD_SILENT):
        found.append("its guard does not run, so it may replace newer data after a cut (check journalctl -u footprint-galera-guard)")
    elif guard:
        found += ["its guard has isolated it"] if guard["isolated"] else []
        if guard["failed"]:
            found.append(f"its guard gave up: {guard['failed']}")
        elif guard["action"] in ("wait", "refuse"):
            found.append(f"its guard {'waits' if guard['action'] == 'wait' else 'leaves the decision to recover_database'}: {guard['reason']}")
    return found


def _rabbitmq(seen: t.Mapping[str, t.Any], wanted: Wanted) -> list[str]:
    facts = seen.get("facts")
    if not facts:
        return ["it does not answer"]
    found = [f"{name} does not reach {', '.join(others)}" for name, others in sorted((facts.get("partitions") or {}).items()) if others]
    size = wanted.sizes.get("rabbitmq")
    if size is not None and len(facts.get("running") or ()) != size:
        found.append(f"its cluster has {len(facts.get('running') or ())} of {size} members")
    if facts.get("drained"):
        # a restart that was killed
        found.append("it is in maintenance mode and accepts no clients (rabbitmq-upgrade revive ends this)")
    return found + [f"alarm {alarm}" for alarm in facts.get("alarms") or ()]


def _witness(seen: t.Mapping[str, t.Any], unused: Wanted) -> list[str]:
    return [] if (seen.get("facts") or {}).get("connected") else ["it is connected to no member of the database"]


def distance(round_trip: float | None) -> str:
    """Return what the distance of a witness costs, empty if it is near or unknown.

    A commit waits for the most distant voter: 217, 14 and 5 rows per second were measured with 0, 50 and 150 ms.
    """
    if round_trip is None or round_trip <= _NEAR:
        return ""
    rate = 1 / (0.0046 + 1.3 * round_trip)
    return (
        f"its round trip to the servers is {round_trip * 1000:.0f} ms, and each commit waits for it: about {rate:.0f} rows per second for a connection that "
        "writes one after the other (docs/two-servers.md, Distance of the witness)"
    )


def _version(seen: t.Mapping[str, t.Any], unused: Wanted) -> list[str]:
    return [] if (seen.get("facts") or {}).get("version") else ["it does not answer"]


def _load_balancer(seen: t.Mapping[str, t.Any], unused: Wanted) -> list[str]:
    facts = seen.get("facts") or {}
    if facts.get("frontends") is None:
        return ["its HAProxy does not answer"]
    # in these states the unit is active, but the virtual address does not move to this member
    faults = sorted((name, state) for name, state in (facts.get("vrrp") or {}).items() if state in ("FAULT", "INIT"))
    return [f"its VRRP instance {name} is in {state} and cannot take over the virtual address (check journalctl -u keepalived)" for name, state in faults]


def _ovn_database(seen: t.Mapping[str, t.Any], wanted: Wanted) -> list[str]:
    facts = seen.get("facts")
    if not facts:
        return ["it does not answer"]
    found = list(plan_ovn.problems(facts.get("databases") or {}, wanted.sizes.get("ovn_database")))
    # masked on a witness
    return found if facts.get("northd") in ("active", "masked") else [*found, f"ovn-northd.service is {facts.get('northd')}"]


def _openstack(seen: t.Mapping[str, t.Any], unused: Wanted) -> list[str]:
    """Each API reports whether it reaches its database, and which of the service's processes on this host report to it."""
    apis = (seen.get("facts") or {}).get("apis") or {}
    return [f"{name}: {why}" for name, why in sorted(apis.items()) if why]


_CHECKS: t.Mapping[str, t.Callable[[t.Mapping[str, t.Any], Wanted], list[str]]] = {
    "galera": _galera,
    "rabbitmq": _rabbitmq,
    WITNESS: _witness,
    "memcached": _version,
    "load_balancer": _load_balancer,
    "keystone": _version,
    "ovn_database": _ovn_database,
    **{name: _openstack for name in OPENSTACK},
}


def on_its_way(name: str, seen: t.Mapping[str, t.Any]) -> bool:
    """Whether an unhealthy member is starting or joining, and no person must decide about it."""
    guard = seen.get("guard") or {}
    if guard.get("failed") or guard.get("action") == "refuse" or (seen.get("waits") or {}).get("person"):
        return False
    units = (seen.get("units") or {}).values()
    if any(unit["state"] in _STARTING for unit in units):
        return all(unit["state"] in ("active", *_STARTING) and not _failed(unit) for unit in units)
    facts = seen.get("facts") or {}
    return name == "galera" and bool(facts.get("primary")) and str(facts.get("local_state") or "").startswith(_JOINING)


def balancer(look: t.Mapping[str, t.Any] | None) -> t.Mapping[str, t.Any]:
    """Return what the load balancer of a host reports."""
    return (((look or {}).get("services") or {}).get("load_balancer") or {}).get("facts") or {}
