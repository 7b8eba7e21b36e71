# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Addresses of a service: the virtual address if the load balancer has a frontend for it, else those of its members. No I/O."""

from __future__ import annotations

import dataclasses
import ipaddress
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_fields import did_you_mean, mapping
from ansible_collections.reduced.footprint.plugins.module_utils._topology import model_networks
from ansible_collections.reduced.footprint.plugins.module_utils._topology.model_services import Service, known, real

MAIN = "main"


@dataclasses.dataclass(frozen=True)
class Edge:
    """The load balancer in front of the services.

    :arg addresses: the virtual addresses by name, ``main`` first; empty without a load balancer.
    :arg external: the name for external clients; if empty the addresses themselves are used.
    :arg frontends: its frontends, in the format of the role ``load_balancer``.
    """

    addresses: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    external: str = ""
    frontends: tuple[t.Mapping[str, t.Any], ...] = ()


@dataclasses.dataclass(frozen=True)
class Wish:
    """The requested form of an address."""

    port: int | bool | None = None
    external: bool = False
    with_scheme: bool = False


def member_address(host: str, own: t.Mapping[str, t.Any], variable: str) -> str:
    """Return the address at which a service of a host is reached.

    It is the variable, else the address of the host in the network of the service, else ``ansible_host``, else the name of the host.

    :arg own: the variables of the host.
    """
    return str(own.get(variable) or _in_network(host, own, variable) or own.get("ansible_host") or host)


def _in_network(host: str, own: t.Mapping[str, t.Any], variable: str) -> str:
    """Return the address of a host in the network of a service, empty if networks have no names or it is ``ansible_host``."""
    service, found, ending = variable.rpartition("_address")
    if not found or ending or not (own.get(model_networks.NETWORKS) or own.get(model_networks.ADDRESSES)):
        return ""
    networks = model_networks.parse_networks(own.get(model_networks.NETWORKS))
    name = model_networks.network_of(service, networks)
    hint = "Write NETWORK: ADDRESS, e.g. {overlay: 10.2.0.11}."
    address = mapping(own.get(model_networks.ADDRESSES), f"{host}.{model_networks.ADDRESSES}", hint).get(name)
    if name not in networks:
        return str(address or "")
    cidr = networks[name].cidr
    if address is not None and not _inside(address, cidr):
        raise InputError(f"{address} is not in the network {name}, {cidr}.", f"{host}.{model_networks.ADDRESSES}.{name}", "Correct one of the two.")
    main = own.get("ansible_host") or host
    if address is None and not _inside(main, cidr) and (name != model_networks.MANAGEMENT or _is_address(main)):
        raise InputError(
            f"{host} has no address in the network {name}, {cidr}, which {service} uses.",
            f"{host}.{model_networks.ADDRESSES}.{name}",
            f"Set it to the address of {host} there, or set {variable}.",
        )
    return str(address or "")


def _is_address(value: t.Any) -> bool:
    try:
        return bool(ipaddress.ip_address(str(value)))
    except ValueError:
        return False


def _inside(value: t.Any, cidr: model_networks.Prefix) -> bool:
    return _is_address(value) and ipaddress.ip_address(str(value)) in cidr


def member_addresses(hosts: t.Iterable[str], hostvars: t.Mapping[str, t.Mapping[str, t.Any]], variable: str) -> list[str]:
    """Return the :func:`member_address` of each host."""
    return [member_address(host, hostvars[host] if host in hostvars else {}, variable) for host in hosts]


def target(name: str, services: t.Mapping[str, Service], consumer: str | None = None) -> Service:
    """Return the real service of a name.

    :arg name: name of a service or of its frontend.
    :arg consumer: the service that uses it, whose ``mapping`` applies.
    """
    if consumer is not None and consumer not in services:
        raise InputError(f"unknown service {consumer!r}.", "consumer", did_you_mean(consumer, services, f"Use one of {known(services)}."))
    name = services[consumer].mapping.get(name, name) if consumer else name
    if name not in services:
        name = next((service.name for service in services.values() if service.frontend == name), name)
    if name not in services:
        raise InputError(f"unknown service {name!r}.", "service", did_you_mean(name, services, f"Use one of {known(services)}."))
    return real(services, name)


def frontend(service: Service, edge: Edge, external: bool) -> t.Mapping[str, t.Any] | None:
    """Return the frontend of a service; for external clients only one with TLS, which may exist in addition to a plain one."""
    mine = [
        item
        for item in edge.frontends
        if item.get("virtual_address", MAIN) in edge.addresses and (item.get("name") in (service.name, service.frontend) or item.get("service") == service.name)
    ]
    if external:
        mine = [item for item in mine if item.get("tls")]
    # additional virtual addresses are for external clients, the main one is for internal clients
    return next(iter(sorted(mine, key=lambda item: (item.get("virtual_address", MAIN) == MAIN) is external)), None)


def addresses(service: Service, members: t.Sequence[str], edge: Edge, wish: Wish) -> list[str]:
    """Return the addresses in the requested form.

    :arg members: addresses of the service's members.
    """
    front = frontend(service, edge, wish.external)
    if front is not None:
        inside = edge.addresses[front.get("virtual_address", MAIN)]
        found, port = [(edge.external or inside) if wish.external else inside], front.get("port")
        scheme = "https" if front.get("tls") and service.scheme == "http" else service.scheme
    elif wish.external:
        raise RefusedError(
            f"{service.name} has no external address: no frontend of the load balancer serves it with TLS.",
            "external",
            "Add such a frontend to load_balancer_frontends, or use the internal address.",
        )
    else:
        found, port, scheme = list(members), service.port, service.scheme
    if not found:
        raise InputError(f"{service.name} has no host.", "service", f"Add hosts to the group {service.group_name} or controller.")
    number = port if wish.port is True else wish.port
    if wish.port is True and not number:
        raise InputError(f"{service.name} has no default port.", "port", f"Specify a port number, or set port of {service.name} in footprint_services.")
    return [f"{f'{scheme}://' if wish.with_scheme else ''}{_bracketed(one, bool(number) or wish.with_scheme)}{f':{number}' if number else ''}" for one in found]


def _bracketed(address: str, needed: bool) -> str:
    return f"[{address}]" if needed and ":" in address else address
