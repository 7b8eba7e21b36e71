# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError, InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._network.model_network import Link, Profile
from ansible_collections.reduced.footprint.plugins.module_utils._network.model_request import parse
from ansible_collections.reduced.footprint.plugins.module_utils._network.plan_network import layout, missing, modules, port_paths, touched

ADMIN = "192.0.2.11/24"
LINKS = {
    "lo": Link("lo", 1, "00:00:00:00:00:00", "loopback", 65536),
    "eno1": Link("eno1", 2, "02:00:00:00:00:01", addresses=(ADMIN,)),
    "eno2": Link("eno2", 3, "02:00:00:00:00:02"),
    "eno3": Link("eno3", 4, "02:00:00:00:00:03", addresses=("198.51.100.11/24",)),
    "eno4": Link("eno4", 5, "02:00:00:00:00:04", mtu=9000),
    "eno4.7": Link("eno4.7", 6, "02:00:00:00:00:04", "vlan", lower="eno4", settings={"id": 7}),
    "eno5": Link("eno5", 7, "02:00:00:00:00:05", master="br0"),
    "eno6": Link("eno6", 8, "02:00:00:00:00:06", master="bond9"),
    "br0": Link("br0", 9, "02:00:00:00:00:05", "bridge", ports=("eno5", "tap0"), settings={"stp_state": 0, "vlan_filtering": 1}),
    "bond9": Link("bond9", 10, "02:00:00:00:00:06", "bond", ports=("eno6",), settings={"mode": "802.3ad", "ad_lacp_rate": "slow"}),
    "tap0": Link("tap0", 11, "02:00:00:00:00:11", master="br0"),
}
DHCP = Profile("networkd", "/etc/systemd/network/x.network", configured=True)


def made(bonds=(), vlans=(), bridges=(), profiles=None):
    return layout(parse(bonds, vlans, bridges), LINKS, profiles or {})


def bond(*ports, name="bond0", **more):
    return {"name": name, "ports": list(ports), **more}


def bridge(*ports, name="br-admin", **more):
    return {"name": name, "ports": list(ports), **more}


CHAIN = {"bonds": [bond("eno2", "eno1")], "vlans": [{"link": "bond0", "id": 100}], "bridges": [bridge("bond0.100")]}


def test_the_whole_chain_from_the_bottom_to_the_top():
    found = made(**CHAIN)
    assert [device.name for device in found.devices] == ["bond0", "bond0.100", "br-admin"]
    assert [device.inherits for device in found.devices] == [None, None, "eno1"]
    assert [device.master for device in found.devices] == [None, "br-admin", None]
    assert found.devices[0].vlans == ("bond0.100",)
    assert found.taken == {"eno2": "bond0", "eno1": "bond0"} and found.stacked == {} and found.mtus == {}
    assert found.paths == {"eno1": "bonds[0].ports[1]", "eno2": "bonds[0].ports[0]", "bond0": "bonds[0]", "bond0.100": "vlans[0]", "br-admin": "bridges[0]"}
    assert modules(found.devices) == ("bonding", "8021q")


def test_the_mac_of_the_address_goes_all_the_way_up():
    assert [device.mac for device in made(**CHAIN).devices] == ["02:00:00:00:00:01", None, "02:00:00:00:00:01"]


@pytest.mark.parametrize(
    "bonds, vlans, bridges, heir",
    [
        ([], [], [bridge("eno1")], "br-admin"),
        ([], [], [bridge("eno2", "eno1")], "br-admin"),
        ([bond("eno1", "eno2")], [], [], "bond0"),
        ([bond("eno1", "eno2")], [], [bridge("bond0")], "br-admin"),
        # the bridge over the bond itself goes before the one over its VLAN
        ([bond("eno1")], [{"link": "bond0", "id": 5}], [bridge("bond0.5", name="br-a"), bridge("bond0")], "br-admin"),
        ([bond("eno1")], [{"link": "bond0", "id": 5}], [bridge("bond0.5", name="br-a", address="none")], "bond0"),
        ([bond("eno1")], [{"link": "bond0", "id": 5}], [bridge("bond0", address="none"), bridge("bond0.5", name="br-a")], "br-a"),
        # an unchanged NIC keeps its addresses, whatever uses its VLANs
        ([], [{"link": "eno1", "id": 5}], [bridge("eno1.5")], None),
        ([], [], [bridge("eno1", address="none")], None),
        ([bond("eno1")], [], [bridge("bond0", address="none")], None),
    ],
)
def test_who_takes_over_the_addresses(bonds, vlans, bridges, heir):
    found = made(bonds, vlans, bridges).heir("eno1")
    assert (found and found.name) == heir


