# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Network interfaces of the source: cards, and interfaces on top of them. Changes nothing."""

from __future__ import annotations

import json
import os
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source import io_disks

# In a container the card is one end of a veth pair, or a sub-interface of the host's card.
_BORROWED = ("veth", "macvlan", "ipvlan")
# what the kernel calls interfaces that are not Ethernet, by type of device, kind and type of link
_MEDIA = {"wlan": "Wi-Fi", "wwan": "mobile broadband", "ppp": "PPP", "infiniband": "InfiniBand"}
_TUNNELS = frozenset(("tun", "wireguard", "gre", "gretap", "ip6gre", "ip6gretap", "erspan", "ipip", "ip6tnl", "sit", "vti", "vti6", "xfrm", "vxlan", "geneve"))


def interfaces() -> list[dict[str, t.Any]]:
    """Interfaces with their addresses, without the loopback and tunnels.

    ``mac`` is a card's permanent MAC, ``worn`` a different one that is configured. ``card``: whether it is a card of the
    machine; ``lower``: the interfaces below it.
    """
    return describe(_shown(), lambda name: os.path.exists(f"/sys/class/net/{name}/device"))


def _shown() -> list[dict[str, t.Any]]:
    return list(json.loads(run(["ip", "-json", "-details", "address", "show"]).stdout or "[]"))


def other_media() -> list[dict[str, t.Any]]:
    """Interfaces that are not Ethernet and that no card of a VM can replace: name, medium, addresses."""
    return describe_media(_shown(), lambda name: re.findall(r"(?m)^DEVTYPE=(\w+)$", io_disks.read(f"/sys/class/net/{name}/uevent")))


def describe_media(links: t.Sequence[t.Mapping[str, t.Any]], device_type: t.Callable[[str], t.Sequence[str]]) -> list[dict[str, t.Any]]:
    """The same from the output of ``ip``."""
    found = []
    for link in links:
        kind, below = (link.get("linkinfo") or {}).get("info_kind"), str(link.get("link_type"))
        medium = next((_MEDIA[each] for each in (*device_type(link["ifname"]), below) if each in _MEDIA), None)
        if medium is None and below != "loopback" and (kind in _TUNNELS or below != "ether"):
            medium = "a tunnel"
        if medium:
            found.append({"name": link["ifname"], "medium": medium, "addresses": _addresses(link, "inet")})
    return found


def describe(links: t.Sequence[t.Mapping[str, t.Any]], has_device: t.Callable[[str], bool]) -> list[dict[str, t.Any]]:
    """The same from the output of ``ip``."""
    found = []
    bonds = [each["ifname"] for each in links if (each.get("linkinfo") or {}).get("info_kind") in ("bond", "team")]
    for link in links:
        if link.get("link_type") != "ether":
            continue
        name = link["ifname"]
        info = link.get("linkinfo") or {}
        kind = info.get("info_kind")
        data = info.get("info_data") or {}
        addresses = _addresses(link, "inet")
        borrowed = kind in _BORROWED and not link.get("master") and bool(addresses)
        lower = [each["ifname"] for each in links if each.get("master") == name]
        if kind in ("vlan", "macvlan") and link.get("link"):
            lower = [link["link"]]
        found.append(
            {
                "name": name,
                # the current MAC of a bond's member is that of the bond
                "mac": link.get("permaddr") or link.get("address", ""),
                # a configured MAC, except on members of a bond
                "worn": link.get("address") if link.get("permaddr") and link.get("master") not in bonds else None,
                "addresses": addresses,
                "addresses6": _addresses(link, "inet6"),
                "kind": kind,
                "card": has_device(name) or kind is None or borrowed,
                "lower": lower,
                "vlan": data.get("id") if kind == "vlan" else None,
                "bond_mode": data.get("mode") if kind == "bond" else None,
            }
        )
    return found


def _addresses(link: t.Mapping[str, t.Any], family: str) -> list[str]:
    # an address from a router or a DHCP server does not move; the VM's card requests its own
    given = [each for each in link.get("addr_info", []) if each.get("family") == family and each.get("local")]
    if family == "inet6":
        given = [each for each in given if each.get("scope") == "global" and not each.get("dynamic") and not each.get("temporary")]
    return [f"{each['local']}/{each['prefixlen']}" for each in given]
