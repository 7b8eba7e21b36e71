# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measure the complete downtime of a migration, compared with its minimum: a boot of the VM and a last copy without changes.

    LAB_NAME=bench LAB_NETWORK=10.240.0.0/24 PYTHONPATH=.cache/collections:. .venv/bin/python -m benchmarks.pause [--rounds 3]

Run as root; it creates a separate lab. Each round migrates the lab's laptop into a VM, boots that VM again, rolls
back, stops the writing services and copies twice. ``--reuse`` uses a running, provisioned lab with a writer, and does not remove it.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import signal
import statistics
import sys
import time
import typing as t

from benchmarks import figures, process

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "lab"), str(ROOT / "tests" / "e2e")]

from support import Lab, eventually  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"
DESTINATION, SOURCE = "metal1", "laptop"
JOURNAL = "/var/lib/reduced.footprint/migrations/master/journal.json"
#: Maximum downtime relative to the minimum; maximum error of the prediction.
MOST, OFF = 1.3, 0.3
BOOTED = 400.0
HEADS = ("round", "downtime, s", "predicted, s", "gap of a client, s", "boot only, s", "last copy without changes, s", "× both", "prediction error")


class Round(t.NamedTuple):
    """Seconds of one migration, and of its minimum; ``parts`` of the pause by phase."""

    away: float
    predicted: float
    gap: float
    boot: float
    idle: float
    parts: dict[str, float]

    @property
    def ratio(self) -> float:
        """The downtime relative to the minimum."""
        return self.away / (self.boot + self.idle)

    @property
    def off(self) -> float:
        """The error of the prediction, relative to the downtime."""
        return (self.predicted - self.away) / self.away


def rows(rounds: t.Sequence[Round]) -> list[list[str]]:
    """Return one line for each round."""
    return [
        [str(number), f"{each.away:.1f}", f"{each.predicted:.1f}", f"{each.gap:.1f}", f"{each.boot:.1f}", f"{each.idle:.2f}",
         f"{each.ratio:.2f}", f"{each.off:+.0%}"]
        for number, each in enumerate(rounds, 1)
    ]  # fmt: skip


def verdicts(rounds: t.Sequence[Round]) -> list[list[str]]:
    """Return the targets: the median ratio, and the worst error of the prediction."""
    ratio = statistics.median(each.ratio for each in rounds)
    worst = max((each.off for each in rounds), key=abs)
    return [
        ["downtime, × a boot of the VM and a last copy without changes (median)", f"≤ {MOST:g}", f"{ratio:.2f}", "met" if ratio <= MOST else "MISS"],
        ["prediction error (worst)", f"≤ {OFF:.0%}", f"{worst:+.0%}", "met" if abs(worst) <= OFF else "MISS"],
    ]