def test_a_port_that_waits_for_its_cable_hands_its_settings_over_too():
    assert made(bridges=[bridge("eno2")], profiles={"eno2": DHCP}).devices[0].inherits == "eno2"
    assert made(bridges=[bridge("eno2")]).devices[0].inherits is None
    assert made(bridges=[bridge("eno2", "eno1")], profiles={"eno2": DHCP}).devices[0].inherits == "eno1"


def test_addresses_assigned_by_a_router_are_not_kept():
    given = dataclasses.replace(LINKS["eno2"], addresses=("2001:db8::2/64",), autoconf=("2001:db8::2/64",))
    links = {**LINKS, "eno2": given}
    assert layout(parse([bond("eno2", "eno1")], [], []), links, {}).devices[0].inherits == "eno1"
    assert layout(parse([], [], [bridge("eno2")]), links, {}).devices[0].inherits == "eno2"


def test_two_bridges_with_the_same_addresses_are_refused():
    vlans = [{"link": "bond0", "id": 5}, {"link": "bond0", "id": 6}]
    with pytest.raises(InputError, match="br-a and br-b would both take over the addresses of eno1") as caught:
        made([bond("eno1")], vlans, [bridge("bond0.5", name="br-a"), bridge("bond0.6", name="br-b")])
    assert caught.value.path == "bridges[1].address"


def test_addresses_that_would_be_lost():
    with pytest.raises(RefusedError, match="eno3 has 198.51.100.11/24, which would be lost") as caught:
        made([bond("eno1", "eno3")])
    assert caught.value.path == "bonds[0].ports[1]"
    assert made([bond("eno1", "eno3")], [], [bridge("bond0", address="none")]).taken


@pytest.mark.parametrize(
    "address, leased, kept",
    [
        ("192.0.2.99/24", True, False),
        ("192.0.2.99/24", False, True),
        ("198.51.100.9/24", True, True),
        # DHCPv6 gives single addresses, beside one made from the prefix
        ("2001:db8::99/128", True, False),
        ("2001:db8:1::99/128", True, True),
    ],
)
def test_lease_next_to_a_kept_address_is_dropped(address, leased, kept):
    first = dataclasses.replace(LINKS["eno1"], addresses=(ADMIN, "2001:db8::1/64"), autoconf=("2001:db8::1/64",))
    second = dataclasses.replace(LINKS["eno2"], addresses=(address,), leased=(address,) if leased else ())
    links = {**LINKS, "eno1": first, "eno2": second}
    if kept:
        with pytest.raises(RefusedError, match=f"eno2 has {address}, which would be lost"):
            layout(parse([bond("eno1", "eno2")], [], [bridge("bond0")]), links, {})
        return
    assert layout(parse([bond("eno1", "eno2")], [], [bridge("bond0")]), links, {}).heir("eno1").name == "br-admin"


@pytest.mark.parametrize(
    "bonds, vlans, bridges, devices, ports",
    [
        ([], [], [bridge("eno1")], {"br-admin": None}, {}),
        ([], [], [bridge("eno1", mtu=9000)], {"br-admin": 9000}, {"eno1": 9000}),
        ([], [], [bridge("eno4")], {"br-admin": 9000}, {"eno4": 9000}),
        ([], [], [bridge("eno4", "eno2")], {"br-admin": None}, {}),
        ([bond("eno1")], [{"link": "bond0", "id": 5, "mtu": 4000}], [], {"bond0": 4000, "bond0.5": 4000}, {"eno1": 4000}),
        ([bond("eno1")], [{"link": "bond0", "id": 5}], [bridge("bond0.5", mtu=9000)], {"bond0": 9000, "bond0.5": 9000, "br-admin": 9000}, {"eno1": 9000}),
        ([bond("eno1", mtu=9000)], [{"link": "bond0", "id": 5, "mtu": 1500}], [], {"bond0": 9000, "bond0.5": 1500}, {"eno1": 9000}),
    ],
)
def test_the_mtu(bonds, vlans, bridges, devices, ports):
    found = made(bonds, vlans, bridges)
    assert {device.name: device.mtu for device in found.devices} == devices
    assert found.mtus == ports


