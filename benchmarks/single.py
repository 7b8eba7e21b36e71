# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compare the cloud of a footprint with a single node of the same packages, without TLS, proxy, cluster and restrictions.

    LAB_NAME=bench LAB_NETWORK=10.240.0.0/24 PYTHONPATH=.cache/collections:. .venv/bin/python -m benchmarks.single [--rounds 3]

Run as root from the root of the collection. It brings up a lab of that name with three servers: a controller and a compute server of the footprint, and
the single node, which ``single_node.sh`` sets up. Both are measured in turn; the lab is removed afterwards. With ``--reuse`` it uses those of a running
lab.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import pathlib
import statistics
import sys
import threading
import time
import typing as t
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "lab"), *(str(ROOT / "tests" / name) for name in ("e2e", "support", "controllers", "cloud"))]

from benchmarks import cloud, instance  # noqa: E402
from cloud_client import IDENTITY, IMAGES, NETWORK, REQUESTS, Cloud  # noqa: E402
from cloud_lab import COMPUTE, SERVICES, CloudLab  # noqa: E402
from token_client import Client  # noqa: E402

#: The third server of the lab.
NODE = "metal3"
CONTROLLERS, SERVERS = (SERVICES,), (SERVICES, COMPUTE)
SINGLE, FOOTPRINT, CONTROLLER = "single node", "footprint", "a controller"
HEADS = ("measured", SINGLE, FOOTPRINT, "× single node", CONTROLLER, "failed requests")
NAMES = {IDENTITY: "keystone", **cloud.NAMES}
PATHS = {IDENTITY: "/v3/projects", **REQUESTS}
DIRECT, ADDRESS = "a member directly", "through the virtual address"
#: Seconds of load before the first measurement, and without any before memory is measured.
WARM, SETTLE = 2.0, 5.0
#: Service → its units.
SERVICES_OF = {
    "MariaDB": ("mariadb",),
    "RabbitMQ": ("rabbitmq-server", "epmd"),
    "memcached": ("memcached",),
    "keystone": ("keystone",),
    "glance": ("glance-api", "footprint-glance-copies"),
    "placement": ("placement-api",),
    "nova": ("nova-api", "nova-api-metadata", "nova-conductor", "nova-scheduler", "nova-novncproxy"),
    "neutron": ("neutron-api", "neutron-ovn-maintenance-worker", "neutron-periodic-workers"),
    "databases of OVN": ("ovn-ovsdb-server-nb", "ovn-ovsdb-server-sb", "ovn-northd"),
    "OVN chassis": ("ovsdb-server", "ovs-vswitchd", "ovn-controller", "neutron-ovn-metadata-agent"),
    "nova-compute and libvirt": ("nova-compute", "libvirtd", "virtlogd", "virtlockd"),
}
#: What only the footprint has: units with this beginning.
MORE, MORE_UNITS = "load balancer, dashboard, guards", ("haproxy", "keepalived", "footprint-", "chrony", "nftables")
REST, BOTH, ALL = "the rest of the system", "services of both", "everything"


class Sample(t.NamedTuple):
    """A measurement: what, of whom, in which round, the value, and the number of requests that failed."""

    what: str
    who: str
    round: int
    value: float
    failed: int | None = None


def rows(samples: t.Sequence[Sample]) -> list[list[str]]:
    """Return the table in the order of the samples; a ratio is the median of those within a round, other values are medians."""
    lines = []
    for what in dict.fromkeys(sample.what for sample in samples):
        mine = [sample for sample in samples if sample.what == what]
        of = {who: {sample.round: sample.value for sample in mine if sample.who == who} for who in (SINGLE, FOOTPRINT, CONTROLLER)}
        ratios = [value / of[SINGLE][number] for number, value in of[FOOTPRINT].items() if of[SINGLE].get(number)]
        shown = {who: f"{statistics.median(values.values()):.1f}" if values else "" for who, values in of.items()}
        failed = [sample.failed for sample in mine if sample.failed is not None]
        ratio = f"{statistics.median(ratios):.2f}" if ratios else ""
        lines.append([what, shown[SINGLE], shown[FOOTPRINT], ratio, shown[CONTROLLER], str(sum(failed)) if failed else ""])
    return lines


def grouped(units: t.Mapping[str, float]) -> dict[str, float]:
    """Return the memory of each service in the order of the table, in MiB.

    :arg units: unit → KiB.
    """
    names = {unit: service for service, ones in SERVICES_OF.items() for unit in ones}
    found = dict.fromkeys((*SERVICES_OF, MORE, REST), 0.0)
    for unit, size in units.items():
        found[names.get(unit, MORE if unit.startswith(MORE_UNITS) else REST)] += size / 1024
    return {**found, BOTH: sum(found[service] for service in SERVICES_OF), ALL: sum(found.values())}


