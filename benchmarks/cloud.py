# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measure a cloud: requests per second of its APIs, and the time until an instance can be used.

    LAB_NAME=bench LAB_NETWORK=10.240.0.0/24 PYTHONPATH=.cache/collections:. .venv/bin/python -m benchmarks.cloud api [--rounds 3]
    LAB_NAME=bench LAB_NETWORK=10.240.0.0/24 PYTHONPATH=.cache/collections:. .venv/bin/python -m benchmarks.cloud instance [--rounds 5]

Run as root from the root of the collection. ``api`` needs three controllers. It brings up a lab of that name, deploys them and removes the lab
afterwards; with ``--reuse`` it uses those of a running lab. ``instance`` needs the cloud that ``KEEP=1 make demo CLOUD=1`` leaves in the same lab.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
import typing as t

from benchmarks import figures, process

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "lab"), *(str(ROOT / "tests" / name) for name in ("e2e", "support", "controllers", "cloud"))]

from cloud_client import REQUESTS, Cloud  # noqa: E402
from cloud_lab import CloudLab  # noqa: E402
from controllers_lab import SERVERS  # noqa: E402
from support import eventually  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"
NAMES = {8774: "nova", 8778: "placement", 9292: "glance", 9696: "neutron"}
UNITS = {8774: "nova-api", 8778: "placement-api", 9292: "glance-api", 9696: "neutron-api"}
DIRECT, ONE, ALL = "a member directly, without TLS", "through the virtual address, one controller", "through the virtual address, three controllers"
#: Health checks are one second apart; three of them, and some time.
SETTLE = 5.0
API_HEADS = ("API", "requests to", "requests per second (median)", "× directly", "median request, ms", "95 % of requests, ms", "failed")
INSTANCE_HEADS = ("from the start to a login", "seconds (median)", "worst", "× the virtual machine alone", "rounds")


@dataclasses.dataclass(frozen=True)
class Rate:
    """One measurement: requests per second, and seconds of a request (median, and for 95 of 100)."""

    api: str
    target: str
    round: int
    rate: float
    median: float
    slow: float
    failed: int


def api_rows(rates: t.Sequence[Rate]) -> list[list[str]]:
    """Return the table of rates; the ratio is the median of those within a round."""
    rows = []
    for api, target in dict.fromkeys((rate.api, rate.target) for rate in rates):
        mine = [rate for rate in rates if (rate.api, rate.target) == (api, target)]
        floor = {rate.round: rate.rate for rate in rates if (rate.api, rate.target) == (api, DIRECT)}
        ratios = [rate.rate / floor[rate.round] for rate in mine if floor.get(rate.round)]
        rows.append(
            [
                api,
                target,
                f"{statistics.median(rate.rate for rate in mine):.1f}",
                f"{statistics.median(ratios):.2f}" if ratios else "",
                f"{1000 * statistics.median(rate.median for rate in mine):.0f}",
                f"{1000 * statistics.median(rate.slow for rate in mine):.0f}",
                str(sum(rate.failed for rate in mine)),
            ]
        )
    return rows


def instance_rows(active: t.Sequence[float], reached: t.Sequence[float], alone: t.Sequence[float]) -> list[list[str]]:
    """Return the table of an instance: seconds of each round, the ratio is the median of those within a round."""

    def row(what: str, seconds: t.Sequence[float]) -> list[str]:
        ratio = statistics.median(ours / floor for ours, floor in zip(seconds, alone))
        return [what, f"{statistics.median(seconds):.1f}", f"{max(seconds):.1f}", f"{ratio:.2f}", str(len(seconds))]

    return [row("request to ACTIVE, without a login", active), row("request to login", reached), row("the same virtual machine, started by libvirt", alone)]


class Apis:
    """Load on the APIs of three controllers, from a client on one of them: only controllers may ask a member directly."""

    def __init__(self, lab: CloudLab, clients: int, seconds: float) -> None:
        self.lab, self.clients, self.seconds = lab, clients, seconds
        self.cloud = Cloud(lab)
        self.authority = pathlib.Path(self.cloud.openrc["OS_CACERT"]).read_text("utf-8")
        self.program = (ROOT / "benchmarks" / "api_load.py").read_text("utf-8")

    def rate(self, port: int, target: str, number: int) -> Rate:
        """Measure one API."""
        member = SERVERS[0]
        base = f"http://{self.lab.addresses[member]}" if target == DIRECT else f"https://{self.cloud.address}"
        headers = {"X-Auth-Token": self.cloud.token, "OpenStack-API-Version": "placement 1.0, compute 2.37"}
        wish = {"url": f"{base}:{port}{REQUESTS[port]}", "headers": headers, "authority": self.authority, "clients": self.clients, "seconds": self.seconds}
        done = json.loads(self.lab.run(member, ["python3", "-c", self.program], stdin=json.dumps(wish)))
        if not done["answered"]:
            sys.exit(f"{wish['url']} was not answered: {done['errors']}")
        return Rate(NAMES[port], target, number, done["answered"] / done["seconds"], done["median"], done["slow"], done["failed"])

    def drain(self, port: int, drained: bool) -> None:
        """Take the members other than the first out of the load balancers, or back."""
        file = f"/run/footprint-{UNITS[port]}.drain"
        for member in SERVERS[1:]:
            self.lab.run(member, ["touch", file] if drained else ["rm", "-f", file])
        time.sleep(SETTLE)

    def round(self, number: int, say: t.Callable[[str], None]) -> t.Iterator[Rate]:
        """Measure all APIs once; the order of the targets changes with the number of the round."""
        for port in REQUESTS:
            targets = [DIRECT, ONE, ALL]
            for target in targets[number % 3 :] + targets[: number % 3]:
                self.drain(port, target == ONE)
                try:
                    found = self.rate(port, target, number)
                finally:
                    self.drain(port, False)
                say(f"{found.api}, {found.target}: {found.rate:.1f} requests/s, {found.failed} failed")
                yield found


