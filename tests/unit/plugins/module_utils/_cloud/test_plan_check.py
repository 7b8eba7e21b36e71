# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Invalid lists of cloud resources, each with its path and message: from the lists alone, with the servers, and with what exists."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._cloud import model_resources, plan_check, plan_site
from ansible_collections.reduced.footprint.plugins.module_utils._cloud.model_state import State
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError, InputError

PUBLIC = {"name": "public", "type": "flat", "external": True, "subnets": [{"cidr": "198.51.100.0/24", "pool": ["198.51.100.100", "198.51.100.199"]}]}
RED = {"name": "red", "project": "red", "subnets": [{"cidr": "192.168.10.0/24"}]}
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ6kq alice"
GOOD: dict[str, list[t.Any]] = {
    "projects": [{"name": "red", "quota": {"cores": 4, "ram": "8 GiB", "networks": 2}}],
    "users": [{"name": "alice", "project": "red"}],
    "flavors": [{"name": "small", "vcpus": 2, "ram": "512 MiB", "disk": 4}],
    "images": [{"name": "debian", "file": "debian.qcow2"}],
    "networks": [PUBLIC, RED],
    "routers": [{"name": "red", "project": "red", "external": "public", "subnets": ["red"]}],
    "security_groups": [{"name": "ssh", "project": "red", "rules": [{"protocol": "tcp", "port": 22}]}],
    "key_pairs": [{"name": "alice", "user": "alice", "public_key": KEY}],
    "volume_types": [{"name": "fast", "backend": "ceph", "properties": {"multiattach": "<is> True"}}, {"name": "any"}],
}
FACTS = {"architecture": "x86_64", "processor_nproc": 8, "memtotal_mb": 16000, "mounts": [{"mount": "/", "size_total": 100 << 30}]}
HOSTS: dict[str, dict[str, t.Any]] = {
    "c1": {"ansible_host": "192.0.2.21", "load_balancer_virtual_address": "192.0.2.20"},
    "metal1": {
        "ansible_host": "192.0.2.11",
        "ansible_facts": FACTS,
        "footprint_networks": {"management": {"cidr": "192.0.2.0/24"}, "overlay": {"cidr": "10.2.0.0/24", "vlan": 20}, "public": {"cidr": "198.51.100.0/24"}},
        "ovn_chassis_bridge_mappings": {"provider": "br-ex", "fast": "br-fast"},
        "cinder_volume_backends": {"ceph": {}},
    },
    "metal2": {"ansible_host": "192.0.2.12", "ansible_facts": {**FACTS, "processor_nproc": 32, "memtotal_mb": 2000}},
}
STATE: dict[str, list[dict[str, t.Any]]] = {
    "projects": [{"id": "a", "name": "admin"}, {"id": "r", "name": "red"}],
    "roles": [{"id": "m", "name": "member"}],
    "networks": [
        {"id": "n1", "name": "office", "project_id": "a", "provider_network_type": "vlan", "provider_physical_network": "provider",
         "provider_segmentation_id": 7, "is_router_external": True},
        {"id": "n2", "name": "blue", "project_id": "r"}, {"id": "n3", "name": "green", "project_id": "r"},
    ],
    "subnets": [{"id": "s1", "name": "office", "network_id": "n1", "project_id": "a", "cidr": "203.0.113.0/24"}],
    "servers": [{"project_id": "r", "flavor": {"vcpus": 3, "ram": 4096}}],
}  # fmt: skip


def check(lists: t.Mapping[str, t.Any], state: t.Any = None) -> None:
    found = None if state is None else State(state)
    plan_check.check(model_resources.parse(lists), plan_site.site(HOSTS, ["metal1", "metal2"]), found)


def test_good_lists() -> None:
    check(GOOD)
    check({**GOOD, "projects": [{"name": "red"}]}, STATE)
    check({})


