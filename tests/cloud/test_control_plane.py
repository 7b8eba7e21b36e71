# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The control plane of a cloud on three controllers: deployed twice, asked through the virtual address, one controller lost."""

from __future__ import annotations

import hashlib
import json
import os
import ssl
import threading
import time
import urllib.error
import urllib.request

import pytest
from cloud_lab import CloudLab
from controllers_lab import SERVERS
from support import eventually
from token_client import Client

pytestmark = pytest.mark.chapter
IMAGES = "/var/lib/glance/images"
#: A request of each service that reads its database.
REQUESTS = {
    9292: "/v2/images",
    8778: "/resource_providers",
    8774: "/v2.1/servers/detail?all_tenants=1",
    9696: "/v2.0/networks",
}


class Cloud:
    """A client of the cloud, with the openrc file of its operator."""

    def __init__(self, lab: CloudLab) -> None:
        path = lab.inventory_path / ".secrets" / "lab" / "openrc-lab.txt"
        lines = [line[len("export ") :] for line in path.read_text("utf-8").splitlines() if line.startswith("export ")]
        self.openrc = {name: value.strip("'\"") for name, unused, value in (line.partition("=") for line in lines)}
        self.address = lab.virtual_address
        self.client = Client(self.openrc)
        self.token = self.client.issue()

    def ask(self, port: int, path: str, method: str = "GET", body: bytes | None = None, kind: str = "application/json") -> bytes:
        """Send a request through the virtual address."""
        headers = {"X-Auth-Token": self.token, "Content-Type": kind, "OpenStack-API-Version": "placement 1.0"}
        request = urllib.request.Request(f"https://{self.address}:{port}{path}", body, headers, method=method)
        context = ssl.create_default_context(cafile=self.openrc["OS_CACERT"])
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
        with opener.open(request, timeout=60) as answer:
            return bytes(answer.read())

    def answers(self, port: int) -> bool:
        """Whether a service answers a request that reads its database."""
        try:
            self.ask(port, REQUESTS[port])
        except (OSError, urllib.error.URLError):
            return False
        return True

    def upload(self, content: bytes) -> str:
        """Upload an image and return its ID."""
        body = json.dumps({"name": "kept", "disk_format": "raw", "container_format": "bare"}).encode()
        image = str(json.loads(self.ask(9292, "/v2/images", "POST", body))["id"])
        self.ask(9292, f"/v2/images/{image}/file", "PUT", content, "application/octet-stream")
        return image


@pytest.fixture(scope="module", name="cloud")
def fixture_cloud(lab: CloudLab) -> Cloud:
    """All services on three controllers."""
    lab.write_inventory(variables={"footprint_cloud": True, "footprint_components": None})
    lab.succeeds("deploy_controllers")
    return Cloud(lab)


def test_second_run_changes_nothing(lab: CloudLab, cloud: Cloud) -> None:
    assert cloud.token
    again = lab.succeeds("deploy_controllers")
    assert again.changed == 0, again.changed_tasks()


@pytest.mark.parametrize("port", sorted(REQUESTS))
def test_every_service_answers_through_the_virtual_address(cloud: Cloud, port: int) -> None:
    assert json.loads(cloud.ask(port, REQUESTS[port]))


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
    having = [host for host in SERVERS if lab.answers(host, ["test", "-e", f"{IMAGES}/{image}"])]
    assert len(having) >= 2, "acknowledged with one copy"
    took = min(having, key=lambda host: float(lab.run(host, ["stat", "-c", "%.Y", f"{IMAGES}/{image}"]).replace(",", ".")))
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
    eventually("every controller has all images", lambda: all(lab.answers(host, ["test", "-e", f"{IMAGES}/{late}"]) for host in SERVERS), 240)


def test_rolling_restart_loses_no_request(lab: CloudLab, cloud: Cloud) -> None:
    failed: list[int] = []
    counted: list[int] = []
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.5):
            for port in REQUESTS:
                (counted if cloud.answers(port) else failed).append(port)

    client = threading.Thread(target=watch, daemon=True)
    client.start()
    try:
        lab.succeeds("rolling_restart", variables={"rolling_restart_components": ["placement", "glance", "nova", "neutron"]})
    finally:
        ended.set()
        client.join(60)
    assert len(counted) > 40 and not failed
