# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A client of the cloud at its virtual address: single requests, operations of a tenant, and a watch that asks every API twice a second."""

from __future__ import annotations

import collections
import contextlib
import json
import ssl
import threading
import time
import typing as t
import urllib.error
import urllib.request
import uuid

from cloud_lab import CloudLab
from token_client import Client, Refused

IDENTITY, IMAGES, RESOURCES, COMPUTE, NETWORK, VOLUMES = 5000, 9292, 8778, 8774, 9696, 8776
#: A request of each service that reads its database.
REQUESTS = {
    IMAGES: "/v2/images",
    RESOURCES: "/resource_providers",
    COMPUTE: "/v2.1/servers/detail?all_tenants=1",
    NETWORK: "/v2.0/networks",
}
#: What a request that is not answered raises.
UNANSWERED = (OSError, Refused, ValueError, KeyError)
#: Seconds for which a token is used; it is valid for an hour.
TOKEN_SECONDS = 1200
#: The names of everything that operations create.
PREFIX = "operation-"


class Cloud:
    """A client with the openrc file of the operator."""

    def __init__(self, lab: CloudLab) -> None:
        path = lab.inventory_path / ".secrets" / "lab" / "openrc-lab.txt"
        lines = [line[len("export ") :] for line in path.read_text("utf-8").splitlines() if line.startswith("export ")]
        self.openrc = {name: value.strip("'\"") for name, unused, value in (line.partition("=") for line in lines)}
        self.address = lab.virtual_address
        self.client = Client(self.openrc, timeout=20)
        self.context = ssl.create_default_context(cafile=self.openrc["OS_CACERT"])
        self._issued = 0.0
        self._token = ""
        self._lock = threading.Lock()

    @property
    def token(self) -> str:
        """A token that is valid for some time."""
        with self._lock:
            if not self._token or time.monotonic() - self._issued > TOKEN_SECONDS:
                self._token, self._issued = self.client.issue(), time.monotonic()
            return self._token

    def ask(self, port: int, path: str, method: str = "GET", body: bytes | None = None, kind: str = "application/json", timeout: float = 60) -> bytes:
        """Send a request through the virtual address."""
        headers = {"X-Auth-Token": self.token, "Content-Type": kind, "OpenStack-API-Version": "placement 1.0, compute 2.37, volume 3.54"}
        request = urllib.request.Request(f"https://{self.address}:{port}{path}", body, headers, method=method)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=self.context))
        with opener.open(request, timeout=timeout) as answer:
            return bytes(answer.read())

    def send(self, port: int, path: str, method: str = "POST", /, timeout: float = 60, **values: t.Any) -> t.Any:
        """Send values as JSON; return the answer, empty if there is none."""
        found = self.ask(port, path, method, json.dumps(values).encode() if values else None, timeout=timeout)
        return json.loads(found) if found else {}

    def answers(self, port: int) -> bool:
        """Whether a service answers a request that reads its database."""
        try:
            self.ask(port, REQUESTS[port])
        except UNANSWERED:
            return False
        return True

    def upload(self, content: bytes, name: str = "kept") -> str:
        """Upload an image and return its ID."""
        image = str(self.send(IMAGES, "/v2/images", name=name, disk_format="raw", container_format="bare")["id"])
        self.ask(IMAGES, f"/v2/images/{image}/file", "PUT", content, "application/octet-stream")
        return image


class Watch:
    """Asks every API twice a second, each in a thread, while it is entered."""

    def __init__(self, cloud: Cloud, timeout: float = 60) -> None:
        self.cloud, self.timeout = cloud, timeout
        self.answered: dict[int, list[float]] = {port: [] for port in REQUESTS}
        self.failures: list[tuple[float, int, str]] = []
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(port,), daemon=True) for port in REQUESTS]

    def __enter__(self) -> Watch:
        assert self.cloud.token
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *unused: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(self.timeout + 5)

    def _ask(self, port: int) -> None:
        while not self._ended.wait(0.5):
            try:
                self.cloud.ask(port, REQUESTS[port], timeout=self.timeout)
                self.answered[port].append(time.monotonic())
            except UNANSWERED as error:
                self.failures.append((time.monotonic(), port, f"{time.strftime('%X')} {port} {reason(error)}"))

    def gaps(self) -> dict[int, float]:
        """Seconds without an answer of each API, at most."""
        times = {port: [later - earlier for earlier, later in zip(found, found[1:])] for port, found in self.answered.items()}
        return {port: round(max(found, default=float("inf")), 1) for port, found in times.items()}


def reason(error: BaseException) -> str:
    """Why a request was not answered, in one line."""
    text = error.read().decode("utf-8", "replace")[:200] if isinstance(error, urllib.error.HTTPError) else ""
    return " ".join(f"{error!r} {text}".split())


