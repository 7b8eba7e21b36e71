# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measure what each stage of the placement gains: the same cases with and without it.

    python -m benchmarks.placement_stages [--cases 500] [--jobs 1] [--only TEXT]    # from the root of the collection

Each case is planned with all stages and once for each stage that is switched off, one after the other, so a temporarily slow machine affects
both. A case is generated from its number: the result is the same on every machine, except for the CPU time.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import contextlib
import functools
import random
import time
import typing as t
from unittest import mock

from ansible_collections.reduced.footprint.plugins.module_utils._placement.request.model_placement import (
    PlacementQuestion,
    parse_placement_policy,
    parse_wanted,
)
from ansible_collections.reduced.footprint.plugins.module_utils._placement.request.model_server import parse_question
from ansible_collections.reduced.footprint.plugins.module_utils._placement.solve import (
    plan_advice,
    plan_matching,
    plan_placement,
    plan_problem,
    plan_search,
)

#: Memory is requested up to this share of the total: plenty left, tight, about as much as there is.
FILLS = ((0.3, 0.75), (0.8, 0.97), (0.97, 1.1))
LEVELS = plan_problem.LEVELS
COLUMNS = ("without", "placed", "grade", "apart", "moves", "spread", "balance", "lost by it", "CPU × without")
#: Differences of balance below this share are no difference.
_BALANCE = 0.01


def case(seed: int) -> PlacementQuestion:
    """Return the question of a number: 2 to 12 servers, 3 to 60 VMs."""
    draw = random.Random(seed)
    number, count, fill = draw.randint(2, 12), draw.randint(3, 60), draw.uniform(*FILLS[seed % 3])
    names = [f"metal{index}" for index in range(number)]
    vms = [_vm(draw, index) for index in range(count)]
    # in most clusters servers are alike, and VMs of a few kinds
    alike = draw.random() < 0.5
    if alike:
        vms = [{**vms[index % 3], "id": index, "nics": [{**vms[index % 3]["nics"][0], "mac": vms[index]["nics"][0]["mac"]}]} for index in range(count)]
    policy: dict[str, t.Any] = {"thin_ratio": draw.choice((1, 1, 1.5))}
    _groups(draw, vms, policy)
    machines = _machines(draw, names, vms, fill, alike)
    current = _current(draw, machines, vms)
    if current:
        policy["allow_moves"] = draw.random() > 0.15
    if draw.random() < 0.3:
        for vm in draw.sample(vms, min(3, count)):
            vm["host"] = draw.choice(names)
    wanted = []
    if draw.random() < 0.15:
        wanted = [
            {"name": f"wanted{index}", "ram": int(draw.choice(machines)["memory"].split()[0]) / 1024, "match": draw.choice(("exact", "at_least"))}
            for index in range(draw.randint(1, 3))
        ]
    return parse_question("bench", machines, vms, parse_wanted(wanted), parse_placement_policy(**policy), current)


def _vm(draw: random.Random, index: int) -> dict[str, t.Any]:
    return {
        "id": index,
        "ram": draw.choice((1, 2, 2, 4, 4, 8, 16)),
        "cpu": draw.choice((1, 2, 2, 4)),
        "roles": [draw.choice(("web", "worker", "db"))],
        "hypervisor": "lxc" if draw.random() < 0.1 else "kvm",
        "disks": [{"size": draw.choice((10, 20, 40)), **({"pool": "fast"} if draw.random() < 0.1 else {})}],
        # the default hash of 24 bits has collisions
        "nics": [{"bridge": "br-tenant" if draw.random() < 0.2 else "br-admin", "mac": f"52:54:00:00:00:{index:02x}"}],
    }


def _groups(draw: random.Random, vms: list[dict[str, t.Any]], policy: dict[str, t.Any]) -> None:
    """Add controllers, a second quorum, groups of anti-affinity, strict groups."""
    members = 5 if len(vms) >= 10 and draw.random() < 0.3 else 3
    for vm in vms[:members]:
        vm["roles"] = ["controller"]
    if len(vms) >= 12 and draw.random() < 0.3:
        policy["quorum_roles"] = ["controller", "queue"]
        for vm in vms[members : members + 3]:
            vm["roles"] = ["queue"]
    if draw.random() < 0.4:
        size = draw.randint(2, 4)
        for index, vm in enumerate(vms[members + 3 :]):
            vm["anti_affinity"] = f"shard{index // size}"
    if draw.random() < 0.15:
        policy["apart_roles"] = ["db"]
    if draw.random() < 0.15:
        policy["strict_groups"] = [draw.choice(("controller", "shard0"))]


