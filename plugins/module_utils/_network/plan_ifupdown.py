# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan a network change for ifupdown."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._network import model_network
from ansible_collections.reduced.footprint.plugins.module_utils._network.model_interfaces_file import has_stanza, joined, link_of, methods, stanzas
from ansible_collections.reduced.footprint.plugins.module_utils._network.model_network import Bond, Bridge, Change, Device, Layout, Profile, Vlan

INTERFACES = "/etc/network/interfaces"
_TRIAL = "/run/reduced.footprint/interfaces"
_VLAN_NAME = re.compile(r"\Avlan0*(\d+)\Z")
_MADE = "# Made by reduced.footprint"
_COMMANDS = ("pre-up", "up", "post-up", "down", "pre-down", "post-down")
#: Options that define a bond or a VLAN; it is removed when its stanza is brought down.
_MAKING = ("bond-", "vlan-", "hwaddress", "mtu", "pre-up", "post-down")
_ADDRESSING = re.compile(r"\s*\S+\s+(?:/\S*/)?(?:route|ip\s+(?:-\S+\s+)*(?:a|ad\w*|r|ro\w*|ru\w*|n|ne\w*))\s")
_LEASES = {"inet": "/var/lib/dhcp/dhclient.{}.leases", "inet6": "/var/lib/dhcp/dhclient6.{}.leases"}


def helpers(layout: Layout) -> dict[str, str]:
    """Return the helpers that ifupdown needs for these devices: file → package."""
    bridges = any(device.kind == model_network.BRIDGE for device in layout.devices)
    return {"/etc/network/if-pre-up.d/bridge": "bridge-utils"} if bridges else {}


def change(layout: Layout, profiles: t.Mapping[str, Profile], texts: t.Mapping[str, str]) -> Change:
    """Rewrite the stanzas of a link for the device that takes over its addresses; the link gets a manual stanza.

    Aliases of the link (``eno1:0``) become more addresses of the device, whose name with that suffix could be too long.

    :arg texts: the files of ifupdown: path → text.
    """
    for device in layout.devices:
        _check(device, texts, layout.paths)
    _check_carried(layout)
    _check_bond_master(layout, texts)
    moved: dict[str, list[list[str]]] = {name: [] for name in layout.taken}
    auto: dict[str, str] = {}
    kept: dict[str, list[str]] = {}
    home = INTERFACES
    for path, text in texts.items():
        kept[path] = []
        for stanza in stanzas(text):
            words = stanza[0].split()
            link = link_of(words[1]) if words[1:] else ""
            if words[:1] == ["iface"] and link in moved:
                if layout.heir(link):
                    home = path
                moved[link].append(stanza)
            elif stanza[0].startswith(tuple(f"{_MADE}: {name} over " for name in moved)):
                # the comment is written again with the new stanza
                kept[path] += stanza[1:]
            elif words and (words[0] == "auto" or words[0].startswith("allow-")) and set(map(link_of, words[1:])) & set(moved):
                others = [word for word in words[1:] if link_of(word) not in moved]
                auto.update({word: words[0] for word in words[1:] if word in moved})
                kept[path] += [" ".join([words[0], *others])] if others else []
                kept[path] += stanza[1:]
            else:
                kept[path] += stanza
    # the first stanza defines the device
    moved = {name: sorted(made, key=lambda stanza: stanza[0].split()[1] != name) for name, made in moved.items()}
    remade = {name: _staying(name, moved[name]) for name in layout.taken if layout.links[name].kind != model_network.NIC and moved[name]}
    new_lines = _new_lines(layout, moved, remade, auto)
    keep = {path: _ended(lines) for path, lines in kept.items() if _ended(lines) != _ended(texts[path].splitlines())}
    keep.pop(home, None)
    # last, because this file has the addresses
    keep[home] = _ended([*kept.get(home, []), "", *new_lines]) if any(line.strip() for line in kept.get(home, [])) else _ended(new_lines)
    names = [device.name for device in layout.devices]
    old = [list(dict.fromkeys(stanza[0].split()[1] for stanza in moved[name])) for name in layout.taken]
    down = tuple(("ifdown", "--force", name) for names in old for name in [*names[1:], *names[:1]])
    up = tuple(("ifup", "--force", name) for names in old for name in names)
    return Change(
        manager=model_network.IFUPDOWN,
        trial={_TRIAL: _ended(new_lines)},
        keep=keep,
        apply=(*down, *(("ifup", "--force", f"--interfaces={_TRIAL}", name) for name in (*remade, *names))),
        # the file of the trial is already removed, so ifdown cannot remove its devices
        revert=(*(("ip", "link", "delete", "dev", name) for name in reversed(names)), *down, *up),
    )


def configured(text: str, name: str) -> bool:
    """Whether the stanzas of a link give it addresses."""
    return any(method not in ("manual", "loopback") for unused, method in methods(text, name))


def _check(device: Device, texts: t.Mapping[str, str], paths: t.Mapping[str, str]) -> None:
    """Check that no stanza of the device exists, and that its name contains the VLAN ID as ifupdown requires."""
    wanted = device.wanted
    for path, text in texts.items():
        if has_stanza(text, device.name):
            hint = f"Bring it up, or remove its stanza from {path}."
            raise RefusedError(f"{path} configures {device.name}, which is not up.", f"{paths.get(device.name)}.name", hint)
    if not isinstance(wanted, Vlan):
        return
    match = _VLAN_NAME.match(wanted.name)
    if wanted.name != f"{wanted.link}.{wanted.id}" and not (match and int(match.group(1)) == wanted.id):
        hint = f"Omit the name, or use vlan{wanted.id}."
        message = f"ifupdown cannot derive VLAN {wanted.id} of {wanted.link} from the name {wanted.name}."
        raise RefusedError(message, f"{paths.get(device.name)}.name", hint)