BAD: list[tuple[str, t.Any, str]] = [
    ("project", [], "project: is not a known key. Did you mean projects?"),
    ("projects", {"name": "red"}, "cloud_bootstrap_projects: expected a list, got a mapping."),
    ("projects", [{"nam": "red"}], "cloud_bootstrap_projects[0].nam: is not a known key. Did you mean name?"),
    ("projects", [{"name": "a/b"}], "cloud_bootstrap_projects[0].name: 'a/b' is not a valid name."),
    ("projects", [{"name": "red"}, {"name": "red"}], "cloud_bootstrap_projects[1].name: red is already declared at cloud_bootstrap_projects[0]."),
    ("projects", [{"name": "red", "quota": {"core": 1}}], "cloud_bootstrap_projects[0].quota.core: is not a known key. Did you mean cores?"),
    ("projects", [{"name": "red", "quota": {"cores": -2}}], "cloud_bootstrap_projects[0].quota.cores: -2 is not between -1 and"),
    ("users", [{"name": "alice"}], "cloud_bootstrap_users[0].project: is missing."),
    ("flavors", [{"name": "x", "vcpus": 1}], "cloud_bootstrap_flavors[0].ram: is missing."),
    ("flavors", [{"name": "x", "ram": "lots"}], "cloud_bootstrap_flavors[0].ram: 'lots' is not a size."),
    ("flavors", [{"name": "x", "ram": 1, "vcpus": 33}], "cloud_bootstrap_flavors[0].vcpus: 33 is more than every compute server has; the largest is metal2"),
    ("flavors", [{"name": "x", "ram": 64}], "cloud_bootstrap_flavors[0].ram: 64 GiB is more than every compute server has; the largest is metal1"),
    ("flavors", [{"name": "x", "ram": 1, "disk": 200}], "cloud_bootstrap_flavors[0].disk: 200 GiB is more than every compute server has"),
    ("flavors", [{"name": "x", "ram": 8, "vcpus": 16}], "cloud_bootstrap_flavors[0]: no single compute server has the CPUs, the memory and the disk."),
    ("images", [{"name": "x"}], "cloud_bootstrap_images[0].file: is missing."),
    ("images", [{"name": "x", "file": "x", "disk_format": "qcow"}], "cloud_bootstrap_images[0].disk_format: 'qcow' is not supported."),
    ("images", [{"name": "x", "file": "x", "architecture": "aarch64"}], "cloud_bootstrap_images[0].architecture: no compute server is aarch64, only x86_64."),
    ("images", [{"name": "x", "file": "x", "firmware": "uefi"}], "cloud_bootstrap_images[0].firmware: no x86_64 compute server can boot with uefi. Install"),
    ("images", [{"name": "x", "file": "x", "min_ram": 32}], "cloud_bootstrap_images[0].min_ram: 32 GiB is more than metal1"),
    ("networks", [{"name": "x", "vlan": 5}], "cloud_bootstrap_networks[0].vlan: requires type: vlan, not a tenant network."),
    ("networks", [{"name": "x", "type": "vlan"}], "cloud_bootstrap_networks[0].vlan: is missing."),
    ("networks", [{"name": "x", "type": "vlan", "vlan": 4095}], "cloud_bootstrap_networks[0].vlan: 4095 is not between 1 and 4094."),
    ("networks", [{"name": "x", "type": "vlan", "vlan": 20}], "cloud_bootstrap_networks[0].vlan: VLAN 20 is that of the network overlay of the servers."),
    ("networks", [{"name": "x", "external": True}], "cloud_bootstrap_networks[0].external: requires a provider network."),
    ("networks", [{"name": "x", "type": "flat", "physical_network": "fats"}], "cloud_bootstrap_networks[0].physical_network: unknown physical network 'fats'. "
     "Did you mean fast?"),
    ("networks", [PUBLIC, {"name": "x", "type": "flat"}], "cloud_bootstrap_networks[1].physical_network: the flat network public (cloud_b"),
    ("networks", [{"name": "x", "type": "vlan", "vlan": 9}, {"name": "y", "type": "vlan", "vlan": 9}], "cloud_bootstrap_networks[1].vlan: x (cloud_b"),
    ("networks", [{"name": "x", "type": "vlan", "vlan": 9, "subnets": [{"cidr": "10.2.0.128/25"}]}], "cloud_bootstrap_networks[0].subnets[0].cidr: "
     "10.2.0.128/25 overlaps with 10.2.0.0/24, the network overlay of the servers."),
    ("networks", [PUBLIC, {"name": "x", "type": "vlan", "vlan": 9, "subnets": [{"cidr": "198.51.0.0/16"}]}], "cloud_bootstrap_networks[1].subnets[0].cidr: "
     "198.51.0.0/16 overlaps with 198.51.100.0/24 (cloud_bootstrap_networks[0].subnets[0])."),
    ("networks", [{**RED, "subnets": [{"cidr": "192.168.10.0/24"}, {"cidr": "192.168.0.0/16", "name": "b"}]}], "cloud_bootstrap_networks[0].subnets[1].cidr: "
     "192.168.0.0/16 overlaps with 192.168.10.0/24 of red."),
    ("networks", [{**RED, "subnets": [{"cidr": "192.168.10.1/24"}]}], "cloud_bootstrap_networks[0].subnets[0].cidr: '192.168.10.1/24' is an address inside a "
     "network. Did you mean 192.168.10.0/24?"),
    ("networks", [{**RED, "subnets": [{"cidr": "192.168.10.0/24", "gateway": "192.168.11.1"}]}], "cloud_bootstrap_networks[0].subnets[0].gateway: 192"),
    ("networks", [{**RED, "subnets": [{"cidr": "192.168.10.0/24", "pool": ["192.168.10.1", "192.168.10.9"]}]}], "cloud_bootstrap_networks[0].subnets[0].pool: "
     "contains the gateway 192.168.10.1."),
    ("networks", [{**RED, "subnets": [{"cidr": "192.168.10.0/24", "pool": ["192.168.10.9", "192.168.10.2"]}]}], "cloud_bootstrap_networks[0].subnets[0].pool: "
     "192.168.10.9 comes after 192.168.10.2."),
    ("networks", [{**RED, "subnets": [{"cidr": "192.168.10.0/24", "dns": ["dns"]}]}], "cloud_bootstrap_networks[0].subnets[0].dns[0]: 'dns' is not"),
    ("routers", [{"name": "r", "project": "red", "subnets": ["red", "rad"]}], ""),
    ("security_groups", [{"name": "x", "rules": [{"port": 22}]}], "cloud_bootstrap_security_groups[0].rules[0].port: requires the protocol tcp or udp, not"),
    ("security_groups", [{"name": "x", "rules": [{"protocol": "tcp", "port": "30-20"}]}], "cloud_bootstrap_security_groups[0].rules[0].port: '30-20' ends bef"),
    ("security_groups", [{"name": "x", "rules": [{"protocol": "tcp", "port": 70000}]}], "cloud_bootstrap_security_groups[0].rules[0].port: 70000 is not betw"),
    ("security_groups", [{"name": "x", "rules": [{"remote": "0.0.0.0/0", "group": "x"}]}], "cloud_bootstrap_security_groups[0].rules[0]: has both remote and"),
    ("key_pairs", [{"name": "k", "user": "bob", "public_key": KEY}], "cloud_bootstrap_key_pairs[0].user: unknown user 'bob'."),
    ("key_pairs", [{"name": "k", "public_key": "AAAA"}], "cloud_bootstrap_key_pairs[0].public_key: is not a public key of OpenSSH."),
    ("key_pairs", [{"name": "k", "public_key": "-----BEGIN OPENSSH PRIVATE KEY-----"}], "cloud_bootstrap_key_pairs[0].public_key: is a private key."),
    ("volume_types", [{"name": "x", "backend": "cep"}], "cloud_bootstrap_volume_types[0].backend: unknown backend 'cep'. Did you mean ceph?"),
    ("volume_types", [{"name": "x", "properties": {"volume_backend_name": "ceph"}}], "cloud_bootstrap_volume_types[0].properties.volume_backend_name: is set"),
    ("volume_types", [{"name": "x", "public": "no"}], "cloud_bootstrap_volume_types[0].public: expected a boolean, got 'no'."),
    ("volume_types", [{"name": "x"}, {"name": "x"}], "cloud_bootstrap_volume_types[1].name: x is already declared at cloud_bootstrap_volume_types[0]."),
]  # fmt: skip


