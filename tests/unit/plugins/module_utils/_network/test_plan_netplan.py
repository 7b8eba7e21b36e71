# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pathlib

import pytest
import yaml

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._network.io_network import netplan_text
from ansible_collections.reduced.footprint.plugins.module_utils._network.model_network import Link, Profile
from ansible_collections.reduced.footprint.plugins.module_utils._network.plan_netplan import change, configured, speaks_of
from tests.support.chain import CHAIN, LINKS, ONE, golden, layout_of

GOLDEN = pathlib.Path(__file__).parent / "golden_network"
CLOUD = "/etc/netplan/50-cloud-init.yaml"
TEXT = """# what the installer wrote
network:
  version: 2
  ethernets:
    eno1:
      match: {macaddress: '02:00:00:00:00:01'}
      set-name: eno1
      wakeonlan: true
      addresses: [192.0.2.11/24]
      dhcp6: yes
      nameservers: {addresses: [192.0.2.1]}
      routes:
      - to: default
        via: 192.0.2.1
"""
PROFILES = {"eno1": Profile("netplan", CLOUD, configured=True), "eno2": Profile(None)}


def documents(texts):
    return {path: yaml.load(text, Loader=yaml.BaseLoader) for path, text in texts.items()}


def made(wanted=ONE, texts=None, profiles=None, links=None):
    texts = texts or {CLOUD: TEXT}
    profiles = profiles or PROFILES
    return change(layout_of(wanted, profiles, links), profiles, documents(texts), texts, netplan_text)


def written(change_made, path):
    return yaml.safe_load(change_made.keep[path])["network"]


OURS = "/etc/netplan/90-reduced-footprint.yaml"


def test_the_whole_chain():
    assert golden(made(CHAIN)) == (GOLDEN / "netplan.txt").read_text()


def test_what_is_about_the_card_stays():
    change_made = made()
    assert written(change_made, CLOUD)["ethernets"]["eno1"] == {"match": {"macaddress": "02:00:00:00:00:01"}, "set-name": "eno1", "wakeonlan": True}
    bridge = written(change_made, OURS)["bridges"]["br-admin"]
    assert bridge["interfaces"] == ["eno1"] and bridge["addresses"] == ["192.0.2.11/24"] and bridge["macaddress"] == "02:00:00:00:00:01"
    assert bridge["dhcp6"] == "yes", "to netplan every scalar is a text, and this one stays as it was written"
    assert bridge["routes"] == [{"to": "default", "via": "192.0.2.1"}]


def test_trial_overrides_files_and_is_private():
    change_made = made()
    assert set(change_made.trial) == {"/run/netplan/50-cloud-init.yaml", "/run/netplan/90-reduced-footprint.yaml"}
    assert set(change_made.modes.values()) == {0o600} and set(change_made.modes) == {*change_made.trial, *change_made.keep}
    assert change_made.keep[f"{CLOUD}.before-reduced-footprint"] == TEXT
    assert list(change_made.keep)[-1] == CLOUD, "the file that loses the addresses comes last"


def test_an_entry_spread_over_two_files_is_put_together_as_netplan_does():
    more = "/etc/netplan/60-more.yaml"
    texts = {CLOUD: TEXT, more: "network: {ethernets: {eno1: {addresses: [192.0.2.12/24], dhcp6: false, mtu: 1500}, eno9: {dhcp4: true}}}"}
    change_made = made(texts=texts)
    bridge = written(change_made, OURS)["bridges"]["br-admin"]
    assert bridge["addresses"] == ["192.0.2.11/24", "192.0.2.12/24"] and bridge["dhcp6"] is False
    assert written(change_made, more)["ethernets"] == {"eno1": {"mtu": 1500}, "eno9": {"dhcp4": True}}


def test_the_id_of_an_entry_need_not_be_the_name_of_the_link():
    texts = {CLOUD: TEXT.replace("    eno1:\n", "    first:\n")}
    change_made = made(CHAIN, texts)
    assert written(change_made, OURS)["bonds"]["bond0"]["interfaces"] == ["first", "eno2"]
    assert written(change_made, OURS)["bonds"]["bond0"]["parameters"]["primary"] == "first"


def test_entry_id_from_networkd():
    texts = {CLOUD: "network: {ethernets: {any: {match: {driver: e1000}, dhcp4: true}}}"}
    profiles = {"eno1": Profile("netplan", "/run/systemd/network/10-netplan-any.network", configured=True, identity=99)}
    change_made = made(texts=texts, profiles=profiles)
    assert written(change_made, OURS)["bridges"]["br-admin"]["interfaces"] == ["any"]
    dropin = "/etc/systemd/network/10-netplan-br-admin.network.d/reduced-footprint.conf"
    assert "IAID=99" in change_made.keep[dropin] and dropin not in change_made.modes


