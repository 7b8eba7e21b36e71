# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The control plane of a cloud on three controllers: deployed twice, asked through the virtual address, one controller lost."""

from __future__ import annotations

import hashlib
import json
import os
import time

import pytest
from cloud_client import COMPUTE, REQUESTS, Cloud, Watch
from cloud_lab import CloudLab
from controllers_lab import SERVERS
from support import eventually

pytestmark = pytest.mark.chapter
FOLDER = "/var/lib/glance/images"


def test_second_run_changes_nothing(lab: CloudLab, cloud: Cloud) -> None:
    assert cloud.token
    again = lab.succeeds("deploy_controllers")
    assert again.changed == 0, again.changed_tasks()


@pytest.mark.parametrize("port", sorted(REQUESTS))
def test_every_service_answers_through_the_virtual_address(cloud: Cloud, port: int) -> None:
    assert json.loads(cloud.ask(port, REQUESTS[port]))


@pytest.mark.parametrize("vhost", ["nova", "neutron"])
def test_every_queue_is_replicated(lab: CloudLab, cloud: Cloud, vhost: str) -> None:
    """RabbitMQ would also accept transient queues; the services do not declare any."""
    assert cloud.answers(COMPUTE)
    text = lab.run(SERVERS[0], ["rabbitmqctl", "-q", "list_queues", "-p", vhost, "--formatter", "json", "name", "type", "durable", "members"])
    queues = json.loads(text)
    assert queues or vhost == "neutron"
    assert not [queue for queue in queues if queue["type"] not in ("quorum", "stream") or not queue["durable"] or len(queue["members"]) < 3]


def test_account_of_a_service_is_repaired(lab: CloudLab, cloud: Cloud) -> None:
    """A lost endpoint comes back with reduced.footprint.keystone_service."""
    endpoints = json.loads(cloud.ask(5000, "/v3/endpoints?interface=public"))["endpoints"]
    lost = next(one for one in endpoints if one["url"].endswith(":9292"))
    cloud.ask(5000, f"/v3/endpoints/{lost['id']}", "DELETE")
    done = lab.succeeds("deploy_controllers", variables={"deploy_controllers_components": ["glance"]})
    assert any("endpoints in keystone" in task for task in done.changed_tasks())
    assert any(one["url"].endswith(":9292") for one in json.loads(cloud.ask(5000, "/v3/endpoints?interface=public"))["endpoints"])


def test_image_survives_the_controller_that_took_the_upload(lab: CloudLab, cloud: Cloud) -> None:
    content = os.urandom(64 << 20)
    image = cloud.upload(content)
    having = [host for host in SERVERS if lab.answers(host, ["test", "-e", f"{FOLDER}/{image}"])]
    assert len(having) >= 2, "acknowledged with one copy"
    took = min(having, key=lambda host: float(lab.run(host, ["stat", "-c", "%.Y", f"{FOLDER}/{image}"]).replace(",", ".")))
    lab.lose_power(took)
    began = time.monotonic()
    try:
        eventually("all services answer without it", lambda: all(map(cloud.answers, REQUESTS)), 120)
        print(f"all services answer {time.monotonic() - began:.1f} s after the loss of {took}")
        for unused in range(4):
            found = cloud.ask(9292, f"/v2/images/{image}/file")
            assert hashlib.sha512(found).digest() == hashlib.sha512(content).digest()
    finally:
        lab.power_on(took)
    late = cloud.upload(b"x" * 1000)
    eventually("every controller has all images", lambda: all(lab.answers(host, ["test", "-e", f"{FOLDER}/{late}"]) for host in SERVERS), 240)


def test_rolling_restart_loses_no_request(lab: CloudLab, cloud: Cloud) -> None:
    # the services of a controller that has lost power are still starting
    eventually("nothing is degraded", lambda: lab.play("status").rc == 0, 600)
    with Watch(cloud) as watch:
        lab.succeeds("rolling_restart", variables={"rolling_restart_components": ["placement", "glance", "nova", "neutron"]})
    counted = {port: len(times) for port, times in watch.answered.items()}
    print(f"answered during the rolling restart: {counted}, longest gaps {watch.gaps()}, failed {len(watch.failures)}")
    assert min(counted.values()) > 40 and not watch.failures, watch.failures
