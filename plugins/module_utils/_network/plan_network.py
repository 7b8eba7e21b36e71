# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan the devices to create over the links of a host, and which device takes over which addresses."""

from __future__ import annotations

import ipaddress
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._network import model_network
from ansible_collections.reduced.footprint.plugins.module_utils._network.model_network import Bond, Bridge, Device, Layout, Link, Profile, Vlan, Wanted
from ansible_collections.reduced.footprint.plugins.module_utils._network.model_request import places

_USUAL_MTU = 1500
_HINT = "Change it with the tool that created it, or use another name."
_KINDS = {Bond: model_network.BOND, Vlan: model_network.VLAN, Bridge: model_network.BRIDGE}
# some kernels lack these modules; bridges are required on virt hosts anyway
_MODULES = {model_network.BOND: "bonding", model_network.VLAN: "8021q"}


def missing(wanted: Wanted, links: t.Mapping[str, Link]) -> list[tuple[t.Any, str]]:
    """Return the requested devices that do not exist, with their paths."""
    return [(entry, path) for entry, path in places(wanted) if _is_missing(entry, path, links)]


def _is_missing(entry: t.Any, path: str, links: t.Mapping[str, Link]) -> bool:
    """Return whether the entry is missing; ``False`` if it exists and matches.

    Omitted options are not compared. A bridge may have more ports, for example those of guests.
    """
    link = links.get(entry.name)
    if link is None:
        return True
    kind = _KINDS[type(entry)]
    if link.kind != kind:
        raise RefusedError(f"{entry.name} exists and is not a {kind}.", f"{path}.name", "Use another name.")
    if isinstance(entry, Vlan):
        _check_option(entry.name, "link", link.lower, entry.link, path)
    else:
        for index, port in enumerate(entry.ports):
            if port not in link.ports:
                there = ", ".join(link.ports) or "none"
                raise RefusedError(f"{entry.name} exists without the port {port} (its ports: {there}).", f"{path}.ports[{index}]", _HINT)
    for option, found, wanted in _settings(entry, link):
        _check_option(entry.name, option, found, wanted, path)
    return False


def _settings(entry: t.Any, link: Link) -> list[tuple[str, t.Any, t.Any]]:
    current = link.settings
    if isinstance(entry, Vlan):
        return [("id", current.get("id"), entry.id), ("mtu", link.mtu, entry.mtu)]
    if isinstance(entry, Bridge):
        return [
            ("stp", bool(current.get("stp_state")), entry.stp),
            ("vlan_filtering", bool(current.get("vlan_filtering")), entry.vlan_filtering),
            ("mtu", link.mtu, entry.mtu),
        ]
    return [
        ("mode", current.get("mode"), entry.mode),
        ("lacp_rate", current.get("ad_lacp_rate"), entry.lacp_rate),
        ("hash_policy", current.get("xmit_hash_policy"), entry.hash_policy),
        ("primary", current.get("primary"), entry.primary),
        ("mtu", link.mtu, entry.mtu),
    ]


def _check_option(name: str, option: str, found: t.Any, wanted: t.Any, path: str) -> None:
    if wanted is not None and found != wanted:
        raise RefusedError(f"{name} exists with {option} {found}, not {wanted}.", f"{path}.{option}", _HINT)


def touched(wanted: Wanted, links: t.Mapping[str, Link]) -> tuple[str, ...]:
    """Return the existing links that will be changed, after a check of each port."""
    entries = missing(wanted, links)
    made = {entry.name for entry, unused in entries}
    found: dict[str, None] = {}
    for entry, path in entries:
        for index, port in enumerate(entry.ports):
            if port not in made:
                _check_port(entry, port, port_path(entry, path, index), links)
                found[port] = None
    return tuple(found)


def modules(devices: t.Iterable[Device]) -> tuple[str, ...]:
    """Return the kernel modules that the devices need."""
    return tuple(dict.fromkeys(_MODULES[device.kind] for device in devices if device.kind in _MODULES))