class Operations:
    """Operations of a tenant, each created, waited for, and removed, one after the other in a thread for each kind, while it is entered.

    :ivar done: kind → seconds of each complete operation.
    :ivar failures: those that failed for the client.
    """

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        self.done: dict[str, list[float]] = collections.defaultdict(list)
        self.failures: list[str] = []
        self.flavor = self._flavor()
        self.image = cloud.upload(b"x" * 512, f"{PREFIX}base")
        self._ended = threading.Event()
        kinds = {"network": self.network, "image": self.upload, "provider": self.provider, "instance": self.instance}
        self._threads = [threading.Thread(target=self._repeat, args=(kind, one), daemon=True) for kind, one in kinds.items()]

    def __enter__(self) -> Operations:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *unused: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(180)

    def _repeat(self, kind: str, operate: t.Callable[[], None]) -> None:
        while not self._ended.wait(1):
            began = time.monotonic()
            try:
                operate()
                self.done[kind].append(time.monotonic() - began)
            except (*UNANSWERED, AssertionError) as error:
                self.failures.append(f"{time.strftime('%X')} {kind} after {time.monotonic() - began:.1f} s: {reason(error)}")

    def _flavor(self) -> str:
        for found in self.cloud.send(COMPUTE, "/v2.1/flavors", "GET")["flavors"]:
            if found["name"] == f"{PREFIX}flavor":
                return str(found["id"])
        return str(self.cloud.send(COMPUTE, "/v2.1/flavors", flavor={"name": f"{PREFIX}flavor", "ram": 64, "vcpus": 1, "disk": 1})["flavor"]["id"])

    def network(self) -> None:
        """A network with a subnet and a port, in the database and in OVN."""
        network = self.cloud.send(NETWORK, "/v2.0/networks", network={"name": f"{PREFIX}network"})["network"]["id"]
        self.cloud.send(NETWORK, "/v2.0/subnets", subnet={"network_id": network, "ip_version": 4, "cidr": "192.0.2.0/24"})
        port = self.cloud.send(NETWORK, "/v2.0/ports", port={"network_id": network, "name": f"{PREFIX}port"})["port"]["id"]
        self.cloud.send(NETWORK, f"/v2.0/ports/{port}", "DELETE")
        self.cloud.send(NETWORK, f"/v2.0/networks/{network}", "DELETE")

    def upload(self) -> None:
        """An image of 1 MiB."""
        image = self.cloud.upload(b"x" * (1 << 20), f"{PREFIX}image")
        self.cloud.send(IMAGES, f"/v2/images/{image}", "DELETE")

    def provider(self) -> None:
        """A provider of resources."""
        one = str(uuid.uuid4())
        self.cloud.send(RESOURCES, "/resource_providers", name=f"{PREFIX}{one}", uuid=one)
        self.cloud.send(RESOURCES, f"/resource_providers/{one}", "DELETE")

    def instance(self) -> None:
        """A request for an instance, which passes the API, a conductor, a scheduler, and, without a compute server, ends in an error."""
        wish = {"name": f"{PREFIX}instance", "imageRef": self.image, "flavorRef": self.flavor, "networks": "none"}
        instance = self.cloud.send(COMPUTE, "/v2.1/servers", server=wish)["server"]["id"]
        began = time.monotonic()
        while (status := self.cloud.send(COMPUTE, f"/v2.1/servers/{instance}", "GET")["server"]["status"]) == "BUILD":
            assert time.monotonic() - began < 120, f"{instance} is {status} after 120 s"
            time.sleep(0.5)
        self.cloud.send(COMPUTE, f"/v2.1/servers/{instance}", "DELETE")

    def left(self) -> dict[str, str]:
        """What failed operations have left: path of each object → its state."""
        found = {}
        for server in self.cloud.send(COMPUTE, f"/v2.1/servers/detail?all_tenants=1&name={PREFIX}", "GET")["servers"]:
            found[f"{COMPUTE}/v2.1/servers/{server['id']}"] = f"{server['status']} {server['OS-EXT-STS:task_state'] or ''}".strip()
        for image in self.cloud.send(IMAGES, "/v2/images", "GET")["images"]:
            if image["name"] == f"{PREFIX}image":
                found[f"{IMAGES}/v2/images/{image['id']}"] = image["status"]
        for kind in ("ports", "networks"):
            for one in self.cloud.send(NETWORK, f"/v2.0/{kind}", "GET")[kind]:
                if one["name"].startswith(PREFIX):
                    found[f"{NETWORK}/v2.0/{kind}/{one['id']}"] = one["status"]
        for one in self.cloud.send(RESOURCES, "/resource_providers", "GET")["resource_providers"]:
            if one["name"].startswith(PREFIX):
                found[f"{RESOURCES}/resource_providers/{one['uuid']}"] = "present"
        return found

    def remove(self) -> dict[str, str]:
        """Remove what is left, as its owner would; return what cannot be removed and why."""
        kept = {}
        for path in self.left():
            port, unused, rest = path.partition("/")
            try:
                self.cloud.send(int(port), f"/{rest}", "DELETE")
            except UNANSWERED as error:
                kept[path] = reason(error)
        return kept

    def close(self) -> None:
        """Remove the image that instances use."""
        with contextlib.suppress(*UNANSWERED):
            self.cloud.send(IMAGES, f"/v2/images/{self.image}", "DELETE")
