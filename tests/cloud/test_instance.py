# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A server of a tenant on one controller and one compute server: active, reached from outside, separated from another tenant, removed."""

from __future__ import annotations

import json
import typing as t

import pytest
from cloud_lab import CLOUD, COMPUTE, GROUPS, SERVICES, CloudLab
from rflab import openstack_client
from rflab.plays import PlayRun

pytestmark = pytest.mark.chapter
IMAGE = [{"hosts": SERVICES, "gather_facts": False, "roles": [{"role": "reduced.footprint.test_image"}]}]
#: Steps of verify_cloud that say what was proven.
PROVEN = ("ACTIVE", "reached from outside", "Networks are separated", "Projects are separated", "Everything removed")


@pytest.fixture(scope="module", name="client")
def fixture_client() -> dict[str, str]:
    """The environment variables of a control node with openstack.cloud and openstacksdk."""
    return openstack_client.variables()


@pytest.fixture(scope="module", autouse=True)
def inventory(lab: CloudLab) -> None:
    """One controller, one compute server, and the resources that an operator creates first."""
    pool = [f"{lab.net}.{last}" for last in (200, 219)]
    public = {"name": "public", "type": "flat", "external": True, "subnets": [{"cidr": f"{lab.net}.0/24", "gateway": f"{lab.net}.1", "pool": pool}]}
    lab.write_inventory({**CLOUD, "cloud_bootstrap_networks": [public]}, GROUPS)


def test_controller_is_deployed_and_stays(lab: CloudLab) -> None:
    lab.succeeds("deploy_controllers")
    again = lab.succeeds("deploy_controllers")
    assert again.changed == 0, again.changed_tasks()


def test_compute_server_is_provisioned_and_stays(lab: CloudLab) -> None:
    lab.succeeds("provision_virt")
    lab.succeeds("provision_compute")
    again = lab.succeeds("provision_compute")
    assert again.changed == 0, again.changed_tasks()


def test_resources_are_created_and_stay(lab: CloudLab, client: dict[str, str]) -> None:
    lab.succeeds(IMAGE)
    lab.succeeds("cloud_bootstrap", extra=client)
    again = lab.succeeds("cloud_bootstrap", extra=client)
    assert again.changed == 0, again.changed_tasks()


def verify(lab: CloudLab, client: dict[str, str], **options: t.Any) -> tuple[PlayRun, dict[str, t.Any]]:
    """Run the verification; return the run and its report."""
    path = lab.state / "verify.json"
    path.unlink(missing_ok=True)
    variables = {"verify_cloud_report_file": str(path), "verify_cloud_html_file": str(path.with_suffix(".html"))}
    done = lab.play("verify_cloud", variables={**variables, **options}, extra=client)
    return done, json.loads(path.read_text("utf-8"))


def domains(lab: CloudLab) -> list[str]:
    """The domains of the compute server."""
    return lab.run(COMPUTE, ["virsh", "list", "--all", "--name"]).split()


def test_servers_are_reached_separated_and_removed(lab: CloudLab, client: dict[str, str]) -> None:
    done, report = verify(lab, client)
    assert done.rc == 0, done.output[-6000:]
    assert report["ok"] and not report["failure"]
    steps = [step["step"] for step in report["steps"]]
    for proof in PROVEN:
        assert any(proof in step for step in steps), (proof, steps)
    assert domains(lab) == []
    assert "successful" in (lab.state / "verify.html").read_text("utf-8")


def test_a_failed_verification_fails_and_removes_everything(lab: CloudLab, client: dict[str, str]) -> None:
    """Without nova-compute no server becomes active."""
    lab.run(COMPUTE, ["systemctl", "stop", "nova-compute"])
    try:
        done, report = verify(lab, client, verify_cloud_timeout=60)
    finally:
        lab.run(COMPUTE, ["systemctl", "--no-block", "start", "nova-compute"])
    assert done.rc != 0 and not report["ok"] and report["failure"]
    assert any("Everything removed" in step["step"] for step in report["steps"])
    assert domains(lab) == []