def layout(wanted: Wanted, links: t.Mapping[str, Link], profiles: t.Mapping[str, Profile]) -> Layout:
    """Plan the devices to create, from the bottom to the top."""
    entries = _from_the_bottom(missing(wanted, links))
    made = {entry.name: entry for entry, unused in entries}
    masters = {port: entry.name for entry, unused in entries if not isinstance(entry, Vlan) for port in entry.ports}
    stacks: dict[str, tuple[str, ...]] = {}
    for entry, unused in entries:
        if isinstance(entry, Vlan):
            stacks[entry.link] = (*stacks.get(entry.link, ()), entry.name)
    sources = {entry.name: _source(entry.ports, links, profiles) for entry, unused in entries if isinstance(entry, Bond)}
    heirs = _heirs(entries, made, sources, links, profiles)
    heirs = {source: heir for source, heir in heirs.items() if not (heir in sources and heir in masters)}
    _check_losses(entries, made, masters, heirs, links)
    macs = {name: link.mac for name, link in links.items()}
    for entry, unused in entries:
        inherits = next((source for source, heir in heirs.items() if heir == entry.name), None)
        lowest = inherits or sources.get(entry.name) or next(iter(entry.ports), None)
        macs[entry.name] = macs.get(lowest or "", "")
    mtus = _mtus(entries, links)
    devices = tuple(
        Device(
            kind=_KINDS[type(entry)],
            name=entry.name,
            ports=entry.ports,
            wanted=entry,
            inherits=next((source for source, heir in heirs.items() if heir == entry.name), None),
            # a VLAN has the MAC of its link
            mac=None if isinstance(entry, Vlan) else macs[entry.name] or None,
            mtu=mtus.get(entry.name),
            master=masters.get(entry.name),
            vlans=stacks.get(entry.name, ()),
        )
        for entry, unused in entries
    )
    taken = {port: master for port, master in masters.items() if port not in made}
    return Layout(
        devices=devices,
        links=links,
        taken=taken,
        stacked={name: vlans for name, vlans in stacks.items() if name not in made},
        mtus={port: mtus[master] for port, master in taken.items() if master in mtus},
        paths=_paths(entries),
    )


def port_path(entry: t.Any, path: str, index: int) -> str:
    """Return the path of a port in the input."""
    return f"{path}.link" if isinstance(entry, Vlan) else f"{path}.ports[{index}]"


def _paths(entries: list[tuple[t.Any, str]]) -> dict[str, str]:
    paths = {port: port_path(entry, path, index) for entry, path in entries for index, port in enumerate(entry.ports)}
    return {**paths, **{entry.name: path for entry, path in entries}}


def port_paths(wanted: Wanted, links: t.Mapping[str, Link]) -> dict[str, str]:
    """Return the path in the input of each port of the missing devices."""
    return {port: port_path(entry, path, index) for entry, path in missing(wanted, links) for index, port in enumerate(entry.ports)}


def _check_port(entry: t.Any, port: str, where: str, links: t.Mapping[str, Link]) -> None:
    link = links.get(port)
    if link is None:
        free = ", ".join(sorted(name for name, one in links.items() if one.kind != model_network.LOOPBACK and not one.master)) or "none"
        raise InputError(f"the interface {port} does not exist (available: {free}).", where, "Use an existing interface.")
    if isinstance(entry, Vlan):
        if link.master and links.get(link.master, link).kind == model_network.BOND:
            raise RefusedError(f"{port} is a port of the bond {link.master}.", where, f"Define the VLAN on {link.master}.")
        if link.kind == model_network.VLAN:
            raise RefusedError(f"{port} is a VLAN itself.", where, "Use a NIC, a bond or a bridge.")
        return
    if link.master:
        raise RefusedError(f"{port} is already a port of {link.master}.", where, f"Use {link.master}, or another port.")
    if link.kind == model_network.BRIDGE:
        raise RefusedError(f"{port} is a bridge and cannot be a port.", where, "Use a NIC, a bond or a VLAN.")
    if isinstance(entry, Bond):
        if link.kind != model_network.NIC:
            raise RefusedError(f"{port} is a {link.kind}; the ports of a bond must be NICs.", where, "Use NICs.")
        above = sorted(one.name for one in links.values() if one.lower == port)
        if above:
            raise RefusedError(f"{port} is the link of {', '.join(above)}.", where, f"Remove {', '.join(above)} and define VLANs on {entry.name}.")


def _from_the_bottom(entries: list[tuple[t.Any, str]]) -> list[tuple[t.Any, str]]:
    """Sort the entries so that each follows its ports."""
    made = {entry.name for entry, unused in entries}
    done: dict[str, tuple[t.Any, str]] = {}
    while len(done) < len(entries):
        ready = [one for one in entries if one[0].name not in done and all(port in done or port not in made for port in one[0].ports)]
        if not ready:
            stuck = [entry.name for entry, unused in entries if entry.name not in done]
            path = next(path for entry, path in entries if entry.name in stuck)
            raise InputError(f"{', '.join(stuck)} depend on each other.", path, "Define the lowest one on a NIC.")
        done.update((one[0].name, one) for one in ready)
    return list(done.values())


def _source(ports: t.Sequence[str], links: t.Mapping[str, Link], profiles: t.Mapping[str, Profile]) -> str | None:
    """Return the port whose addresses are taken over: the first with addresses, else the first that is configured for them."""
    there = [port for port in ports if port in links]
    for has in (lambda link: link.own, lambda link: link.addresses):
        for port in there:
            if has(links[port]):
                return port
    return next((port for port in there if port in profiles and profiles[port].configured), None)


