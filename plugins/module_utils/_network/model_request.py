# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parse requested bridges, bonds and VLANs; errors contain the path of the invalid value."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, shown
from ansible_collections.reduced.footprint.plugins.module_utils._network.model_network import INHERIT, Bond, Bridge, Vlan, Wanted

_WITH_PRIMARY = ("active-backup", "balance-tlb", "balance-alb")
_WITH_HASH = ("balance-xor", "802.3ad", "balance-tlb")
_NAME = re.compile(r"\A[A-Za-z0-9][A-Za-z0-9._-]*\Z")
_LONGEST = 15  # IFNAMSIZ less its final zero
# reserved: entries of the kernel below /proc/sys/net/ipv4/conf and in /sys/class/net
_TAKEN = ("all", "default", "lo", "bonding_masters")

_Entry = t.Mapping[str, t.Any]


def parse(bonds: t.Sequence[_Entry], vlans: t.Sequence[_Entry], bridges: t.Sequence[_Entry]) -> Wanted:
    """Parse and validate the request, whose types and choices the module has checked, without reading the host."""
    wanted = Wanted(
        bonds=tuple(_bond(entry, f"bonds[{index}]") for index, entry in enumerate(bonds)),
        vlans=tuple(_vlan(entry, f"vlans[{index}]") for index, entry in enumerate(vlans)),
        bridges=tuple(_bridge(entry, f"bridges[{index}]") for index, entry in enumerate(bridges)),
    )
    _check_names(wanted)
    _check_ports(wanted)
    return wanted


def check_name(name: t.Any, path: str) -> str:
    """Return a valid name of a network interface."""
    if not isinstance(name, str) or not _NAME.match(name) or name in _TAKEN:
        raise InputError(f"{shown(name)} is not a valid name of a network interface.", path, "Use letters, digits, '.', '_' and '-'.")
    if len(name) > _LONGEST:
        raise InputError(f"{name} has {len(name)} characters, the maximum is {_LONGEST}.", path, "Use a shorter name.")
    return name


def _bond(entry: _Entry, path: str) -> Bond:
    mode = entry.get("mode") or "active-backup"
    ports = _ports(entry.get("ports"), f"{path}.ports")
    if not ports:
        raise InputError("a bond requires ports.", f"{path}.ports", "List the NICs of the bond.")
    for key, value, modes in (
        ("lacp_rate", entry.get("lacp_rate"), ("802.3ad",)),
        ("hash_policy", entry.get("hash_policy"), _WITH_HASH),
        ("primary", entry.get("primary"), _WITH_PRIMARY),
    ):
        if value is not None and mode not in modes:
            raise InputError(f"{key} is not supported by the bond mode {mode}.", f"{path}.{key}", f"Use it with {', '.join(modes)}.")
    primary = entry.get("primary")
    if primary is not None and primary not in ports:
        raise InputError(f"{shown(primary)} is not a port of the bond.", f"{path}.primary", f"Use one of {', '.join(ports)}.")
    miimon = entry.get("miimon")
    if miimon is not None and not 0 < miimon <= 60000:
        raise InputError(f"{miimon} ms is not a valid monitoring interval.", f"{path}.miimon", "Use 1 to 60000, usually 100.")
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
        raise InputError(f"{shown(number)} is not a valid VLAN ID.", f"{path}.id", "Use 1 to 4094.")
    name = entry.get("name") or f"{link}.{number}"
    return Vlan(name=check_name(name, f"{path}.name"), link=link, id=number, mtu=_mtu(entry, path))


def _bridge(entry: _Entry, path: str) -> Bridge:
    ports, where = entry.get("ports"), f"{path}.ports"
    if entry.get("port") is not None:
        if ports:
            raise InputError("port and ports are mutually exclusive.", f"{path}.port", "Use ports only.")
        ports, where = [entry["port"]], f"{path}.port"
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
    # below 1280 the kernel disables IPv6 on the link
    if mtu is not None and not 1280 <= mtu <= 65535:
        raise InputError(f"{mtu} is not a supported MTU.", f"{path}.mtu", "Use 1280 to 65535, usually 1500 or 9000.")
    return mtu


def places(wanted: Wanted) -> list[tuple[t.Any, str]]:
    """Return each requested device with its path."""
    lists = (("bonds", wanted.bonds), ("vlans", wanted.vlans), ("bridges", wanted.bridges))
    return [(entry, f"{kind}[{index}]") for kind, entries in lists for index, entry in enumerate(entries)]


def _check_names(wanted: Wanted) -> None:
    seen: dict[str, str] = {}
    tags: dict[tuple[str, int], str] = {}
    for entry, path in places(wanted):
        if entry.name in seen:
            raise InputError(f"{entry.name} is already the name of {seen[entry.name]}.", f"{path}.name", "Use unique names.")
        seen[entry.name] = path
        if isinstance(entry, Vlan):
            tag = (entry.link, entry.id)
            if tag in tags:
                raise InputError(f"VLAN {entry.id} of {entry.link} is already defined by {tags[tag]}.", f"{path}.id", "List each VLAN once.")
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
                raise InputError(f"{port} is already used as {used[port]}.", where, "Use a port in one bridge or bond only.")
            used[port] = where
            if isinstance(entry, Bond):
                bonded[port] = entry.name
                if port in made:
                    raise InputError(f"{port} is not a NIC; the ports of a bond must be NICs.", where, "Use NICs.")
            elif isinstance(made.get(port), Bridge):
                raise InputError(f"{port} is a bridge and cannot be a port of another bridge.", where, "Use a NIC, a bond or a VLAN.")
    for index, vlan in enumerate(wanted.vlans):
        if vlan.link in bonded:
            bond = bonded[vlan.link]
            raise InputError(f"{vlan.link} is a port of {bond}.", f"vlans[{index}].link", f"Define the VLAN on {bond}.")
        if isinstance(made.get(vlan.link), Vlan):
            raise InputError(f"{vlan.link} is a VLAN itself.", f"vlans[{index}].link", "Use a NIC, a bond or a bridge.")
        if isinstance(made.get(vlan.link), Bridge) and vlan.name in made[vlan.link].ports:
            raise InputError(f"{vlan.name} is a port of {vlan.link} and a VLAN on it.", f"vlans[{index}].link", "Use a NIC or a bond.")