def test_the_mac_as_identity_needs_no_other():
    texts = {CLOUD: "network: {ethernets: {eno1: {dhcp4: true, dhcp-identifier: mac}}}"}
    profiles = {"eno1": Profile("netplan", "/run/systemd/network/10-netplan-eno1.network", configured=True, identity=99)}
    change_made = made(texts=texts, profiles=profiles)
    assert written(change_made, OURS)["bridges"]["br-admin"]["dhcp-identifier"] == "mac"
    assert not any("systemd" in path for path in change_made.keep)


@pytest.mark.parametrize(
    "entry, whole, renderer",
    [("", "", None), ("renderer: NetworkManager", "", "NetworkManager"), ("", "renderer: networkd", "networkd")],
)
def test_the_renderer_of_a_link_is_that_of_what_stands_over_it(entry, whole, renderer):
    texts = {CLOUD: f"network:\n  ethernets:\n    {whole or 'eno9: {}'}\n    eno1:\n      dhcp4: true\n      {entry}\n"}
    assert written(made(texts=texts), OURS)["bridges"]["br-admin"].get("renderer") == renderer
    # a spare NIC would go to the renderer of the whole network, and its bond to the other one
    assert written(made(CHAIN, texts=texts), OURS)["ethernets"]["eno2"].get("renderer") == renderer


@pytest.mark.parametrize(
    "whole, entry, nm", [("", "", False), ("NetworkManager", "", True), ("NetworkManager", "networkd", False), ("networkd", "NetworkManager", True)]
)
def test_a_bridge_without_addresses_has_none_of_its_own_making(whole, entry, nm):
    one = f"{{dhcp4: true{', renderer: ' + entry if entry else ''}}}"
    texts = {CLOUD: f"network:\n  renderer: networkd\n  ethernets: {{eno1: {one}}}\n"}
    texts["/etc/netplan/99.yaml"] = f"network: {{renderer: {whole}}}\n" if whole else "network: {version: 2}\n"
    bridges = written(made(CHAIN, texts=texts), OURS)["bridges"]
    assert bridges["br-vms"]["link-local"] == [] and "networkmanager" not in bridges["br-admin"]
    passthrough = bridges["br-vms"].get("networkmanager")
    assert passthrough == ({"passthrough": {"ipv4.method": "disabled", "ipv6.method": "disabled"}} if nm else None)


def test_a_second_change_adds_to_our_file():
    before = "# Made by reduced.footprint: br0 over eno9\nnetwork: {version: 2, bridges: {br0: {interfaces: [eno9]}}}\n"
    change_made = made(texts={CLOUD: TEXT, OURS: before})
    assert set(written(change_made, OURS)["bridges"]) == {"br0", "br-admin"}
    assert f"{OURS}.before-reduced-footprint" not in change_made.keep


def test_a_vlan_on_a_nic_that_keeps_its_address():
    change_made = made({"vlans": [{"link": "eno1", "id": 5}]})
    assert list(change_made.keep) == [OURS]
    assert written(change_made, OURS)["vlans"]["eno1.5"] == {"id": 5, "link": "eno1", "link-local": [], "optional": True}


@pytest.mark.parametrize(
    "wanted, texts, path, words",
    [
        (ONE, {CLOUD: "network: {ethernets: {all: {match: {name: 'en*'}, dhcp4: true}}}"}, "bridges[0].ports[0]", "by all, which also applies to eno2"),
        (ONE, {CLOUD: "network: {ethernets: {a: {match: {name: eno1}}, eno1: {}}}"}, "bridges[0].ports[0]", "by the entries a, eno1"),
        (ONE, {CLOUD: TEXT, "/etc/netplan/1.yaml": "network: {bridges: {br-admin: {}}}"}, "bridges[0].name", "configures br-admin, which is not up"),
        (ONE, {"/run/netplan/50-cloud-init.yaml": TEXT}, None, "generated again at each boot"),
        ({"bridges": [{"name": "br0", "vlan_filtering": True}]}, None, "bridges[0].vlan_filtering", "does not support bridges with VLAN filtering"),
    ],
)
def test_refusals(wanted, texts, path, words):
    with pytest.raises(RefusedError) as caught:
        made(wanted, texts)
    assert caught.value.path == path
    assert words in str(caught.value)


def test_a_bond_that_netplan_does_not_know():
    links = {**LINKS, "bond9": Link("bond9", 9, "02:00:00:00:00:09", "bond")}
    with pytest.raises(RefusedError, match="netplan has no configuration for bond9"):
        made({"bridges": [{"name": "br0", "ports": ["bond9"]}]}, profiles={"bond9": Profile(None)}, links=links)


def test_who_speaks_of_a_link():
    found = documents({CLOUD: TEXT, "/etc/netplan/60.yaml": "network: {ethernets: {eno2: }}"})
    assert speaks_of(found, LINKS["eno1"]) == CLOUD and configured(found, LINKS["eno1"])
    assert speaks_of(found, LINKS["eno2"]) == "/etc/netplan/60.yaml" and not configured(found, LINKS["eno2"])
    assert speaks_of(found, Link("eno3", 9, "02:00:00:00:00:09")) is None
