# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measure a provisioning run without a change, compared with gathering facts only.

    python -m benchmarks.provision --inventory .lab/inventory --host metal1 [--quick]    # from the root of the collection

``--host`` is a real or simulated server of the inventory that may be provisioned. Several hosts are simulated by several names for it:
each has separate facts, variables and five VM details, and all tasks run on that one server. So the control node does the work for
all hosts, while one server does the work that several would do in parallel. The names share as many connections as there are forks,
because a server slows down with each open session, and real servers have one each.
Gathering and provisioning are measured in turn, so a temporarily slow machine affects both.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import typing as t

from benchmarks import figures, placement, process

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = ROOT / ".venv" / "bin"
PLAYBOOK = str(BIN / "ansible-playbook")
SIZES = (1, 10, 50, 178)
QUICK = (1, 3)
VMS = 5
#: At most the number of unauthenticated connections that sshd accepts.
FORKS = 8
MOST_TASKS, MOST_TIMES = 12, 3.0
COUNTS = ("ok", "changed", "unreachable", "failed", "skipped", "rescued", "ignored")
RECAP = re.compile(r"^(\S+)\s+: " + r"\s+".join(rf"{name}=(\d+)" for name in COUNTS), re.MULTILINE)
GATHER = "- hosts: virt\n  gather_facts: false\n  tasks:\n    - ansible.builtin.setup:\n"
HEADS = (
    "hosts", "VMs", "gathering, s", "provisioning, s", "× gathering", "tasks of a host (skipped)", "s per host", "× among the fewest",
    "control node, CPU s per host",
)  # fmt: skip


class MeasurementError(Exception):
    """A run that cannot be used: it changed something or left out a host."""


class Recap(t.NamedTuple):
    """The recap of a play: number of hosts, and the highest number of tasks of a host with the skipped ones."""

    hosts: int
    tasks: int
    skipped: int


def recap(output: str, changes: bool = False) -> Recap:
    """Parse the recap, without ``localhost``.

    :raises MeasurementError: something changed although no change was expected.
    """
    lines = [(name, [int(number) for number in numbers]) for name, *numbers in RECAP.findall(output) if name != "localhost"]
    changed = [name for name, numbers in lines if numbers[1]]
    if changed and not changes:
        raise MeasurementError(f"{len(changed)} hosts changed, {changed[0]} first; no change was expected:\n{output[-3000:]}")
    counts = [(ok + skipped + rescued + ignored, skipped) for unused, (ok, unused_2, unused_3, unused_4, skipped, rescued, ignored) in lines]
    tasks, skipped = max(counts, default=(0, 0))
    return Recap(len(lines), tasks, skipped)


class Sample(t.NamedTuple):
    """One size: medians of seconds, ratios of rounds, CPU of the control node."""

    hosts: int
    gathering: float
    provisioning: float
    ratio: float
    cpu: float
    recap: Recap


def rows(samples: t.Sequence[Sample]) -> list[list[str]]:
    """Return the table; the cost of a host is compared with that for the smallest number of hosts that uses all forks."""
    many = [sample for sample in samples if sample.hosts >= FORKS] or list(samples)
    base = many[0].provisioning / many[0].hosts
    found = []
    for one in samples:
        each = one.provisioning / one.hosts
        straight = f"{each / base:.2f}" if one in many else "-"
        tasks = f"{one.recap.tasks} ({one.recap.skipped})"
        found.append(
            [str(one.hosts), str(one.hosts * VMS), f"{one.gathering:.2f}", f"{one.provisioning:.2f}", f"{one.ratio:.2f}", tasks, f"{each:.2f}", straight]
            + [f"{one.cpu / one.hosts:.2f}"]
        )
    return found


def verdicts(samples: t.Sequence[Sample]) -> list[list[str]]:
    """Return the targets, ``MISS`` if not met."""
    one = samples[0]

    def line(what: str, most: str, value: str, met: bool) -> list[str]:
        return [what, most, value, "ok" if met else "MISS"]

    found = [
        line("tasks of a host, including skipped ones", f"at most {MOST_TASKS}", str(one.recap.tasks), one.recap.tasks <= MOST_TASKS),
        line("one host, × gathering facts", f"at most {MOST_TIMES:g}", f"{one.ratio:.2f}", one.ratio <= MOST_TIMES),
    ]
    many = [sample for sample in samples if sample.hosts >= FORKS]
    if len(many) > 1:
        bend = many[-1].provisioning / many[-1].hosts / (many[0].provisioning / many[0].hosts)
        found.append(line(f"a host among {many[-1].hosts}, × one among {many[0].hosts}", "at most 1.25", f"{bend:.2f}", bend <= 1.25))
    return found


def variables(inventory: pathlib.Path, host: str) -> dict[str, t.Any]:
    """Return all variables of the server, without those of Ansible; ``inventory_dir`` is replaced by its value."""
    argv = [str(BIN / "ansible-inventory"), "-i", str(inventory), "--host", host]
    output = subprocess.run(argv, check=True, capture_output=True, text=True, env={**os.environ, **environment(inventory)}).stdout
    folder = inventory if inventory.is_dir() else inventory.parent
    return json.loads(output.replace("inventory_dir", f"'{folder.resolve()}'"), object_hook=_plain)


def _plain(value: dict[str, t.Any]) -> t.Any:
    return value.get("__ansible_unsafe", value)