def apis(arguments: argparse.Namespace, say: t.Callable[[str], None]) -> str:
    """Measure the APIs; return the table's title, heads and lines."""
    command = str(ROOT / "lab" / "lab")
    rates: list[Rate] = []
    try:
        if not arguments.reuse:
            subprocess.run([command, "down"], check=False)
            subprocess.run([command, "up", "--servers", "3"], check=True)
        lab = CloudLab()
        if not arguments.reuse:
            lab.write_inventory(variables={"footprint_cloud": True, "footprint_components": None})
            lab.succeeds("deploy_controllers")
        bench = Apis(lab, arguments.clients, arguments.seconds)
        for number in range(arguments.rounds):
            rates.extend(bench.round(number, say))
    finally:
        if not arguments.reuse:
            subprocess.run([command, "down"], check=False)
    return write("cloud_api", API_HEADS, api_rows(rates))


def instance(arguments: argparse.Namespace, say: t.Callable[[str], None]) -> str:
    """Measure an instance on the cloud of the demo."""
    loader = importlib.machinery.SourceFileLoader("demo_cloud", str(ROOT / "lab" / "demo-cloud"))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    demo = importlib.util.module_from_spec(t.cast(importlib.machinery.ModuleSpec, spec))
    loader.exec_module(demo)
    lab, cloud = CloudLab(), demo.connect()
    active: list[float] = []
    reached: list[float] = []
    alone: list[float] = []

    def remove() -> None:
        for server in cloud.compute.servers(name="^demo$"):
            cloud.compute.delete_server(server)
            cloud.compute.wait_for_delete(server, wait=120)
        for address in cloud.network.ips():
            cloud.network.delete_ip(address)

    for number in range(arguments.rounds):
        remove()
        (demo.STATE / "known_servers").unlink(missing_ok=True)
        began = time.monotonic()
        address, unused_rows = demo.create_server(cloud, lambda began=began: active.append(time.monotonic() - began))
        reached.append(time.monotonic() - began)
        domain = next(cloud.compute.servers(name="^demo$")).id
        lab.run(demo.COMPUTE, ["virsh", "destroy", domain])
        began = time.monotonic()
        lab.run(demo.COMPUTE, ["virsh", "start", domain])
        eventually("a login to the server", lambda address=address: demo.logs_in(address), 300)
        alone.append(time.monotonic() - began)
        say(f"round {number + 1}: ACTIVE {active[-1]:.1f} s, login {reached[-1]:.1f} s, the virtual machine alone {alone[-1]:.1f} s")
    remove()
    return write("cloud_instance", INSTANCE_HEADS, instance_rows(active, reached, alone))


def write(name: str, heads: t.Sequence[str], rows: t.Sequence[t.Sequence[str]]) -> str:
    """Write a table and the machine to the results; return the table for a terminal."""
    machine = [list(fact) for fact in process.machine(sys.executable, str(ROOT / ".venv" / "bin" / "ansible-playbook")).items()]
    RESULTS.mkdir(exist_ok=True)
    text = f"{figures.markdown(heads, rows)}\n\n{figures.markdown(('property', 'value'), machine)}\n"
    (RESULTS / f"{name}.md").write_text(text, encoding="utf-8")
    return figures.plain(heads, rows)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="what", required=True)
    api = commands.add_parser("api", help="requests per second of three controllers")
    api.add_argument("--rounds", type=int, default=3, help="number of times each API is measured")
    api.add_argument("--clients", type=int, default=4, help="number of clients at the same time")
    api.add_argument("--seconds", type=float, default=10, help="length of a measurement")
    api.add_argument("--reuse", action="store_true", help="use a running lab with a cloud on three controllers")
    one = commands.add_parser("instance", help="time until an instance can be used")
    one.add_argument("--rounds", type=int, default=5, help="number of instances")
    arguments = parser.parse_args()
    # the cloud needs Debian 13
    os.environ["LAB_RELEASE"] = "trixie"
    say: t.Callable[[str], None] = lambda line: print(line, file=sys.stderr, flush=True)  # noqa: E731
    print(apis(arguments, say) if arguments.what == "api" else instance(arguments, say))


if __name__ == "__main__":
    main()
