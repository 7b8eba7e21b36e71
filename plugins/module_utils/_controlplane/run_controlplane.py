# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: gather the state of all control plane services on one host, each query with a timeout."""

from __future__ import annotations

import dataclasses
import math
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import io_controller, io_listeners, io_plane
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_health import (
    ANY,
    CLUSTER,
    SERVICES,
    WITNESS,
    Wanted,
    distance,
    host_problems,
    parse_wanted,
    problems,
)
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_time import utc
from ansible_collections.reduced.footprint.plugins.module_utils._galera import run_backup, run_galera
from ansible_collections.reduced.footprint.plugins.module_utils._galera.io_mariadb import MariaDb
from ansible_collections.reduced.footprint.plugins.module_utils._loadbalancer.io_haproxy import HaProxy
from ansible_collections.reduced.footprint.plugins.module_utils._ovn import run_ovn
from ansible_collections.reduced.footprint.plugins.module_utils._rabbitmq import io_rabbitmq
from ansible_collections.reduced.footprint.plugins.module_utils._rabbitmq.plan_rabbitmq import MAINTENANCE, node_name
from ansible_collections.reduced.footprint.plugins.module_utils._rabbitmq.plan_tls import between_nodes, listens
from ansible_collections.reduced.footprint.plugins.module_utils._service.model_openstack import OPENSTACK

__all__ = ["SERVICE_NAMES", "LookRequest", "look", "parse_wanted"]

SERVICE_NAMES = tuple(SERVICES)
_PAUSE = 1.0
_MYSQL, _GALERA, _MEMCACHED, _KEYSTONE = 3306, 4567, 11211, 5000


@dataclasses.dataclass(frozen=True)
class LookRequest:
    """What to inspect, and what to wait for.

    :arg services: names of services; those that are not installed are reported as problems. Empty means all installed ones.
    :arg virtual_address: address at which a database must answer on ``port``; empty to ask none.
    :arg wait_timeout: seconds to wait until all services are healthy and as ``wanted``.
    :arg query_timeout: seconds to wait for the answer of each service.
    :arg packages: whether to return the packages of the units.
    :arg cluster: the cluster whose witness is inspected; empty to inspect none.
    """

    services: tuple[str, ...]
    wanted: Wanted = ANY
    virtual_address: str = ""
    port: int = _MYSQL
    wait_timeout: float = 0
    query_timeout: float = 15
    packages: bool = False
    cluster: str = ""


class Host:
    """Reads the services of this host."""

    def __init__(self, timeout: float, cluster: str = "", database: MariaDb | None = None, balancer: HaProxy | None = None) -> None:
        self.timeout = timeout
        self.cluster = cluster
        self.database = database or MariaDb()
        self.balancer = balancer or HaProxy(timeout=timeout)
        #: Unit → its state, as it was read last.
        self.known: t.Mapping[str, t.Mapping[str, t.Any]] = {}

    def facts(self, name: str) -> dict[str, t.Any] | None:
        """Return the facts of a service, ``None`` if it does not answer."""
        return self._openstack(name) if name in OPENSTACK else getattr(self, f"_{name}")()

    def beside(self, name: str) -> dict[str, t.Any]:
        """Return what is known of a service although it may not answer."""
        if name == "rabbitmq":
            unit: t.Mapping[str, t.Any] = next((self.known[one] for choice in SERVICES[name].units for one in choice if one in self.known), {})
            return {"waits": io_plane.waits(unit, self.timeout)}
        if name != "galera":
            return {}
        try:
            backup: t.Any = run_backup.last_stored()
        except FootprintError:
            backup = io_plane.UNKNOWN
        return {"guard": io_plane.galera_guard(), "reversed": io_plane.galera_reversed(self.timeout), "backup": backup}

    def _galera(self) -> dict[str, t.Any] | None:
        seen = run_galera.look(self.database, recover=False)
        return seen if seen["running"] or seen["standalone"] else None

    def _rabbitmq(self) -> dict[str, t.Any] | None:
        seen = io_plane.rabbitmq(self.timeout)
        if seen is None:
            return None
        configuration, environment = io_rabbitmq.rabbitmq_texts()
        drained = seen["maintenance"].get(node_name(environment)) in MAINTENANCE
        return {**seen, "drained": drained, "tls": listens(configuration, True), "internode_tls": between_nodes(environment, True)}

    def _witness(self) -> dict[str, t.Any]:
        """Return the database members, those it is connected to, in either direction, and the longest round trip to one of these."""
        members = io_plane.witness_members(self.cluster) or []
        ends = io_listeners.connections()
        linked = {remote[0] for local, remote in ends if _GALERA in (local[1], remote[1])}
        connected = [one for one in members if one.rpartition(":")[0] in linked]
        away = io_listeners.round_trips(_GALERA, self.timeout)
        longest = max((seconds for address, seconds in away.items() if f"{address}:{_GALERA}" in connected), default=None)
        return {"members": members, "connected": connected, "round_trip_seconds": longest, "distance": distance(longest)}

    def _memcached(self) -> dict[str, t.Any] | None:
        address, port = self._listens(("memcached.service",), _MEMCACHED)
        version = io_listeners.memcached_version(address, port, self.timeout) if address else None
        return {"version": version, "address": address} if version else None

    def _load_balancer(self) -> dict[str, t.Any]:
        virtual = io_plane.virtual_addresses()
        held = [address for address in io_controller.addresses() if address in virtual]
        fronts = [{"address": address, "port": port, "scheme": _scheme(address, port)} for address, port in io_listeners.listeners() if address in held]
        try:
            frontends: dict[str, t.Any] | None = self.balancer.frontends()
        except BackendError:
            frontends = None  # reported by the missing value
        return {"virtual_addresses": virtual, "held": held, "vrrp": io_plane.vrrp_states(self.timeout), "frontends": frontends, "fronts": fronts}

    def _keystone(self) -> dict[str, t.Any] | None:
        address, port = self._listens([unit for choice in SERVICES["keystone"].units for unit in choice], _KEYSTONE)
        if not address:
            return None
        for tls in (False, True):
            answer = io_listeners.http_json(address, port, "/v3", tls=tls, timeout=self.timeout)
            if isinstance(answer, dict) and isinstance(answer.get("version"), dict):
                return {"version": answer["version"].get("id"), "address": address, "tls": tls}
        return None

    def _openstack(self, name: str) -> dict[str, t.Any]:
        """Return for each API why it is not healthy, empty if it is, and which units are drained."""
        apis = {}
        for api in OPENSTACK[name].apis:
            address, port = self._listens((api.unit or OPENSTACK[name].units[0],), api.default_port)
            apis[api.name] = io_listeners.http_problem(address, port, api.health, self.timeout) if address else "no listener"
        return {"apis": apis, "drained": io_listeners.drained(OPENSTACK[name].units)}

    def _listens(self, units: t.Sequence[str], port: int) -> tuple[str | None, int]:
        """Return the address and port at which a unit listens, other than at a virtual address.

        :arg port: its default port. A variable may set another one; the unit has only one then.
        """
        virtual = io_plane.virtual_addresses()
        own = [end for unit in units for end in io_listeners.listeners_of(self.known.get(unit, {}).get("pid") or 0) if end[0] not in virtual]
        if own and port not in {listens for unused, listens in own}:
            port = own[0][1]
        return io_listeners.reachable_at(port, own or io_listeners.listeners(), virtual), port

    def _ovn_database(self) -> dict[str, t.Any]:
        return {"databases": run_ovn.look(run_ovn.local_databases())["databases"], "northd": io_plane.enabled_state("ovn-northd.service")}

    def units(self, services: t.Sequence[str]) -> dict[str, dict[str, dict[str, t.Any]]]:
        """Return service → its units known to systemd."""
        names = {name: tuple(tuple(unit.replace(CLUSTER, self.cluster) for unit in choice) for choice in SERVICES[name].units) for name in services}
        if io_plane.witness_members(self.cluster) is None:
            # the template of the unit may be there for another cluster
            names[WITNESS] = ()
        self.known = known = io_plane.units([unit for choices in names.values() for choice in choices for unit in choice])
        found: dict[str, dict[str, dict[str, t.Any]]] = {}
        for name in services:
            found[name] = {}
            for choice in names[name]:
                present = [unit for unit in choice if unit in known]
                # the running one of several alternatives, else the first
                for unit in sorted(present, key=lambda unit: (known[unit]["state"] != "active", choice.index(unit)))[:1]:
                    found[name][unit] = known[unit]
        return found