def environment(inventory: pathlib.Path | None = None) -> dict[str, str]:
    """Return environment variables for the collection of this checkout, without settings of the user."""
    config = ROOT / "lab" / "ansible.cfg"
    found = {"ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".cache" / "collections"), "ANSIBLE_CONFIG": str(config), "ANSIBLE_NOCOLOR": "1"}
    return {**found, "ANSIBLE_FORKS": str(FORKS), **({"ANSIBLE_INVENTORY": str(inventory)} if inventory else {})}


def simulated(server: t.Mapping[str, t.Any], host: str, count: int, sockets: pathlib.Path) -> dict[str, t.Any]:
    """Return an inventory with several names for one server, each with five VM details."""
    vms = [{"id": f"bench{number}", "cpu": 1, "ram": "64 MiB", "hypervisor": "lxc", "disks": []} for number in range(VMS)]
    names = {f"sim{number:03}": {"ansible_control_path": str(sockets / f"{number % FORKS}")} for number in range(count)}
    shared = {**server, "virt_host_name": host, "virt_host_vms": vms, "vms": vms, "virt_host_hypervisors": ["qemu", "lxc"], "expert_mode": True}
    return {"virt": {"hosts": names, "vars": shared}}


def measure(server: t.Mapping[str, t.Any], host: str, count: int, rounds: int, folder: pathlib.Path) -> Sample:
    """Measure gathering and provisioning in turn."""
    inventory, gather = folder / "hosts.json", folder / "gather.yml"
    inventory.write_text(json.dumps(simulated(server, host, count, folder)), "utf-8")
    gather.write_text(GATHER, "utf-8")
    who: dict[str, tuple[str, list[float], list[float]]] = {
        "gathering": (str(gather), [], []),
        "provisioning": ("reduced.footprint.provision_virt", [], []),
    }
    found = Recap(0, 0, 0)
    for unused in range(rounds):
        for name, (play, seconds, cpu) in who.items():
            cost = process.run([PLAYBOOK, "-i", str(inventory), play], environment(), folder)
            counted = recap(cost.output)
            if counted.hosts != count:
                raise MeasurementError(f"{counted.hosts} of {count} hosts are in the recap")
            seconds.append(cost.seconds)
            cpu.append(cost.cpu)
            print(f"{name:14} {count:4} hosts {cost.seconds:8.2f} s, {counted.tasks} tasks", file=sys.stderr, flush=True)
            found = counted
    gathering, provisioning = who["gathering"][1], who["provisioning"][1]
    ratio = statistics.median(ours / bare for ours, bare in zip(provisioning, gathering))
    return Sample(count, statistics.median(gathering), statistics.median(provisioning), ratio, statistics.median(who["provisioning"][2]), found)


def rounds_of(count: int, quick: bool) -> int:
    """Return the number of rounds; a run of many hosts is already a mean."""
    return 1 if quick or count > 50 else 3 if count == 50 else 5


def page(samples: t.Sequence[Sample], plans: t.Sequence[t.Mapping[str, t.Any]], facts: t.Mapping[str, str]) -> str:
    """Format the results in Markdown."""
    plan_rows = [
        [f"{one['servers']} × {one['vms'] // one['servers']} ({one['vms']})", f"{one['fill']:.0%}", f"{one['plan']:.3f}", f"{one['ratio']:.1f}"]
        + [f"{one['whole']:.3f}", f"{one['plan'] / one['vms'] * 1000:.3f}", str(one["unplaced"])]
        for one in plans
    ]
    plan_heads = ("servers × VMs", "memory requested", "plan, s", "× first fit", "with parsing, report and picture, s", "ms per VM", "without a server")
    parts = [
        ("Targets", figures.markdown(("what", "target", "measured", ""), verdicts(samples))),
        ("A run without a change", figures.markdown(HEADS, rows(samples))),
        ("Planning", figures.markdown(plan_heads, plan_rows)),
        ("Machine", figures.markdown(("property", "value"), [list(fact) for fact in facts.items()])),
    ]
    return "\n\n".join(f"## {head}\n\n{body}" for head, body in parts)


def main() -> None:
    """Provision once, measure all sizes and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--inventory", type=pathlib.Path, required=True, help="inventory with the server")
    parser.add_argument("--host", default="metal1", help="server that simulates all hosts")
    parser.add_argument("--hosts", type=int, nargs="+", help=f"numbers of hosts (default: {SIZES})")
    parser.add_argument("--rounds", type=int, help="rounds of each size (default: 5 for a few hosts, 3 for 50, 1 for more)")
    parser.add_argument("--quick", action="store_true", help="small sizes, one round: to test the benchmark itself")
    wanted = parser.parse_args()
    sizes = wanted.hosts or (QUICK if wanted.quick else SIZES)
    facts = process.machine("/usr/bin/python3", PLAYBOOK)
    try:
        server = variables(wanted.inventory, wanted.host)
        with tempfile.TemporaryDirectory(prefix="footprint-bench-") as name:
            folder = pathlib.Path(name)
            (folder / "first.json").write_text(json.dumps(simulated(server, wanted.host, 1, folder)), "utf-8")
            recap(process.run([PLAYBOOK, "-i", str(folder / "first.json"), "reduced.footprint.provision_virt"], environment(), folder).output, changes=True)
            samples = [measure(server, wanted.host, count, wanted.rounds or rounds_of(count, wanted.quick), folder) for count in sizes]
    except (MeasurementError, process.Failed, subprocess.CalledProcessError) as error:
        sys.exit(f"{error}\n{getattr(error, 'stderr', '') or ''}")
    plans = [placement.measure(*size, 0.9, 1 if wanted.quick else 5) for size in ((10, 50), (50, 250), (178, 890))]
    print(page(samples, plans, facts))


if __name__ == "__main__":
    main()
