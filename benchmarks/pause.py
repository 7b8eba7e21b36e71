# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How long a moving master is away in all, beside what nobody can do without: a boot of its VM and a last copy of nothing.

    LAB_NAME=bench LAB_NETWORK=10.240.0.0/24 PYTHONPATH=.cache/collections:. .venv/bin/python -m benchmarks.pause [--rounds 3]

Runs as root in a lab of its own. Each round moves the lab's laptop into a VM, boots that VM once more, takes everything
back, stops what writes and copies twice. ``--reuse`` takes a lab that is up, provisioned and with a writer, and leaves it.
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
#: Of the floor, at most; how far the predicted may be from what came.
MOST, OFF = 1.3, 0.3
BOOTED = 400.0
HEADS = ("round", "away, s", "predicted, s", "a client's gap, s", "boot alone, s", "last copy of nothing, s", "× both", "predicted off by")


class Round(t.NamedTuple):
    """Seconds of one migration, and of its floor; ``parts`` of the pause by name."""

    away: float
    predicted: float
    gap: float
    boot: float
    idle: float
    parts: dict[str, float]

    @property
    def ratio(self) -> float:
        """How many times as long as what nobody can do without."""
        return self.away / (self.boot + self.idle)

    @property
    def off(self) -> float:
        """The error of what was predicted, as a share of what came."""
        return (self.predicted - self.away) / self.away


def rows(rounds: t.Sequence[Round]) -> list[list[str]]:
    """One line for each round."""
    return [
        [str(number), f"{each.away:.1f}", f"{each.predicted:.1f}", f"{each.gap:.1f}", f"{each.boot:.1f}", f"{each.idle:.2f}",
         f"{each.ratio:.2f}", f"{each.off:+.0%}"]
        for number, each in enumerate(rounds, 1)
    ]  # fmt: skip


def verdicts(rounds: t.Sequence[Round]) -> list[list[str]]:
    """The two figures against their limits: the median ratio, and the worst of what was predicted."""
    ratio = statistics.median(each.ratio for each in rounds)
    worst = max((each.off for each in rounds), key=abs)
    return [
        ["away, × a boot of the VM and a last copy of nothing (median)", f"≤ {MOST:g}", f"{ratio:.2f}", "met" if ratio <= MOST else "MISS"],
        ["predicted, off by (worst)", f"≤ {OFF:.0%}", f"{worst:+.0%}", "met" if abs(worst) <= OFF else "MISS"],
    ]


class Bench:
    """The lab and what is done in it."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab

    def journal(self) -> dict[str, t.Any]:
        """What the migration wrote down."""
        return dict(json.loads(self.lab.ssh(DESTINATION, "cat", JOURNAL)))

    def acknowledged(self, since: float = 0.0) -> list[tuple[int, float]]:
        """Number and time of the rows that were acknowledged."""
        lines = map(json.loads, (self.lab.state / "writer.jsonl").read_text(encoding="ascii").splitlines())
        return [(int(each["n"]), float(each["t"])) for each in lines if each["t"] >= since]

    def keep_promises(self, since: float) -> None:
        """The VM has every row; what an earlier one was told before it was taken back is not asked for."""
        # the promises first: rows are written while the VM is asked
        promised = {number for number, _at in self.acknowledged(since)}
        lost = promised - {int(number) for number in self.lab.ssh(SOURCE, "mariadb", "-N", "-e", "'SELECT n FROM footprint.events'").split()}
        if lost:
            sys.exit(f"{len(lost)} acknowledged rows are lost: nothing to measure.")

    def boot(self) -> float:
        """Seconds from the start of the VM to the first row a client was promised."""
        self.lab.ssh(DESTINATION, "virsh", "shutdown", "master")
        eventually("the VM is off", lambda: "shut off" in self.lab.ssh(DESTINATION, "virsh", "domstate", "master"), 180)
        began = time.time()
        self.lab.ssh(DESTINATION, "virsh", "start", "master")
        eventually("the VM serves", lambda: bool(self.acknowledged(began)), BOOTED)
        return self.acknowledged(began)[0][1] - began

    def idle(self) -> float:
        """Seconds of a copy when nothing has changed since the one before it."""
        self.lab.command("writer", "stop")
        self.lab.ssh(SOURCE, "systemctl", "stop", "mariadb", "dnsmasq", "footprint-api")
        try:
            # the first brings what the source wrote since its return
            for _once in range(2):
                self.lab.succeeds("migrate_master", "-e", "master_migrate_stop_after=precopy")
            return float(self.journal()["passes"][-1]["seconds"])
        finally:
            self.lab.ssh(SOURCE, "systemctl", "start", "mariadb", "dnsmasq", "footprint-api")
            self.lab.command("writer", "start")
            eventually("rows are written", self.lab.writing, 60)

    def round(self) -> Round:
        """Everything once."""
        since = time.time()
        self.lab.succeeds("migrate_master")
        told = self.journal()["downtime"]
        eventually("the VM serves", self.lab.writing, BOOTED)
        times = [at for _number, at in self.acknowledged(since)]
        gap = max(after - before for before, after in zip(times, times[1:]))
        boot = self.boot()
        self.keep_promises(since)
        self.lab.succeeds("rollback_master")
        eventually("the source serves", self.lab.writing, 120)
        return Round(told["seconds"], told["predicted"], gap, boot, self.idle(), told["parts"])


def report(rounds: t.Sequence[Round], machine: t.Mapping[str, str]) -> str:
    """All tables, in Markdown."""
    names = list(dict.fromkeys(name for each in rounds for name in each.parts))
    parts = [[name, *(f"{each.parts[name]:.2f}" if name in each.parts else "-" for each in rounds)] for name in names]
    return "\n\n".join(
        (
            figures.markdown(HEADS, rows(rounds)),
            figures.markdown(("part of it, s", *(f"round {number}" for number in range(1, len(rounds) + 1))), parts),
            figures.markdown(("what", "limit", "measured", ""), verdicts(rounds)),
            figures.markdown(("machine", "is"), [list(each) for each in machine.items()]),
        )
    )


def main() -> None:
    """Set up, measure, print, take the lab down."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--reuse", action="store_true")
    asked = parser.parse_args()
    lab = Lab()
    if not lab.settings.name:
        sys.exit("Name a lab for this alone: LAB_NAME=bench LAB_NETWORK=10.240.0.0/24.")
    # or the lab would outlive a benchmark that is told to end
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
