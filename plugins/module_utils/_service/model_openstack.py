# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The OpenStack services of a control plane: one entry for each; order, allow-lists, frontends, health and status are derived from it."""

from __future__ import annotations

import dataclasses
import types
import typing as t


@dataclasses.dataclass(frozen=True)
class Api:
    """An HTTP listener of each member, with a frontend of the load balancer.

    :arg name: name of the frontend.
    :arg port: ``VARIABLE:DEFAULT`` of the port, the same at the members and at the virtual address.
    :arg check: path that the load balancer requests; a member that is being drained answers 404. Empty: a connection is sufficient.
    :arg health: path that answers 200 only if the service reaches its database, if it has one.
    :arg timeout: how long the load balancer keeps an idle connection.
    :arg public_port: port at the virtual address, if it differs from that of the members.
    :arg unit: the unit that listens, if it is not the first one of the service.
    :arg settings: other settings of the frontend, in the format of the role ``load_balancer``.
    """

    name: str
    port: str
    check: str = "/healthcheck"
    health: str = "/healthcheck/database"
    timeout: str = "5m"
    settings: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    public_port: int = 0
    unit: str = ""

    @property
    def port_variable(self) -> str:
        """Return the variable that sets the port."""
        return self.port.partition(":")[0]

    @property
    def default_port(self) -> int:
        """Return the port without that variable."""
        return int(self.port.partition(":")[2])


@dataclasses.dataclass(frozen=True)
class OpenStackService:
    """A service of the cloud, deployed by the role of the same name.

    :arg memory: MiB that each member needs for it, as measured.
    :arg units: its systemd units.
    :arg depends: the services that are deployed before it.
    :arg majority: whether it needs more than half of its members to serve.
    :arg optional: whether controllers have it only if it is requested, by a group of its name or the variable ``NAME_group``.
    :arg peer_ports: ports that only its other members may reach, as ``VARIABLE:DEFAULT``.
    :arg program: a file of the package of those of its units that belong to none.
    """

    name: str
    memory: int
    units: tuple[str, ...]
    apis: tuple[Api, ...] = ()
    depends: tuple[str, ...] = ("database", "memcached", "load_balancer", "keystone")
    majority: bool = False
    optional: bool = False
    peer_ports: tuple[str, ...] = ()
    program: str = ""

    @property
    def port(self) -> int:
        """Return the port of its first API, 0 without any."""
        return self.apis[0].default_port if self.apis else 0


OPENSTACK: t.Mapping[str, OpenStackService] = types.MappingProxyType(
    {
        service.name: service
        for service in (
            OpenStackService("placement", 100, ("placement-api.service",), (Api("placement", "placement_port:8778"),)),
            OpenStackService(
                "glance",
                290,
                ("glance-api.service", "footprint-glance-copies.service"),
                (Api("glance", "glance_port:9292", timeout="1h"),),
                peer_ports=("glance_copies_port:9293",),
                program="/usr/bin/glance-manage",
            ),
            OpenStackService(
                "nova",
                750,
                ("nova-api.service", "nova-api-metadata.service", "nova-conductor.service", "nova-scheduler.service", "nova-novncproxy.service"),
                (
                    Api("nova", "nova_port:8774"),
                    Api("nova_metadata", "nova_metadata_port:8775", unit="nova-api-metadata.service"),
                    # each connection starts a process, and one that is closed early is logged
                    Api("novncproxy", "nova_novncproxy_port:6080", check="", health="/vnc_lite.html", timeout="1h", unit="nova-novncproxy.service"),
                ),
                depends=("database", "rpc", "memcached", "load_balancer", "keystone", "placement", "glance"),
            ),
            OpenStackService(
                "neutron",
                715,
                ("neutron-api.service", "neutron-ovn-maintenance-worker.service", "neutron-periodic-workers.service", "footprint-neutron-ports.service"),
                (Api("neutron", "neutron_port:9696"),),
                depends=("database", "rpc", "memcached", "load_balancer", "keystone", "ovn_database"),
                program="/usr/bin/neutron-db-manage",
            ),
            OpenStackService(
                "cinder",
                400,
                ("cinder-api.service", "cinder-scheduler.service"),
                (Api("cinder", "cinder_port:8776"),),
                depends=("database", "rpc", "memcached", "load_balancer", "keystone", "glance", "nova"),
                optional=True,
            ),
            OpenStackService(
                "horizon",
                250,
                ("footprint-horizon.service",),
                (Api("horizon", "horizon_port:8443", public_port=443),),
                depends=("database", "load_balancer", "keystone"),
                program="/usr/share/openstack-dashboard/manage.py",
            ),
        )
    }
)


def frontends(
    name: str, group: str, settings: t.Mapping[str, t.Any], services: t.Mapping[str, OpenStackService] = OPENSTACK
) -> list[dict[str, t.Any]]:
    """Return the frontends of a service in the format of the role ``load_balancer``.

    :arg group: the group of its members.
    :arg settings: the variables that set ports.
    """
    return [
        {
            "name": api.name,
            "port": api.public_port or int(settings.get(api.port_variable) or api.default_port),
            **({"backend_port": int(settings.get(api.port_variable) or api.default_port)} if api.public_port else {}),
            "mode": "http",
            "tls": True,
            **({"check_uri": api.check} if api.check else {}),
            "timeout": api.timeout,
            "group": group,
            "address_variable": f"{name}_address",
            **api.settings,
        }
        for api in services[name].apis
    ]
