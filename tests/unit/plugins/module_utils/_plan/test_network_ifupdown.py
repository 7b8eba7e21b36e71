# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import pathlib

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._model.errors import RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._model.interfaces_file import has_stanza
from ansible_collections.reduced.footprint.plugins.module_utils._model.network import Link, Profile
from ansible_collections.reduced.footprint.plugins.module_utils._plan.network_ifupdown import INTERFACES, change, helpers
from tests.support.chain import CHAIN, LINKS, ONE, golden, layout_of

GOLDEN = pathlib.Path(__file__).parent / "golden_network"
TEXT = """# This file describes the network interfaces
source /etc/network/interfaces.d/*

auto lo eno1
iface lo inet loopback

# admin
iface eno1 inet static
    hwaddress 02:00:00:00:00:99
    address 192.0.2.11/24
    gateway 192.0.2.1

iface eno1 inet6 static
    address 2001:db8::11/64

allow-hotplug eno2 eno3
iface eno3 inet dhcp
"""
PROFILES = {"eno1": Profile("ifupdown", INTERFACES, TEXT, True), "eno2": Profile(None)}


def made(wanted=ONE, texts=None, links=None):
    return change(layout_of(wanted, PROFILES, links), PROFILES, texts or {INTERFACES: TEXT})


def test_the_whole_chain():
    assert golden(made(CHAIN)) == (GOLDEN / "ifupdown.txt").read_text()


def test_the_stanzas_move_and_the_rest_stays():
    text = made().keep[INTERFACES]
    assert "auto lo\n" in text and "iface lo inet loopback" in text and "source /etc/network/interfaces.d/*" in text
    assert "allow-hotplug eno2 eno3\niface eno3 inet dhcp" in text
    assert "iface br-admin inet static\n    address 192.0.2.11/24\n    gateway 192.0.2.1\n    bridge_ports eno1" in text
    assert "iface br-admin inet6 static\n    address 2001:db8::11/64" in text
    assert text.count("bridge_ports eno1") == 1 and "auto br-admin" in text
    assert "iface eno1 inet manual" in text and "iface eno1 inet static" not in text and "hwaddress" not in text


def test_the_trial_has_the_devices_alone():
    (text,) = made().trial.values()
    assert has_stanza(text, "br-admin") and not has_stanza(text, "lo")


def test_a_port_with_a_file_of_its_own():
    eno1 = "/etc/network/interfaces.d/eno1"
    keep = made(texts={INTERFACES: "auto lo\niface lo inet loopback\n", eno1: "auto eno1\niface eno1 inet dhcp\n"}).keep
    assert list(keep) == [eno1]
    assert keep[eno1].startswith("# Made by reduced.footprint: br-admin over eno1\nauto br-admin\niface br-admin inet dhcp\n")


def test_two_ports_in_two_files():
    eno2 = "/etc/network/interfaces.d/eno2"
    keep = made(CHAIN, texts={INTERFACES: TEXT.replace("allow-hotplug eno2 eno3\n", ""), eno2: "auto eno2\niface eno2 inet dhcp\n"}).keep
    assert list(keep) == [eno2, INTERFACES] and keep[eno2] == "\n"


def test_a_bridge_for_guests_alone():
    change_made = made({"bridges": [{"name": "br-vms", "vlan_filtering": True, "stp": True}]})
    assert "iface br-vms inet manual\n    bridge_ports none\n    bridge_stp on\n    bridge_vlan_aware yes\n" in change_made.keep[INTERFACES]
    assert change_made.apply == (("ifup", "--force", "--interfaces=/run/reduced.footprint/interfaces", "br-vms"),)


def test_the_bond_gets_the_mac_of_the_port_with_the_address():
    links = {"eno1": dataclasses.replace(LINKS["eno1"], addresses=()), "eno2": dataclasses.replace(LINKS["eno2"], addresses=("192.0.2.12/24",))}
    assert "ip link add dev bond0 address 02:00:00:00:00:02 type bond" in made({"bonds": CHAIN["bonds"]}, links=links).keep[INTERFACES]


def test_a_bond_with_lacp():
    bond = {"name": "bond0", "ports": ["eno1"], "mode": "802.3ad", "lacp_rate": "fast", "hash_policy": "layer3+4"}
    text = made({"bonds": [bond]}).keep[INTERFACES]
    assert "type bond mode 802.3ad miimon 100 lacp_rate fast xmit_hash_policy layer3+4\n" in text and "primary" not in text
    assert "iface bond0 inet static\n    address 192.0.2.11/24" in text


@pytest.mark.parametrize(
    "vlan, words",
    [({"name": "tenant", "id": 5}, "does not see in the name tenant that it is VLAN 5"), ({"name": "vlan6", "id": 5}, "does not see"), ({"id": 5}, None)],
)
def test_names_of_vlans(vlan, words):
    wanted = {"vlans": [{"link": "eno1", **vlan}]}
    if words is None:
        assert "iface eno1.5 inet manual\n    vlan-raw-device eno1" in made(wanted).keep[INTERFACES]
        return
    with pytest.raises(RefusedError, match=words) as caught:
        made(wanted)
    assert caught.value.path == "vlans[0].name"


def test_a_name_that_has_a_stanza_already():
    with pytest.raises(RefusedError, match="speaks of br-admin, which is not up"):
        made(texts={INTERFACES: TEXT + "iface br-admin inet manual\n"})


def test_a_port_that_carries_a_vlan():
    links = {**LINKS, "eno1.7": Link("eno1.7", 9, "02:00:00:00:00:01", "vlan", lower="eno1", settings={"id": 7})}
    with pytest.raises(RefusedError, match="eno1 carries eno1.7") as caught:
        made(links=links)
    assert caught.value.path == "bridges[0].ports[0]"


def test_what_ifupdown_needs():
    assert list(helpers(layout_of(ONE, PROFILES)).values()) == ["bridge-utils"]
    assert helpers(layout_of({"bonds": CHAIN["bonds"], "vlans": CHAIN["vlans"]}, PROFILES)) == {}
