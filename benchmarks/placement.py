# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measure the time of a plan, compared with first fit.

    python -m benchmarks.placement [--quick]        # from the root of the collection, PYTHONPATH as for the unit tests

First fit places each VM on the first server with sufficient memory and CPUs, without groups, pools, bridges, balance and report. Planner
and first fit are measured in turn, so a temporarily slow machine affects both; the ratios are medians of the rounds.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._placement.report.run_plan import PlanRequest, plan_footprint
from ansible_collections.reduced.footprint.plugins.module_utils._placement.request.model_placement import PlacementQuestion, parse_placement_policy
from ansible_collections.reduced.footprint.plugins.module_utils._placement.request.model_server import parse_question
from ansible_collections.reduced.footprint.plugins.module_utils._placement.solve.plan_placement import plan_placement

SIZES = ((3, 15), (10, 50), (30, 150), (100, 500), (178, 890))
QUICK = ((3, 15), (30, 150), (178, 890))
COLUMNS = (
    "servers × VMs", "memory requested", "plan, s", "× first fit", "with parsing, report and picture, s", "ms per VM", "without a server (first fit)",
)  # fmt: skip
#: Shares of the total memory that is requested.
FILLS = (0.5, 0.9, 0.97)


def raw(servers: int, vms: int, fill: float) -> tuple[list[dict[str, t.Any]], list[dict[str, t.Any]]]:
    """Return servers and VM details in the format of a user: three sizes of servers, five controllers, anti-affinity groups of three."""
    draw = random.Random(servers * 100000 + vms)
    rams = [draw.choice((2, 4, 8, 16)) for unused in range(vms)]
    each = sum(rams) / fill / servers
    machines = [
        {
            "name": f"metal{number:04}",
            "memory": f"{int(each * 1024 * (0.5, 1, 1.5)[number % 3]) + 1024} MiB",
            "cpus": 64,
            "pools": {"default": "20 TiB"},
            "bridges": ["br-admin"],
            "hypervisors": ["kvm"] if number % 4 else ["kvm", "lxc"],
        }
        for number in range(servers)
    ]
    details = [
        {
            "id": number,
            "ram": ram,
            "cpu": 2,
            "hypervisor": "lxc" if number % 17 == 16 and ram < 16 else "kvm",
            "roles": ["controller"] if number < 5 else ["web"] if number % 2 else ["worker"],
            "anti_affinity": f"shard{number // 3}",
            "disks": [{"size": 40}],
            # the default hash of 24 bits has collisions with thousands of VMs
            "nics": [{"bridge": "br-admin", "mac": f"52:54:00:{number >> 16:02x}:{number >> 8 & 255:02x}:{number & 255:02x}"}],
        }
        for number, ram in enumerate(rams)
    ]
    return machines, details


def first_fit(memory: list[int], vcpus: list[int], asked: t.Sequence[tuple[int, int]]) -> list[int]:
    """Place each VM on the first server that fits; -1 if there is none."""
    place = []
    for ram, cpu in asked:
        found = -1
        for server, room in enumerate(memory):
            if room >= ram and vcpus[server] >= cpu:
                memory[server] = room - ram
                vcpus[server] -= cpu
                found = server
                break
        place.append(found)
    return place


def _floor(question: PlacementQuestion) -> tuple[float, int]:
    memory = [server.capacity.memory_for_vms_mib for server in question.servers if server.capacity]
    vcpus = [server.capacity.vcpus_for_vms for server in question.servers if server.capacity]
    asked = [(vm.details.memory_mib, vm.details.cpu) for vm in question.vms]
    start = time.process_time()
    place = first_fit(memory, vcpus, asked)
    return time.process_time() - start, place.count(-1)


def measure(servers: int, vms: int, fill: float, rounds: int) -> dict[str, t.Any]:
    """Measure one size: medians of seconds, and the ratio to first fit."""
    machines, details = raw(servers, vms, fill)
    samples: dict[str, list[float]] = {"floor": [], "plan": [], "whole": [], "ratio": []}
    question = parse_question("bench", machines, details, (), parse_placement_policy())
    found: dict[str, t.Any] = {}
    for unused in range(rounds):
        floor, missed = _floor(question)
        start = time.process_time()
        placement = plan_placement(question)
        plan = time.process_time() - start
        start = time.process_time()
        plan_footprint(PlanRequest("bench", machines, details, svg=True, unplaced="report"))
        whole = time.process_time() - start
        for name, value in (("floor", floor), ("plan", plan), ("whole", whole), ("ratio", plan / floor)):
            samples[name].append(value)
        found = {"unplaced": placement.state.unplaced, "missed": missed}
    return {**{name: statistics.median(values) for name, values in samples.items()}, **found, "servers": servers, "vms": vms, "fill": fill}


def main() -> None:
    """Measure all sizes and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="three sizes, one round")
    quick = parser.parse_args().quick
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    for servers, vms in QUICK if quick else SIZES:
        for fill in (0.9,) if quick else FILLS:
            one = measure(servers, vms, fill, 1 if quick else 5)
            print(
                f"| {servers} × {vms} | {one['fill']:.0%} | {one['plan']:.3f} | {one['ratio']:.1f} | {one['whole']:.3f} | {one['plan'] / vms * 1000:.3f} "
                f"| {one['unplaced']} ({one['missed']}) |",
                flush=True,
            )


if __name__ == "__main__":
    main()