def memory_samples(number: int, node: t.Mapping[str, float], servers: t.Mapping[str, t.Mapping[str, float]]) -> list[Sample]:
    """Return the samples of memory.

    :arg node: unit → KiB on the single node.
    :arg servers: the same of each server of the footprint.
    """
    single, footprint = grouped(node), {name: grouped(units) for name, units in servers.items()}
    samples = []
    for service, size in single.items():
        what = f"MiB: {service}"
        if service != MORE:
            samples.append(Sample(what, SINGLE, number, size))
        samples.append(Sample(what, FOOTPRINT, number, sum(one[service] for one in footprint.values())))
        samples.append(Sample(what, CONTROLLER, number, statistics.mean(footprint[name][service] for name in CONTROLLERS)))
    return samples


class Node(Cloud):
    """A client of the single node.

    :arg address: that of its APIs.
    """

    # pylint: disable-next=super-init-not-called
    def __init__(self, address: str, password: str) -> None:
        self.openrc = {"OS_AUTH_URL": f"http://{address}:{IDENTITY}/v3", "OS_USERNAME": "admin", "OS_PASSWORD": password, "OS_PROJECT_NAME": "admin"}
        self.address, self.client = address, Client(self.openrc, timeout=60)
        self._issued, self._token, self._lock = 0.0, "", threading.Lock()

    def ask(self, port: int, path: str, method: str = "GET", body: bytes | None = None, kind: str = "application/json", timeout: float = 60) -> bytes:
        """Send a request, without TLS."""
        headers = {**cloud.headers(self.token), "Content-Type": kind}
        request = urllib.request.Request(f"http://{self.address}:{port}{path}", body, headers, method=method)
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=timeout) as answer:
            return bytes(answer.read())


def node_script() -> str:
    """Return the script that sets up the single node."""
    return (ROOT / "benchmarks" / "single_node.sh").read_text("utf-8")


def node_of(lab: CloudLab) -> Node:
    """Return a client of the single node."""
    password = next(line.partition("=")[2] for line in node_script().splitlines() if line.startswith("PASSWORD="))
    return Node(lab.addresses[NODE], password)


def fill(lab: CloudLab, node: Node) -> None:
    """Create the test image and the external network on the single node, as ``cloud_bootstrap`` does on the footprint."""

    def image(suffix: str, **values: t.Any) -> str:
        found = str(node.send(IMAGES, "/v2/images", **values)["id"])
        content = (lab.inventory_path / ".images" / f"test.{suffix}").read_bytes()
        node.ask(IMAGES, f"/v2/images/{found}/file", "PUT", content, "application/octet-stream")
        return found

    kernel = image("vmlinuz", name="test-kernel", disk_format="aki", container_format="aki")
    ramdisk = image("initrd", name="test-ramdisk", disk_format="ari", container_format="ari")
    boot = {"kernel_id": kernel, "ramdisk_id": ramdisk, "os_command_line": "console=ttyS0 quiet", "hw_rng_model": "virtio"}
    image("raw", name="test", disk_format="raw", container_format="bare", min_ram=128, **boot)
    provider = {"provider:network_type": "flat", "provider:physical_network": "provider"}
    network = node.send(NETWORK, "/v2.0/networks", network={"name": "public", "router:external": True, **provider})["network"]["id"]
    # addresses that the footprint does not assign
    pool = {"start": f"{lab.net}.220", "end": f"{lab.net}.239"}
    subnet = {"cidr": f"{lab.net}.0/24", "ip_version": 4, "gateway_ip": f"{lab.net}.1", "enable_dhcp": False, "allocation_pools": [pool]}
    node.send(NETWORK, "/v2.0/subnets", subnet={"network_id": network, **subnet})


