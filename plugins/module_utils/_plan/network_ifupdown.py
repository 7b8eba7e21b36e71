# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A change of the network in the words of ifupdown."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._model import network as net
from ansible_collections.reduced.footprint.plugins.module_utils._model.errors import RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._model.interfaces_file import has_stanza, methods, stanzas
from ansible_collections.reduced.footprint.plugins.module_utils._model.network import Bond, Bridge, Change, Device, Layout, Profile, Vlan

INTERFACES = "/etc/network/interfaces"
_TRIAL = "/run/reduced.footprint/interfaces"
_VLAN_NAME = re.compile(r"\Avlan0*(\d+)\Z")
_MADE = "# Made by reduced.footprint"


def helpers(layout: Layout) -> dict[str, str]:
    """What ifupdown needs for these devices: file → package."""
    bridges = any(device.kind == net.BRIDGE for device in layout.devices)
    return {"/etc/network/if-pre-up.d/bridge": "bridge-utils"} if bridges else {}


def change(layout: Layout, profiles: t.Mapping[str, Profile], texts: t.Mapping[str, str]) -> Change:
    """The stanzas of a link become those of the device that takes over from it, the link is left to that device.

    :arg texts: ifupdown's files: path → text.
    :raises RefusedError: what ifupdown cannot say.
    """
    for device in layout.devices:
        _check(device, texts, layout.paths)
    _check_carried(layout)
    moved: dict[str, list[list[str]]] = {name: [] for name in layout.taken}
    kept: dict[str, list[str]] = {}
    home = INTERFACES
    for path, text in texts.items():
        kept[path] = []
        for stanza in stanzas(text):
            words = stanza[0].split()
            if words[:1] == ["iface"] and words[1:2] and words[1] in moved:
                if layout.heir(words[1]):
                    home = path
                moved[words[1]].append(stanza)
            elif words and (words[0] == "auto" or words[0].startswith("allow-")) and set(words[1:]) & set(moved):
                others = [word for word in words[1:] if word not in moved]
                kept[path] += [" ".join([words[0], *others])] if others else []
                kept[path] += stanza[1:]
            else:
                kept[path] += stanza
    ours = _ours(layout, moved)
    keep = {path: _ended(lines) for path, lines in kept.items() if _ended(lines) != _ended(texts[path].splitlines())}
    keep.pop(home, None)
    # last, for it has the addresses
    keep[home] = _ended([*kept.get(home, []), "", *ours]) if any(line.strip() for line in kept.get(home, [])) else _ended(ours)
    names = [device.name for device in layout.devices]
    down = tuple(("ifdown", "--force", name) for name in layout.taken if moved[name])
    up = tuple(("ifup", "--force", name) for name in layout.taken if moved[name])
    return Change(
        manager=net.IFUPDOWN,
        trial={_TRIAL: _ended(ours)},
        keep=keep,
        apply=(*down, *(("ifup", "--force", f"--interfaces={_TRIAL}", name) for name in names)),
        # the trial's file is gone by then, so what it made is taken down by hand
        revert=(*(("ip", "link", "delete", "dev", name) for name in reversed(names)), *down, *up),
    )


def configured(text: str, name: str) -> bool:
    """Whether the stanzas of a link give it addresses."""
    return any(method not in ("manual", "loopback") for unused, method in methods(text, name))


def _check(device: Device, texts: t.Mapping[str, str], paths: t.Mapping[str, str]) -> None:
    """No second stanza of a name; and ifupdown knows the number of a VLAN by its name alone."""
    wanted = device.wanted
    for path, text in texts.items():
        if has_stanza(text, device.name):
            mend = f"Bring it up or remove its stanza from {path}."
            raise RefusedError(f"{path} speaks of {device.name}, which is not up.", f"{paths.get(device.name)}.name", mend)
    if not isinstance(wanted, Vlan):
        return
    match = _VLAN_NAME.match(wanted.name)
    if wanted.name != f"{wanted.link}.{wanted.id}" and not (match and int(match.group(1)) == wanted.id):
        mend = f"Leave the name away, or say vlan{wanted.id}."
        message = f"ifupdown does not see in the name {wanted.name} that it is VLAN {wanted.id} of {wanted.link}."
        raise RefusedError(message, f"{paths.get(device.name)}.name", mend)


