# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The named networks of a footprint, such as ``management`` and ``overlay``: their addresses, VLANs, and the services that use them."""

from __future__ import annotations

import ipaddress
import re
import types
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_fields
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, shown

#: Variables: the networks, and the addresses of a host by the name of the network.
NETWORKS = "footprint_networks"
ADDRESSES = "footprint_network_addresses"
MANAGEMENT = "management"
#: Services that use another network than ``management`` unless ``services`` of a network lists them.
USUAL: t.Mapping[str, str] = types.MappingProxyType({"ovn_chassis": "overlay"})
#: The VLAN IDs that a switch can carry; 0 and 4095 are reserved.
VLAN_IDS = (1, 4094)

_KEYS = ("cidr", "vlan", "services")
_NAME = re.compile(r"[a-z][a-z0-9_-]*\Z")
Prefix = t.Union[ipaddress.IPv4Network, ipaddress.IPv6Network]


class Network(t.NamedTuple):
    """A network; ``vlan`` is 0 for an untagged one."""

    name: str
    cidr: Prefix
    vlan: int = 0
    services: tuple[str, ...] = ()


def parse_networks(value: t.Any, path: str = NETWORKS) -> dict[str, Network]:
    """Return the networks by name."""
    found: dict[str, Network] = {}
    for name, entry in model_fields.mapping(value, path, "Write each network as NAME: {cidr: 192.0.2.0/24}.").items():
        here = f"{path}.{name}"
        if not _NAME.match(name):
            raise InputError(f"{shown(name)} is not a valid name of a network.", here, "Use lower-case letters, digits, hyphens and underscores.")
        model_fields.check_known(entry, _KEYS, here, "Write {cidr: 192.0.2.0/24}.")
        vlan = model_fields.number(entry.get("vlan"), 0, *VLAN_IDS, f"{here}.vlan")
        network = Network(name, prefix(entry.get("cidr"), f"{here}.cidr"), vlan, _services(entry.get("services"), f"{here}.services"))
        for other in found.values():
            _check_pair(network, other, here)
        found[name] = network
    return found


def prefix(value: t.Any, path: str) -> Prefix:
    """Return a network in CIDR notation."""
    hint = "Write the network with its prefix length, e.g. 192.0.2.0/24."
    if not isinstance(value, str) or "/" not in value:
        raise InputError("is missing." if value is None else f"{shown(value)} is not a network.", path, hint)
    try:
        return ipaddress.ip_network(value)
    except ValueError:
        pass
    try:
        meant = ipaddress.ip_network(value, strict=False)
    except ValueError:
        raise InputError(f"{shown(value)} is not a network.", path, hint) from None
    raise InputError(f"{shown(value)} is an address inside a network.", path, f"Did you mean {meant}?")


def overlap(one: Prefix, other: Prefix) -> bool:
    """Return whether two networks have an address in common."""
    return one.version == other.version and (one.subnet_of(other) or one.supernet_of(other))  # type: ignore[arg-type]


def network_of(service: str, networks: t.Mapping[str, Network]) -> str:
    """Return the name of the network that a service uses.

    :arg service: its name, or the prefix of its variables, which has underscores instead of hyphens.
    """
    listed = next((network.name for network in networks.values() if service in (*network.services, *(one.replace("-", "_") for one in network.services))), "")
    return listed or USUAL.get(service, MANAGEMENT)


def _services(value: t.Any, path: str) -> tuple[str, ...]:
    if not isinstance(value or [], (list, tuple)) or not all(isinstance(one, str) for one in value or ()):
        raise InputError(f"expected a list of services, got {shown(value)}.", path, "Write a list, e.g. [ovn_chassis].")
    return tuple(value or ())


def _check_pair(network: Network, other: Network, path: str) -> None:
    if overlap(network.cidr, other.cidr):
        raise InputError(f"{network.cidr} overlaps with {other.cidr} of {other.name}.", f"{path}.cidr", "Use a network of its own for each.")
    if network.vlan and network.vlan == other.vlan:
        raise InputError(f"VLAN {network.vlan} is that of {other.name}.", f"{path}.vlan", "Use a VLAN of its own for each.")
    twice = sorted({*network.services} & {*other.services})
    if twice:
        raise InputError(f"{twice[0]} is also listed by {other.name}.", f"{path}.services", "List each service once.")
