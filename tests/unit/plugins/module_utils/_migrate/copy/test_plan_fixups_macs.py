# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A parked source keeps its addresses: no file of the copy may give one of them to the VM."""

from __future__ import annotations

import sys

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_tree import Tree
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.copy.io_boot import read_files
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.copy.plan_fixups import PATTERNS, Context, fixups_diff, plan_fixups
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.copy.plan_fixups_macs import StackChange, generated, is_generated, normal
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.copy.plan_fixups_network import NicChange, fix_network
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.model_disk import DiskLayout, PlannedPartition

OWN, SPOOFED, NEW = "02:ab:00:00:00:02", "02:cc:00:00:00:09", "52:54:00:11:22:33"
OTHER, OTHER_NEW = "02:ab:00:00:00:03", "52:54:00:11:22:34"
LOST = "02:dd:00:00:00:07"
NICS = (NicChange("eno1", OWN, NEW), NicChange("eno2", OTHER, OTHER_NEW))
PROFILES = "/etc/NetworkManager/system-connections/"

# path, what it says, what it says in the copy: the spoofed address is found by the card's name or by its own address
FILES = [
    ("/etc/network/interfaces", f"iface eno1 inet static\n  hwaddress ether {SPOOFED}\n  address 192.0.2.2/24\niface eno2 inet dhcp\n", {SPOOFED: NEW}),
    ("/etc/network/interfaces.d/x", f"auto eno2\niface eno2 inet dhcp\n\thwaddress {SPOOFED.upper()}\n", {SPOOFED.upper(): OTHER_NEW}),
    ("/etc/network/interfaces", f"iface eno1 inet dhcp\n  pre-up ip link set dev eno1 address {SPOOFED}\n  up true\n", {SPOOFED: NEW}),
    ("/etc/network/interfaces", f"iface eno1 inet dhcp\n  pre-up ifconfig eno1 hw ether {SPOOFED} || true\n", {SPOOFED: NEW}),
    (f"{PROFILES}a", f"[connection]\ninterface-name=eno1\n[ethernet]\ncloned-mac-address={SPOOFED.upper()}\n", {SPOOFED.upper(): NEW}),
    (f"{PROFILES}b", f"[ethernet]\nmac-address={OWN.upper()}\ncloned-mac-address={SPOOFED}\n[ipv4]\nmethod=auto\n", {SPOOFED: NEW, OWN.upper(): NEW}),
    (f"{PROFILES}c", "[connection]\ninterface-name=eno1\n[802-3-ethernet]\ncloned-mac-address=stable\n", {"=stable": "=permanent"}),
    ("/etc/NetworkManager/conf.d/x.conf", "[connection]\nethernet.cloned-mac-address=stable-ssid\n", {"stable-ssid": "permanent"}),
    ("/etc/systemd/network/x.network", f"[Match]\nName=eno1\n[Link]\nMACAddress={SPOOFED}\nMTUBytes=9000\n", {SPOOFED: NEW}),
    ("/etc/systemd/network/x.link", f"[Match]\nPermanentMACAddress={OTHER}\n[Link]\nName=lan0\nMACAddress={SPOOFED}\n", {SPOOFED: OTHER_NEW, OTHER: OTHER_NEW}),
    ("/etc/systemd/network/x.network", "[Match]\nName=eno1\n[Link]\nMACAddress=02cc.0000.0009\n", {"02cc.0000.0009": NEW}),
    ("/etc/netplan/x.yaml", f"network:\n  ethernets:\n    eno1:\n      macaddress: {SPOOFED}\n      dhcp4: true\n", {SPOOFED: NEW}),
    (
        "/etc/netplan/x.yaml",
        f'network: {{ethernets: {{lan: {{match: {{macaddress: "{OTHER}"}}, macaddress: "{SPOOFED}"}}}}}}\n',
        {SPOOFED: OTHER_NEW, OTHER: OTHER_NEW},
    ),
    ("/etc/sysconfig/network-scripts/ifcfg-x", f'DEVICE="eno1"\nMACADDR="{SPOOFED}"\nBOOTPROTO=dhcp\n', {SPOOFED: NEW}),
    ("/etc/udev/rules.d/x.rules", f'SUBSYSTEM=="net", ATTR{{address}}=="{OWN}", NAME="lan", ATTR{{address}}="{SPOOFED}"\n', {SPOOFED: NEW, OWN: NEW}),
    ("/etc/network/if-pre-up.d/mac", f"#!/bin/sh\nip link set eno1 address {SPOOFED}\n", {SPOOFED: NEW}),
    ("/etc/network/if-up.d/mac", f"#!/bin/sh\n[ \"$IFACE\" = eno2 ] && ip link set dev eno2 address {SPOOFED} || true\n", {SPOOFED: OTHER_NEW}),
    ("/etc/NetworkManager/dispatcher.d/10-mac", f"ifconfig eno2 hw ether {SPOOFED}; exit 0\n", {SPOOFED: OTHER_NEW}),
    ("/etc/networkd-dispatcher/routable.d/mac", f"macchanger -m {SPOOFED} eno2\n", {SPOOFED: OTHER_NEW}),
    ("/etc/rc.local", f"/usr/bin/macchanger --mac={SPOOFED} eno1 || true\n", {SPOOFED: NEW}),
    ("/etc/systemd/system/mac.service", f"[Service]\nExecStart=/sbin/ip link set dev eno2 address {SPOOFED} up\n", {SPOOFED: OTHER_NEW}),
    # the MAC of another machine
    ("/etc/network/if-up.d/gateway", f"ip neigh replace 192.0.2.1 lladdr {SPOOFED} dev eno1\narp -s 192.0.2.1 {SPOOFED}\n# address {SPOOFED}\n", {}),
    ("/etc/udev/rules.d/x.rules", f'KERNEL=="eno1", RUN+="/sbin/ip link set dev %k address {SPOOFED}"\n', {SPOOFED: NEW}),
]


