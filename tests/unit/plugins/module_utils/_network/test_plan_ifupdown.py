# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import pathlib
import subprocess

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._network.model_interfaces_file import has_stanza, methods
from ansible_collections.reduced.footprint.plugins.module_utils._network.model_network import Link, Profile
from ansible_collections.reduced.footprint.plugins.module_utils._network.plan_ifupdown import INTERFACES, change, helpers
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


@pytest.mark.parametrize(
    ("stanza", "file"),
    [("inet dhcp", "dhclient"), ("inet6 dhcp", "dhclient6"), ("inet6 auto\n    dhcp 1", "dhclient6"), ("inet static\n    address 192.0.2.11/24", None)],
)
def test_the_dhcp_server_knows_the_bridge(tmp_path, stanza, file):
    (text,) = made(texts={INTERFACES: f"iface eno1 {stanza}\n"}).trial.values()
    lines = [line.split(None, 1)[1] for line in text.splitlines() if "default-duid" in line]
    if file is None:
        assert not lines
        return
    (line,) = lines
    nic, bridge = tmp_path / f"{file}.eno1.leases", tmp_path / f"{file}.br-admin.leases"
    carried = ["sh", "-c", line.replace("/var/lib/dhcp", str(tmp_path))]
    # a server whose client is another one
    subprocess.run(carried, check=True)
    duid = 'default-duid "\\000\\001\\000\\001.\\301\\\\";\n'
    nic.write_text('default-duid "older";\n' + duid + 'lease {\n  interface "eno1";\n}\n')
    # a bridge of that name existed earlier
    bridge.write_text('default-duid "other";\n')
    for unused in range(2):
        subprocess.run(carried, check=True)
        assert bridge.read_text().endswith(duid) and bridge.read_text().count(duid) == 1


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


def bonded(text):
    """A server whose address is on a bond, and a bridge over that bond."""
    links = {name: dataclasses.replace(link, addresses=(), master="bond0") for name, link in LINKS.items()}
    settings = {"mode": "active-backup", "miimon": 100, "primary": "eno1"}
    links["bond0"] = Link("bond0", 4, LINKS["eno1"].mac, "bond", ports=("eno1", "eno2"), addresses=("192.0.2.11/24",), settings=settings)
    profiles = {**PROFILES, "bond0": Profile("ifupdown", INTERFACES, text, True)}
    return change(layout_of({"bridges": CHAIN["bridges"][:1]}, profiles, links), profiles, {INTERFACES: text})


def test_a_bond_stays_when_its_address_moves_to_a_bridge():
    route = "up ip -4 route add 198.51.100.0/24 dev {}\n"
    first = made({"bonds": CHAIN["bonds"]}, texts={INTERFACES: f"auto eno1\niface eno1 inet dhcp\n    {route.format('eno1')}    up ethtool -K eno1 tso off\n"})
    text = first.keep[INTERFACES]
    assert route.format("bond0") in text and "up ethtool -K eno1 tso off" in text
    second = bonded(text)
    bond, bridge = second.keep[INTERFACES].split("\nauto br-admin\n")
    making = [line for line in text.splitlines() if "pre-up" in line or "post-down" in line or "primary" in line]
    assert all(line in bond and line not in bridge for line in making) and len(making) == 8
    assert "auto bond0\niface bond0 inet manual\n" in bond and "    mtu 9000\n    up ip link set dev bond0 up\n" in bond and "bond0 over" not in bond
    assert "iface br-admin inet dhcp\n    up ip -4 route add 198.51.100.0/24 dev br-admin\n" in bridge and "bridge_ports bond0\n" in bridge
    trial = "--interfaces=/run/reduced.footprint/interfaces"
    assert second.apply == (("ifdown", "--force", "bond0"), ("ifup", "--force", trial, "bond0"), ("ifup", "--force", trial, "br-admin"))
    assert has_stanza(second.trial["/run/reduced.footprint/interfaces"], "bond0")


@pytest.mark.parametrize(
    ("command", "renamed"),
    [
        ("ip route add 10.0.0.0/8 via 192.0.2.254 dev eno1", True),
        ("/sbin/ip -6 ro add 2001:db8:9::/48 dev eno1", True),
        ("ip rule add iif lo lookup 9 || ip r add default dev eno1 table 9", True),
        ("route add -net 10.0.0.0 netmask 255.0.0.0 gw 192.0.2.254 dev eno1", True),
        ("ip link set dev eno1 txqueuelen 2000", False),
        ("tc qdisc add dev eno1 root fq", False),
        ("ip route add 10.0.0.0/8 dev eno11", False),
    ],
)
def test_what_is_said_of_the_addresses_is_said_of_the_bridge(command, renamed):
    text = made(texts={INTERFACES: f"iface eno1 inet static\n    address 192.0.2.11/24\n    post-up {command}\n"}).keep[INTERFACES]
    assert f"post-up {command.replace('eno1', 'br-admin') if renamed else command}\n" in text


