# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan a network change for systemd-networkd."""

from __future__ import annotations

import os
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._network import model_network
from ansible_collections.reduced.footprint.plugins.module_utils._network.model_network import Bond, Bridge, Change, Device, Layout, Profile, Vlan

_ETC = "/etc/systemd/network"
_RUN = "/run/systemd/network"
_PREFIX = "00-reduced-footprint"
# a file in /etc overrides one of the same name in /run, so a trial needs another prefix to override an earlier change
_TRIAL_PREFIX = "00-0-reduced-footprint"
_MADE = "# Made by reduced.footprint"
# settings of a link other than addresses, which stay with the link
_STACKED = ("VLAN", "MACVLAN", "MACVTAP", "IPVLAN", "IPVTAP", "VXLAN", "Tunnel", "Xfrm", "LLDP", "EmitLLDP")
_MASTERS = ("Bridge", "Bond", "VRF", "BatmanAdvanced")

_Sections = t.List[t.Tuple[str, t.List[str]]]


def change(layout: Layout, profiles: t.Mapping[str, Profile]) -> Change:
    """Create files for the devices, with the configuration of the links they inherit from, and for the links.

    The files sort before those of the user, which are not edited, so removing them reverts the change.
    """
    files: dict[str, str] = {}
    for device in layout.devices:
        files[f"{_PREFIX}-{device.name}.netdev"] = _netdev(device)
    for device in layout.devices:
        files[f"{_PREFIX}-{device.name}.network"] = _network(device, profiles)
    for name, vlans in layout.stacked.items():
        if name not in layout.taken:
            path, text = _with_vlans(name, vlans, profiles.get(name), layout)
            files[path] = text
    # the link that loses its addresses is written last, so that it never exists without the device that gets them
    for name in sorted(layout.taken, key=lambda name: layout.heir(name) is not None):
        files[f"{_PREFIX}-{name}.network"] = _port(name, layout, profiles.get(name))
    made = [device.name for device in layout.devices]
    configure = [("networkctl", "reconfigure", name) for name in layout.touched]
    return Change(
        manager=model_network.NETWORKD,
        trial={f"{_RUN}/{_trial_name(name)}": text for name, text in files.items()},
        keep={f"{_ETC}/{name}": text for name, text in files.items()},
        apply=(("networkctl", "reload"), *configure),
        revert=(*(("ip", "link", "delete", "dev", name) for name in reversed(made)), ("networkctl", "reload"), *configure),
    )


def _netdev(device: Device) -> str:
    lines = [f"{_MADE}: {_sentence(device)}", "[NetDev]", f"Name={device.name}", f"Kind={device.kind}"]
    if device.mac:
        lines.append(f"MACAddress={device.mac}")
    lines += ["", *_kind_section(device.wanted)]
    return _text(lines)


def _kind_section(wanted: Bond | Vlan | Bridge) -> list[str]:
    if isinstance(wanted, Vlan):
        return ["[VLAN]", f"Id={wanted.id}"]
    if isinstance(wanted, Bridge):
        lines = ["[Bridge]", f"STP={'yes' if wanted.stp else 'no'}"]
        if not wanted.stp:
            lines.append("ForwardDelaySec=0")
        if wanted.vlan_filtering:
            lines.append("VLANFiltering=yes")
        return lines
    lines = ["[Bond]", f"Mode={wanted.mode}", f"MIIMonitorSec={wanted.miimon}ms"]
    if wanted.lacp_rate:
        lines.append(f"LACPTransmitRate={wanted.lacp_rate}")
    if wanted.hash_policy:
        lines.append(f"TransmitHashPolicy={wanted.hash_policy}")
    return lines


def _network(device: Device, profiles: t.Mapping[str, Profile]) -> str:
    """Return the .network file of a device: its master and VLANs, and the addresses it takes over."""
    source = profiles.get(device.inherits or "")
    sections = _sections(source.text) if source else []
    link = _link_lines(sections, device.mtu)
    network = [line for line in _of(sections, "Network") if not _sets(line, _STACKED)]
    lines = [f"{_MADE}: {_sentence(device, source)}", "[Match]", f"Name={device.name}", ""]
    place = [f"VLAN={vlan}" for vlan in device.vlans]
    if device.master:
        # the ports of a bond are NICs, so the master of a new device is a bridge
        place.append(f"Bridge={device.master}")
    if not source:
        if not device.master and not any(_sets(line, ("RequiredForOnline",)) for line in link):
            # without addresses it never becomes routable, and the boot would wait for it
            link.append("RequiredForOnline=no")
        place.append("LinkLocalAddressing=no")
        if device.kind == model_network.BRIDGE:
            place.append("ConfigureWithoutCarrier=yes")
    if link:
        lines += ["[Link]", *link, ""]
    lines += ["[Network]", *place, *network]
    for name, content in sections:
        if name not in ("Match", "Link", "Network"):
            lines += ["", f"[{name}]", *content]
    if source and source.identity is not None:
        lines += ["", "[DHCPv4]", f"IAID={source.identity}", "", "[DHCPv6]", f"IAID={source.identity}"]
    return _text(lines)