def after(tree, nics=NICS, stacked=()):
    changes = fix_network(tree, nics, stacked)
    return {path: text for path, text in {**tree, **changes}.items() if text is not None}


@pytest.mark.parametrize("path, text, changed", FILES)
def test_the_vm_does_not_get_an_address_the_source_was_given(path, text, changed):
    expected = text
    for old, new in changed.items():
        expected = expected.replace(old, new)
    once = after({path: text})
    assert once[path] == expected
    assert after(once) == once


@pytest.mark.parametrize(
    "path, text",
    [
        ("/etc/network/interfaces", "iface eno1 inet dhcp\n  hwaddress ether random\n"),
        (f"{PROFILES}a", "[ethernet]\ncloned-mac-address=random\n[wifi]\ncloned-mac-address=preserve\n"),
        ("/etc/systemd/network/x.netdev", "[NetDev]\nName=br0\nKind=bridge\nMACAddress=none\n"),
        ("/etc/netplan/x.yaml", "network: {ethernets: {a: {macaddress: permanent}}}\n"),
        ("/etc/udev/rules.d/x.rules", f'# ATTR{{address}}="{LOST}"\nATTR{{address}}=="{LOST}", NAME="x"\n'),
        ("/etc/systemd/network/x.network", f"[Match]\nMACAddress={LOST}\n"),
    ],
)
def test_what_is_the_same_on_no_other_machine_stays(path, text):
    assert after({path: text})[path] == text


