# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
import yaml

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import Completed
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError
from ansible_collections.reduced.footprint.plugins.module_utils._network import io_network
from ansible_collections.reduced.footprint.plugins.module_utils._network.io_network import (
    links,
    need_files,
    need_module,
    netplan_documents,
    netplan_text,
    profile_of,
)
from ansible_collections.reduced.footprint.plugins.module_utils._network.model_network import Link, Profile

ENO1 = Link("eno1", 2, "02:00:00:00:00:01")


def link(name, index, kind=None, data=None, **more):
    """Return a link as printed by ``ip -details -json address show``."""
    linkinfo = {"linkinfo": {"info_kind": kind, "info_data": data or {}}} if kind else {}
    return {"ifname": name, "ifindex": index, "mtu": 1500, "link_type": "ether", "address": f"02:00:00:00:00:0{index}", "addr_info": [], **linkinfo, **more}


# bonds and VLANs cannot be made in every kernel the unit tests run on, so their form is written down here
SAID = [
    link("lo", 1, link_type="loopback"),
    link("eno1", 2, master="bond0", mtu=9000),
    link("bond0", 3, "bond", {"mode": "802.3ad", "xmit_hash_policy": "layer3+4"}, master="br0"),
    link("bond0.7", 4, "vlan", {"id": 7}, link="bond0"),
    link("br0", 5, "bridge", {"stp_state": 1, "vlan_filtering": 0}),
    link("veth0", 6, "veth", link_index=9),
    {},
]
SAID[4]["addr_info"] = [
    {"scope": "global", "local": "192.0.2.11", "prefixlen": 24, "dynamic": True},
    {"scope": "global", "local": "2001:db8::99", "prefixlen": 64, "temporary": True},
    {"scope": "global", "family": "inet6", "local": "2001:db8::5", "prefixlen": 64, "dynamic": True, "mngtmpaddr": True},
    {"scope": "global", "family": "inet6", "local": "2001:db8::6", "prefixlen": 128, "dynamic": True},
    {"scope": "link", "local": "fe80::1", "prefixlen": 64},
]


