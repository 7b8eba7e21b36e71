# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What has to be created and changed, and that nothing has to once it exists."""

from __future__ import annotations

import copy
import typing as t

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._cloud import model_resources, plan_bootstrap
from ansible_collections.reduced.footprint.plugins.module_utils._cloud.model_state import State
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import RefusedError

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ6kq"
LISTS: dict[str, list[t.Any]] = {
    "projects": [{"name": "red", "quota": {"cores": 4}}],
    "roles": ["auditor"],
    "users": [{"name": "alice", "project": "red", "roles": ["member", "auditor"]}],
    "flavors": [{"name": "small", "vcpus": 2, "ram": 1, "properties": {"hw:cpu_policy": "shared"}}],
    "images": [{"name": "debian", "file": "debian.qcow2", "properties": {"hw_rng_model": "virtio"}}],
    "networks": [
        {"name": "public", "type": "vlan", "vlan": 9, "external": True, "subnets": [{"cidr": "198.51.100.0/24", "pool": ["198.51.100.9", "198.51.100.19"]}]},
        {"name": "red", "project": "red", "subnets": [{"cidr": "192.168.10.0/24", "dns": ["192.0.2.1"]}]},
    ],
    "routers": [{"name": "red", "project": "red", "external": "public", "subnets": ["red"]}],
    "security_groups": [{"name": "ssh", "project": "red", "rules": [{"protocol": "tcp", "port": 22}, {"protocol": "icmp"}, {"group": "ssh"}]}],
    "key_pairs": [{"name": "alice", "user": "alice", "public_key": f"{KEY} alice@laptop"}],
    "volume_types": [{"name": "fast", "backend": "ceph", "properties": {"multiattach": "<is> True"}}],
}
EMPTY: dict[str, t.Any] = {"projects": [{"id": "a", "name": "admin"}], "roles": [{"id": "m", "name": "member"}]}
DONE: dict[str, t.Any] = {
    "volume_types": [
        {"name": "fast", "is_public": True, "description": "of someone else",
         "extra_specs": {"volume_backend_name": "ceph", "multiattach": "<is> True", "x": "y"}},
    ],
    "projects": [{"id": "a", "name": "admin"}, {"id": "r", "name": "red", "description": "of someone else"}],
    "roles": [{"id": "m", "name": "member"}, {"id": "u", "name": "auditor"}],
    "users": [{"id": "al", "name": "alice", "email": None}],
    "role_assignments": [
        {"user": {"id": "al"}, "role": {"id": "m"}, "scope": {"project": {"id": "r"}}},
        {"user": {"id": "al"}, "role": {"id": "u"}, "scope": {"project": {"id": "r"}}},
        {"user": None, "group": {"id": "g"}, "role": {"id": "m"}, "scope": {"system": {"all": True}}},
    ],
    "flavors": [{"id": "f", "name": "small", "vcpus": 2, "ram": 1024, "disk": 0, "is_public": True, "extra_specs": {"hw:cpu_policy": "shared", "x": "y"}}],
    "images": [
        {"name": "debian", "min_ram": 0, "min_disk": 0, "visibility": "public", "architecture": "x86_64", "hw_rng_model": "virtio", "hash_value": "1234",
         "properties": {"hw_firmware_type": "bios", "hw_architecture": "x86_64", "os_hidden": False}},
    ],
    "networks": [
        {"id": "n1", "name": "public", "project_id": "a", "is_router_external": True, "is_shared": False, "provider_network_type": "vlan",
         "provider_physical_network": "provider", "provider_segmentation_id": 9, "mtu": 1500},
        {"id": "n2", "name": "red", "project_id": "r", "is_router_external": False, "is_shared": False, "provider_network_type": "geneve"},
        {"id": "n3", "name": "red", "project_id": "a", "is_router_external": False, "is_shared": True},
    ],
    "subnets": [
        {"id": "s1", "name": "public", "network_id": "n1", "project_id": "a", "cidr": "198.51.100.0/24", "gateway_ip": "198.51.100.1",
         "is_dhcp_enabled": False, "dns_nameservers": [], "allocation_pools": [{"start": "198.51.100.9", "end": "198.51.100.19"}]},
        {"id": "s2", "name": "red", "network_id": "n2", "project_id": "r", "cidr": "192.168.10.0/24", "gateway_ip": "192.168.10.1",
         "is_dhcp_enabled": True, "dns_nameservers": ["192.0.2.1"], "allocation_pools": [{"start": "192.168.10.2", "end": "192.168.10.254"}]},
        {"id": "s3", "name": "more", "network_id": "n2", "project_id": "r", "cidr": "192.168.11.0/24"},
    ],
    "routers": [{"id": "o", "name": "red", "project_id": "r", "external_gateway_info": {"network_id": "n1"}}],
    "ports": [
        {"device_id": "o", "device_owner": "network:router_interface", "fixed_ips": [{"subnet_id": "s2"}]},
        {"device_id": "o", "device_owner": "network:router_interface", "fixed_ips": [{"subnet_id": "s3"}]},
        {"device_id": "o", "device_owner": "network:router_gateway", "fixed_ips": [{"subnet_id": "s1"}]},
    ],
    "security_groups": [
        {"id": "g", "name": "ssh", "project_id": "r", "description": "ssh", "security_group_rules": [
            {"direction": "egress", "ether_type": "IPv4", "protocol": None, "port_range_min": None, "port_range_max": None},
            {"direction": "ingress", "ether_type": "IPv4", "protocol": "tcp", "port_range_min": 22, "port_range_max": 22, "remote_ip_prefix": "0.0.0.0/0"},
            {"direction": "ingress", "ether_type": "IPv4", "protocol": "icmp", "port_range_min": None, "port_range_max": None},
            {"direction": "ingress", "ether_type": "IPv4", "protocol": None, "port_range_min": None, "remote_group_id": "g"},
        ]},
    ],
    "key_pairs": [({"item": "alice"}, {"name": "alice", "public_key": f"{KEY} other comment\n"}), ({"item": ""}, {"name": "alice", "public_key": "x y"})],
}  # fmt: skip