def test_netplan_is_not_left_as_it_is_without_a_parser(monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(BackendError, match="yaml"):
        after({"/etc/netplan/x.yaml": f"network: {{bridges: {{br0: {{macaddress: {LOST}}}}}}}\n"})


@pytest.mark.parametrize(
    "path, text",
    [
        ("/etc/systemd/network/br0.netdev", f"[NetDev]\nName=br0\nKind=bridge\nMACAddress={LOST}\n"),
        ("/etc/network/interfaces", f"iface br0 inet static\n  bridge_ports eno1\n  bridge_hw {LOST}\n"),
        (f"{PROFILES}br", f"[connection]\ninterface-name=br0\n[bridge]\nmac-address={LOST}\n"),
        ("/etc/netplan/x.yaml", f"network:\n  bridges:\n    br0: {{macaddress: '{LOST}'}}\n"),
    ],
)
def test_mac_of_an_unknown_card_is_replaced_by_a_generated_one(path, text):
    made = generated(LOST, NEW)
    assert is_generated(made, NEW) and made != generated(LOST, OTHER_NEW) and int(made[:2], 16) & 3 == 2
    once = after({path: text})
    assert once[path] == text.replace(LOST, made) and after(once) == once
    # where it is known what has it, it gets the address of its card
    stacked = (StackChange("br0", LOST, NEW),)
    found = after({path: text}, stacked=stacked)
    assert found[path] == text.replace(LOST, NEW) and after(found, stacked=stacked) == found


def test_others_that_name_a_given_address_follow_it():
    worn = (NicChange("eno1", OWN, NEW, SPOOFED),)
    tree = {"/etc/dnsmasq.d/x": f"dhcp-host={SPOOFED},192.0.2.2\n", "/etc/udev/rules.d/x.rules": f'ATTR{{address}}=="{SPOOFED}", NAME="x"\n'}
    found = after(tree, worn)
    assert found["/etc/dnsmasq.d/x"] == f"dhcp-host={NEW},192.0.2.2\n" and SPOOFED not in found["/etc/udev/rules.d/x.rules"]
    tree = {"/etc/dnsmasq.d/x": f"dhcp-host={SPOOFED.replace(':', '-')}\n", FILES[0][0]: FILES[0][1]}
    assert after(tree)["/etc/dnsmasq.d/x"] == f"dhcp-host={NEW.replace(':', '-')}\n"


def test_a_bridge_whose_address_comes_from_the_machine_id_gets_another():
    found = after({}, stacked=(StackChange("br0", LOST, NEW),))
    assert found["/etc/systemd/network/01-reduced-footprint-br0.link"].endswith(f"[Match]\nOriginalName=br0\n\n[Link]\nMACAddress={NEW}\n")


def test_the_diff_shows_it():
    root = PlannedPartition(1, "/", "ext4", 0, 0, "aaaa", "p1", None)
    tree = {path: text for path, text, unused in FILES}
    shown = fixups_diff(tree, plan_fixups(tree, Context(NICS, DiskLayout((), (root,)), "k")))
    for path in tree:
        assert f"+++ master VM:{path}" in shown
    plus = "".join(line for line in shown.splitlines() if line.startswith("+"))
    assert SPOOFED not in plus.lower() and OWN not in plus.lower()


@pytest.mark.parametrize(
    "text, mac", [("2:A:0:0:0:1", "02:0a:00:00:00:01"), ("02-0A-00-00-00-01", "02:0a:00:00:00:01"), ("020a.0000.0001", "02:0a:00:00:00:01"), ("random", None)]
)
def test_spellings(text, mac):
    assert normal(text) == mac


@pytest.mark.parametrize(
    "path",
    [
        "/etc/network/if-pre-up.d/mac",
        "/etc/NetworkManager/dispatcher.d/mac",
        "/etc/networkd-dispatcher/routable.d/mac",
        "/etc/rc.local",
        "/etc/rc.d/rc.local",
        "/etc/systemd/system/mac.service",
    ],
)
def test_scripts_that_may_set_an_address_are_read(tmp_path, path):
    place = tmp_path / path.lstrip("/")
    place.parent.mkdir(parents=True)
    place.write_text(f"ip link set eno1 address {SPOOFED}\n")
    found = read_files(Tree(tmp_path), PATTERNS)
    assert list(found) == [path]
    (changed,) = [text for where, text in fix_network(found, NICS).items() if where == path]
    assert changed == f"ip link set eno1 address {NEW}\n"
