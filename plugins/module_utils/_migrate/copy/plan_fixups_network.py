# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Network names and addresses of cards in the copy, and of the source that steps aside."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._migrate.copy.plan_fixups_macs import Macs, StackChange

PATTERNS = (
    "/etc/systemd/network/*.network",
    "/etc/systemd/network/*.link",
    "/etc/systemd/network/*.netdev",
    "/etc/netplan/*.yaml",
    "/etc/network/interfaces",
    "/etc/network/interfaces.d/*",
    "/etc/NetworkManager/NetworkManager.conf",
    "/etc/NetworkManager/conf.d/*.conf",
    "/etc/NetworkManager/system-connections/*",
    "/etc/sysconfig/network-scripts/ifcfg-*",
    "/etc/udev/rules.d/*.rules",
    "/etc/iftab",
    "/etc/mactab",
    "/etc/ethers",
    # what a master tells others of itself
    "/etc/dnsmasq.conf",
    "/etc/dnsmasq.d/*",
    "/etc/dhcp/*.conf",
    "/etc/fuel/*.yaml",
)
# in them the cards may be named, but they give the machine no address
_OWN = ("/etc/iftab", "/etc/mactab", "/etc/ethers", "/etc/dnsmasq.conf", "/etc/dnsmasq.d/", "/etc/dhcp/", "/etc/fuel/")


@dataclasses.dataclass(frozen=True)
class NicChange:
    """A card of the source whose name goes to a card of the VM.

    ``old_mac`` is the card's own; ``worn_mac`` the one it has instead, where somebody gave it another.
    """

    name: str
    old_mac: str
    new_mac: str
    worn_mac: str = ""


def macs_of(nics: t.Sequence[NicChange], stacked: t.Sequence[StackChange] = ()) -> Macs:
    """Which address takes the place of which."""
    return Macs([(nic.name, nic.old_mac, nic.worn_mac, nic.new_mac) for nic in nics], stacked)


def fix_network(tree: t.Mapping[str, str], nics: t.Sequence[NicChange], stacked: t.Sequence[StackChange] = ()) -> dict[str, str | None]:
    """The old names stay valid on the new cards, and the old MACs vanish from the configuration.

    The names are kept because everything else on the master (dnsmasq's ``interface=``, firewall
    rules, monitoring) speaks of them.
    """
    changes: dict[str, str | None] = {}
    macs = macs_of(nics, stacked)
    macs.learn(tree)
    for path, text in tree.items():
        if is_network_file(path) or path.startswith(_OWN):
            changes[path] = macs.fix(path, text)
    for nic in nics:
        # named so that it sorts before every link file a distribution or a person brings; a VLAN wears the
        # MAC of its card and must not be taken for it
        changes[f"/etc/systemd/network/01-reduced-footprint-{nic.name}.link"] = (
            "# reduced.footprint: the card keeps the name it had on the old machine\n"
            f"[Match]\nMACAddress={nic.new_mac}\nType=ether\n\n[Link]\nName={nic.name}\n"
        )
    for each in stacked:
        # without it systemd derives the address from the machine-id, which is the same
        changes[f"/etc/systemd/network/01-reduced-footprint-{each.name}.link"] = (
            "# reduced.footprint: the old machine still has the address this had\n"
            f"[Match]\nOriginalName={each.name}\n\n[Link]\nMACAddress={each.new_mac}\n"
        )
    return changes


def is_network_file(path: str) -> bool:
    """Whether a path belongs to the configuration of a network manager."""
    return path.startswith(
        (
            "/etc/systemd/network/",
            "/etc/netplan/",
            "/etc/network/",
            "/etc/NetworkManager/",
            "/etc/sysconfig/network-scripts/",
            "/etc/udev/rules.d/",
        )
    )


def replace_address(text: str, old: str, new: str) -> str:
    """One address for another, whole addresses only (10.0.0.2 is not in 10.0.0.20 nor in 110.0.0.2).

    Comments are left alone, and so are lines that name the address as somebody else's.
    """
    pattern = re.compile(rf"(?<![0-9.]){re.escape(old)}(?![0-9]|\.[0-9])")
    others = re.compile(r"(?i)^\s*(#|;|dns|gateway\b|ntp|destination|dns-nameservers|nameserver)")
    return "".join(line if others.match(line) else pattern.sub(new, line) for line in text.splitlines(keepends=True))