def _port(name: str, layout: Layout, profile: Profile | None) -> str:
    """Return the .network file of a port of a bridge or bond; its VLANs and similar settings are kept."""
    _check_first(name, profile, layout)
    sections = _sections(profile.text) if profile else []
    network = _of(sections, "Network")
    for line in network:
        if _sets(line, _MASTERS):
            where = profile.path if profile else None
            message = f"{name} is already assigned: {line.strip()} in {where}."
            raise RefusedError(message, layout.paths.get(name), "Use another port, or remove that line first.")
    master = layout.device(layout.taken[name])
    link = _link_lines(sections, layout.mtus.get(name))
    lines = [f"{_MADE}: {name} belongs to {layout.taken[name]}", "[Match]", f"Name={name}", ""]
    if link:
        lines += ["[Link]", *link, ""]
    lines += ["[Network]", f"{'Bond' if master and master.kind == model_network.BOND else 'Bridge'}={layout.taken[name]}"]
    if master and isinstance(master.wanted, Bond) and master.wanted.primary == name:
        lines.append("PrimarySlave=yes")
    lines += [line for line in network if _sets(line, _STACKED)]
    lines += [f"VLAN={vlan}" for vlan in layout.stacked.get(name, ())]
    lines.append("LinkLocalAddressing=no")
    return _text(lines)


def _with_vlans(name: str, vlans: t.Sequence[str], profile: Profile | None, layout: Layout) -> tuple[str, str]:
    """Return path and text for a link that keeps its addresses and gets VLANs: a drop-in if its file is for this link only, else a copy."""
    sections = _sections(profile.text) if profile else []
    lines = [f"{_MADE}: {', '.join(vlans)} on {name}"]
    added = [f"VLAN={vlan}" for vlan in vlans]
    if profile and profile.path and _of(sections, "Match") == [f"Name={name}"]:
        return f"{os.path.basename(profile.path)}.d/{_PREFIX}-{'-'.join(vlans)}.conf", _text([*lines, "[Network]", *added])
    _check_first(name, profile, layout)
    lines += ["[Match]", f"Name={name}"]
    for section, content in sections:
        if section != "Match":
            lines += ["", f"[{section}]", *content]
    lines += ["", "[Network]", *added]
    if not sections:
        lines.append("LinkLocalAddressing=no")
    return f"{_PREFIX}-{name}.network", _text(lines)


def _check_first(name: str, profile: Profile | None, layout: Layout) -> None:
    if not profile or not profile.path:
        return
    file = os.path.basename(profile.path)
    if file < f"{_TRIAL_PREFIX}-{name}.network" or (file < f"{_PREFIX}-{name}.network" and not file.startswith(_PREFIX)):
        message = f"{profile.path} sorts before the files of this collection."
        raise RefusedError(message, layout.paths.get(name), f"Rename it so that it sorts after {_PREFIX}.")


def _trial_name(name: str) -> str:
    return name if ".d/" in name else name.replace(_PREFIX, _TRIAL_PREFIX, 1)


def _link_lines(sections: _Sections, mtu: int | None) -> list[str]:
    dropped = ("MACAddress", "MTUBytes") if mtu else ("MACAddress",)
    lines = [line for line in _of(sections, "Link") if not _sets(line, dropped)]
    return [*lines, f"MTUBytes={mtu}"] if mtu else lines


def _sentence(device: Device, source: Profile | None = None) -> str:
    over = f"{device.name} over {', '.join(device.ports)}" if device.ports else f"{device.name} without a port"
    return f"{over}; its addresses come from {source.path}" if source else over


def _sets(line: str, keys: t.Sequence[str]) -> bool:
    return line.partition("=")[0].strip() in keys


def _of(sections: _Sections, wanted: str) -> list[str]:
    return [line for name, lines in sections if name == wanted for line in lines]


def _sections(text: str) -> _Sections:
    found: _Sections = []
    for line in text.splitlines():
        header = re.match(r"\s*\[([A-Za-z0-9]+)\]\s*$", line)
        if header:
            found.append((header.group(1), []))
        elif found and line.strip() and not line.lstrip().startswith(("#", ";")):
            found[-1][1].append(line.rstrip())
    return found


def _text(lines: t.Sequence[str]) -> str:
    return "\n".join(lines) + "\n"