ALIASES = """auto lo eno1 eno1:0
allow-hotplug eno1:web
iface eno1:0 inet static
    address 192.0.2.50/24
    up ip addr add 192.0.2.51/24 dev eno1 label eno1:1
iface eno1 inet static
    address 192.0.2.11
    netmask 255.255.255.255
    pointopoint 192.0.2.1
    gateway 192.0.2.1
iface eno1:web inet static
    address 192.0.2.52/24
iface eno11:0 inet static
    address 198.51.100.1/24
"""


def test_addresses_of_aliases_move_with_the_others():
    found = made(texts={INTERFACES: ALIASES})
    text = found.keep[INTERFACES]
    assert "eno1:" not in text and "iface eno11:0 inet static\n    address 198.51.100.1/24\n" in text and "auto lo\n" in text
    bridge = text[text.index("auto br-admin\n") :]
    # the first stanza defines the bridge
    assert bridge.startswith("auto br-admin\niface br-admin inet static\n    address 192.0.2.11\n    netmask 255.255.255.255\n    pointopoint 192.0.2.1\n")
    assert bridge.count("bridge_ports eno1") == 1 and bridge.count("iface br-admin inet static") == 3
    assert "iface br-admin inet static\n    address 192.0.2.50/24\n    up ip addr add 192.0.2.51/24 dev br-admin\n" in bridge
    assert "iface br-admin inet static\n    address 192.0.2.52/24\n" in bridge
    down = [("ifdown", "--force", name) for name in ("eno1:0", "eno1:web", "eno1")]
    assert list(found.apply[:3]) == down
    up = [("ifup", "--force", name) for name in ("eno1", "eno1:0", "eno1:web")]
    assert list(found.revert[-6:]) == [*down, *up]


def test_an_alias_without_the_link_itself():
    text = "auto eno1:0\niface eno1:0 inet static\n    address 192.0.2.50/24\n"
    assert "auto br-admin\niface br-admin inet static\n    address 192.0.2.50/24\n    bridge_ports eno1\n" in made(texts={INTERFACES: text}).keep[INTERFACES]
    assert methods(text, "eno1") == [("inet", "static")] and has_stanza(text, "eno1") and not has_stanza(text, "eno")


def test_an_alias_of_a_bond_moves_and_the_bond_stays():
    text = "auto bond0 bond0:0\niface bond0 inet static\n    address 192.0.2.11/24\n    bond-slaves eno1 eno2\n"
    text += "iface bond0:0 inet static\n    address 192.0.2.50/24\n    up echo bond0:0\n"
    bond, bridge = bonded(text).keep[INTERFACES].split("\nauto br-admin\n")
    assert "auto bond0\niface bond0 inet manual\n    bond-slaves eno1 eno2\n" in bond and "bond0:0" not in bond
    assert "iface br-admin inet static\n    address 192.0.2.50/24\n" in bridge and bridge.count("bridge_ports bond0") == 1


def test_a_bond_of_ifenslave_stays():
    text = "allow-hotplug bond0\niface bond0 inet static\n    address 192.0.2.11/24\n    gateway 192.0.2.1\n"
    text += "    bond-slaves eno1 eno2\n    bond_mode active-backup\n"
    bond, bridge = bonded(text).keep[INTERFACES].split("\nauto br-admin\n")
    assert "allow-hotplug bond0\niface bond0 inet manual\n    bond-slaves eno1 eno2\n    bond_mode active-backup\n" in bond
    assert "    address 192.0.2.11/24\n    gateway 192.0.2.1\n" in bridge and "slaves" not in bridge


def test_a_bond_that_its_ports_put_together():
    text = "auto bond0\niface bond0 inet dhcp\n    bond-slaves none\nauto eno1\niface eno1 inet manual\n    bond-master bond0\n"
    with pytest.raises(RefusedError, match="defines bond0 by its ports") as caught:
        bonded(text)
    assert caught.value.path == "bridges[0].ports[0]" and "bond-slaves" in caught.value.hint


@pytest.mark.parametrize(
    "vlan, words",
    [
        ({"name": "tenant", "id": 5}, "cannot derive VLAN 5 of eno1 from the name tenant"),
        ({"name": "vlan6", "id": 5}, "cannot derive VLAN 5 of eno1 from the name vlan6"),
        ({"id": 5}, None),
    ],
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
    with pytest.raises(RefusedError, match="configures br-admin, which is not up"):
        made(texts={INTERFACES: TEXT + "iface br-admin inet manual\n"})


def test_a_port_that_carries_a_vlan():
    links = {**LINKS, "eno1.7": Link("eno1.7", 9, "02:00:00:00:00:01", "vlan", lower="eno1", settings={"id": 7})}
    with pytest.raises(RefusedError, match="eno1 is the link of eno1.7") as caught:
        made(links=links)
    assert caught.value.path == "bridges[0].ports[0]"


def test_what_ifupdown_needs():
    assert list(helpers(layout_of(ONE, PROFILES)).values()) == ["bridge-utils"]
    assert helpers(layout_of({"bonds": CHAIN["bonds"], "vlans": CHAIN["vlans"]}, PROFILES)) == {}
