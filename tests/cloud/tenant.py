# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Instances of a tenant on chosen compute servers with floating addresses, and clients that connect to them from outside."""

from __future__ import annotations

import socket
import threading
import time
import typing as t

from cloud_client import COMPUTE, IMAGES, NETWORK, UNANSWERED, Cloud
from support import eventually

#: Seconds between two connections of a client.
INTERVAL = 0.2
FILES = "{{ inventory_dir }}/.images/test"


def resources(net: str) -> dict[str, t.Any]:
    """Return variables of cloud_bootstrap for the network outside, and an image, a flavor, a network, a router and a security group of the tenant.

    :arg net: the first three octets of the lab's network.
    """
    pool = [f"{net}.{last}" for last in (200, 219)]
    boot = {"kernel": "test-kernel", "ramdisk": "test-ramdisk", "properties": {"os_command_line": "console=ttyS0 quiet", "hw_rng_model": "virtio"}}
    return {
        "cloud_bootstrap_flavors": [{"name": "tiny", "vcpus": 1, "ram": "128 MiB", "disk": 1}],
        "cloud_bootstrap_images": [
            {"name": "test-kernel", "file": f"{FILES}.vmlinuz", "disk_format": "aki"},
            {"name": "test-ramdisk", "file": f"{FILES}.initrd", "disk_format": "ari"},
            {"name": "test", "file": f"{FILES}.raw", "disk_format": "raw", "min_ram": "128 MiB", **boot},
        ],
        "cloud_bootstrap_networks": [
            {"name": "public", "type": "flat", "external": True, "subnets": [{"cidr": f"{net}.0/24", "gateway": f"{net}.1", "pool": pool}]},
            {"name": "tenant", "subnets": [{"cidr": "192.168.10.0/24"}]},
        ],
        "cloud_bootstrap_routers": [{"name": "tenant", "external": "public", "subnets": ["tenant"]}],
        "cloud_bootstrap_security_groups": [{"name": "tenant", "rules": [{"protocol": "tcp", "port": 22}]}],
        "cloud_bootstrap_key_pairs": [{"name": "tenant", "public_key": "{{ lookup('ansible.builtin.file', inventory_dir ~ '/../id_ed25519.pub') }}"}],
    }


class Instance(t.NamedTuple):
    """An instance, its floating address, and the seconds from its request until it was active."""

    id: str
    address: str
    seconds: float


class Tenant:
    """Creates instances in the network ``tenant``."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud

    def _named(self, port: int, path: str, kind: str, name: str) -> str:
        return next(str(one["id"]) for one in self.cloud.send(port, path, "GET")[kind] if one["name"] == name)

    def request(self, name: str, host: str = "") -> str:
        """Request an instance, on a compute server if one is given; return its ID."""
        wish = {
            "name": name,
            "imageRef": self._named(IMAGES, "/v2/images", "images", "test"),
            "flavorRef": self._named(COMPUTE, "/v2.1/flavors", "flavors", "tiny"),
            "networks": [{"uuid": self._named(NETWORK, "/v2.0/networks", "networks", "tenant")}],
            "key_name": "tenant",
            "security_groups": [{"name": "tenant"}],
            **({"availability_zone": f"nova:{host}"} if host else {}),
        }
        return str(self.cloud.send(COMPUTE, "/v2.1/servers", server=wish)["server"]["id"])

    def state(self, instance: str) -> dict[str, t.Any]:
        """The state of an instance, as its owner and the operator see it."""
        return dict(self.cloud.send(COMPUTE, f"/v2.1/servers/{instance}", "GET")["server"])

    def create(self, name: str, host: str) -> Instance:
        """Create an instance on a compute server, with a floating address."""
        began = time.monotonic()
        one = self.request(name, host)
        eventually(f"{name} is active", lambda: self.state(one)["status"] != "BUILD", 300)
        found = self.state(one)
        assert found["status"] == "ACTIVE" and found["OS-EXT-SRV-ATTR:host"] == host, found
        seconds = round(time.monotonic() - began, 1)
        port = self.cloud.send(NETWORK, f"/v2.0/ports?device_id={one}", "GET")["ports"][0]["id"]
        public = self._named(NETWORK, "/v2.0/networks", "networks", "public")
        address = self.cloud.send(NETWORK, "/v2.0/floatingips", floatingip={"floating_network_id": public, "port_id": port})["floatingip"]
        return Instance(one, str(address["floating_ip_address"]), seconds)

    def remove(self, name: str = "") -> None:
        """Remove instances by their name, by default all, and all floating addresses that nothing uses afterwards."""
        deleted: set[str] = set()

        def removed() -> bool:
            found = [one for one in self.cloud.send(COMPUTE, "/v2.1/servers/detail", "GET")["servers"] if name in ("", one["name"])]
            for one in found:
                # one that a busy API has left in an error is deleted again, as its owner would do it
                if one["id"] not in deleted or one["status"] == "ERROR":
                    self.cloud.send(COMPUTE, f"/v2.1/servers/{one['id']}", "DELETE")
                    deleted.add(one["id"])
            return not found

        eventually("instances are removed", removed, 300)
        for one in self.cloud.send(NETWORK, "/v2.0/floatingips", "GET")["floatingips"]:
            if not one["port_id"]:
                self.cloud.send(NETWORK, f"/v2.0/floatingips/{one['id']}", "DELETE")

    def computes(self) -> dict[str, str]:
        """Compute server → ``up`` or ``down``, as nova sees it; empty if nova does not answer."""
        try:
            services = self.cloud.send(COMPUTE, "/v2.1/os-services?binary=nova-compute", "GET")["services"]
        except UNANSWERED:
            return {}
        return {str(one["host"]): str(one["state"]) for one in services}


def connects(address: str, timeout: float = 1) -> bool:
    """Whether the ssh server of an address answers."""
    try:
        with socket.create_connection((address, 22), timeout=timeout) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


class Client:
    """Connects to the ssh server of an address five times a second while it is entered."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.reached: list[float] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Client:
        self._thread.start()
        return self

    def __exit__(self, *unused: object) -> None:
        self._ended.set()
        self._thread.join(10)

    def _run(self) -> None:
        while not self._ended.wait(INTERVAL):
            if connects(self.address):
                self.reached.append(time.monotonic())

    def gap(self, begin: float, end: float) -> float:
        """Longest time without a connection between two points in time, in seconds."""
        times = [begin, *(at for at in self.reached if begin < at < end), end]
        return round(max(later - earlier for earlier, later in zip(times, times[1:])), 1)

    def since(self, begin: float) -> float | None:
        """Seconds from a point in time until the first connection after it."""
        return next((round(at - begin, 1) for at in self.reached if at > begin), None)
