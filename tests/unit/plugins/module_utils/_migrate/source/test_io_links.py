# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What ``ip -json -details address show`` says on machines with VLANs, bonds, bridges and containers (shortened, but real)."""

from __future__ import annotations

import os
import subprocess

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.io_links import describe, describe_media, other_media


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


def test_interfaces_that_are_not_ethernet_are_named_by_their_medium():
    links = [
        *SERVER,
        link("wlp3s0", None, None, [inet("192.0.2.9/24")]),
        link("wwan0", None, None, [], link_type="none"),
        {"ifname": "ppp0", "link_type": "ppp", "addr_info": [inet("198.51.100.7/32")]},
        {"ifname": "ib0", "link_type": "infiniband", "addr_info": []},
        link("wg0", "wireguard", None, [inet("10.9.0.2/24")], link_type="none"),
        link("tap0", "tun", {"type": "tap"}),
        link("vxlan7", "vxlan", {"id": 7}),
    ]
    kinds = {"wlp3s0": ["wlan"], "wwan0": ["wwan"], "bond0.42": ["vlan"], "ppp0": ["ppp"]}
    found = {each["name"]: (each["medium"], each["addresses"]) for each in describe_media(links, lambda name: kinds.get(name, []))}
    assert found == {
        "tun0": ("a tunnel", ["10.8.0.2/24"]), "wlp3s0": ("Wi-Fi", ["192.0.2.9/24"]), "wwan0": ("mobile broadband", []),
        "ppp0": ("PPP", ["198.51.100.7/32"]), "ib0": ("InfiniBand", []), "wg0": ("a tunnel", ["10.9.0.2/24"]), "tap0": ("a tunnel", []),
        "vxlan7": ("a tunnel", []),
    }  # fmt: skip


@pytest.mark.skipif(os.geteuid() != 0, reason="interfaces need root")
def test_a_tunnel_of_this_kernel_is_found():
    subprocess.run(["ip", "tuntap", "add", "dev", "rftap7", "mode", "tap"], check=True)
    try:
        assert {"name": "rftap7", "medium": "a tunnel", "addresses": []} in other_media()
        assert "lo" not in [each["name"] for each in other_media()]
    finally:
        subprocess.run(["ip", "link", "del", "rftap7"], check=True)