def _machines(draw: random.Random, names: list[str], vms: list[dict[str, t.Any]], fill: float, alike: bool) -> list[dict[str, t.Any]]:
    """Return servers of up to three sizes whose total memory is as requested; CPUs or pools are short in some cases."""
    factors = [1 if alike else draw.choice((0.6, 1, 1, 1.5)) for unused in names]
    share = {name: factor / sum(factors) for name, factor in zip(names, factors)}
    cpus = sum(vm["cpu"] for vm in vms) / 4 / (fill if draw.random() < 0.25 else 0.5)
    disk = sum(vm["disks"][0]["size"] for vm in vms) / (fill if draw.random() < 0.25 else 0.4)
    ram = sum(vm["ram"] for vm in vms) / fill
    found = []
    for index, name in enumerate(names):
        # the largest VM fits on an empty server
        memory = max(int(share[name] * ram * 1024), max(vm["ram"] for vm in vms) * 1024) + 1024
        pools = {"default": f"{max(40, int(share[name] * disk))} GiB"}
        if alike or index % 2 == 0:
            pools["fast"] = "200 GiB"
        machine = {"name": name, "memory": f"{memory} MiB", "cpus": max(2, round(share[name] * cpus)), "pools": pools}
        machine["bridges"] = ["br-admin", "br-tenant"] if alike or index == 0 or draw.random() < 0.7 else ["br-admin"]
        machine["hypervisors"] = ["kvm", "lxc"] if alike or index == 0 or draw.random() < 0.5 else ["kvm"]
        machine["roles"] = ["virt", "controller"] if index == 1 and draw.random() < 0.15 else ["virt"]
        found.append(machine)
    return found


def _current(draw: random.Random, machines: list[dict[str, t.Any]], vms: list[dict[str, t.Any]]) -> dict[str, str]:
    """Return existing VMs: none, some or all of those that fit, filled up as by hand, regardless of groups."""
    part = draw.choice((0, 0, 0.5, 1))
    room = {machine["name"]: int(machine["memory"].split()[0]) - 1024 for machine in machines}
    found = {}
    for vm in vms if part else ():
        for name in room:
            if room[name] >= vm["ram"] * 1024:
                room[name] -= vm["ram"] * 1024
                if draw.random() < part:
                    found[str(vm["id"])] = name
                break
    return found


def _first_that_matches(servers: t.Any, wanted: t.Any, busy: t.Any = frozenset()) -> t.Any:
    """Assign whole servers one after the other, the smallest first, without changing an assignment."""
    free = sorted(range(len(servers)), key=lambda index: (index in busy, servers[index].memory_mib or 0, index))
    found = []
    for one in wanted:
        place = next((index for index in free if plan_matching.mismatch(one, servers[index]) is None), None)
        if place is not None:
            free.remove(place)
        found.append(plan_matching.Match(one, place, ""))
    return tuple(found)


def _first_fit(problem: t.Any) -> t.Any:
    state = plan_problem.State(problem)
    for vm, eligible in enumerate(problem.eligible):
        place = next((server for server in eligible if state.fits(vm, server)), None)
        if place is not None:
            state.put(vm, place)
    return state


