# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measure the requests per second that the APIs of a cloud with three controllers answer.

    LAB_NAME=bench LAB_NETWORK=10.240.0.0/24 PYTHONPATH=.cache/collections:. .venv/bin/python -m benchmarks.cloud [--rounds 3]

Run as root from the root of the collection. It brings up a lab of that name, deploys the controllers and removes the lab afterwards; with
``--reuse`` it uses those of a running lab.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
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

RESULTS = ROOT / "benchmarks" / "results"
NAMES = {8774: "nova", 8778: "placement", 9292: "glance", 9696: "neutron"}
UNITS = {8774: "nova-api", 8778: "placement-api", 9292: "glance-api", 9696: "neutron-api"}
DIRECT, ONE, ALL = "a member directly, without TLS", "through the virtual address, one controller", "through the virtual address, three controllers"
#: Health checks are one second apart; three of them, and some time.
SETTLE = 5.0
API_HEADS = ("API", "requests to", "requests per second (median)", "× directly", "median request, ms", "95 % of requests, ms", "failed")


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


def load(lab: CloudLab, host: str, given: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return what ``api_load.py`` prints on a host.

    :arg given: its input.
    """
    program = (ROOT / "benchmarks" / "api_load.py").read_text("utf-8")
    done: dict[str, t.Any] = json.loads(lab.run(host, ["python3", "-c", program], stdin=json.dumps(given)))
    if not done["answered"]:
        sys.exit(f"{given['url']} was not answered: {done['errors']}")
    return done


def headers(token: str) -> dict[str, str]:
    """Return the headers of a request to any of the APIs."""
    return {"X-Auth-Token": token, "OpenStack-API-Version": "placement 1.0, compute 2.37"}


class Apis:
    """Load on the APIs of three controllers, from a client on one of them: only controllers may ask a member directly."""

    def __init__(self, lab: CloudLab, clients: int, seconds: float) -> None:
        self.lab, self.clients, self.seconds = lab, clients, seconds
        self.cloud = Cloud(lab)
        self.authority = pathlib.Path(self.cloud.openrc["OS_CACERT"]).read_text("utf-8")

    def rate(self, port: int, target: str, number: int) -> Rate:
        """Measure one API."""
        member = SERVERS[0]
        base = f"http://{self.lab.addresses[member]}" if target == DIRECT else f"https://{self.cloud.address}"
        wish = {"url": f"{base}:{port}{REQUESTS[port]}", "headers": headers(self.cloud.token), "authority": self.authority}
        done = load(self.lab, member, {**wish, "clients": self.clients, "seconds": self.seconds})
        return Rate(NAMES[port], target, number, done["answered"] / done["seconds"], done["median"], done["slow"], done["failed"])

    def drain(self, port: int, drained: bool) -> None:
        """Take the members other than the first out of the load balancers, or back."""
        file = f"/run/footprint-{UNITS[port]}.drain"
        for member in SERVERS[1:]:
            self.lab.run(member, ["touch", file] if drained else ["rm", "-f", file])
        time.sleep(SETTLE)

    def round(self, number: int) -> t.Iterator[Rate]:
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


@contextlib.contextmanager
def lab_with_cloud(servers: int, reuse: bool, deploy: t.Callable[[CloudLab], None]) -> t.Iterator[CloudLab]:
    """A lab that is brought up, and removed afterwards; or, with ``reuse``, a running lab whose cloud was deployed already."""
    # the cloud needs Debian 13
    os.environ["LAB_RELEASE"] = "trixie"
    if reuse:
        yield CloudLab()
        return
    command = str(ROOT / "lab" / "lab")
    try:
        subprocess.run([command, "down"], check=False)
        subprocess.run([command, "up", "--servers", str(servers)], check=True)
        lab = CloudLab()
        deploy(lab)
        yield lab
    finally:
        subprocess.run([command, "down"], check=False)


def deploy(lab: CloudLab) -> None:
    """Deploy a cloud on three controllers."""
    lab.write_inventory(variables={"footprint_cloud": True, "footprint_components": None})
    lab.succeeds("deploy_controllers")


def say(line: str) -> None:
    """Print a line of progress."""
    print(line, file=sys.stderr, flush=True)


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
    parser.add_argument("--rounds", type=int, default=3, help="number of times each API is measured")
    parser.add_argument("--clients", type=int, default=4, help="number of clients at the same time")
    parser.add_argument("--seconds", type=float, default=10, help="length of a measurement")
    parser.add_argument("--reuse", action="store_true", help="use a running lab with a cloud on three controllers")
    arguments = parser.parse_args()
    with lab_with_cloud(3, arguments.reuse, deploy) as lab:
        bench = Apis(lab, arguments.clients, arguments.seconds)
        rates = [rate for number in range(arguments.rounds) for rate in bench.round(number)]
    print(write("cloud", API_HEADS, api_rows(rates)))


if __name__ == "__main__":
    main()
