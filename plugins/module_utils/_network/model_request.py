# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Bridges, bonds and VLANs as a user writes them, with the path of each value that cannot be."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, shown
from ansible_collections.reduced.footprint.plugins.module_utils._network.model_network import INHERIT, NO_ADDRESS, Bond, Bridge, Vlan, Wanted

MODES = ("active-backup", "balance-rr", "balance-xor", "broadcast", "802.3ad", "balance-tlb", "balance-alb")
HASH_POLICIES = ("layer2", "layer2+3", "layer3+4", "encap2+3", "encap3+4", "vlan+srcmac")
_WITH_PRIMARY = ("active-backup", "balance-tlb", "balance-alb")
_WITH_HASH = ("balance-xor", "802.3ad", "balance-tlb")
_NAME = re.compile(r"\A[A-Za-z0-9][A-Za-z0-9._-]*\Z")
_LONGEST = 15  # IFNAMSIZ less its final zero
# the kernel's own entries below /proc/sys/net/ipv4/conf, and what makes bonds
_TAKEN = ("all", "default", "lo", "bonding_masters")

_Entry = t.Mapping[str, t.Any]


def parse(bonds: t.Sequence[_Entry], vlans: t.Sequence[_Entry], bridges: t.Sequence[_Entry]) -> Wanted:
    """What a user asks for, checked as far as it can be without a look at the host.

    :raises InputError: with the path of the value, e.g. ``bridges[0].ports[1]``.
    """
    wanted = Wanted(
        bonds=tuple(_bond(entry, f"bonds[{index}]") for index, entry in enumerate(bonds)),
        vlans=tuple(_vlan(entry, f"vlans[{index}]") for index, entry in enumerate(vlans)),
        bridges=tuple(_bridge(entry, f"bridges[{index}]") for index, entry in enumerate(bridges)),
    )
    _check_names(wanted)
    _check_ports(wanted)
    return wanted


def check_name(name: t.Any, path: str) -> str:
    """A name the kernel takes for a network interface."""
    if not isinstance(name, str) or not _NAME.match(name) or name in _TAKEN:
        raise InputError(f"{shown(name)} is no name of a network interface.", path, "Use letters, digits, '.', '_' and '-'.")
    if len(name) > _LONGEST:
        raise InputError(f"{name} has {len(name)} characters; the kernel takes {_LONGEST}.", path, "Give a shorter name.")
    return name


def _bond(entry: _Entry, path: str) -> Bond:
    mode = entry.get("mode") or MODES[0]
    if mode not in MODES:
        raise InputError(f"there is no bond mode {shown(mode)}.", f"{path}.mode", f"Use one of {', '.join(MODES)}.")
    ports = _ports(entry.get("ports"), f"{path}.ports")
    if not ports:
        raise InputError("a bond needs ports.", f"{path}.ports", "Name the NICs it is made of.")
    for key, value, modes in (
        ("lacp_rate", entry.get("lacp_rate"), ("802.3ad",)),
        ("hash_policy", entry.get("hash_policy"), _WITH_HASH),
        ("primary", entry.get("primary"), _WITH_PRIMARY),
    ):
        if value is not None and mode not in modes:
            raise InputError(f"a bond of mode {mode} has no {key}.", f"{path}.{key}", f"It goes with {', '.join(modes)}.")
    _check_choice(entry, "lacp_rate", ("slow", "fast"), path)
    _check_choice(entry, "hash_policy", HASH_POLICIES, path)
    primary = entry.get("primary")
    if primary is not None and primary not in ports:
        raise InputError(f"{shown(primary)} is no port of the bond.", f"{path}.primary", f"Use one of {', '.join(ports)}.")
    miimon = entry.get("miimon")
    if miimon is not None and not 0 < miimon <= 60000:
        raise InputError(f"{miimon} ms is no interval to look at links.", f"{path}.miimon", "Use 1 to 60000, 100 is usual.")
    return Bond(
        name=check_name(entry.get("name"), f"{path}.name"),
        ports=ports,
        mode=mode,
        miimon=100 if miimon is None else miimon,
        lacp_rate=entry.get("lacp_rate"),
        hash_policy=entry.get("hash_policy"),
        primary=primary,
        mtu=_mtu(entry, path),
    )


