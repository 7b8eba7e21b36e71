# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._backend import bridge
from ansible_collections.reduced.footprint.plugins.module_utils._backend.bridge import Link, links, manager_of


@pytest.fixture
def net(tmp_path):
    for name, index, ports in (("br0", 5, ["eno1"]), ("eno1", 2, []), ("lo", 1, [])):
        place = tmp_path / name
        place.mkdir()
        (place / "ifindex").write_text(f"{index}\n")
        (place / "address").write_text("02:00:00:00:00:01\n")
        if ports:
            (place / "bridge").mkdir()
            (place / "brif").mkdir()
            for port in ports:
                (place / "brif" / port).touch()
    (tmp_path / "eno1" / "master").symlink_to("../br0")
    (tmp_path / "bonding_masters").touch()
    return tmp_path


@pytest.fixture
def host(tmp_path, monkeypatch):
    """A host without any network manager."""
    monkeypatch.setattr(bridge, "_NETIF", str(tmp_path / "netif"))
    monkeypatch.setattr(bridge, "_LEASES", str(tmp_path / "leases"))
    monkeypatch.setattr(bridge, "_NM_DEVICES", str(tmp_path / "nm"))
    monkeypatch.setattr(bridge, "_INTERFACES", str(tmp_path / "interfaces"))
    monkeypatch.setattr(bridge, "_NETWORKD_DIRS", (str(tmp_path / "etc"), str(tmp_path / "usr")))
    monkeypatch.setattr(bridge.shutil, "which", lambda name: None)
    for name in ("netif", "nm", "etc", "usr", "leases"):
        (tmp_path / name).mkdir()
    return tmp_path


ENO1 = Link("eno1", 2, "02:00:00:00:00:01", False, (), None)


def test_links(net):
    found = links(str(net))
    assert set(found) == {"br0", "eno1", "lo"}
    assert found["br0"] == Link("br0", 5, "02:00:00:00:00:01", True, ("eno1",), None)
    assert found["eno1"].master == "br0" and not found["eno1"].is_bridge


def test_the_links_of_this_machine():
    assert "lo" in links()


def test_nobody_manages(host):
    assert manager_of(ENO1).name is None


def test_networkd_with_dropins(host):
    path = host / "etc" / "10-eno1.network"
    path.write_text("[Network]\nDHCP=yes\n")
    for folder, name, text in (("etc", "b.conf", "[Link]\n"), ("usr", "a.conf", "[Route]\n"), ("usr", "b.conf", "never")):
        (host / folder / "10-eno1.network.d").mkdir(exist_ok=True)
        (host / folder / "10-eno1.network.d" / name).write_text(text)
    (host / "netif" / "2").write_text(f"ADMIN_STATE=configured\nNETWORK_FILE={path}\n")
    found = manager_of(ENO1)
    assert (found.name, found.path) == ("networkd", str(path))
    assert found.text == "[Network]\nDHCP=yes\n\n[Route]\n\n[Link]\n"


@pytest.mark.parametrize(
    "lease, section",
    [
        ("ADDRESS=192.0.2.5\nCLIENTID=ff0a0b0c0d00020000ab11\n", "\n[DHCPv4]\nIAID=168496141\n"),
        ("ADDRESS=192.0.2.5\nCLIENTID=01020000000001\n", ""),
        ("", ""),
    ],
)
def test_a_lease_moves_with_its_identity(host, lease, section):
    path = host / "etc" / "10-eno1.network"
    path.write_text("[Network]\nDHCP=yes\n")
    (host / "leases" / "2").write_text(lease)
    (host / "netif" / "2").write_text(f"ADMIN_STATE=configured\nNETWORK_FILE={path}\n")
    assert manager_of(ENO1).text == "[Network]\nDHCP=yes\n" + section


@pytest.mark.parametrize(
    "folder, text, name",
    [
        ("netif", "ADMIN_STATE=configured\nNETWORK_FILE=/run/systemd/network/10-netplan-eno1.network\n", "netplan"),
        ("netif", "ADMIN_STATE=unmanaged\n", None),
        ("nm", "[device]\nmanaged=true\n", "networkmanager"),
        ("nm", "[device]\nmanaged=false\n", None),
    ],
)
def test_managers_by_what_they_keep(host, folder, text, name):
    (host / folder / "2").write_text(text)
    assert manager_of(ENO1).name == name


@pytest.mark.parametrize("where", ["interfaces", "interfaces.d/eno1"])
def test_ifupdown_wherever_the_stanza_stands(host, monkeypatch, where):
    monkeypatch.setattr(bridge.shutil, "which", lambda name: "/usr/sbin/ifup")
    (host / "interfaces.d").mkdir()
    (host / "interfaces").write_text(f"source {host}/interfaces.d/*\n")
    with (host / where).open("a") as stream:
        stream.write("iface eno1 inet dhcp\n")
    found = manager_of(ENO1)
    assert (found.name, found.path) == ("ifupdown", str(host / where))


def test_no_change_no_state(monkeypatch, tmp_path):
    monkeypatch.setattr(bridge, "RUN_DIR", str(tmp_path))
    assert bridge.trial_of("br0").state is None