def _check_carried(layout: Layout) -> None:
    for link in layout.links.values():
        if link.lower in layout.taken:
            master = layout.taken[link.lower]
            message = f"{link.lower} carries {link.name}, which ifupdown would take down with it."
            raise RefusedError(message, layout.paths.get(link.lower), f"Remove {link.name} and put the VLAN on {master}.")


def _ours(layout: Layout, moved: t.Mapping[str, list[list[str]]]) -> list[str]:
    lines = []
    for device in layout.devices:
        lines += [f"{_MADE}: {device.name} over {', '.join(device.ports) or 'no port'}", f"auto {device.name}"]
        inherited = moved.get(device.inherits or "", [])
        if not inherited:
            lines += [f"iface {device.name} inet manual", *_options(device), f"    up ip link set dev {device.name} up", ""]
        for index, stanza in enumerate(inherited):
            lines.append(re.sub(rf"(?<=iface ){re.escape(device.inherits or '')}(?=\s|$)", device.name, " ".join(stanza[0].split()), count=1))
            dropped = ("hwaddress", "mtu") if device.mtu else ("hwaddress",)
            lines += [line for line in stanza[1:] if line.strip() and line.split()[0] not in dropped]
            lines += [*(_options(device) if index == 0 else ()), ""]
    for name in layout.taken:
        lines.append(f"iface {name} inet manual")
        if name in layout.mtus:
            lines.append(f"    mtu {layout.mtus[name]}")
        lines.append("")
    return lines


def _bond(device: Device, wanted: Bond) -> list[tuple[str, t.Any]]:
    """By commands, each of which may run twice.

    Not by ifenslave: forced, its script takes ports down that are in the bond already, and where it
    is installed it takes them away from bonds of NetworkManager as well.
    """
    kind = f"type bond mode {wanted.mode} miimon {wanted.miimon}"
    kind += f" lacp_rate {wanted.lacp_rate}" if wanted.lacp_rate else ""
    kind += f" xmit_hash_policy {wanted.hash_policy}" if wanted.hash_policy else ""
    address = f"address {device.mac} " if device.mac else ""
    options = [("pre-up", f"test -e /sys/class/net/{device.name} || ip link add dev {device.name} {address}{kind}")]
    for port in wanted.ports:
        # the kernel takes a port that is down, and brings it up itself
        options += [("pre-up", f"test -e /sys/class/net/{port}/master || ip link set dev {port} {step}") for step in ("down", f"master {device.name}")]
    options += [("up", f"ip link set dev {device.name} type bond primary {wanted.primary}")] if wanted.primary else []
    return [*options, ("post-down", f"ip link delete dev {device.name}")]


def _options(device: Device) -> list[str]:
    wanted = device.wanted
    if isinstance(wanted, Bond):
        options = _bond(device, wanted)
    elif isinstance(wanted, Bridge):
        options = [("bridge_ports", " ".join(wanted.ports) or "none"), ("bridge_stp", "on" if wanted.stp else "off")]
        options += [] if wanted.stp else [("bridge_fd", "0")]
        options += [("bridge_vlan_aware", "yes")] if wanted.vlan_filtering else []
        options += [("bridge_hw", device.mac)] if device.mac else []
    else:
        options = [("vlan-raw-device", wanted.link)]
    options += [("mtu", device.mtu)] if device.mtu else []
    return [f"    {key} {value}" for key, value in options if value is not None]


def _ended(lines: t.Sequence[str]) -> str:
    text = "\n".join(lines).rstrip("\n")
    return f"{text}\n"
