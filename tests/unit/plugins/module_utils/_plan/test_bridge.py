# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._model.errors import RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._model.interfaces_file import has_stanza, sourced_patterns
from ansible_collections.reduced.footprint.plugins.module_utils._plan.bridge import ifupdown_change, networkd_change

NETWORK = """# the admin network
[Match]
Name=eno1
[Link]
MTUBytes=9000
MACAddress=02:00:00:00:00:01

[Network]
Address=192.0.2.11/24
; the old one
Gateway=192.0.2.1
[Route]
Destination=198.51.100.0/24
Gateway=192.0.2.2
"""

INTERFACES = """# This file describes the network interfaces
source /etc/network/interfaces.d/*

auto lo eno1
iface lo inet loopback

# admin
iface eno1 inet static
    address 192.0.2.11/24
    gateway 192.0.2.1

iface eno1 inet6 static
    address 2001:db8::11/64

allow-hotplug eno2
iface eno2 inet dhcp
"""


def networkd(path="/etc/systemd/network/10-eno1.network", text=NETWORK):
    return networkd_change("br-admin", "eno1", "02:aa:bb:cc:dd:ee", path, text)


def test_networkd_moves_address_routes_and_link_settings():
    change = networkd()
    bridge = change.keep["/etc/systemd/network/00-reduced-footprint-br-admin.network"]
    port = change.keep["/etc/systemd/network/00-reduced-footprint-eno1.network"]
    for line in ("Name=br-admin", "Address=192.0.2.11/24", "Gateway=192.0.2.1", "[Route]\nDestination=198.51.100.0/24", "MTUBytes=9000"):
        assert line in bridge
    assert "eno1\n" not in bridge.partition("[Match]")[2] and "MACAddress" not in bridge
    assert "Name=eno1" in port and "Bridge=br-admin" in port and "MTUBytes=9000" in port and "Address=" not in port
    assert "MACAddress=02:aa:bb:cc:dd:ee" in change.keep["/etc/systemd/network/00-reduced-footprint-br-admin.netdev"]


def test_the_networkd_trial_is_forgotten_by_a_reboot_and_otherwise_the_same():
    change = networkd()
    assert all(path.startswith("/run/") for path in change.trial)
    assert list(change.trial.values()) == list(change.keep.values())


def test_the_file_that_gives_the_port_away_comes_last():
    assert list(networkd().keep)[-1].endswith("-eno1.network")


@pytest.mark.parametrize("line", ["Bridge=br0", "Bond = bond0"])
def test_a_port_that_belongs_elsewhere_is_refused(line):
    with pytest.raises(RefusedError, match="eno1 already belongs elsewhere"):
        networkd(text=f"[Match]\nName=eno1\n[Network]\n{line}\n")


def test_a_file_that_would_come_first_is_refused():
    with pytest.raises(RefusedError, match="comes before"):
        networkd(path="/etc/systemd/network/00-eno1.network")


def test_ifupdown_moves_the_stanzas_and_leaves_the_rest():
    change = ifupdown_change("br-admin", "eno1", "02:aa:bb:cc:dd:ee", "/etc/network/interfaces", INTERFACES)
    text = change.keep["/etc/network/interfaces"]
    assert "auto lo\n" in text and "iface lo inet loopback" in text
    assert "allow-hotplug eno2\niface eno2 inet dhcp" in text
    assert "source /etc/network/interfaces.d/*" in text
    assert "iface br-admin inet static\n    address 192.0.2.11/24\n    gateway 192.0.2.1\n    bridge_ports eno1" in text
    assert "iface br-admin inet6 static\n    address 2001:db8::11/64" in text
    assert text.count("bridge_ports eno1") == 1
    assert "iface eno1 inet manual" in text and "iface eno1 inet static" not in text
    assert "auto br-admin" in text


def test_the_ifupdown_trial_has_the_bridge_alone():
    (text,) = ifupdown_change("br-admin", "eno1", "02:aa:bb:cc:dd:ee", "/etc/network/interfaces", INTERFACES).trial.values()
    assert has_stanza(text, "br-admin") and not has_stanza(text, "lo")


def test_what_interfaces_take_in():
    assert sourced_patterns(INTERFACES + "source-directory interfaces.more\n") == ["/etc/network/interfaces.d/*", "interfaces.more"]
