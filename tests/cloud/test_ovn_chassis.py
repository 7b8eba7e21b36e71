# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two chassis and a database: a network of a tenant across both, separated from another with the same addresses, and from other hosts."""

from __future__ import annotations

import pytest
from cloud_lab import CloudLab
from support import eventually

pytestmark = pytest.mark.chapter
CHASSIS = ("metal2", "metal3")
NICS = dict.fromkeys(CHASSIS, "eno1")
DATABASES = [{"hosts": "ovn_database", "gather_facts": False, "any_errors_fatal": True, "roles": [{"role": "reduced.footprint.ovn_database"}]}]
PLAY = [{"hosts": "ovn_chassis", "gather_facts": False, "any_errors_fatal": True, "roles": [{"role": "reduced.footprint.ovn_chassis"}]}]
#: Network → chassis → address; both networks have the same addresses.
PORTS = {"red": {"metal2": "10.77.0.2", "metal3": "10.77.0.3"}, "blue": {"metal2": "10.77.0.2", "metal3": "10.77.0.4"}}


@pytest.fixture(scope="module", autouse=True)
def groups(lab: CloudLab) -> None:
    """A database on metal1, and two chassis without VMs."""
    lab.write_inventory({"footprint_cloud": True}, {"ovn_database": ["metal1"], "ovn_chassis": CHASSIS}, lab.tunnel_addresses(NICS))


def namespace(lab: CloudLab, host: str, name: str, *words: str, check: bool = True) -> str:
    """Run a command as the VM of a network."""
    return lab.run(host, ["ip", "netns", "exec", name, *words], check=check)


def reaches(lab: CloudLab, name: str, address: str) -> bool:
    """Whether the VM of a network on the first chassis reaches an address."""
    return lab.answers(CHASSIS[0], ["ip", "netns", "exec", name, "ping", "-c", "1", "-W", "2", address])


def plug(lab: CloudLab, host: str, name: str, address: str) -> None:
    """Connect a namespace as Nova connects a VM."""
    port, mac = f"{name}-{host}", f"02:77:00:00:0{len(name)}:0{address[-1]}"
    lab.nbctl("metal1", "--may-exist", "lsp-add", name, port)
    lab.nbctl("metal1", "lsp-set-addresses", port, f"{mac} {address}")
    lab.run(host, ["ip", "netns", "add", name])
    lab.run(host, ["ip", "link", "add", f"tap{name}", "type", "veth", "peer", "name", "eth0", "netns", name])
    lab.run(host, ["ip", "link", "set", f"tap{name}", "up"])
    for words in (["link", "set", "eth0", "address", mac], ["address", "add", f"{address}/24", "dev", "eth0"], ["link", "set", "eth0", "mtu", "1400", "up"]):
        namespace(lab, host, name, "ip", *words)
    interface = ["--", "set", "Interface", f"tap{name}", f"external_ids:iface-id={port}"]
    lab.run(host, ["ovs-vsctl", "--may-exist", "add-port", "br-int", f"tap{name}", *interface])


def test_two_chassis_are_connected(lab: CloudLab) -> None:
    lab.succeeds(DATABASES)
    lab.set_tunnels(NICS)
    lab.succeeds(PLAY)
    lab.set_tunnels(NICS)
    for host in CHASSIS:
        assert lab.run(host, ["ovn-appctl", "-t", "ovn-controller", "connection-status"]).strip() == "connected"
    again = lab.succeeds(PLAY)
    assert again.changed == 0, again.changed_tasks()


def test_a_network_spans_both_and_is_separated_from_another(lab: CloudLab) -> None:
    for name, addresses in PORTS.items():
        lab.nbctl("metal1", "--may-exist", "ls-add", name)
        for host, address in addresses.items():
            plug(lab, host, name, address)
    for name, addresses in PORTS.items():
        eventually(f"{name} is connected", lambda name=name, to=addresses["metal3"]: reaches(lab, name, to), 60)
    assert not reaches(lab, "red", PORTS["blue"]["metal3"]) and not reaches(lab, "blue", PORTS["red"]["metal3"])


def test_large_transfers_pass(lab: CloudLab) -> None:
    lab.run("metal3", ["sh", "-c", "mkdir -p /srv/web && head -c 2000000 /dev/zero > /srv/web/file"])
    server = ["ip", "netns", "exec", "red", "python3", "-m", "http.server", "80", "--bind", PORTS["red"]["metal3"], "--directory", "/srv/web"]
    lab.run("metal3", ["systemd-run", "--unit=web", *server])
    fetch = f"import urllib.request; print(len(urllib.request.urlopen('http://{PORTS['red']['metal3']}/file', timeout=20).read()))"
    eventually("2 MB arrive", lambda: namespace(lab, "metal2", "red", "python3", "-c", fetch, check=False).strip() == "2000000", 60)


def test_a_chassis_keeps_its_identity_and_its_traffic(lab: CloudLab) -> None:
    before = lab.run("metal3", ["ovs-vsctl", "get", "Open_vSwitch", ".", "external_ids:system-id"])
    lab.run("metal3", ["systemctl", "restart", "openvswitch-switch", "ovn-controller"])
    eventually("the network is connected again", lambda: reaches(lab, "red", PORTS["red"]["metal3"]), 60)
    assert lab.run("metal3", ["ovs-vsctl", "get", "Open_vSwitch", ".", "external_ids:system-id"]) == before


def test_existing_networks_survive_the_loss_of_the_databases(lab: CloudLab) -> None:
    lab.run("metal1", ["systemctl", "stop", "ovn-ovsdb-server-nb", "ovn-ovsdb-server-sb"])
    assert reaches(lab, "red", PORTS["red"]["metal3"])
    lab.run("metal1", ["systemctl", "start", "ovn-ovsdb-server-nb", "ovn-ovsdb-server-sb"])


def test_other_hosts_cannot_send_into_the_tunnel(lab: CloudLab) -> None:
    rules = lab.run("metal2", ["nft", "list", "table", "inet", "footprint_ovn_chassis"])
    assert "udp dport 6081" in rules and lab.tunnel_addresses(NICS)["metal3"]["ovn_chassis_address"] in rules and lab.master not in rules
