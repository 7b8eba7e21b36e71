# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fix-ups of interface names and MACs in the copy, and of the admin address of a parked source."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._migrate.copy.plan_fixups_macs import SCRIPTS, Macs, StackChange, is_script

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
    *SCRIPTS,
    # configuration of services that a master offers
    "/etc/dnsmasq.conf",
    "/etc/dnsmasq.d/*",
    "/etc/dhcp/*.conf",
    "/etc/fuel/*.yaml",
)
# files that may name the cards, but do not configure them
_OWN = ("/etc/iftab", "/etc/mactab", "/etc/ethers", "/etc/dnsmasq.conf", "/etc/dnsmasq.d/", "/etc/dhcp/", "/etc/fuel/")


class NicChange(t.NamedTuple):
    """A card of the source whose name is passed to a card of the VM.

    ``old_mac`` is the permanent MAC; ``worn_mac`` the current one if it differs.
    """

    name: str
    old_mac: str
    new_mac: str
    worn_mac: str = ""


def macs_of(nics: t.Sequence[NicChange], stacked: t.Sequence[StackChange] = ()) -> Macs:
    """Return the mapping of old to new MACs."""
    return Macs([(nic.name, nic.old_mac, nic.worn_mac, nic.new_mac) for nic in nics], stacked)


def fix_network(tree: t.Mapping[str, str], nics: t.Sequence[NicChange], stacked: t.Sequence[StackChange] = ()) -> dict[str, str | None]:
    """Return the changed files: the new cards keep the old names, and the old MACs are replaced.

    The names are kept because other configuration on the master (dnsmasq's ``interface=``, firewall
    rules, monitoring) refers to them.
    """
    changes: dict[str, str | None] = {}
    macs = macs_of(nics, stacked)
    macs.learn(tree)
    for path, text in tree.items():
        if is_network_file(path) or path.startswith(_OWN) or is_script(path):
            changes[path] = macs.fix(path, text)
    for nic in nics:
        # the name sorts before all other link files; Type= excludes VLANs, which have the MAC of their card
        changes[f"/etc/systemd/network/01-reduced-footprint-{nic.name}.link"] = (
            "# reduced.footprint: the card keeps the name it had on the old machine\n"
            f"[Match]\nMACAddress={nic.new_mac}\nType=ether\n\n[Link]\nName={nic.name}\n"
        )
    for each in stacked:
        # otherwise systemd derives the MAC from the machine-id, which is the same on the source
        changes[f"/etc/systemd/network/01-reduced-footprint-{each.name}.link"] = (
            "# reduced.footprint: the old machine still uses the previous MAC\n"
            f"[Match]\nOriginalName={each.name}\n\n[Link]\nMACAddress={each.new_mac}\n"
        )
    return changes


def is_network_file(path: str) -> bool:
    """Whether a path belongs to a network manager's configuration."""
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
    """Replace an address, complete addresses only (10.0.0.2 does not match in 10.0.0.20 or 110.0.0.2).

    Comments and lines that name the address as a gateway, name server or other peer are unchanged.
    """
    pattern = re.compile(rf"(?<![0-9.]){re.escape(old)}(?![0-9]|\.[0-9])")
    others = re.compile(r"(?i)^\s*(#|;|dns|gateway\b|ntp|destination|dns-nameservers|nameserver)")
    return "".join(line if others.match(line) else pattern.sub(lambda unused: new, line) for line in text.splitlines(keepends=True))