@pytest.mark.parametrize("kind, value, message", [case for case in BAD if case[2]])
def test_bad_lists(kind: str, value: t.Any, message: str) -> None:
    with pytest.raises(FootprintError) as error:
        check({**GOOD, kind: value})
    assert str(error.value).startswith(message)
    assert error.value.hint


@pytest.mark.parametrize(
    "kind, value, message",
    [
        ("projects", [{"name": "red", "quota": {"cores": 2}}], "cloud_bootstrap_projects[0].quota.cores: 2 is less than what red uses: 3. Use 3 or more."),
        ("projects", [{"name": "red", "quota": {"ram": 2}}], "cloud_bootstrap_projects[0].quota.ram: 2048 MiB is less than what red uses: 4096 MiB."),
        ("projects", [{"name": "red", "quota": {"networks": 2}}], "cloud_bootstrap_projects[0].quota.networks: 2 is less than the 3 networks of red"),
        ("users", [{"name": "alice", "project": "rde"}], "cloud_bootstrap_users[0].project: unknown project 'rde'. Did you mean red?"),
        ("users", [{"name": "alice", "project": "red", "roles": ["memer"]}], "cloud_bootstrap_users[0].roles[0]: unknown role 'memer'. Did you mean member?"),
        ("networks", [PUBLIC, {**RED, "project": "blue"}], "cloud_bootstrap_networks[1].project: unknown project 'blue'."),
        ("networks", [{"name": "x", "type": "vlan", "vlan": 7}], "cloud_bootstrap_networks[0].vlan: office (the cloud) already uses VLAN 7 of provider."),
        (
            "networks",
            [{"name": "x", "type": "vlan", "vlan": 8, "subnets": [{"cidr": "203.0.113.0/25"}]}],
            "cloud_bootstrap_networks[0].subnets[0].cidr: 203.0.113.0/25 overlaps with 203.0.113.0/24 (office in the cloud).",
        ),
        ("routers", [{"name": "r", "project": "red", "external": "pubic"}], "cloud_bootstrap_routers[0].external: unknown external network 'pubic'. Did you"),
        ("routers", [{"name": "r", "project": "red", "subnets": ["rad"]}], "cloud_bootstrap_routers[0].subnets[0]: unknown subnet of the project red 'rad'."),
        ("security_groups", [{"name": "x", "rules": [{"group": "y"}]}], "cloud_bootstrap_security_groups[0].rules[0].group: unknown security group 'y'."),
        ("images", [{"name": "x", "file": "x", "kernel": "k"}], "cloud_bootstrap_images[0].kernel: unknown image 'k'."),
    ],
)
def test_lists_that_do_not_fit_what_exists(kind: str, value: t.Any, message: str) -> None:
    with pytest.raises(InputError) as error:
        check({**GOOD, kind: value} if kind == "projects" else {**GOOD, "projects": [], kind: value}, STATE)
    assert str(error.value).startswith(message)


