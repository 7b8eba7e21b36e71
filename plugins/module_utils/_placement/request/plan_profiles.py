# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The reference architectures: number and kind of controllers for a cloud of a given size.

A table has for each service the number of instances and of dedicated nodes, whether it may share a node, and whether it is
behind a load balancer. Services that run on every node of a kind (nova-compute, the l2 agent, cinder-volume, ceph-osd) have
no number.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError

REDUCED = "reduced"


@dataclasses.dataclass(frozen=True)
class Service:
    """A line of a table; ``instances`` is ``None`` for a service that runs on every node of a kind."""

    name: str
    instances: int | None
    dedicated: int
    shares: bool
    balanced: bool


_NAMES = (
    "keystone-all", "nova-api", "nova-scheduler", "nova-conductor", "nova-compute", "neutron-server", "neutron-dhcp-agent", "neutron-l2-agent",
    "neutron-l3-agent", "neutron-metadata-agent", "glance-api", "glance-registry", "cinder-api", "cinder-scheduler", "cinder-volume", "horizon",
    "rabbitmq-server", "mysqld-server", "ceph-mon", "ceph-osd", "radosgw", "lma-aggregator", "influxdb-grafana", "elasticsearch-kibana", "nagios",
)  # fmt: skip
_EVERYWHERE = frozenset(("nova-compute", "neutron-l2-agent", "cinder-volume", "ceph-osd"))
_ALONE = frozenset(("lma-aggregator", "nagios"))
_BALANCED = frozenset(("keystone-all", "nova-api", "glance-api", "cinder-api", "horizon", "mysqld-server", "radosgw"))


def _table(dedicated: t.Mapping[str, int], not_shared: t.Container[str], more: t.Mapping[str, int]) -> tuple[Service, ...]:
    """Build a table from the differences to the default of three instances on shared nodes."""
    return tuple(
        Service(
            name=name,
            instances=None if name in _EVERYWHERE else more.get(name, 1 if name in _ALONE else 3),
            dedicated=dedicated.get(name, 0),
            shares=name not in not_shared and name != "ceph-osd",
            balanced=name in _BALANCED,
        )
        for name in _NAMES
    )


_MIDDLE = {"rabbitmq-server": 3, "mysqld-server": 3}
_LARGE = {
    "keystone-all": 5,
    "nova-api": 3,
    "nova-conductor": 3,
    "horizon": 3,
    **_MIDDLE,
    "ceph-mon": 3,
    "lma-aggregator": 1,
    "influxdb-grafana": 3,
    "elasticsearch-kibana": 3,
}
TABLES: t.Mapping[str, tuple[Service, ...]] = {
    "100": _table(_MIDDLE, (), {}),
    "300": _table({"keystone-all": 3, **_MIDDLE}, (), {}),
    "500": _table({"keystone-all": 5, **_MIDDLE}, ("rabbitmq-server",), {"keystone-all": 5, "nova-scheduler": 5}),
    "1000": _table(_LARGE, set(_LARGE) - {"lma-aggregator"}, {"keystone-all": 5, "nova-scheduler": 8}),
}
PROFILES = (REDUCED, *TABLES)


def services(profile: str) -> tuple[Service, ...]:
    """Return the table of a profile, empty for ``reduced``."""
    if profile not in PROFILES:
        raise InputError(f"{profile!r} is not a valid profile.", "profile", f"Use one of {', '.join(PROFILES)}.")
    return TABLES.get(profile, ())


def wanted_servers(profile: str) -> list[dict[str, t.Any]]:
    """Return a request of any size for each dedicated node, in the format of the option ``wanted``."""
    return [{"name": service.name, "count": service.dedicated, "roles": [service.name]} for service in services(profile) if service.dedicated]


def reduced_vms(size: t.Mapping[str, t.Any] | None = None, listed: t.Sequence[t.Any] = ()) -> list[dict[str, t.Any]]:
    """Return the VM details of the reduced footprint: three controllers and the master, for any number of servers.

    :arg listed: VM details that exist already and count; only the others are returned.
    """
    size = {"cpu": 2, "ram": 8, **(size or {})}
    entries = [entry for entry in listed if isinstance(entry, t.Mapping)]
    ids = {str(entry.get(key)) for entry in entries for key in ("id", "name")}

    def having(role: str) -> int:
        return sum(1 for entry in entries if role in ([entry["roles"]] if isinstance(entry.get("roles"), str) else entry.get("roles") or ()))

    names = [name for name in (f"controller{number}" for number in range(1, 4 + len(ids))) if name not in ids]
    controllers = [{"id": name, "roles": ["controller"], **size} for name in names[: max(0, 3 - having("controller"))]]
    return controllers if having("master") or "master" in ids else [*controllers, {"id": "master", "roles": ["master"], **size}]
