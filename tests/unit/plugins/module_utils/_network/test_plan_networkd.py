# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import pathlib

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._network.model_network import Profile
from ansible_collections.reduced.footprint.plugins.module_utils._network.plan_networkd import change
from tests.support.chain import CHAIN, ONE, golden, layout_of

GOLDEN = pathlib.Path(__file__).parent / "golden_network"
NETWORK = """# the admin network
[Match]
Name=eno1
[Link]
MTUBytes=1400
MACAddress=02:00:00:00:00:99

[Network]
Address=192.0.2.11/24
VLAN=eno1.7
; the old one
Gateway=192.0.2.1
[Route]
Destination=198.51.100.0/24
Gateway=192.0.2.2
"""
ENO1 = Profile("networkd", "/etc/systemd/network/10-eno1.network", NETWORK, True)


def made(wanted=ONE, **profiles):
    profiles = {"eno1": ENO1, "eno2": Profile(None), **profiles}
    return change(layout_of(wanted, profiles), profiles)


def test_the_whole_chain():
    assert golden(made(CHAIN)) == (GOLDEN / "networkd.txt").read_text()


def test_one_nic():
    keep = made().keep
    bridge = keep["/etc/systemd/network/00-reduced-footprint-br-admin.network"]
    port = keep["/etc/systemd/network/00-reduced-footprint-eno1.network"]
    assert "Gateway=192.0.2.1" in bridge and "[Route]\nDestination=198.51.100.0/24" in bridge and "MTUBytes=1400" in bridge
    assert "MACAddress" not in bridge and "VLAN=" not in bridge
    assert "Bridge=br-admin" in port and "VLAN=eno1.7" in port and "MTUBytes=1400" in port and "Address=" not in port


def test_a_trial_hides_what_an_earlier_change_keeps_and_is_forgotten_by_a_reboot():
    change_made = made()
    assert all(path.startswith("/run/systemd/network/00-0-") for path in change_made.trial)
    assert list(change_made.trial.values()) == list(change_made.keep.values())
    assert min(change_made.trial).rpartition("/")[2] < min(change_made.keep).rpartition("/")[2]


def test_the_file_that_gives_the_address_away_comes_last():
    for wanted in (ONE, CHAIN):
        assert list(made(wanted).keep)[-1].endswith("-eno1.network")


def test_the_dhcp_server_knows_the_bridge():
    profile = dataclasses.replace(ENO1, text="[Match]\nName=eno1\n[Network]\nDHCP=yes\n", identity=4711)
    bridge = made(eno1=profile).keep["/etc/systemd/network/00-reduced-footprint-br-admin.network"]
    assert "[DHCPv4]\nIAID=4711" in bridge and "[DHCPv6]\nIAID=4711" in bridge


def test_a_vlan_on_a_nic_that_keeps_its_address_is_a_dropin():
    change_made = made({"vlans": [{"link": "eno1", "id": 5}]})
    path = "/etc/systemd/network/10-eno1.network.d/00-reduced-footprint-eno1.5.conf"
    assert change_made.keep[path].endswith("[Network]\nVLAN=eno1.5\n")
    assert "/run" + path[4:] in change_made.trial
    assert ("networkctl", "reconfigure", "eno1") in change_made.apply


def test_a_vlan_on_a_nic_whose_file_speaks_of_others_too_is_a_copy():
    profile = dataclasses.replace(ENO1, text=NETWORK.replace("Name=eno1", "Name=en*"))
    copy = made({"vlans": [{"link": "eno1", "id": 5}]}, eno1=profile).keep["/etc/systemd/network/00-reduced-footprint-eno1.network"]
    assert "Name=eno1\n" in copy and "Address=192.0.2.11/24" in copy and copy.endswith("[Network]\nVLAN=eno1.5\n") and "en*" not in copy


def test_vlan_on_an_unmanaged_nic():
    (copy,) = [text for path, text in made({"vlans": [{"link": "eno2", "id": 5}]}).keep.items() if path.endswith("-eno2.network")]
    assert "VLAN=eno2.5" in copy and "LinkLocalAddressing=no" in copy


def test_the_boot_does_not_wait_for_what_gets_no_address():
    keep = made({"bridges": [{"name": "br-vms"}]}).keep
    network = keep["/etc/systemd/network/00-reduced-footprint-br-vms.network"]
    assert "RequiredForOnline=no" in network and "ConfigureWithoutCarrier=yes" in network


@pytest.mark.parametrize("line", ["Bridge=br0", "Bond = bond0"])
def test_a_port_that_belongs_elsewhere_is_refused(line):
    with pytest.raises(RefusedError, match="eno1 is already assigned") as caught:
        made(eno1=dataclasses.replace(ENO1, text=f"[Match]\nName=eno1\n[Network]\n{line}\n"))
    assert caught.value.path == "bridges[0].ports[0]"


def test_a_file_that_would_come_first_is_refused():
    with pytest.raises(RefusedError, match="sorts before"):
        made(eno1=dataclasses.replace(ENO1, path="/etc/systemd/network/00-eno1.network"))


def test_a_file_of_an_earlier_change_is_taken_over():
    own = "/etc/systemd/network/00-reduced-footprint-eno1.network"
    assert "Bridge=br-admin" in made(eno1=dataclasses.replace(ENO1, path=own)).keep[own]