def test_addresses_of_hosts_are_not_assigned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(HOSTS["c1"], "ansible_host", "198.51.100.150")
    with pytest.raises(InputError, match=r"subnets\[0\].pool: 198.51.100.100 to .* but 198.51.100.150 is the address of c1"):
        check(GOOD)


def test_overlap_with_the_external_network_of_the_router() -> None:
    inside = {**RED, "subnets": [{"cidr": "198.51.100.128/25"}]}
    with pytest.raises(InputError, match=r"cloud_bootstrap_routers\[0\].subnets\[0\]: 198.51.100.128/25 overlaps with .* of public at the same router"):
        check({**GOOD, "networks": [PUBLIC, inside]})


def test_servers_without_facts_are_left_out() -> None:
    site = plan_site.site({"metal9": {"ansible_host": "metal9.example.com"}}, ["metal9"])
    assert (site.servers, site.addresses, site.physical_networks) == ((), {}, ("provider",))
    plan_check.check(model_resources.parse({"flavors": [{"name": "x", "ram": 4000}]}), site)


def test_firmware_and_disks_of_servers() -> None:
    own = {"ansible_facts": {**FACTS, "mounts": [*FACTS["mounts"], {"mount": "/var/lib/nova", "size_total": 5 << 30}]}, "__cloud_uefi": True}
    (server,) = plan_site.site({"metal1": own}, ["metal1"]).servers
    assert (server.firmware, server.disk_gib) == (("bios", "uefi"), 5)
