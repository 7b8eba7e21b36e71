# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Volumes of a cloud on an external cluster of Ceph: deployed twice, attached, written, read after a rebuild, removed; a backend that is not up is reported."""

from __future__ import annotations

import json
import typing as t

import ceph
import pytest
from cloud_lab import CLOUD, COMPUTE, GROUPS, SERVICES, CloudLab
from rflab import openstack_client

pytestmark = pytest.mark.chapter
CEPH = "metal3"
IMAGE = [{"hosts": SERVICES, "gather_facts": False, "roles": [{"role": "reduced.footprint.test_image"}]}]
#: Steps of verify_cloud that say what was proven.
PROVEN = ("A volume was created, attached and written", "The data is on the volume", "The volume was detached and removed", "Everything removed")


@pytest.fixture(scope="module", name="client")
def fixture_client() -> dict[str, str]:
    """The environment variables of a control node with openstack.cloud and openstacksdk."""
    return openstack_client.variables()


@pytest.fixture(scope="module", name="backend", autouse=True)
def fixture_backend(lab: CloudLab) -> dict[str, t.Any]:
    """One controller, one compute server, and Ceph on a server that the inventory does not contain."""
    backend = ceph.install(lab, CEPH)
    pool = [f"{lab.net}.{last}" for last in (200, 219)]
    public = {"name": "public", "type": "flat", "external": True, "subnets": [{"cidr": f"{lab.net}.0/24", "gateway": f"{lab.net}.1", "pool": pool}]}
    volumes = {
        "cinder_group": "controller",
        "cinder_volume_backends": {"ceph": backend},
        "cloud_bootstrap_volume_types": [{"name": "ceph", "backend": "ceph", "description": "External"}],
    }
    lab.write_inventory({**CLOUD, **volumes, "cloud_bootstrap_networks": [public]}, GROUPS)
    return backend


def test_controller_is_deployed_and_stays(lab: CloudLab) -> None:
    lab.succeeds("deploy_controllers")
    again = lab.succeeds("deploy_controllers")
    assert again.changed == 0, again.changed_tasks()


def test_compute_server_is_provisioned_and_stays(lab: CloudLab, backend: dict[str, t.Any]) -> None:
    lab.succeeds("provision_virt")
    lab.succeeds("provision_compute")
    again = lab.succeeds("provision_compute")
    assert again.changed == 0, again.changed_tasks()
    assert backend["key"] not in again.output
    (secret,) = (line.split()[0] for line in lab.run(COMPUTE, ["virsh", "secret-list"]).splitlines() if " ceph " in f"{line} ")
    assert lab.run(COMPUTE, ["virsh", "secret-get-value", secret]).strip() == backend["key"]


def test_volume_types_are_created_and_stay(lab: CloudLab, client: dict[str, str]) -> None:
    lab.succeeds(IMAGE)
    lab.succeeds("cloud_bootstrap", extra=client)
    again = lab.succeeds("cloud_bootstrap", extra=client)
    assert again.changed == 0, again.changed_tasks()


def test_a_volume_keeps_its_data_and_is_removed(lab: CloudLab, client: dict[str, str]) -> None:
    path = lab.state / "verify.json"
    path.unlink(missing_ok=True)
    done = lab.play("verify_cloud", variables={"verify_cloud_report_file": str(path), "verify_cloud_volume_type": "ceph"}, extra=client)
    report = json.loads(path.read_text("utf-8"))
    assert done.rc == 0 and report["ok"], done.output[-6000:]
    steps = [step["step"] for step in report["steps"]]
    for proof in PROVEN:
        assert any(proof in step for step in steps), (proof, steps)
    assert ceph.images(lab, CEPH) == []


def test_api_is_in_the_status_and_restarted_in_turn(lab: CloudLab) -> None:
    lab.succeeds("rolling_restart", variables={"rolling_restart_components": ["cinder"], "rolling_restart_accept_outage": True})
    assert any(line.split()[:3] == ["cinder", "1/1", "ok"] for line in lab.succeeds("status").output.replace('"', " ").splitlines())


def test_backend_that_is_not_up_is_reported(lab: CloudLab, backend: dict[str, t.Any]) -> None:
    backends = {"ceph": backend, "broken": {**backend, "pool": "absent"}}
    done = lab.play("provision_compute", variables={"cinder_volume_backends": backends, "cinder_volume_wait_timeout": 30})
    assert done.rc != 0 and "broken" in done.output, done.output[-3000:]
    assert backend["key"] not in done.output
    lab.succeeds("provision_compute")