class Bench:
    """The measurements in one lab, whose clouds have the same resources.

    :arg clients: number of clients at the same time.
    :arg seconds: length of a measurement of an API.
    """

    def __init__(self, lab: CloudLab, clients: int, seconds: float) -> None:
        self.lab, self.clients, self.seconds = lab, clients, seconds
        self.node, self.cloud = node_of(lab), Cloud(lab)
        self.authority = pathlib.Path(self.cloud.openrc["OS_CACERT"]).read_text("utf-8")
        self.tenants: dict[str, instance.Tenant] = {}

    def __enter__(self) -> Bench:
        try:
            for who, client in ((SINGLE, self.node), (FOOTPRINT, self.cloud)):
                self.tenants[who] = instance.Tenant(self.lab, client)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *unused: object) -> None:
        for tenant in self.tenants.values():
            tenant.remove()

    def _rate(self, port: int, target: str, seconds: float) -> tuple[float, int]:
        """Requests per second of an API, and the number of those that failed; the client is on the server it asks."""
        host, base, client = {
            SINGLE: (NODE, f"http://{self.node.address}", self.node),
            DIRECT: (SERVICES, f"http://{self.lab.addresses[SERVICES]}", self.cloud),
            ADDRESS: (SERVICES, f"https://{self.cloud.address}", self.cloud),
        }[target]
        wish = {"url": f"{base}:{port}{PATHS[port]}", "headers": cloud.headers(client.token), "authority": self.authority}
        done = cloud.load(self.lab, host, {**wish, "clients": self.clients, "seconds": seconds})
        return done["answered"] / done["seconds"], done["failed"]

    def warm(self) -> None:
        """Send each API some requests, after which all workers have loaded what they need."""
        for port in PATHS:
            for target in (SINGLE, ADDRESS):
                self._rate(port, target, WARM)

    def apis(self, number: int) -> t.Iterator[Sample]:
        """Measure all APIs once; the order of the targets changes with the number of the round."""
        for port, name in NAMES.items():
            targets = [SINGLE, DIRECT, ADDRESS]
            found = {target: self._rate(port, target, self.seconds) for target in targets[number % 3 :] + targets[: number % 3]}
            cloud.say(f"{name}: " + ", ".join(f"{target} {rate:.1f}/s, {failed} failed" for target, (rate, failed) in found.items()))
            for target in (DIRECT, ADDRESS):
                for who, (rate, failed) in ((SINGLE, found[SINGLE]), (FOOTPRINT, found[target])):
                    yield Sample(f"requests/s: {name}, {target}", who, number, rate, failed)

    def instances(self, number: int) -> t.Iterator[Sample]:
        """Create an instance on each; the order changes with the number of the round."""
        targets = [SINGLE, FOOTPRINT]
        for who in targets[number % 2 :] + targets[: number % 2]:
            try:
                found = self.tenants[who].round()
            except SystemExit as late:
                cloud.say(f"instance on {who}: {late}")
                continue
            cloud.say(f"instance on {who}: " + ", ".join(f"{name} {seconds:.1f} s" for name, seconds in found.items()))
            for name, seconds in found.items():
                yield Sample(f"seconds: {name}", who, number, seconds)

    def memory(self, number: int) -> list[Sample]:
        """Measure the memory of all servers, without instances."""
        time.sleep(SETTLE)
        program = (ROOT / "benchmarks" / "unit_memory.py").read_text("utf-8")
        found = {host: json.loads(self.lab.run(host, ["python3", "-c", program])) for host in (NODE, *SERVERS)}
        samples = memory_samples(number, found.pop(NODE), found)
        cloud.say(", ".join(f"{sample.who} {sample.value:.0f} MiB" for sample in samples if sample.what == f"MiB: {ALL}"))
        return samples


def deploy(lab: CloudLab) -> None:
    """Deploy both."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        words = ["bash", "-s", "--", lab.addresses[NODE], lab.settings.machine(NODE).nic]
        setup = pool.submit(lab.run, NODE, words, stdin=node_script())
        instance.deploy(lab)
        cloud.say(setup.result())
    fill(lab, node_of(lab))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3, help="number of times each is measured")
    parser.add_argument("--clients", type=int, default=4, help="number of clients at the same time")
    parser.add_argument("--seconds", type=float, default=8, help="length of a measurement of an API")
    parser.add_argument("--reuse", action="store_true", help="use a running lab with both clouds")
    arguments = parser.parse_args()
    samples: dict[str, list[Sample]] = {"apis": [], "instances": [], "memory": []}
    with cloud.lab_with_cloud(3, arguments.reuse, deploy) as lab, Bench(lab, arguments.clients, arguments.seconds) as bench:
        bench.warm()
        for number in range(arguments.rounds):
            samples["apis"].extend(bench.apis(number))
            samples["instances"].extend(bench.instances(number))
            samples["memory"].extend(bench.memory(number))
    print(cloud.write("single", HEADS, rows([sample for kind in samples.values() for sample in kind])))


if __name__ == "__main__":
    main()