def _heirs(
    entries: list[tuple[t.Any, str]],
    made: t.Mapping[str, t.Any],
    sources: t.Mapping[str, str | None],
    links: t.Mapping[str, Link],
    profiles: t.Mapping[str, Profile],
) -> dict[str, str]:
    """Map each link to the device that takes over its addresses.

    The addresses of a bond move to the bridge over it; without such a bridge to the one over its VLAN.
    """
    heirs = {source: bond for bond, source in sources.items() if source}
    bridges = [(entry, path) for entry, path in entries if isinstance(entry, Bridge) and entry.address == model_network.INHERIT]
    direct = set()
    for entry, unused in bridges:
        source = _source(entry.ports, links, profiles) or _first(sources.get(port) for port in entry.ports)
        if source:
            heirs[source] = entry.name
            direct.add(entry.name)
    for entry, path in bridges:
        source = _first(sources.get(made[port].link) for port in entry.ports if isinstance(made.get(port), Vlan))
        if entry.name in direct or source is None or heirs[source] in direct:
            continue
        if heirs[source] not in sources:
            message = f"{heirs[source]} and {entry.name} would both take over the addresses of {source}."
            raise InputError(message, f"{path}.address", "Set address: none for one of them.")
        heirs[source] = entry.name
    return heirs


def _first(values: t.Iterable[t.Any]) -> t.Any:
    return next((value for value in values if value), None)


def _check_losses(
    entries: list[tuple[t.Any, str]],
    made: t.Mapping[str, t.Any],
    masters: t.Mapping[str, str],
    heirs: t.Mapping[str, str],
    links: t.Mapping[str, Link],
) -> None:
    """Check that no address is lost, unless ``address: none`` is set."""
    for entry, path in entries:
        if isinstance(entry, Vlan):
            continue
        top = entry.name
        while top in masters:
            top = masters[top]
        given_up = isinstance(made[top], Bridge) and made[top].address == model_network.NO_ADDRESS
        for index, port in enumerate(entry.ports):
            lost = _lost(links[port], [links[other] for other in entry.ports if other in heirs]) if port in links else ()
            if lost and port not in heirs and not given_up:
                raise RefusedError(
                    f"{port} has {', '.join(lost)}, which would be lost.",
                    f"{path}.ports[{index}]",
                    "Move these addresses first; only those of one port are taken over.",
                )


def _lost(link: Link, saved: t.Sequence[Link]) -> list[str]:
    """Return the addresses of a link that would be lost.

    A lease in the network of an address that is kept does not count: an unconfigured NIC requests one by default.
    """
    networks = [ipaddress.ip_interface(address).network for other in saved for address in other.addresses]
    needless = [address for address in link.leased if any(ipaddress.ip_interface(address).ip in network for network in networks)]
    return [address for address in link.own if address not in needless]


def _mtus(entries: list[tuple[t.Any, str]], links: t.Mapping[str, Link]) -> dict[str, int]:
    """Return the MTU of each device that differs from the default: the requested one, else that of the ports."""
    mtus: dict[str, int] = {}
    for entry, path in entries:
        lower = [mtus[port] if port in mtus else links[port].mtu if port in links else _USUAL_MTU for port in entry.ports]
        mtu = entry.mtu or min(lower, default=_USUAL_MTU)
        if entry.mtu or mtu != _USUAL_MTU:
            mtus[entry.name] = mtu
    # lower links need at least the same MTU
    for entry, unused in reversed(entries):
        for port in entry.ports:
            if entry.name in mtus and port not in links:
                mtus[port] = max(mtus[entry.name], mtus.get(port, 0))
    for entry, path in entries:
        for vlan, link in _vlans(entry, links):
            mtu = mtus.get(entry.name, 0)
            if mtu > links[link].mtu:
                message = f"the MTU {mtu} of {vlan} exceeds the MTU {links[link].mtu} of {link}."
                raise RefusedError(message, f"{path}.mtu", f"Raise the MTU of {link} first.")
    return mtus


def _vlans(entry: t.Any, links: t.Mapping[str, Link]) -> list[tuple[str, str]]:
    """Return the VLANs on existing links that get the MTU of a device: itself or its ports, each with its link, whose MTU is not changed."""
    if isinstance(entry, Vlan):
        return [(entry.name, entry.link)] if entry.link in links else []
    lower = [(port, links[port].lower) for port in entry.ports if port in links and links[port].kind == model_network.VLAN]
    return [(port, link) for port, link in lower if link in links]