def plan(state: t.Mapping[str, t.Any], lists: t.Mapping[str, t.Any] | None = None, **checksums: str) -> tuple[dict[str, t.Any], list[str]]:
    found = plan_bootstrap.plan(model_resources.parse(lists or LISTS), State(state), checksums)
    assert tuple(found) == plan_bootstrap.ORDER
    return found, plan_bootstrap.lines(found)


def test_everything_is_created() -> None:
    actions, lines = plan(EMPTY)
    assert [line.split(":")[0] for line in lines] == [
        "roles", "projects", "users", "grants", "grants", "flavors", "images", "networks", "networks", "subnets", "subnets", "routers", "security_groups",
        "rules", "rules", "rules", "key_pairs", "volume_types",
    ]  # fmt: skip
    assert all(" create " in line for line in lines)
    assert actions["quotas"] == [{"name": "red", "change": {}, "quota": {"cores": 4}, "new": True}]
    assert actions["images"][0]["properties"] == {
        "architecture": "x86_64", "hw_architecture": "x86_64", "hw_firmware_type": "bios", "hw_rng_model": "virtio"
    }  # fmt: skip
    assert actions["volume_types"][0]["properties"] == {"volume_backend_name": "ceph", "multiattach": "<is> True"}
    assert actions["subnets"][0]["pool"] == ["198.51.100.9", "198.51.100.19"]


def test_nothing_is_changed_once_it_exists() -> None:
    actions, lines = plan(DONE)
    assert lines == []
    # only the module can compare them
    assert {kind: len(found) for kind, found in actions.items() if found} == {"quotas": 1}
    assert plan(DONE, {**LISTS, "images": LISTS["images"]}, **{"debian.qcow2": "1234"})[1] == []