Patches = t.Sequence[t.Tuple[t.Any, str, t.Any]]
STAGES: dict[str, Patches] = {
    "everything (first fit)": [(plan_placement, "search", lambda problem, trials: _first_fit(problem))],
    "ruin and recreate": [(plan_placement, "search", lambda problem, trials: plan_search.construct(problem))],
    "more than three VMs at once": [(plan_search, "_MOST_REMOVED", 3)],
    "any server instead of the best one": [(plan_search, "_ANY_SERVER", 0)],
    "half of the trials": [(plan_placement, "search", lambda problem, trials: plan_search.search(problem, trials // 2))],
}
MATCHING: Patches = [(plan_placement, "match_servers", _first_that_matches)]


class Plan(t.NamedTuple):
    """The result of one plan: its cost, the requests with a server, CPU seconds."""

    cost: tuple[int, ...]
    requests: int
    seconds: float


def planned(question: PlacementQuestion, patches: Patches = ()) -> Plan:
    """Plan with some functions replaced."""
    with contextlib.ExitStack() as stack:
        for owner, name, value in patches:
            stack.enter_context(mock.patch.object(owner, name, value))
        start = time.process_time()
        placement = plan_placement.plan_placement(question)
        seconds = time.process_time() - start
    return Plan(placement.state.cost(), sum(one.server is not None for one in placement.matches), seconds)


def difference(with_it: Plan, without: Plan) -> tuple[str, bool]:
    """Return the first criterion in which two plans differ, and whether the stage made it better; an empty one if they do not."""
    for name, here, there in zip(LEVELS, with_it.cost, without.cost):
        if here != there and (name != "balance" or abs(here - there) > _BALANCE * max(here, there)):
            return name, here < there
    return "", False


def advised(question: PlacementQuestion) -> int | None:
    """Return the number of changes that are advised for a case with a VM that has no server; ``None`` for other cases."""
    placement = plan_placement.plan_placement(question)
    return len(plan_advice.changes(placement)) if placement.state.unplaced else None


class Outcome(t.NamedTuple):
    """What was measured for one case."""

    full: Plan
    stages: dict[str, Plan]
    matching: Plan
    advice: int | None


def measure(seed: int, only: str = "") -> Outcome:
    """Measure one case."""
    question = case(seed)
    full = planned(question)
    stages = {name: planned(question, patches) for name, patches in STAGES.items() if only in name}
    return Outcome(full, stages, planned(question, MATCHING) if question.wanted else full, advised(question))


def table(outcomes: t.Sequence[Outcome]) -> t.Iterator[str]:
    """Yield the lines of the table of stages."""
    yield f"| {' | '.join(COLUMNS)} |"
    yield f"|{'---|' * len(COLUMNS)}"
    total = sum(one.full.seconds for one in outcomes)
    for name in outcomes[0].stages:
        found = [(difference(one.full, one.stages[name]), one.stages[name]) for one in outcomes]
        better = collections.Counter(level for (level, gained), unused in found if gained)
        lost = sum(1 for (level, gained), unused in found if level and not gained)
        cells = [better["unplaced"], better["quorum"] + better["quorums"], better["apart"], better["moves"], better["spread"], better["balance"], lost]
        ratio = total / sum(one.seconds for unused, one in found)
        yield f"| {name} | {' | '.join(str(cell) if cell else '' for cell in cells)} | {ratio:.2f} |"


def main() -> None:
    """Measure the cases and print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", default="", help="measure only stages whose name contains this text")
    given = parser.parse_args()
    outcomes: list[Outcome] = []
    with concurrent.futures.ProcessPoolExecutor(given.jobs) as pool:
        try:
            for outcome in pool.map(functools.partial(measure, only=given.only), range(given.cases)):
                outcomes.append(outcome)
        except KeyboardInterrupt:
            # the cases so far are reported
            pool.shutdown(cancel_futures=True)
    short = sum(1 for one in outcomes if one.full.cost[0])
    grades = collections.Counter(one.full.cost[1] for one in outcomes)
    print(f"{len(outcomes)} cases, {short} with a VM without a server; grades: {grades[0]} quorum, {grades[1]} restart, {grades[2]} none; ", end="")
    print(f"{sum(one.full.seconds for one in outcomes) / len(outcomes):.3f} s of CPU for each\n")
    print("\n".join(table(outcomes)))
    asked = [one for one in outcomes if one.matching is not one.full]
    gained = sum(one.full.requests - one.matching.requests for one in asked)
    print(f"\nWhole servers: {gained} more requests satisfied in {len(asked)} cases than one after the other\n")
    advice = [one.advice for one in outcomes if one.advice is not None]
    print(f"Advice for {len(advice)} cases with a VM without a server: {sum(advice) / max(1, len(advice)):.1f} changes, none for {advice.count(0)}")


if __name__ == "__main__":
    main()