def _check_carried(layout: Layout) -> None:
    for link in layout.links.values():
        if link.lower in layout.taken:
            master = layout.taken[link.lower]
            message = f"{link.lower} is the link of {link.name}, which ifupdown would bring down with it."
            raise RefusedError(message, layout.paths.get(link.lower), f"Remove {link.name} and define the VLAN on {master}.")


def _check_bond_master(layout: Layout, texts: t.Mapping[str, str]) -> None:
    """Refuse bonds that are defined by their ports: ifupdown would not attach the ports again after the bond was down."""
    for path, text in texts.items():
        for line in joined(text):
            words = line.replace("_", "-").split()
            if words[:1] == ["bond-master"] and set(line.split()[1:]) & set(layout.taken):
                name = line.split()[1]
                hint = f"List the ports in the stanza of {name} (bond-slaves), and remove bond-master from theirs."
                raise RefusedError(f"{path} defines {name} by its ports (bond-master).", layout.paths.get(name), hint)


def _new_lines(layout: Layout, moved: t.Mapping[str, list[list[str]]], remade: t.Mapping[str, list[str]], auto: t.Mapping[str, str]) -> list[str]:
    lines = []
    for name, staying in remade.items():
        lines += [f"{_MADE}: {name} without addresses", f"{auto.get(name, 'auto')} {name}", f"iface {name} inet manual"]
        mtu = layout.mtus.get(name)
        lines += [line for line in staying if not mtu or line.split()[0] != "mtu"]
        up = f"    up ip link set dev {name} up"
        lines += [*([f"    mtu {mtu}"] if mtu else ()), *([] if up in staying else [up]), ""]
    for device in layout.devices:
        lines += [f"{_MADE}: {device.name} over {', '.join(device.ports) or 'no port'}", f"auto {device.name}"]
        inherited = moved.get(device.inherits or "", [])
        if not inherited:
            lines += [f"iface {device.name} inet manual", *_options(device), f"    up ip link set dev {device.name} up", ""]
        dropped = {"hwaddress", *(("mtu",) if device.mtu else ())}
        for index, stanza in enumerate(inherited):
            lines.append(re.sub(rf"(?<=iface ){re.escape(device.inherits or '')}(:\S+)?(?=\s|$)", device.name, " ".join(stanza[0].split()), count=1))
            left = remade.get(device.inherits or "", [])
            lines += [_renamed(line, device) for line in stanza[1:] if line.strip() and line not in left and line.split()[0] not in dropped]
            lines += _identity(device, stanza)
            lines += [*(_options(device) if index == 0 else ()), ""]
    for name in layout.taken:
        if name in remade:
            continue
        lines.append(f"iface {name} inet manual")
        if name in layout.mtus:
            lines.append(f"    mtu {layout.mtus[name]}")
        lines.append("")
    return lines


def _staying(name: str, made: t.Sequence[t.Sequence[str]]) -> list[str]:
    """Return the lines that define a bond or VLAN, from stanzas whose addresses move to another device."""
    lines: list[str] = []
    for line in (line for stanza in made for line in stanza[1:] if line.strip()):
        key = line.split()[0]
        making = key.replace("_", "-").startswith(_MAKING) or key == "slaves"
        about = key in _COMMANDS and _names(line, name) and not _ADDRESSING.match(line)
        if (making or about) and line not in lines:
            lines.append(line)
    return lines


def _renamed(line: str, device: Device) -> str:
    """Return a command with the NIC replaced by the device that has its addresses, if it sets routes or addresses."""
    if line.split()[0] not in _COMMANDS or not _ADDRESSING.match(line):
        return line
    name = re.escape(device.inherits or "")
    return re.sub(rf"(?<=\sdev ){name}(?=\s|$)", device.name, re.sub(rf"\s+label {name}(:\S+)?(?=\s|$)", "", line))


def _names(line: str, name: str) -> bool:
    return re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w.:-])", line) is not None


def _identity(device: Device, stanza: t.Sequence[str]) -> list[str]:
    """Return the line that keeps the DHCP client identity, so that the server assigns the same address.

    Debian's dhclient identifies itself by a DUID, and generates one per leases file, which is one per
    interface; so the DUID of the NIC is copied to the leases file of the bridge.
    """
    words = stanza[0].split()
    leases = _LEASES.get("".join(words[2:3])) if "dhcp" in words[3:] or any(line.split()[:1] == ["dhcp"] for line in stanza[1:]) else None
    if not leases:
        return []
    before, after = leases.format(device.inherits), leases.format(device.name)
    duid = f"grep -s ^default-duid {before}"
    return [f"    pre-up {duid} | tail -n 1 | grep -qsxFf - {after} || {duid} >> {after} || true"]


def _bond(device: Device, wanted: Bond) -> list[tuple[str, t.Any]]:
    """Return the options of a bond, as idempotent commands.

    ifenslave is not used: with --force its script brings down ports that are already in the bond, and if it
    is installed it also detaches the ports of NetworkManager's bonds.
    """
    kind = f"type bond mode {wanted.mode} miimon {wanted.miimon}"
    kind += f" lacp_rate {wanted.lacp_rate}" if wanted.lacp_rate else ""
    kind += f" xmit_hash_policy {wanted.hash_policy}" if wanted.hash_policy else ""
    address = f"address {device.mac} " if device.mac else ""
    options = [("pre-up", f"test -e /sys/class/net/{device.name} || ip link add dev {device.name} {address}{kind}")]
    for port in wanted.ports:
        # the kernel only attaches a port that is down, and then brings it up
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
