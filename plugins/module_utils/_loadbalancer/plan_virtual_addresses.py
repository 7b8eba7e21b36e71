# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Validate virtual addresses and find the interface of each on a host."""

from __future__ import annotations

import dataclasses
import ipaddress
import json
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, shown

_NAME = re.compile(r"\A[A-Za-z0-9_-]{1,32}\Z")
FIRST_ROUTER_ID = 20
MOST_ROUTER_ID = 255


@dataclasses.dataclass(frozen=True)
class Interface:
    """A network interface of a host, with its IPv4 addresses and their networks."""

    name: str
    mac: str
    addresses: tuple[ipaddress.IPv4Interface, ...] = ()


@dataclasses.dataclass(frozen=True)
class VirtualAddress:
    """A virtual address, and its interface on this host."""

    name: str
    address: str
    prefix: int
    router_id: int
    interface: str


def parse_interfaces(text: str) -> tuple[Interface, ...]:
    """Parse the output of ``ip -json address show``."""
    found = []
    for entry in json.loads(text):
        addresses = [item for item in entry.get("addr_info", ()) if item.get("family") == "inet"]
        interfaces = tuple(ipaddress.IPv4Interface(f"{item['local']}/{item['prefixlen']}") for item in addresses)
        found.append(Interface(entry["ifname"].partition("@")[0], entry.get("address", ""), interfaces))
    return tuple(found)


def home_of(own: str, interfaces: t.Sequence[Interface]) -> str:
    """Return the interface with the host's own address.

    :raises InputError: no interface has it.
    """
    for one in interfaces:
        if any(str(each.ip) == own for each in one.addresses):
            return one.name
    have = ", ".join(str(each.ip) for one in interfaces for each in one.addresses)
    raise InputError(f"this host has no address {shown(own)}, only {have}.", path="own", hint="Set load_balancer_address for the host.")


def place(wanted: t.Sequence[t.Mapping[str, t.Any]], own: str, interfaces: t.Sequence[Interface]) -> tuple[VirtualAddress, ...]:
    """Validate the wanted addresses and find the interface of each: the given one, else the one whose network contains it, else that
    of the host's own address.

    :arg own: the host's own address.
    :raises InputError: with the path of the invalid value.
    """
    home = home_of(own, interfaces)
    placed: list[VirtualAddress] = []
    for number, raw in enumerate(wanted):
        one = _one(raw, f"addresses[{number}]", number, home, interfaces)
        for other in placed:
            for key in ("name", "address", "router_id"):
                if getattr(one, key) == getattr(other, key):
                    raise InputError(f"{getattr(one, key)} is already used by {other.name}.", path=f"addresses[{number}].{key}", hint="Use unique values.")
        if one.address == own:
            raise InputError(f"{own} is this host's own address.", path=f"addresses[{number}].address", hint="Use a free address.")
        placed.append(one)
    return tuple(placed)


def _one(raw: t.Mapping[str, t.Any], path: str, number: int, home: str, interfaces: t.Sequence[Interface]) -> VirtualAddress:
    try:
        address = ipaddress.IPv4Address(str(raw.get("address")))
    except ValueError as error:
        raise InputError(
            f"{shown(raw.get('address'))} is not a valid IPv4 address.", path=f"{path}.address", hint="Use an address without a prefix length."
        ) from error
    name = str(raw.get("name") or "")
    if not _NAME.match(name):
        raise InputError(f"{shown(name)} is not a valid name.", path=f"{path}.name", hint="Use up to 32 letters, digits, - and _.")
    router_id = int(raw.get("router_id") or FIRST_ROUTER_ID + number)
    if not 1 <= router_id <= MOST_ROUTER_ID:
        raise InputError(f"{router_id} is not between 1 and {MOST_ROUTER_ID}.", path=f"{path}.router_id")
    prefix = 32 if raw.get("prefix") is None else int(raw["prefix"])
    if not 1 <= prefix <= 32:
        raise InputError(f"{prefix} is not between 1 and 32.", path=f"{path}.prefix")
    named = raw.get("interface")
    if named and named not in [one.name for one in interfaces]:
        have = ", ".join(one.name for one in interfaces)
        raise InputError(f"this host has no interface {shown(named)}, only {have}.", path=f"{path}.interface", hint="Use one of them.")
    # without the network of the virtual address itself, which may already be on an interface
    near = [one.name for one in interfaces if any(address in each.network and address != each.ip for each in one.addresses)]
    return VirtualAddress(name, str(address), prefix, router_id, str(named or (home if home in near else near[0] if near else home)))
