# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Inventory and settings of kolla-ansible from the hosts of a footprint."""

from __future__ import annotations

import copy
import typing as t

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible_collections.reduced.footprint.plugins.filter.cloud_decision import kolla
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError

SAMPLE = """\
[control]
# These hostnames must be resolvable
control01

[network]
network01

[compute]
compute01
#compute01 neutron_external_interface=eth0

[monitoring]
monitoring01

[storage]
storage01

[deployment]
localhost       ansible_connection=local

[baremetal:children]
control
network

[mariadb:children]
control
"""
MEMBERS = {"control": ["c1", "c2"], "network": ["c1", "c2"], "compute": ["metal1"], "monitoring": ["c1"], "storage": []}


def host(number: int, **more: t.Any) -> dict[str, t.Any]:
    return {
        "ansible_host": f"192.0.2.{number}",
        "ansible_user": "root",
        "ansible_ssh_common_args": "-o UserKnownHostsFile=/k -o StrictHostKeyChecking=yes",
        "export_kolla_external_interface": "eno2",
        "ansible_facts": {
            "distribution": "Debian", "distribution_release": "trixie", "interfaces": ["lo", "br-admin", "eno1.20", "eno2", "eno3"],
            "lo": {"ipv4": {"address": "127.0.0.1"}},
            "br_admin": {"ipv4": {"address": "192.0.2.200"}, "ipv4_secondaries": [{"address": f"192.0.2.{number}"}]},
            "eno1_20": {"ipv4": {"address": f"10.2.0.{number}"}},
            "eno2": {}, "eno3": {},
        },
        **more,
    }  # fmt: skip


HOSTS = {"c1": host(1), "c2": host(2), "metal1": host(11)}


def export(hosts: t.Any = None, sample: str = SAMPLE, members: t.Any = None, **wishes: t.Any) -> dict[str, t.Any]:
    return kolla(sample, hosts or HOSTS, members or MEMBERS, **{"virtual_address": "192.0.2.20", **wishes})


def parsed(text: str, tmp_path: t.Any) -> t.Any:
    from ansible.inventory.manager import InventoryManager

    (tmp_path / "multinode").write_text(text)
    return InventoryManager(DataLoader(), [str(tmp_path / "multinode")])


def test_inventory(tmp_path: t.Any) -> None:
    text = export()["inventory"]
    found = parsed(text, tmp_path)
    groups = {name: [one.name for one in group.get_hosts()] for name, group in found.groups.items()}
    assert {name: groups[name] for name in (*MEMBERS, "deployment", "mariadb")} == {**MEMBERS, "deployment": ["localhost"], "mariadb": ["c1", "c2"]}
    assert "control01" not in text and "compute01" not in text
    own = found.get_host("c1").get_vars()
    assert {name: own[name] for name in ("ansible_host", "ansible_ssh_common_args", "network_interface", "neutron_external_interface")} == {
        "ansible_host": "192.0.2.1",
        "ansible_ssh_common_args": "-o UserKnownHostsFile=/k -o StrictHostKeyChecking=yes",
        "network_interface": "br-admin",
        "neutron_external_interface": "eno2",
    }
    assert "tunnel_interface" not in own
    assert "localhost       ansible_connection=local ansible_python_interpreter=/k/bin/python3\n" in export(python="/k/bin/python3")["inventory"]


def test_interfaces_of_named_networks(tmp_path: t.Any) -> None:
    networks = {"management": {"cidr": "192.0.2.0/24"}, "overlay": {"cidr": "10.2.0.0/24"}, "storage": {"cidr": "10.3.0.0/24"}}
    hosts = {
        name: {**own, "footprint_networks": networks, "footprint_network_addresses": {"overlay": own["ansible_host"].replace("192.0.2", "10.2.0")}}
        for name, own in HOSTS.items()
    }
    own = parsed(export(hosts)["inventory"], tmp_path).get_host("metal1").get_vars()
    assert (own["network_interface"], own["tunnel_interface"], "storage_interface" in own) == ("br-admin", "eno1.20", False)


def test_settings() -> None:
    found = export(external_name="cloud.example.com", virt_type="qemu", settings={"enable_cinder": True, "docker_apt_package": "docker-ce"})["settings"]
    assert yaml.safe_load(yaml.safe_dump(found)) == {
        "workaround_ansible_issue_8743": True, "kolla_base_distro": "debian", "kolla_internal_vip_address": "192.0.2.20", "neutron_plugin_agent": "ovn",
        "nova_compute_virt_type": "qemu", "enable_docker_repo": False, "docker_apt_package": "docker-ce", "kolla_external_fqdn": "cloud.example.com",
        "enable_cinder": True,
    }  # fmt: skip
    kept = export(keep=["database", "load_balancer"])["settings"]
    assert (kept["enable_mariadb"], kept["database_user"], kept["database_address"], kept["enable_haproxy"]) == (False, "kolla", "192.0.2.20", False)


@pytest.mark.parametrize(
    "name, change, message",
    [
        ("c2", {"export_kolla_external_interface": None}, "c2.export_kolla_external_interface: c2 needs an interface for the networks of tenants. Set it to an "
         "interface without addresses: eno2, eno3."),
        ("c2", {"export_kolla_external_interface": "eno9"}, "c2.export_kolla_external_interface: c2 has no interface 'eno9'. Did you mean eno"),
        ("c2", {"export_kolla_external_interface": "br-admin"}, "c2.export_kolla_external_interface: br-admin has the address 192.0.2.200, and"),
        ("c2", {"ansible_host": "192.0.2.99"}, "c2.footprint_network_addresses.management: no interface of c2 has 192.0.2.99"),
        ("c2", {"ansible_facts": {}}, "c2: the facts of c2 are unknown."),
        ("metal1", {"ansible_facts": {**HOSTS["c1"]["ansible_facts"], "distribution_release": "bullseye"}}, "metal1: metal1 runs Debian bullseye, which"),
        ("c1", {"ansible_host": "192.0.2.20"}, "load_balancer_virtual_address: 192.0.2.20 is the address of c1."),
    ],
)  # fmt: skip
def test_hosts_that_kolla_cannot_use(name: str, change: dict[str, t.Any], message: str) -> None:
    hosts = copy.deepcopy(HOSTS)
    hosts[name].update(change)
    with pytest.raises(FootprintError) as error:
        export(hosts)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    "wishes, message",
    [
        ({"virtual_address": ""}, "load_balancer_virtual_address: is not set."),
        ({"keep": ["databse"]}, "export_kolla_keep[0]: 'databse' cannot be kept. Did you mean database?"),
        ({"members": {**MEMBERS, "control": []}}, "groups.controller: there are no controllers."),
        ({"members": {**MEMBERS, "compute": []}}, "groups.compute: there are no compute servers."),
        ({"sample": "[control]\n"}, "export_kolla_environment: the sample inventory has no group network."),
    ],
)
def test_invalid_settings(wishes: dict[str, t.Any], message: str) -> None:
    with pytest.raises(FootprintError) as error:
        export(**wishes)
    assert str(error.value).startswith(message)