class Bench:
    """The measurements in a lab."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab

    def journal(self) -> dict[str, t.Any]:
        """Return the journal of the migration."""
        return dict(json.loads(self.lab.ssh(DESTINATION, "cat", JOURNAL)))

    def acknowledged(self, since: float = 0.0) -> list[tuple[int, float]]:
        """Return number and time of the acknowledged rows."""
        lines = map(json.loads, (self.lab.state / "writer.jsonl").read_text(encoding="ascii").splitlines())
        return [(int(each["n"]), float(each["t"])) for each in lines if each["t"] >= since]

    def keep_promises(self, since: float) -> None:
        """Check that the VM has every acknowledged row since the given time, without those of rolled back migrations."""
        # acknowledged rows first: rows are written during the query
        promised = {number for number, _at in self.acknowledged(since)}
        lost = promised - {int(number) for number in self.lab.ssh(SOURCE, "mariadb", "-N", "-e", "'SELECT n FROM footprint.events'").split()}
        if lost:
            sys.exit(f"{len(lost)} acknowledged rows are lost; measurement aborted.")

    def boot(self) -> float:
        """Return the seconds from the start of the VM to the first acknowledged row."""
        self.lab.ssh(DESTINATION, "virsh", "shutdown", "master")
        eventually("the VM is off", lambda: "shut off" in self.lab.ssh(DESTINATION, "virsh", "domstate", "master"), 180)
        began = time.time()
        self.lab.ssh(DESTINATION, "virsh", "start", "master")
        eventually("the VM serves", lambda: bool(self.acknowledged(began)), BOOTED)
        return self.acknowledged(began)[0][1] - began

    def idle(self) -> float:
        """Return the seconds of a copy without changes since the previous one."""
        self.lab.command("writer", "stop")
        self.lab.ssh(SOURCE, "systemctl", "stop", "mariadb", "dnsmasq", "footprint-api")
        try:
            # the first one copies the changes since the rollback
            for _once in range(2):
                self.lab.succeeds("migrate_master", "-e", "master_migrate_stop_after=precopy")
            return float(self.journal()["passes"][-1]["seconds"])
        finally:
            self.lab.ssh(SOURCE, "systemctl", "start", "mariadb", "dnsmasq", "footprint-api")
            self.lab.command("writer", "start")
            eventually("rows are written", self.lab.writing, 60)

    def round(self) -> Round:
        """Measure one round."""
        since = time.time()
        self.lab.succeeds("migrate_master", "-e", "master_migrate_discard_vm_data=true")
        downtime = self.journal()["downtime"]
        eventually("the VM serves", self.lab.writing, BOOTED)
        times = [at for _number, at in self.acknowledged(since)]
        gap = max(after - before for before, after in zip(times, times[1:]))
        boot = self.boot()
        self.keep_promises(since)
        self.lab.succeeds("rollback_master")
        eventually("the source serves", self.lab.writing, 120)
        return Round(downtime["seconds"], downtime["predicted"], gap, boot, self.idle(), downtime["parts"])


def report(rounds: t.Sequence[Round], machine: t.Mapping[str, str]) -> str:
    """Format all tables in Markdown."""
    names = list(dict.fromkeys(name for each in rounds for name in each.parts))
    parts = [[name, *(f"{each.parts[name]:.2f}" if name in each.parts else "-" for each in rounds)] for name in names]
    return "\n\n".join(
        (
            figures.markdown(HEADS, rows(rounds)),
            figures.markdown(("phase, s", *(f"round {number}" for number in range(1, len(rounds) + 1))), parts),
            figures.markdown(("what", "limit", "measured", ""), verdicts(rounds)),
            figures.markdown(("machine", "value"), [list(each) for each in machine.items()]),
        )
    )


def main() -> None:
    """Set up, measure, print and remove the lab."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--reuse", action="store_true")
    asked = parser.parse_args()
    lab = Lab()
    if not lab.settings.name:
        sys.exit("Set a separate lab, e.g. LAB_NAME=bench LAB_NETWORK=10.240.0.0/24.")
    # remove the lab if the benchmark is terminated
    signal.signal(signal.SIGTERM, lambda *unused: sys.exit("ended"))
    machine = process.machine(sys.executable, str(pathlib.Path(sys.executable).with_name("ansible-playbook")))
    rounds: list[Round] = []
    try:
        if not asked.reuse:
            lab.command("down")
            lab.command("up", "--servers", "1")
            lab.command("writer", "start")
            lab.succeeds("provision_virt", "--limit", DESTINATION)
        for number in range(1, asked.rounds + 1):
            found = Bench(lab).round()
            rounds.append(found)
            print(f"round {number}: {found}", file=sys.stderr, flush=True)
            RESULTS.mkdir(exist_ok=True)
            (RESULTS / "pause.json").write_text(json.dumps({"machine": machine, "rounds": [each._asdict() for each in rounds]}, indent=1) + "\n", "utf-8")
    finally:
        if not asked.reuse:
            lab.command("down")
    print(report(rounds, machine))


if __name__ == "__main__":
    main()