def _scheme(address: str, port: int) -> str | None:
    return "mysql" if port == _MYSQL else io_listeners.scheme_of(address, port)


def look(
    request: LookRequest,
    host: t.Any = None,
    sleep: t.Callable[[float], None] = time.sleep,
    clock: t.Callable[[], float] = time.monotonic,
) -> dict[str, t.Any]:
    """Return the services of this host as soon as all are healthy or the timeout has expired."""
    host = host or Host(request.query_timeout, request.cluster)
    began = clock()
    while True:
        units = host.units(request.services or SERVICE_NAMES)
        services: dict[str, t.Any] = {}
        why: list[str] = []
        for name in request.services or [name for name, installed in units.items() if installed]:
            active = any(unit["state"] in ("active", "activating") for unit in units[name].values())
            # a service that does not run is not queried, to avoid waiting for a timeout
            seen = {"units": units[name], "facts": host.facts(name) if active else None, **host.beside(name)}
            if name == "load_balancer" and not active:
                seen["facts"] = {"virtual_addresses": io_plane.virtual_addresses(), "held": [], "vrrp": {}, "frontends": None, "fronts": []}
            seen["problems"] = problems(name, seen, request.wanted)
            services[name] = seen
            why += [f"{name}: {text}" for text in seen["problems"]]
        answers = io_controller.database_greets(request.virtual_address, request.port) if request.virtual_address else None
        found: dict[str, t.Any] = {"addresses": io_controller.addresses(), "services": services, "answers": answers}
        why += [f"{name}: {text}" for name, text in host_problems(found, request.wanted)]
        if request.packages:
            _add_packages(services)
        if not why or clock() - began >= request.wait_timeout:
            _add_certificates(services, request.cluster)
            return {**found, "problems": why, "waited_seconds": round(clock() - began, 1)}
        sleep(_PAUSE)


def _add_certificates(services: t.Mapping[str, t.Any], cluster: str) -> None:
    for name, seen in services.items():
        expiry = io_plane.expiry(SERVICES[name].certificate.replace(CLUSTER, cluster))
        if expiry is not None:
            seen["certificate"] = {"expires": utc(expiry), "days": math.floor((expiry - time.time()) / 86400)}


def _add_packages(services: t.Mapping[str, t.Any]) -> None:
    for name, seen in services.items():
        for unit in seen["units"].values():
            packages = (io_plane.package_of(path) for path in (unit["path"], *SERVICES[name].programs))
            unit["package"] = next((package for package in packages if package), None)
            # started before the package was installed, or stopped: a killed restart has left it so, and nothing else would start it again
            installed = (unit["package"] or {}).get("installed")
            old = unit["state"] == "active" and installed and installed > (unit["since"] or "")
            unit["stale"] = bool(installed and (old or unit["state"] in ("inactive", "failed")))