@pytest.fixture
def host(tmp_path, monkeypatch):
    """A host without any network manager."""
    for name, place in (
        ("_NETIF", "netif"),
        ("_NM_DEVICES", "nm"),
        ("_INTERFACES", "interfaces"),
        ("_SYS_MODULE", "module"),
    ):
        monkeypatch.setattr(io_network, name, str(tmp_path / place))
    monkeypatch.setattr(io_network, "_NETWORKD_DIRS", (str(tmp_path / "etc"), str(tmp_path / "usr")))
    monkeypatch.setattr(io_network, "_NETPLAN_DIRS", (str(tmp_path / "run-netplan"), str(tmp_path / "etc-netplan")))
    monkeypatch.setattr(io_network, "_BUILT_IN", {"bonding": str(tmp_path / "bonding_masters"), "8021q": str(tmp_path / "vlan")})
    monkeypatch.setattr(io_network.shutil, "which", lambda name: None)
    for name in ("netif/links", "netif/leases", "etc", "usr", "module"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


def test_links(monkeypatch):
    monkeypatch.setattr(io_network, "run", lambda argv, timeout: Completed(tuple(argv), 0, json.dumps(SAID), ""))
    found = links()
    assert set(found) == {"lo", "eno1", "bond0", "bond0.7", "br0", "veth0"}
    assert [link.kind for link in found.values()] == ["loopback", "nic", "bond", "vlan", "bridge", "nic"]
    assert found["bond0"].ports == ("eno1",) and found["bond0"].master == "br0" and found["bond0"].settings["mode"] == "802.3ad"
    assert found["bond0.7"].lower == "bond0" and found["veth0"].lower is None
    assert found["br0"].ports == ("bond0",) and found["br0"].addresses == ("192.0.2.11/24", "2001:db8::5/64", "2001:db8::6/128")
    assert found["br0"].autoconf == ("2001:db8::5/64",) and found["br0"].own == ("192.0.2.11/24", "2001:db8::6/128")
    assert found["br0"].leased == found["br0"].addresses and found["eno1"].leased == ()
    assert found["eno1"].mtu == 9000


def test_the_links_of_this_machine():
    assert links()["lo"].kind == "loopback"


def test_link_without_manager(host):
    assert profile_of(ENO1) == Profile(None) and io_network.default_manager() is None


def test_networkd_with_dropins(host):
    path = host / "etc" / "10-eno1.network"
    path.write_text("[Network]\nDHCP=yes\n")
    for folder, name, text in (("etc", "b.conf", "[Link]\n"), ("usr", "a.conf", "[Route]\n"), ("usr", "b.conf", "never")):
        (host / folder / "10-eno1.network.d").mkdir(exist_ok=True)
        (host / folder / "10-eno1.network.d" / name).write_text(text)
    (host / "netif" / "links" / "2").write_text(f"ADMIN_STATE=configured\nNETWORK_FILE={path}\n")
    found = profile_of(ENO1)
    assert (found.manager, found.path, found.configured) == ("networkd", str(path), True)
    assert found.text == "[Network]\nDHCP=yes\n\n[Route]\n\n[Link]\n"


@pytest.mark.parametrize(
    "text, configured",
    [
        ("DHCP=yes", True),
        (" DHCP = ipv4", True),
        ("DHCP=no", False),
        ("DHCP=", False),
        ("Address=192.0.2.1/24", True),
        ("[Address]\nAddress=192.0.2.1/24", True),
        ("Bridge=br0", False),
        ("#DHCP=yes", False),
    ],
)
def test_what_would_get_addresses(host, text, configured):
    path = host / "etc" / "10-eno1.network"
    path.write_text(f"[Network]\n{text}\n")
    (host / "netif" / "links" / "2").write_text(f"ADMIN_STATE=configured\nNETWORK_FILE={path}\n")
    assert profile_of(ENO1).configured is configured


@pytest.mark.parametrize(
    "lease, identity",
    [("ADDRESS=192.0.2.5\nCLIENTID=ff0a0b0c0d00020000ab11\n", 168496141), ("ADDRESS=192.0.2.5\nCLIENTID=01020000000001\n", None), ("", None)],
)
def test_a_lease_has_an_identity(host, lease, identity):
    path = host / "etc" / "10-eno1.network"
    path.write_text("[Network]\nDHCP=yes\n")
    (host / "netif" / "leases" / "2").write_text(lease)
    (host / "netif" / "links" / "2").write_text(f"ADMIN_STATE=configured\nNETWORK_FILE={path}\n")
    assert profile_of(ENO1).identity == identity


def test_a_file_whose_trial_was_confirmed(host):
    (host / "etc" / "00-reduced-footprint-eno1.network").write_text("[Network]\nBridge=br0\n")
    trial = "/run/systemd/network/00-0-reduced-footprint-eno1.network"
    (host / "netif" / "links" / "2").write_text(f"ADMIN_STATE=configured\nNETWORK_FILE={trial}\n")
    found = profile_of(ENO1)
    assert found.path == str(host / "etc" / "00-reduced-footprint-eno1.network") and "Bridge=br0" in found.text


@pytest.mark.parametrize(
    "folder, text, name",
    [
        ("netif/links", "ADMIN_STATE=unmanaged\n", None),
        ("nm", "[device]\nmanaged=true\n", "networkmanager"),
        ("nm", "[device]\nmanaged=false\n", None),
    ],
)
def test_managers_by_what_they_keep(host, folder, text, name):
    (host / folder).mkdir(exist_ok=True)
    (host / folder / "2").write_text(text)
    assert profile_of(ENO1).manager == name


@pytest.mark.parametrize("where", ["interfaces", "interfaces.d/eno1"])
@pytest.mark.parametrize("method", ["dhcp", "manual"])
def test_ifupdown_wherever_the_stanza_stands(host, monkeypatch, where, method):
    monkeypatch.setattr(io_network.shutil, "which", lambda name: "/usr/sbin/ifup" if name == "ifup" else None)
    (host / "interfaces.d").mkdir()
    (host / "interfaces").write_text(f"source {host}/interfaces.d/*\n")
    with (host / where).open("a") as stream:
        stream.write(f"iface eno1 inet {method}\n")
    found = profile_of(ENO1)
    assert (found.manager, found.path, found.configured) == ("ifupdown", str(host / where), method == "dhcp")
    assert io_network.default_manager() == "ifupdown"


def test_netplans_files_in_its_order(host, monkeypatch):
    monkeypatch.setattr(io_network.shutil, "which", lambda name: "/usr/sbin/netplan" if name == "netplan" else None)
    for folder, name, text in (("etc", "50-a", "hidden"), ("run", "50-a", "a: {yes: on}"), ("etc", "10-b", "b: 0644")):
        (host / f"{folder}-netplan").mkdir(exist_ok=True)
        (host / f"{folder}-netplan" / f"{name}.yaml").write_text(text)
    texts = io_network.netplan_texts()
    assert list(texts) == [str(host / "etc-netplan" / "10-b.yaml"), str(host / "run-netplan" / "50-a.yaml")]
    assert list(netplan_documents(texts).values()) == [{"b": "0644"}, {"a": {"yes": "on"}}]
    assert io_network.default_manager() == "netplan"


def test_without_netplan_its_files_do_not_count(host):
    (host / "etc-netplan").mkdir()
    (host / "etc-netplan" / "1.yaml").write_text("a: 1")
    assert io_network.netplan_texts() == {}


def test_invalid_yaml_is_refused():
    with pytest.raises(BackendError, match="/etc/netplan/1.yaml is not valid YAML"):
        netplan_documents({"/etc/netplan/1.yaml": "a: [b"})


def test_netplan_text_is_read_back_as_written():
    vlan = {"id": 100, "dhcp6": "yes", "optional": True, "macaddress": "52:54:00:12:34:56", "addresses": []}
    content = {"network": {"version": 2, "vlans": {"bond0.100": vlan}}}
    text = netplan_text(content)
    assert text.startswith("network:\n  version: 2\n  vlans:\n    bond0.100:\n      id: 100\n"), "in order, for people"
    assert yaml.safe_load(text) == content
    assert yaml.safe_load(netplan_text({"password": "é" * 200})) == {"password": "é" * 200} and netplan_text({"a": "b c " * 99}).count("\n") == 1


def test_a_kernel_that_has_it_is_not_asked_again(host, monkeypatch):
    monkeypatch.setattr(io_network, "run", None)
    (host / "module" / "bonding").mkdir()
    (host / "vlan").mkdir()
    need_module("bonding", False)
    need_module("8021q", False)


@pytest.mark.parametrize(
    "name, check_mode, argv",
    [
        ("bonding", False, ["modprobe", "bonding", "max_bonds=0"]),
        ("bonding", True, ["modprobe", "--dry-run", "bonding", "max_bonds=0"]),
        ("8021q", False, ["modprobe", "8021q"]),
    ],
)
def test_a_kernel_that_lacks_it(host, monkeypatch, name, check_mode, argv):
    def run(asked, timeout):
        assert asked == argv
        raise CommandError(asked, 1, "FATAL: not found")

    monkeypatch.setattr(io_network, "run", run)
    with pytest.raises(BackendError, match=f"of this host has no module {name}: .*not found.*the network was not changed"):
        need_module(name, check_mode)


def test_helpers_of_ifupdown(tmp_path):
    need_files({str(tmp_path): "there"})
    with pytest.raises(BackendError, match="ifupdown requires bridge-utils and ifenslave.*Install bridge-utils ifenslave"):
        need_files({"/nonexistent/a": "ifenslave", "/nonexistent/b": "bridge-utils", str(tmp_path): "there"})


def test_this_host_has_an_order_of_managers(host):
    (host / "netif" / "state").write_text("")
    assert io_network.default_manager() == "networkd"
    (host / "nm").mkdir()
    assert io_network.default_manager() == "networkmanager"
