# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan a network change for NetworkManager, protected by one of its checkpoints.

Every link gets a new profile in addition to the existing ones. Profiles of the user are not edited, except that
autoconnect is disabled when the change is confirmed. Until then all profiles are in memory, so a reboot discards them.
"""

from __future__ import annotations

import ipaddress
import json
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._network import model_network
from ansible_collections.reduced.footprint.plugins.module_utils._network.model_nm import NmProfile, NmState

PREFIX = "reduced-footprint-"
_SCRIPT = "nm_checkpoint.py"
_NOTES = "nm.json"
#: Above the default priority.
_PRIORITY = 100
#: Seconds within which a profile must be active.
_PATIENCE = "20"

_Words = tuple[str, ...]


def change(layout: model_network.Layout, state: NmState) -> model_network.Change:
    """Return the commands that apply, confirm and revert a layout."""
    bond = next((name for name in (*(device.name for device in layout.devices), *layout.taken) if _is_bond(name, layout)), None)
    if bond and state.detaching_script:
        message = f"{state.detaching_script} detaches the ports of {bond} whenever NetworkManager changes one; the network was not changed."
        raise RefusedError(message, layout.paths.get(bond), "Remove the package ifenslave; NetworkManager does not need it.")
    names = _names(layout, state)
    leftovers = [name for name in sorted(names.values()) if name in state.names]
    new = {device.name: _device_settings(device, layout, state) for device in layout.devices}
    ports = _ports(layout, state)
    old = [profile for port, profile in _replaced(ports, state).items() if profile.saved and profile.bound and profile.autoconnect]
    apply: list[_Words] = [_script("create", "{timeout}")]
    apply += [_nmcli("connection", "delete", "id", name) for name in leftovers]
    apply += [_add(names[name], name, kind, settings) for name, (kind, settings) in new.items()]
    for port, settings in ports.items():
        apply += _port(names[port], port, settings, state.profiles.get(port))
    apply += [_nmcli("--wait", _PATIENCE, "connection", "up", "id", names[name]) for name in _raised(layout, ports)]
    # the ports first, because each activates its master: after a power loss at any time the server is reachable
    order = [names[name] for name in (*ports, *new)]
    confirm = [_script("hold")]
    confirm += [_nmcli("connection", "modify", "id", name, "connection.autoconnect", "no") for name in order]
    confirm += [_nmcli("connection", "modify", "id", name, "connection.autoconnect", "yes") for name in order]
    confirm += [_nmcli("connection", "modify", "uuid", profile.uuid, "connection.autoconnect", "no") for profile in old]
    notes = {
        "profiles": order,
        "devices": list(reversed(list(new))),
        "autoconnect": [profile.uuid for profile in old],
        "up": [profile.uuid for profile in _replaced(ports, state).values()],
    }
    shown = {_headline(names[name]): ("", _text({"type": kind, **settings})) for name, (kind, settings) in new.items()}
    shown.update({_headline(names[port]): ("", _text(settings)) for port, settings in ports.items()})
    shown.update({_headline(profile.name): ("connection.autoconnect: yes\n", "connection.autoconnect: no\n") for profile in old})
    return model_network.Change(
        manager=model_network.NETWORKMANAGER,
        apply=tuple(apply),
        revert=(_script("rollback"),),
        confirm=(*confirm, _script("commit")),
        scripts={_SCRIPT: state.script, _NOTES: json.dumps(notes)},
        shown=shown,
    )


def _is_bond(name: str, layout: model_network.Layout) -> bool:
    device = layout.device(name)
    return (device.kind if device else layout.links[name].kind) == model_network.BOND


def _names(layout: model_network.Layout, state: NmState) -> dict[str, str]:
    """Return the profile name of each link; names of active profiles of an earlier change are not reused."""
    found = {}
    for link in (*(device.name for device in layout.devices), *_taken(layout)):
        name, number = f"{PREFIX}{link}", 1
        while state.names.get(name):
            number += 1
            name = f"{PREFIX}{link}-{number}"
        found[link] = name
    return found


def _taken(layout: model_network.Layout) -> dict[str, str]:
    """Map each existing link to its current or new master; ports of a taken bond come first, because they activate it."""
    found = {}
    for name, master in layout.taken.items():
        link = layout.links[name]
        if link.kind == model_network.BOND:
            found.update({port: name for port in link.ports})
        found[name] = master
    return found


def _ports(layout: model_network.Layout, state: NmState) -> dict[str, dict[str, str]]:
    """Return the settings of each existing link that becomes a port, and of the ports of a bond that becomes a port."""
    found = {}
    for name, master in _taken(layout).items():
        link, device = layout.links[name], layout.device(master)
        profile = state.profiles.get(name)
        if link.kind not in (model_network.NIC, model_network.BOND, model_network.VLAN) or (link.kind != model_network.NIC and profile is None):
            raise RefusedError(f"NetworkManager has no profile for {name}.", hint=f"Create one with nmcli, or omit {name}.")
        settings = _under(master, model_network.BOND if device is None else device.kind)
        settings.update(_common(profile))
        if name in layout.mtus:
            settings["802-3-ethernet.mtu"] = str(layout.mtus[name])
        found[name] = settings
    return found


def _replaced(ports: t.Iterable[str], state: NmState) -> dict[str, NmProfile]:
    """Return the active profiles that will be replaced."""
    return {name: state.profiles[name] for name in ports if name in state.profiles}


def _raised(layout: model_network.Layout, ports: t.Iterable[str]) -> list[str]:
    """Return the links whose profiles are activated explicitly; a port activates its master."""
    # an existing bond comes before its ports, which would otherwise keep its current profile
    there = sorted(ports, key=lambda name: layout.links[name].kind != model_network.BOND)
    return there + [device.name for device in layout.devices if device.kind == model_network.VLAN or not device.ports]


def _device_settings(device: model_network.Device, layout: model_network.Layout, state: NmState) -> tuple[str, dict[str, str]]:
    wanted = device.wanted
    settings: dict[str, str] = {}
    if isinstance(wanted, model_network.Bond):
        settings["bond.options"] = ",".join(f"{key}={value}" for key, value in _bond_options(wanted).items())
    elif isinstance(wanted, model_network.Vlan):
        settings.update({"vlan.parent": wanted.link, "vlan.id": str(wanted.id)})
    elif isinstance(wanted, model_network.Bridge):
        settings.update({"bridge.stp": _yes(wanted.stp), "bridge.vlan-filtering": _yes(wanted.vlan_filtering)})
        if not wanted.stp:
            settings["bridge.forward-delay"] = "0"
    if device.mac:
        settings["802-3-ethernet.cloned-mac-address"] = device.mac
    if device.mtu:
        settings["802-3-ethernet.mtu"] = str(device.mtu)
    heritage = state.profiles.get(device.inherits) if device.inherits else None
    settings.update(_common(heritage))
    if device.master:
        above = layout.device(device.master)
        settings.update(_under(device.master, above.kind if above else model_network.BRIDGE))
    elif heritage and device.inherits:
        settings.update(heritage.settings)
        settings.update(_interface_identifier(layout.links[device.inherits], heritage.settings))
    else:
        settings.update({"ipv4.method": "disabled", "ipv6.method": "disabled"})
    return device.kind, settings


def _interface_identifier(link: model_network.Link, settings: t.Mapping[str, str]) -> dict[str, str]:
    """Return settings that keep the interface identifier, which NetworkManager derives from the profile and the name of the link."""
    if settings.get("ipv6.method") != "auto":
        return {}
    for address in map(ipaddress.ip_interface, link.addresses):
        if address.version == 6 and address.network.prefixlen == 64 and str(address.ip) not in settings.get("ipv6.addresses", ""):
            return {"ipv6.addr-gen-mode": "eui64", "ipv6.token": str(ipaddress.IPv6Address(int(address.ip) & (1 << 64) - 1))}
    return {}


def _bond_options(bond: model_network.Bond) -> dict[str, str]:
    options = {
        "mode": bond.mode,
        "miimon": str(bond.miimon),
        "lacp_rate": bond.lacp_rate,
        "xmit_hash_policy": bond.hash_policy,
        "primary": bond.primary,
    }
    return {key: value for key, value in options.items() if value is not None}


def _common(profile: NmProfile | None) -> dict[str, str]:
    # during the trial only explicitly activated profiles come up
    return {"connection.autoconnect": "no", "connection.autoconnect-priority": str(max(_PRIORITY, profile.priority + 1 if profile else 0))}


def _under(master: str, kind: str) -> dict[str, str]:
    return {"connection.master": master, "connection.slave-type": kind}


def _add(profile: str, link: str, kind: str, settings: t.Mapping[str, str]) -> _Words:
    return _nmcli("connection", "add", "save", "no", "type", kind, "con-name", profile, "ifname", link, *_pairs(settings))


def _port(profile: str, link: str, settings: t.Mapping[str, str], old: NmProfile | None) -> list[_Words]:
    """Return the commands for the profile of a port: a copy of its profile, which keeps the hardware settings, or a new one."""
    if old is None:
        return [_add(profile, link, "ethernet", settings)]
    return [
        _nmcli("connection", "clone", "--temporary", "uuid", old.uuid, profile),
        _nmcli("connection", "modify", "--temporary", "id", profile, "connection.interface-name", link, *_pairs(settings)),
    ]


def _pairs(settings: t.Mapping[str, str]) -> _Words:
    return tuple(word for pair in settings.items() for word in pair)


def _nmcli(*words: str) -> _Words:
    return ("nmcli", *words)


def _script(verb: str, *words: str) -> _Words:
    return ("{python}", f"{{folder}}/{_SCRIPT}", verb, "{folder}", *words)


def _yes(value: bool | None) -> str:
    return "yes" if value else "no"


def _headline(profile: str) -> str:
    return f"NetworkManager profile {profile}"


def _text(settings: t.Mapping[str, str]) -> str:
    """Return a profile in its confirmed state, for the diff."""
    settings = {**settings, "connection.autoconnect": "yes"}
    return "".join(f"{key}: {value}\n" for key, value in settings.items())