def _vlan(entry: _Entry, path: str) -> Vlan:
    link = check_name(entry.get("link"), f"{path}.link")
    number = entry.get("id")
    if not isinstance(number, int) or not 1 <= number <= 4094:
        raise InputError(f"{shown(number)} is no VLAN.", f"{path}.id", "Use 1 to 4094.")
    name = entry.get("name") or f"{link}.{number}"
    return Vlan(name=check_name(name, f"{path}.name"), link=link, id=number, mtu=_mtu(entry, path))


def _bridge(entry: _Entry, path: str) -> Bridge:
    ports, where = entry.get("ports"), f"{path}.ports"
    if entry.get("port") is not None:
        if ports:
            raise InputError("port and ports both name what the bridge is made over.", f"{path}.port", "Use ports alone.")
        ports, where = [entry["port"]], f"{path}.port"
    _check_choice(entry, "address", (INHERIT, NO_ADDRESS), path)
    return Bridge(
        name=check_name(entry.get("name"), f"{path}.name"),
        ports=_ports(ports, where),
        address=entry.get("address") or INHERIT,
        stp=entry.get("stp"),
        vlan_filtering=entry.get("vlan_filtering"),
        mtu=_mtu(entry, path),
    )


def _ports(ports: t.Any, path: str) -> tuple[str, ...]:
    return tuple(check_name(port, f"{path}[{index}]" if path.endswith("s") else path) for index, port in enumerate(ports or ()))


def _mtu(entry: _Entry, path: str) -> int | None:
    mtu = entry.get("mtu")
    # below 1280 there is no IPv6, and the kernel takes its settings away
    if mtu is not None and not 1280 <= mtu <= 65535:
        raise InputError(f"{mtu} is no MTU of a link that carries addresses.", f"{path}.mtu", "Use 1280 to 65535; 1500 and 9000 are usual.")
    return mtu


def _check_choice(entry: _Entry, key: str, choices: t.Sequence[str], path: str) -> None:
    value = entry.get(key)
    if value is not None and value not in choices:
        raise InputError(f"{shown(value)} is none of its values.", f"{path}.{key}", f"Use one of {', '.join(choices)}.")


def places(wanted: Wanted) -> list[tuple[t.Any, str]]:
    """Each thing that is wanted with its path."""
    lists = (("bonds", wanted.bonds), ("vlans", wanted.vlans), ("bridges", wanted.bridges))
    return [(entry, f"{kind}[{index}]") for kind, entries in lists for index, entry in enumerate(entries)]


def _check_names(wanted: Wanted) -> None:
    seen: dict[str, str] = {}
    tags: dict[tuple[str, int], str] = {}
    for entry, path in places(wanted):
        if entry.name in seen:
            raise InputError(f"{entry.name} is the name of {seen[entry.name]} already.", f"{path}.name", "Give each its own name.")
        seen[entry.name] = path
        if isinstance(entry, Vlan):
            tag = (entry.link, entry.id)
            if tag in tags:
                raise InputError(f"VLAN {entry.id} of {entry.link} is {tags[tag]} already.", f"{path}.id", "Name each VLAN once.")
            tags[tag] = path


def _check_ports(wanted: Wanted) -> None:
    made = {entry.name: entry for entry, unused in places(wanted)}
    used: dict[str, str] = {}
    bonded: dict[str, str] = {}
    for entry, path in places(wanted):
        if isinstance(entry, Vlan):
            continue
        for index, port in enumerate(entry.ports):
            where = f"{path}.ports[{index}]"
            if port in used:
                raise InputError(f"{port} is {used[port]} already.", where, "A port belongs to one bridge or bond.")
            used[port] = where
            if isinstance(entry, Bond):
                bonded[port] = entry.name
                if port in made:
                    raise InputError(f"{port} is made by the same call; a bond is made of NICs.", where, "Name NICs.")
            elif isinstance(made.get(port), Bridge):
                raise InputError(f"{port} is a bridge; a bridge is no port of another.", where, "Name a NIC, a bond or a VLAN.")
    for index, vlan in enumerate(wanted.vlans):
        if vlan.link in bonded:
            bond = bonded[vlan.link]
            raise InputError(f"{vlan.link} is a port of {bond}.", f"vlans[{index}].link", f"Put the VLAN on {bond}.")
        if isinstance(made.get(vlan.link), Vlan):
            raise InputError(f"{vlan.link} is a VLAN itself.", f"vlans[{index}].link", "Name a NIC, a bond or a bridge.")
        if isinstance(made.get(vlan.link), Bridge) and vlan.name in made[vlan.link].ports:
            raise InputError(f"{vlan.name} would be a port of {vlan.link}, on which it stands.", f"vlans[{index}].link", "Name a NIC or a bond.")
