# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Subnets and rules of security groups as declared by the operator."""

from __future__ import annotations

import ipaddress
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_fields
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, shown
from ansible_collections.reduced.footprint.plugins.module_utils._topology import model_networks

INGRESS, EGRESS = "ingress", "egress"
PROTOCOLS = ("tcp", "udp", "icmp", "any")
_SUBNET_KEYS = ("name", "cidr", "gateway", "dhcp", "pool", "dns")
_RULE_KEYS = ("direction", "protocol", "port", "remote", "group")
_RULE_HINT = "Write e.g. {protocol: tcp, port: 22, remote: 0.0.0.0/0}."
Address = t.Union[ipaddress.IPv4Address, ipaddress.IPv6Address]


class Subnet(t.NamedTuple):
    """A subnet; ``gateway`` is ``None`` for none, ``pool`` is ``None`` for all addresses."""

    path: str
    name: str
    cidr: model_networks.Prefix
    gateway: Address | None
    dhcp: bool
    pool: tuple[Address, Address] | None
    dns: tuple[str, ...]

    @property
    def assignable(self) -> tuple[Address, Address]:
        """Return the first and the last address that OpenStack may assign."""
        return self.pool or (self.cidr[1], self.cidr[-2])


class Rule(t.NamedTuple):
    """What a security group allows; ``ports`` is empty for all of them, ``group`` the name of a remote security group."""

    path: str
    direction: str
    version: int
    protocol: str
    ports: tuple[int, ...]
    remote: str
    group: str


def parse_subnet(value: t.Any, network: str, external: bool, path: str) -> Subnet:
    """Return a subnet; its name is by default that of its network.

    :arg external: whether DHCP is off by default.
    """
    model_fields.check_known(value, _SUBNET_KEYS, path, "Write {cidr: 192.168.10.0/24}.")
    cidr = model_networks.prefix(value.get("cidr"), f"{path}.cidr")
    if cidr.num_addresses < 8:
        raise InputError(f"{cidr} has too few addresses.", f"{path}.cidr", "Use a network of 8 addresses or more.")
    gateway: Address | None = cidr[1]
    if "gateway" in value:
        gateway = None if value["gateway"] in (None, "", False) else _address(value["gateway"], cidr, f"{path}.gateway")
    pool = _pool(value.get("pool"), cidr, f"{path}.pool")
    if pool and gateway and pool[0] <= gateway <= pool[1]:  # type: ignore[operator]
        raise InputError(f"contains the gateway {gateway}.", f"{path}.pool", "Leave the address of the gateway out.")
    dhcp = value.get("dhcp", not external)
    if not isinstance(dhcp, bool):
        raise InputError(f"expected a boolean, got {shown(dhcp)}.", f"{path}.dhcp", "Use true or false.")
    dns = model_fields.sequence(value.get("dns"), f"{path}.dns", "Write a list of addresses.")
    servers = tuple(str(_any_address(one, f"{path}.dns[{index}]")) for index, one in enumerate(dns))
    return Subnet(path, str(value.get("name") or network), cidr, gateway, dhcp, pool, servers)


def parse_rule(value: t.Any, path: str) -> Rule:
    """Return a rule of a security group."""
    model_fields.check_known(value, _RULE_KEYS, path, _RULE_HINT)
    direction = model_fields.choice(value.get("direction", INGRESS), (INGRESS, EGRESS), f"{path}.direction")
    protocol = model_fields.choice(value.get("protocol", "any"), PROTOCOLS, f"{path}.protocol")
    ports = _ports(value.get("port"), f"{path}.port")
    if ports and protocol not in ("tcp", "udp"):
        raise InputError(f"requires the protocol tcp or udp, not {protocol}.", f"{path}.port", "Set the protocol, or remove port.")
    remote, group = value.get("remote"), str(value.get("group") or "")
    if remote and group:
        raise InputError("has both remote and group.", path, "Set one of the two.")
    prefix = model_networks.prefix(remote, f"{path}.remote") if remote else None
    return Rule(path, direction, prefix.version if prefix else 4, protocol, ports, str(prefix or ""), group)


def _ports(value: t.Any, path: str) -> tuple[int, ...]:
    """Return the first and the last port of ``22`` or ``8000-8080``."""
    if value is None:
        return ()
    first, dash, last = str(value).partition("-")
    found = (model_fields.number(first, 0, 1, 65535, path), model_fields.number(last if dash else first, 0, 1, 65535, path))
    if found[0] > found[1]:
        raise InputError(f"{shown(value)} ends before it begins.", path, "Write the smaller port first.")
    return found


def _pool(value: t.Any, cidr: model_networks.Prefix, path: str) -> tuple[Address, Address] | None:
    if value is None:
        return None
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        raise InputError(f"{shown(value)} is not a range of addresses.", path, "Write [FIRST, LAST].")
    first, last = (_address(one, cidr, f"{path}[{index}]") for index, one in enumerate(value))
    if first > last:  # type: ignore[operator]
        raise InputError(f"{first} comes after {last}.", path, "Write the smaller address first.")
    return first, last


def _any_address(value: t.Any, path: str) -> Address:
    try:
        return ipaddress.ip_address(str(value))
    except ValueError:
        raise InputError(f"{shown(value)} is not an address.", path, "Write an address such as 192.0.2.10.") from None


def _address(value: t.Any, cidr: model_networks.Prefix, path: str) -> Address:
    found = _any_address(value, path)
    if found not in cidr or (cidr.version == 4 and found in (cidr[0], cidr[-1])):
        raise InputError(f"{found} is not an address of a host in {cidr}.", path, f"Use an address from {cidr[1]} to {cidr[-2]}.")
    return found
