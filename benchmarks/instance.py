# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measure the time from the request for an instance until it is reached from outside, compared with a reset of the same domain by libvirt.

    LAB_NAME=bench LAB_NETWORK=10.240.0.0/24 PYTHONPATH=.cache/collections:. .venv/bin/python -m benchmarks.instance [--rounds 5]

Run as root from the root of the collection. It brings up a lab of that name, deploys a controller and a compute server, and removes the lab
afterwards; with ``--reuse`` it uses those of a running lab, whose image ``test`` and external network ``public`` exist.
"""

from __future__ import annotations

import argparse
import contextlib
import pathlib
import socket
import statistics
import sys
import time
import typing as t

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "lab"), *(str(ROOT / "tests" / name) for name in ("e2e", "support", "controllers", "cloud"))]

from benchmarks.cloud import lab_with_cloud, write  # noqa: E402
from cloud_client import COMPUTE, IMAGES, NETWORK, Cloud  # noqa: E402
from cloud_lab import CLOUD, GROUPS, SERVICES, CloudLab  # noqa: E402
from rflab import openstack_client  # noqa: E402
from tenant import resources  # noqa: E402

HEADS = ("seconds", "median", "shortest", "longest", "× libvirt alone")
ACTIVE, REACHED, FLOOR = "request to ACTIVE", "request to ssh from outside", "the same domain: reset by libvirt to ssh"
NAME = "benchmark"
LIMIT = 300.0
IMAGE = [{"hosts": SERVICES, "gather_facts": False, "roles": [{"role": "reduced.footprint.test_image"}]}]


def greeted(address: str) -> bool:
    """Whether an ssh server answers at the address."""
    try:
        with socket.create_connection((address, 22), 0.5) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def until(done: t.Callable[[], bool], since: float) -> float:
    """Return the seconds since then until the condition holds."""
    while not done():
        if time.monotonic() - since > LIMIT:
            sys.exit(f"not within {LIMIT:.0f} s")
        time.sleep(0.1)
    return time.monotonic() - since


class Tenant:
    """A network with a router, a port with a floating address, and a flavor.

    :arg cloud: another one than that of the lab.
    """

    def __init__(self, lab: CloudLab, cloud: Cloud | None = None) -> None:
        self.lab, self.cloud = lab, cloud or Cloud(lab)
        self.undo: list[t.Callable[[], t.Any]] = []
        self.image = self.cloud.send(IMAGES, "/v2/images?name=test", "GET")["images"][0]["id"]
        external = self.cloud.send(NETWORK, "/v2.0/networks?name=public", "GET")["networks"][0]["id"]
        network = self._make("network", name=NAME)
        subnet = self._make("subnet", name=NAME, network_id=network["id"], cidr="10.88.0.0/24", ip_version=4)
        router = self._make("router", name=NAME, external_gateway_info={"network_id": external})
        way = f"/v2.0/routers/{router['id']}"
        self.cloud.send(NETWORK, f"{way}/add_router_interface", "PUT", subnet_id=subnet["id"])
        self.undo.append(lambda: self.cloud.send(NETWORK, f"{way}/remove_router_interface", "PUT", subnet_id=subnet["id"]))
        group = self._make("security_group", name=NAME)
        self._make("security_group_rule", security_group_id=group["id"], direction="ingress", protocol="tcp", port_range_min=22, port_range_max=22)
        self.port = self._make("port", name=NAME, network_id=network["id"], security_groups=[group["id"]])["id"]
        self.address = self._make("floatingip", floating_network_id=external, port_id=self.port)["floating_ip_address"]
        flavor = {"name": NAME, "vcpus": 1, "ram": 128, "disk": 1}
        self.flavor = self.cloud.send(COMPUTE, "/v2.1/flavors", flavor=flavor)["flavor"]["id"]
        self.undo.append(lambda: self.cloud.ask(COMPUTE, f"/v2.1/flavors/{self.flavor}", "DELETE"))

    def _make(self, kind: str, **values: t.Any) -> dict[str, t.Any]:
        """Create a resource of the network, which is deleted at the end."""
        found: dict[str, t.Any] = self.cloud.send(NETWORK, f"/v2.0/{kind}s".replace("_", "-"), **{kind: values})[kind]
        self.undo.append(lambda: self.cloud.ask(NETWORK, f"/v2.0/{kind}s/{found['id']}".replace("_", "-"), "DELETE"))
        return found

    def remove(self) -> None:
        """Delete everything, the newest first."""
        for undo in reversed(self.undo):
            with contextlib.suppress(OSError):
                undo()

    def _server(self, server: str) -> dict[str, t.Any]:
        found: dict[str, t.Any] = self.cloud.send(COMPUTE, f"/v2.1/servers/{server}", "GET")["server"]
        return found

    def round(self) -> dict[str, float]:
        """Create an instance, reset its domain without the cloud, and delete it; return the seconds of each."""
        since = time.monotonic()
        request = {"name": NAME, "imageRef": self.image, "flavorRef": self.flavor, "networks": [{"port": self.port}]}
        server = self.cloud.send(COMPUTE, "/v2.1/servers", server=request)["server"]["id"]
        try:
            found = {ACTIVE: until(lambda: self._server(server)["status"] == "ACTIVE", since)}
            found[REACHED] = until(lambda: greeted(self.address), since)
            shown = self._server(server)
            host = shown["OS-EXT-SRV-ATTR:host"].partition(".")[0]
            domain = shown["OS-EXT-SRV-ATTR:instance_name"]
            since = time.monotonic()
            # the process and its network interface stay, which only nova connects
            self.lab.run(host, ["virsh", "reset", domain])
            found[FLOOR] = until(lambda: greeted(self.address), since)
        finally:
            # the port exists before the instance, so it stays
            self.cloud.ask(COMPUTE, f"/v2.1/servers/{server}", "DELETE")
            until(lambda: not [one for one in self.cloud.send(COMPUTE, "/v2.1/servers", "GET")["servers"] if one["id"] == server], time.monotonic())
        return found


def rows(rounds: t.Sequence[t.Mapping[str, float]]) -> list[list[str]]:
    """Return the table; the ratio is the median of those within a round."""
    lines = []
    for name in (ACTIVE, REACHED, FLOOR):
        values = [one[name] for one in rounds]
        ratio = statistics.median(one[name] / one[FLOOR] for one in rounds)
        lines.append([name, f"{statistics.median(values):.1f}", f"{min(values):.1f}", f"{max(values):.1f}", f"{ratio:.2f}"])
    return lines


def variables(net: str) -> dict[str, t.Any]:
    """Return the variables of the inventory, with the test image and the external network.

    :arg net: the first three octets of the lab's network.
    """
    found = resources(net)
    public = [network for network in found["cloud_bootstrap_networks"] if network.get("external")]
    return {**CLOUD, "cloud_bootstrap_images": found["cloud_bootstrap_images"], "cloud_bootstrap_networks": public}


def deploy(lab: CloudLab) -> None:
    """Deploy a controller and a compute server, with the test image and an external network."""
    client = openstack_client.variables()
    lab.write_inventory(variables(lab.net), GROUPS)
    for playbook in ("deploy_controllers", "provision_virt", "provision_compute", IMAGE):
        lab.succeeds(playbook)
    lab.succeeds("cloud_bootstrap", extra=client)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="number of instances")
    parser.add_argument("--reuse", action="store_true", help="use a running lab with a cloud")
    arguments = parser.parse_args()
    with lab_with_cloud(2, arguments.reuse, deploy) as lab:
        tenant = None
        try:
            tenant = Tenant(lab)
            found = [tenant.round() for unused in range(arguments.rounds)]
        finally:
            if tenant:
                tenant.remove()
    print(write("instance", HEADS, rows(found)))


if __name__ == "__main__":
    main()
