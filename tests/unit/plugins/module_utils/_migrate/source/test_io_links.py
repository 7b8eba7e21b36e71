# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What ``ip -json -details address show`` says on machines with VLANs, bonds, bridges and containers (shortened, but real)."""

from __future__ import annotations

from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.io_links import describe


def link(name, kind=None, data=None, addresses=(), **more):
    info = {"linkinfo": {"info_kind": kind, "info_data": data or {}}} if kind else {}
    return {"ifname": name, "link_type": "ether", "address": "02:00:00:00:00:01", "addr_info": list(addresses), **info, **more}


def inet(text, family="inet", **more):
    local, _slash, prefix = text.partition("/")
    return {"family": family, "local": local, "prefixlen": int(prefix), "scope": "global", **more}


SERVER = [
    {"ifname": "lo", "link_type": "loopback", "addr_info": [inet("127.0.0.1/8")]},
    link("eno1", master="bond0", permaddr="02:00:00:00:00:0a"),
    link("eno2", master="bond0", permaddr="02:00:00:00:00:0b"),
    link("bond0", "bond", {"mode": "802.3ad"}),
    link(
        "bond0.42",
        "vlan",
        {"id": 42},
        [
            inet("192.0.2.2/24"),
            inet("192.0.2.7/24"),
            inet("2001:db8::2/64", "inet6"),
            inet("2001:db8::ab/64", "inet6", dynamic=True),
            inet("fe80::1/64", "inet6", scope="link"),
        ],
        link="bond0",
    ),
    link("docker0", "bridge", {}, [inet("172.17.0.1/16")]),
    link("veth1234", "veth", master="docker0", link_netnsid=0),
    {"ifname": "tun0", "link_type": "none", "addr_info": [inet("10.8.0.2/24")]},
]


def described(links):
    return {each["name"]: each for each in describe(links, lambda name: name.startswith("eno"))}


def test_cards_are_distinguished_from_interfaces_on_top():
    found = described(SERVER)
    assert set(found) == {"eno1", "eno2", "bond0", "bond0.42", "docker0", "veth1234"}
    assert [name for name, each in found.items() if each["card"]] == ["eno1", "eno2"]
    assert (found["bond0.42"]["lower"], found["bond0"]["lower"], found["docker0"]["lower"]) == (["bond0"], ["eno1", "eno2"], ["veth1234"])
    assert (found["bond0.42"]["vlan"], found["bond0"]["bond_mode"]) == (42, "802.3ad")


def test_a_member_of_a_bond_is_known_by_its_own_mac():
    assert [described(SERVER)[name]["mac"] for name in ("eno1", "eno2", "bond0")] == ["02:00:00:00:00:0a", "02:00:00:00:00:0b", "02:00:00:00:00:01"]


def test_addresses_from_a_router_are_not_listed():
    found = described(SERVER)["bond0.42"]
    assert (found["addresses"], found["addresses6"]) == (["192.0.2.2/24", "192.0.2.7/24"], ["2001:db8::2/64"])


def test_a_veth_in_a_container_is_a_card():
    found = described([link("host0", "veth", None, [inet("192.0.2.2/24")], link_netnsid=0)])
    assert found["host0"]["card"]


def test_a_card_with_a_configured_mac_is_listed_with_both():
    spoofed = link("eno3", permaddr="02:00:00:00:00:0c")
    found = described([*SERVER, spoofed])
    assert (found["eno3"]["mac"], found["eno3"]["worn"]) == ("02:00:00:00:00:0c", "02:00:00:00:00:01")
    # the members of a bond have the bond's, and a card with its own has no other
    assert [found[name]["worn"] for name in ("eno1", "eno2", "bond0")] == [None, None, None]