def test_a_vlan_cannot_carry_more_than_the_link_that_stays():
    with pytest.raises(RefusedError, match="exceeds the MTU 1500 of eno1") as caught:
        made(vlans=[{"link": "eno1", "id": 5, "mtu": 9000}])
    assert caught.value.path == "vlans[0].mtu"
    # the bridge over it needs the same
    with pytest.raises(RefusedError, match="the MTU 9000 of eno1.5 exceeds the MTU 1500 of eno1"):
        made(vlans=[{"link": "eno1", "id": 5}], bridges=[bridge("eno1.5", mtu=9000)])
    assert made(bridges=[bridge("eno4.7", mtu=9000)]).mtus == {"eno4.7": 9000}
    with pytest.raises(RefusedError, match="the MTU 9216 of eno4.7 exceeds the MTU 9000 of eno4") as caught:
        made(bridges=[bridge("eno4.7", mtu=9216)])
    assert caught.value.path == "bridges[0].mtu"


def test_a_vlan_on_a_bridge_of_the_same_call():
    found = made(vlans=[{"link": "br-admin", "id": 5}], bridges=[bridge("eno1")])
    assert [device.name for device in found.devices] == ["br-admin", "br-admin.5"]


def test_circular_dependency_is_refused():
    vlans = [{"link": "br-a", "id": 1}, {"link": "br-b", "id": 2}]
    with pytest.raises(InputError, match="depend on each other"):
        made(vlans=vlans, bridges=[bridge("br-b.2", name="br-a"), bridge("br-a.1", name="br-b")])


def test_what_exists_is_left_alone():
    wanted = parse([bond("eno6", name="bond9", mode="802.3ad")], [{"link": "eno4", "id": 7}], [bridge("eno5", name="br0")])
    assert missing(wanted, LINKS) == [] and touched(wanted, LINKS) == () and port_paths(wanted, LINKS) == {}


@pytest.mark.parametrize(
    "bonds, vlans, bridges, path, words",
    [
        ([], [], [bridge("eno5", "eno1", name="br0")], "bridges[0].ports[1]", "br0 exists without the port eno1 (its ports: eno5, tap0)"),
        ([], [], [bridge("eno5", name="br0", stp=True)], "bridges[0].stp", "br0 exists with stp False, not True"),
        ([], [], [bridge("eno5", name="br0", vlan_filtering=False)], "bridges[0].vlan_filtering", "True, not False"),
        ([], [], [bridge("eno5", name="br0", mtu=9000)], "bridges[0].mtu", "mtu 1500, not 9000"),
        ([], [], [bridge("eno2", name="bond9")], "bridges[0].name", "bond9 exists and is not a bridge"),
        ([bond("eno6", name="bond9")], [], [], "bonds[0].mode", "mode 802.3ad, not active-backup"),
        ([bond("eno6", "eno2", name="bond9", mode="802.3ad")], [], [], "bonds[0].ports[1]", "without the port eno2"),
        ([bond("eno6", name="bond9", mode="802.3ad", lacp_rate="fast")], [], [], "bonds[0].lacp_rate", "slow, not fast"),
        ([], [{"name": "eno4.7", "link": "eno4", "id": 8}], [], "vlans[0].id", "id 7, not 8"),
        ([], [{"name": "eno4.7", "link": "eno2", "id": 7}], [], "vlans[0].link", "link eno4, not eno2"),
        ([], [], [bridge("eno9")], "bridges[0].ports[0]", "the interface eno9 does not exist (available: bond9, br0, eno1"),
        ([], [{"link": "eno9", "id": 1}], [], "vlans[0].link", "the interface eno9 does not exist"),
        ([], [], [bridge("eno1", "eno5")], "bridges[0].ports[1]", "eno5 is already a port of br0"),
        ([], [], [bridge("br0")], "bridges[0].ports[0]", "is a bridge"),
        ([bond("eno4.7")], [], [], "bonds[0].ports[0]", "eno4.7 is a vlan"),
        ([bond("eno4")], [], [], "bonds[0].ports[0]", "eno4 is the link of eno4.7. Remove eno4.7 and define VLANs on bond0"),
        ([], [{"link": "eno6", "id": 1}], [], "vlans[0].link", "is a port of the bond bond9"),
        ([], [{"link": "eno4.7", "id": 1}], [], "vlans[0].link", "is a VLAN itself"),
    ],
)
def test_refusals(bonds, vlans, bridges, path, words):
    with pytest.raises(FootprintError) as caught:
        touched(parse(bonds, vlans, bridges), LINKS)
    assert caught.value.path == path
    assert words in str(caught.value)
