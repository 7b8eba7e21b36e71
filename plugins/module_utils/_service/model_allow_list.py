# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Allow-lists: which addresses may reach the ports of a service."""

from __future__ import annotations

import ipaddress
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors

PROTOCOLS = ("tcp", "udp", "vrrp")
_PORTS = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?\Z")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}\Z")
_UNIT = re.compile(r"[A-Za-z0-9:_.@\\-]+\.(service|socket)\Z")


class Rule(t.NamedTuple):
    """Ports, and the addresses that may reach them.

    :arg protocol: ``tcp``, ``udp``, or ``vrrp``, which has no ports.
    :arg ports: first and last port of each range.
    :arg allowed: addresses and networks, normalized and sorted; this host itself is always allowed.
    """

    protocol: str
    ports: tuple[tuple[int, int], ...]
    allowed: tuple[str, ...]


class AllowList(t.NamedTuple):
    """The allow-list of one service.

    :arg served: the members' own addresses. IPv4 traffic to other addresses, such as a virtual one, is not filtered.
    :arg units: systemd units that must not start before the list is loaded.
    """

    name: str
    served: tuple[str, ...]
    rules: tuple[Rule, ...]
    units: tuple[str, ...]


def parse_allow_lists(value: t.Any, path: str = "lists") -> tuple[AllowList, ...]:
    """Parse the lists from a module parameter.

    :raises InputError: with the path of the invalid value.
    """
    found = tuple(_list(entry, f"{path}[{index}]") for index, entry in enumerate(value or ()))
    names = [one.name for one in found]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise model_errors.InputError(f"{name} is listed twice.", f"{path}[{index}].name", "List each service once.")
    return found


def _list(entry: t.Any, path: str) -> AllowList:
    name = str(entry.get("name") or "")
    if not _NAME.match(name):
        raise model_errors.InputError(f"{model_errors.shown(name)} is not a valid name.", f"{path}.name", "Use lower case letters, digits and underscores.")
    units = tuple(str(unit) for unit in entry.get("units") or ())
    for index, unit in enumerate(units):
        if not _UNIT.match(unit):
            raise model_errors.InputError(
                f"{model_errors.shown(unit)} is not a valid unit.", f"{path}.units[{index}]", "Use a service or a socket, e.g. memcached.service."
            )
    served = networks(entry.get("served"), f"{path}.served")
    for index, address in enumerate(served):
        if "/" in address:
            raise model_errors.InputError(f"expected an address, got the network {address}.", f"{path}.served[{index}]", "List the addresses of the members.")
    rules = tuple(_rule(rule, f"{path}.rules[{index}]") for index, rule in enumerate(entry.get("rules") or ()))
    return AllowList(name, served, rules, units)


def _rule(entry: t.Any, path: str) -> Rule:
    protocol = str(entry.get("protocol") or "tcp")
    if protocol not in PROTOCOLS:
        raise model_errors.InputError(f"{model_errors.shown(protocol)} is not supported.", f"{path}.protocol", f"Use one of {', '.join(PROTOCOLS)}.")
    ports = tuple(sorted(port_range(port, f"{path}.ports[{index}]") for index, port in enumerate(entry.get("ports") or ())))
    if (protocol != "vrrp") != bool(ports):
        raise model_errors.InputError(f"{protocol} {'has no' if protocol == 'vrrp' else 'requires'} ports.", f"{path}.ports", "Set ports for tcp and udp only.")
    if protocol == "udp" and ports[-1][1] >= 32768:
        # replies to this host's own packets cannot be distinguished from new ones
        raise model_errors.InputError("udp ports from 32768 cannot be restricted.", f"{path}.ports", "Use a lower port.")
    return Rule(protocol, ports, networks(entry.get("allowed"), f"{path}.allowed"))


def port_range(value: t.Any, path: str) -> tuple[int, int]:
    """Parse a port or range such as ``5672`` or ``35672-35682``; returns the first and the last port.

    :raises InputError: it is not a valid port or range.
    """
    match = _PORTS.match(str(value))
    if match:
        found = int(match[1]), int(match[2] or match[1])
        if 0 < found[0] <= found[1] < 65536:
            return found
    raise model_errors.InputError(f"{model_errors.shown(value)} is not a valid port.", path, "Use a number from 1 to 65535, or a range such as 35672-35682.")


def networks(value: t.Any, path: str) -> tuple[str, ...]:
    """Return addresses and networks, normalized, without duplicates and without those inside another one; IPv4 before IPv6.

    :raises InputError: an entry is not a valid address or network.
    """
    found: list[ipaddress.IPv4Network | ipaddress.IPv6Network] = []
    for index, entry in enumerate([value] if isinstance(value, str) else value or ()):
        try:
            found.append(ipaddress.ip_network(str(entry)))
        except ValueError as error:
            raise model_errors.InputError(
                f"{model_errors.shown(entry)} is not a valid address or network: {error}.", f"{path}[{index}]", "Use e.g. 192.0.2.11 or 192.0.2.0/24."
            ) from error
    outer = {net for net in found if not any(_inside(net, other) for other in found)}
    ordered = sorted(outer, key=lambda net: (net.version, net.network_address, net.prefixlen))
    return tuple(str(net.network_address) if net.prefixlen == net.max_prefixlen else str(net) for net in ordered)


def _inside(net: t.Any, other: t.Any) -> bool:
    """Whether a network is a part of a larger one."""
    return net != other and net.version == other.version and net.subnet_of(other)
