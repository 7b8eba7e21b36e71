# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Patch day with instances: two servers with an instance on each, of which one has the only controller, are maintained under clients of both instances.

The figures are recorded in tests/output/controllers/LAB/patch_day.json.
"""

from __future__ import annotations

import typing as t

import pytest
from cloud_client import Cloud
from cloud_lab import CLOUD, CloudLab
from rflab import openstack_client
from support import eventually
from tenant import Instance, Tenant, connects, resources

pytestmark = pytest.mark.chapter
SERVERS = ("metal1", "metal2")
NICS = dict.fromkeys(SERVERS, "br-admin")
GROUPS = {"controller": SERVERS[:1], "virt": SERVERS, "compute": SERVERS}


@pytest.fixture(scope="module", autouse=True)
def inventory(lab: CloudLab) -> None:
    """Two servers, the first with a controller."""
    lab.write_inventory({**CLOUD, **resources(lab.net)}, GROUPS, lab.tunnel_addresses(NICS))


def test_two_servers_are_deployed_and_stay(lab: CloudLab, reuse_lab: bool) -> None:
    if not reuse_lab:
        lab.succeeds("provision_virt")
        lab.set_tunnels(NICS)
        lab.succeeds("deploy_controllers")
        lab.succeeds("provision_compute")
    lab.set_tunnels(NICS)
    again = lab.succeeds("provision_compute")
    assert again.changed == 0, again.changed_tasks()


def test_resources_are_created(lab: CloudLab) -> None:
    lab.succeeds([{"hosts": SERVERS[0], "gather_facts": False, "roles": [{"role": "reduced.footprint.test_image"}]}])
    lab.succeeds("cloud_bootstrap", extra=openstack_client.variables())


@pytest.fixture(scope="module", name="tenant")
def fixture_tenant(lab: CloudLab) -> Tenant:
    """A tenant, after cloud_bootstrap."""
    return Tenant(Cloud(lab))


@pytest.fixture(scope="module", name="instances")
def fixture_instances(lab: CloudLab, tenant: Tenant) -> dict[str, Instance]:
    """Server → an instance on it that is reached from outside."""
    tenant.remove()
    found = {host: tenant.create(f"on-{host}", host) for host in SERVERS}
    for one in found.values():
        eventually(f"{one.address} answers", lambda one=one: connects(one.address), 300)
    return found


def test_instances_are_reached(lab: CloudLab, instances: dict[str, Instance]) -> None:
    assert all(connects(one.address, 5) for one in instances.values())