@pytest.mark.parametrize(
    "kind, index, change, line",
    [
        ("projects", 0, {"description": "Red"}, "projects: change red (description: 'of someone else' -> 'Red')"),
        ("users", 0, {"email": "a@example.com"}, "users: change alice of red (email: '' -> 'a@example.com')"),
        ("images", 0, {"min_ram": 1}, "images: change debian (min_ram: 0 -> 1024)"),
        ("images", 0, {"properties": {"hw_disk_bus": "virtio"}}, "images: change debian (hw_disk_bus: '' -> 'virtio')"),
        ("networks", 1, {"shared": True}, "networks: change red of red (is_shared: False -> True)"),
        ("flavors", 0, {"properties": {"hw:cpu_policy": "dedicated"}}, "flavors: change small (hw:cpu_policy: 'shared' -> 'dedicated')"),
        ("volume_types", 0, {"backend": "nfs"}, "volume_types: change fast (volume_backend_name: 'ceph' -> 'nfs')"),
        ("volume_types", 0, {"description": "Fast"}, "volume_types: change fast (description: 'of someone else' -> 'Fast')"),
        ("routers", 0, {"subnets": ["red", "public"]}, "routers: change red of red (subnets: ['red', 'more'] -> ['red', 'public'])"),
    ],
)
def test_one_difference(kind: str, index: int, change: dict[str, t.Any], line: str) -> None:
    lists = copy.deepcopy(LISTS)
    lists[kind][index].update(change)
    actions, lines = plan(DONE, lists)
    assert lines == [line]
    assert [action["name"] for action in actions[kind]] == [lists[kind][index]["name"]]


def test_subnets_that_are_not_listed_stay_connected() -> None:
    lists = copy.deepcopy(LISTS)
    lists["routers"][0]["subnets"] = ["red", "new"]
    assert plan(DONE, lists)[0]["routers"][0]["subnets"] == ["red", "more", "new"]


@pytest.mark.parametrize(
    "kind, index, change, message",
    [
        ("flavors", 0, {"ram": 2}, r"cloud_bootstrap_flavors\[0\].ram: small exists with 1024, not 2048, and this cannot be changed"),
        ("networks", 0, {"vlan": 10}, r"cloud_bootstrap_networks\[0\].vlan: public exists with 9, not 10"),
        ("networks", 1, {"subnets": [{"cidr": "192.168.12.0/24"}]}, r"cloud_bootstrap_networks\[1\].subnets\[0\].cidr: red exists with 192.168.10.0/24"),
        ("volume_types", 0, {"public": False}, r"cloud_bootstrap_volume_types\[0\].public: fast exists with True, not False"),
        ("key_pairs", 0, {"public_key": "ssh-ed25519 AAAAother"}, r"cloud_bootstrap_key_pairs\[0\].public_key: alice exists with another key"),
    ],
)
def test_differences_that_cannot_be_applied(kind: str, index: int, change: dict[str, t.Any], message: str) -> None:
    lists = copy.deepcopy(LISTS)
    lists[kind][index].update(change)
    with pytest.raises(RefusedError, match=message):
        plan(DONE, lists)


@pytest.mark.parametrize("status, good", [("active", True), ("deactivated", True), ("queued", False), ("saving", False)])
def test_image_whose_upload_was_killed_is_not_complete(status: str, good: bool) -> None:
    done = copy.deepcopy(DONE)
    done["images"][0].update(status=status, id="i", hash_value="1234" if good else None)
    if good:
        assert plan(done, LISTS, **{"debian.qcow2": "1234"})[0]["images"] == []
        return
    with pytest.raises(RefusedError, match=rf"cloud_bootstrap_images\[0\].name: debian has no complete content, its status is {status}.*image delete i"):
        plan(done, LISTS, **{"debian.qcow2": "1234"})


def test_image_with_another_content_is_refused() -> None:
    with pytest.raises(RefusedError, match=r"cloud_bootstrap_images\[0\].file: debian exists with another content"):
        plan(DONE, LISTS, **{"debian.qcow2": "5678"})
