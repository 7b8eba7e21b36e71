# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""All databases of a cloud are restored from one backup: Keystone, Glance, Placement, Nova and Neutron agree, and OVN follows as docs/database.md describes."""

from __future__ import annotations

import pathlib

import pytest
from cloud_client import IMAGES, NETWORK, REQUESTS, RESOURCES, UNANSWERED, Cloud
from cloud_lab import CloudLab
from controllers_lab import SERVERS
from support import eventually

pytestmark = pytest.mark.chapter
CONFIGURATION = [
    "--config-file=/etc/neutron/neutron.conf",
    "--config-file=/etc/neutron/plugins/ml2/ml2_conf.ini",
    "--config-dir=/etc/neutron/neutron.conf.d",
]
REPAIR = ["runuser", "-u", "neutron", "--", "neutron-ovn-db-sync-util", *CONFIGURATION, "--ovn-neutron_sync_mode=repair"]


def network(cloud: Cloud, name: str) -> str:
    """Create a network with a subnet and return its ID."""
    made = str(cloud.send(NETWORK, "/v2.0/networks", network={"name": name})["network"]["id"])
    cloud.send(NETWORK, "/v2.0/subnets", subnet={"network_id": made, "ip_version": 4, "cidr": "192.0.2.0/24"})
    return made


def networks(cloud: Cloud) -> set[str]:
    """The IDs of Neutron's networks."""
    return {str(one["id"]) for one in cloud.send(NETWORK, "/v2.0/networks", "GET")["networks"]}


def switches(lab: CloudLab) -> set[str]:
    """The IDs of the networks that OVN has."""
    text = lab.nbctl(SERVERS[0], "--bare", "--columns=name", "list", "Logical_Switch")
    return {line.removeprefix("neutron-") for line in text.split()}


def provider(cloud: Cloud, name: str) -> str:
    """Create a provider of resources and return its UUID."""
    cloud.send(RESOURCES, "/resource_providers", name=name)
    return next(str(one["uuid"]) for one in cloud.send(RESOURCES, f"/resource_providers?name={name}", "GET")["resource_providers"])


def gone(cloud: Cloud, port: int, path: str) -> bool:
    """Whether a service answers that an object does not exist."""
    try:
        cloud.ask(port, path)
    except UNANSWERED as error:
        return getattr(error, "code", None) == 404
    return False


def test_everything_is_as_it_was_at_the_backup(lab: CloudLab, cloud: Cloud, tmp_path: pathlib.Path) -> None:
    before = network(cloud, "before")
    image = cloud.upload(b"before" * 1000)
    kept = provider(cloud, "before")
    lab.succeeds("backup_database", variables={"galera_backup_directory": str(tmp_path)})
    [file] = tmp_path.glob("lab-*.mbs.zst")
    after = network(cloud, "after")
    late = provider(cloud, "after")
    # removed from Neutron and from OVN, although the backup has it
    cloud.send(NETWORK, f"/v2.0/networks/{before}", "DELETE")
    assert after in switches(lab) and before not in switches(lab)

    lab.succeeds("restore_database", variables={"galera_restore_file": str(file), "galera_restore_confirm": "lab"})
    eventually("all services answer", lambda: all(map(cloud.answers, REQUESTS)), 180)
    assert before in networks(cloud) and after not in networks(cloud)
    assert cloud.ask(IMAGES, f"/v2/images/{image}/file") == b"before" * 1000
    assert cloud.send(RESOURCES, f"/resource_providers/{kept}", "GET")["name"] == "before"
    assert gone(cloud, RESOURCES, f"/resource_providers/{late}")

    lab.run(SERVERS[0], REPAIR)
    assert switches(lab) == networks(cloud)
    # the subnet as well: its port has an address in OVN
    port = cloud.send(NETWORK, "/v2.0/ports", port={"network_id": before, "name": "before"})["port"]
    [fixed] = port["fixed_ips"]
    assert fixed["ip_address"] in lab.nbctl(SERVERS[0], "--bare", "--columns=addresses", "list", "Logical_Switch_Port", str(port["id"]))
    eventually("nothing is degraded", lambda: lab.play("status").rc == 0, 300)
    again = lab.succeeds("deploy_controllers")
    assert again.changed == 0, again.changed_tasks()
