# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._network.model_request import parse


def bond(**changes):
    return {"name": "bond0", "ports": ["eno1", "eno2"], **changes}


def vlan(**changes):
    return {"link": "bond0", "id": 100, **changes}


def bridge(**changes):
    return {"name": "br-admin", "ports": ["bond0.100"], **changes}


def test_a_whole_chain():
    wanted = parse([bond()], [vlan()], [bridge()])
    assert (wanted.bonds[0].mode, wanted.bonds[0].miimon) == ("active-backup", 100)
    assert wanted.vlans[0].name == "bond0.100" and wanted.vlans[0].ports == ("bond0",)
    assert (wanted.bridges[0].address, wanted.bridges[0].stp) == ("inherit", None)


def test_a_bridge_with_its_port_in_the_singular():
    assert parse([], [], [{"name": "br0", "port": "eno1"}]).bridges[0].ports == ("eno1",)


def test_a_bridge_for_guests_alone():
    assert parse([], [], [{"name": "br0"}]).bridges[0].ports == ()


@pytest.mark.parametrize(
    "bonds, vlans, bridges, path, words",
    [
        ([], [], [bridge(name="a-bridge-too-long")], "bridges[0].name", "has 17 characters, the maximum is 15"),
        ([], [], [bridge(name="../br0")], "bridges[0].name", "not a valid name of a network interface"),
        ([], [], [bridge(name="all")], "bridges[0].name", "not a valid name"),
        ([], [], [bridge(), bridge(name="br0", ports=["eno1", "eno 2"])], "bridges[1].ports[1]", "'eno 2' is not a valid name"),
        ([], [], [bridge(ports=["eno1"], port="eno2")], "bridges[0].port", "mutually exclusive"),
        ([], [], [bridge(ports=None, port="a/b")], "bridges[0].port", "not a valid name"),
        ([], [], [bridge(mtu=100)], "bridges[0].mtu", "100 is not a supported MTU"),
        ([], [], [bridge(), bridge()], "bridges[1].name", "is already the name of bridges[0]"),
        ([bond(name="br-admin")], [], [bridge(ports=[])], "bridges[0].name", "is already the name of bonds[0]"),
        ([], [], [bridge(ports=["eno1"]), bridge(name="br0", ports=["eno1"])], "bridges[1].ports[0]", "eno1 is already used as bridges[0].ports[0]"),
        ([bond()], [], [bridge(ports=["eno2"])], "bridges[0].ports[0]", "eno2 is already used as bonds[0].ports[1]"),
        ([bond(ports=["eno1", "eno1"])], [], [], "bonds[0].ports[1]", "eno1 is already used as bonds[0].ports[0]"),
        ([bond(ports=[])], [], [], "bonds[0].ports", "requires ports"),
        ([bond(lacp_rate="fast")], [], [], "bonds[0].lacp_rate", "lacp_rate is not supported by the bond mode active-backup"),
        ([bond(hash_policy="layer2")], [], [], "bonds[0].hash_policy", "hash_policy is not supported"),
        ([bond(mode="802.3ad", primary="eno1")], [], [], "bonds[0].primary", "primary is not supported"),
        ([bond(primary="eno3")], [], [], "bonds[0].primary", "not a port of the bond"),
        ([bond(miimon=0)], [], [], "bonds[0].miimon", "not a valid monitoring interval"),
        ([bond(), bond(name="bond1", ports=["bond0"])], [], [], "bonds[1].ports[0]", "bond0 is not a NIC"),
        ([], [vlan(id=0)], [], "vlans[0].id", "0 is not a valid VLAN ID"),
        ([], [vlan(id=4095)], [], "vlans[0].id", "4095 is not a valid VLAN ID. Use 1 to 4094"),
        ([], [vlan(link="enp175s0f1np1")], [], "vlans[0].name", "enp175s0f1np1.100 has 17 characters"),
        ([], [vlan(), vlan(name="tenant")], [], "vlans[1].id", "VLAN 100 of bond0 is already defined by vlans[0]"),
        ([bond()], [vlan(link="eno1")], [], "vlans[0].link", "eno1 is a port of bond0. Define the VLAN on bond0"),
        ([], [vlan(name="v1"), vlan(link="v1", id=5)], [], "vlans[1].link", "is a VLAN itself"),
        ([], [], [bridge(ports=["br1"]), bridge(name="br1", ports=[])], "bridges[0].ports[0]", "br1 is a bridge"),
        ([], [vlan(link="br-admin", name="v1")], [bridge(ports=["v1"])], "vlans[0].link", "v1 is a port of br-admin and a VLAN on it"),
    ],
)
def test_bad_input(bonds, vlans, bridges, path, words):
    with pytest.raises(InputError) as caught:
        parse(bonds, vlans, bridges)
    assert caught.value.path == path
    assert words in str(caught.value)
