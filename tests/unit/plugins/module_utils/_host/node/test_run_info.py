# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._host.node.run_info import read_node
from tests.support.node_host import GIB, LXC, QEMU, Host, record
from tests.support.records import away


@pytest.fixture
def host():
    found = Host()
    found.records[QEMU] = [record("c1", disk="/pool/c1.img"), record("asleep", "other", state="suspended"), record("off", None, state="shutdown")]
    found.add_pool("default", "/pool", volumes=12)
    found.add_network("br-admin")
    found.text = json.dumps(
        {
            "attributes": {"name": "metal1", "cluster": "lab", "roles": ["virt"], "vms": [{"id": "c1", "roles": ["controller"], "root_password": "sesame"}]},
            "capacity": {"memory_reserve_mib": 1024, "vcpu_ratio": 2.0, "pools": {"default": {"path": "/pool", "reserve_bytes": 5}}},
            "hypervisors": {
                "qemu": {"usable": True, "reason": "ran", "seconds": 1.5, "key": "qemu|6.1"},
                "lxc": {"usable": True, "reason": "ran", "seconds": 0.5, "key": "lxc|5.10"},
            },
        }
    )
    return found


def read(host):
    return read_node(backend=host)


def test_a_node(host):
    node, warnings = read(host)
    assert warnings == [] and (node["name"], node["cluster"], node["recorded"], node["libvirt"]) == ("metal1", "lab", True, True)
    assert {kind: proof["holds"] for kind, proof in node["hypervisors"].items()} == {"qemu": True, "lxc": False}
    pool = node["pools"]["default"]
    assert (pool["ours"], pool["volumes"], pool["promised_bytes"], pool["overcommit"], pool["reserve_bytes"]) == (True, 12, 12 * GIB, 1.2, 5)
    assert node["networks"][0]["ours"] and node["bridges"] == ["br-admin"]
    c1 = next(vm for vm in node["vms"] if vm["name"] == "c1")
    assert (c1["owner"], c1["roles"], c1["pools"], c1["networks"]) == ("cluster lab", ["controller"], ["default"], ["default"])
    assert [vm["owner"] for vm in node["vms"]] == ["cluster other", "cluster lab", "unmanaged"]
    # what is suspended holds its memory, what is off does not
    assert node["capacity"]["memory_left_mib"] == 8192 - 1024 - 2 * 1024
    assert node["capacity"]["memory_left_all_running_mib"] == 8192 - 1024 - 3 * 1024


def test_secrets_are_masked(host):
    assert "sesame" not in json.dumps(read(host))


def test_a_moved_vm_says_where_to(host):
    host.notes["uuid-c1"] = away("moved", "metal3", uuid="uuid-c1")
    assert next(vm["moved_to"] for vm in read(host)[0]["vms"] if vm["name"] == "c1") == "metal3"


def test_without_containers(host):
    del host.records[LXC]
    assert len(read(host)[0]["vms"]) == 3


def test_containers_that_cannot_be_read_are_not_none(host):
    host.silent.add(LXC)
    node, warnings = read(host)
    assert not node["vms"] and not node["libvirt"] and "libvirt does not answer" in warnings[0]


def test_server_without_record(host):
    host.answers, host.text = False, ""
    node, warnings = read(host)
    assert not node["recorded"] and not node["libvirt"] and node["name"] is None and node["capacity"]["memory_mib"] == 8192
    assert "libvirt does not answer" in warnings[0]


@pytest.mark.parametrize("text", ['{"attributes": 1, "hypervisors": [2], "capacity": "x"}', '{"attributes": {"vms": ["x"]}, "hypervisors": {"kvm": 5}}'])
def test_a_damaged_record(host, text):
    host.text = text
    node = read(host)[0]
    assert node["recorded"] and node["cluster"] is None
