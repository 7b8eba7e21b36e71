# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Benchmark of vm_define compared with community.libvirt, a minimal program and a ping.

    python -m benchmarks [--quick | --no-change]

See benchmarks/README.md for the meaning of the results.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import typing as t

from benchmarks import contenders, figures, process
from benchmarks.contenders import Contenders
from benchmarks.figures import CHECK, CLOUD, CREATE, DEFINE, DEFINED, FLOOR, OURS, PEER, PING, READ, SAME, Sample

RESULTS = contenders.HERE / "results"
LIBVIRTD = str(contenders.ROOT / "tests" / "support" / "libvirtd")


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Sizes: number of started guests, number of domains that are only defined, rounds, repetitions."""

    started: tuple[int, ...] = (1, 10, 50)
    defined: tuple[int, ...] = (1, 100, 200)
    rounds: int = 3
    repeats: int = 4


NO_CHANGE = Sizes(started=(50,), defined=(), rounds=1, repeats=12)
QUICK = Sizes(started=(1, 5), defined=(1, 10, 20), rounds=1, repeats=2)


class Bench:
    """One run over all sizes."""

    def __init__(self, who: Contenders, sizes: Sizes, log: t.Callable[[str], None]) -> None:
        self.who = who
        self.sizes = sizes
        self.log = log
        self.samples: list[Sample] = []
        self.module: dict[int, Sample] = {}

    def run(self) -> None:
        """Measure everything; the order of the contenders rotates with the rounds."""
        # libvirtd probes QEMU once, which must not be measured
        self.who.floor("create", 1, True)
        for size in self.sizes.started:
            for number in range(self.sizes.rounds):
                turns = [self._ours, self._peer, self._floor]
                for turn in turns[number % 3 :] + turns[: number % 3]:
                    self.who.clean()
                    turn(size, number)
        self.who.clean()
        for size in self.sizes.defined:
            self._alone(size)
        self._defined(self.sizes.defined[-1])
        self.who.clean()

    def no_change(self) -> None:
        """Measure only runs without a change and pings, for use during development: minutes instead of an hour."""
        self._ours(self.sizes.started[-1], 0)
        self.who.clean()

    def _ours(self, size: int, number: int) -> None:
        self._note(OURS, CREATE, size, number, self.who.ours(size, True))
        for unused in range(self.sizes.repeats):
            # one after the other, so that other load affects all
            self._note(PING, SAME, size, number, self.who.ping())
            self._note(OURS, SAME, size, number, self.who.ours(size, True), count=True)
            self._note(READ, SAME, size, number, self.who.read())
        self._note(OURS, CHECK, size, number, self.who.ours(size, True, check=True), count=True)

    def _peer(self, size: int, number: int) -> None:
        self._note(PEER, CREATE, size, number, self.who.peer(size, True))
        self._note(PEER, SAME, size, number, self.who.peer(size, True), count=True)
        self._note(CLOUD, SAME, size, number, self.who.cloud(size), count=True)
        if number == 0:
            self._note(PEER, CHECK, size, number, self.who.peer(size, True, check=True), count=True)

    def _floor(self, size: int, number: int) -> None:
        self._note(FLOOR, CREATE, size, number, self.who.floor("create", size, True))
        self._note(FLOOR, SAME, size, number, self.who.floor("read", size, True))

    def _alone(self, size: int) -> None:
        """Measure the process of vm_define without Ansible, on domains that are only defined."""
        if size == self.sizes.defined[-1]:
            self.who.clean()
            self._note(OURS, DEFINE, size, 0, self.who.ours(size, False))
        payload = self.who.ours_payload(size, False)
        # the first run may have defined domains; the payload is the same
        runs = [process.run([contenders.PYTHON, str(payload)], {}, self.who.folder) for unused in range(5)]
        best = min(runs, key=lambda cost: cost.cpu)
        self.module[size] = Sample(OURS, "process", size, 0, best.seconds, best.cpu, max(cost.rss for cost in runs))
        self.log(f"{'process alone':24} {size:4} {OURS:18} {best.seconds:8.2f} s  {best.rss / figures.MIB:.0f} MiB")

    def _defined(self, size: int) -> None:
        for unused in range(self.sizes.repeats):
            self._note(PING, DEFINED, size, 0, self.who.ping())
            self._note(OURS, DEFINED, size, 0, self.who.ours(size, False), count=True)
            self._note(READ, DEFINED, size, 0, self.who.read())
        self.who.clean()
        self._note(FLOOR, DEFINE, size, 0, self.who.floor("create", size, False))
        self._note(FLOOR, DEFINED, size, 0, self.who.floor("read", size, False))
        self.who.clean()
        self._note(PEER, DEFINE, size, 0, self.who.peer(size, False))
        self._note(PEER, DEFINED, size, 0, self.who.peer(size, False), count=True)

    def _note(self, who: str, what: str, size: int, number: int, cost: process.Cost, count: bool = False) -> None:
        false = contenders.changed(cost) if count else None
        self.samples.append(Sample(who, what, size, number, cost.seconds, cost.cpu, cost.rss, false))
        self.log(f"{what:24} {size:4} {who:18} {cost.seconds:8.2f} s" + (f"  {false} changed" if false else ""))


def report(bench: Bench, facts: t.Mapping[str, str], table: t.Callable[..., str], title: t.Callable[[str], str]) -> str:
    """Format the results: targets, ratios, the process alone, the machine."""
    samples = figures.Samples(bench.samples)
    verdicts = figures.verdicts(samples, bench.module, bench.sizes.started[-1], bench.sizes.defined[-1])
    targets = "Targets" if bench.sizes == Sizes() else "Targets, not meaningful for these sizes"
    parts = [
        (title(targets), table(figures.VERDICT_HEADS, figures.verdict_rows(verdicts))),
        (title("All contenders"), table(figures.HEADS, figures.rows(samples))),
        (title("The process of vm_define alone, domains defined only, no change"), table(figures.MODULE_HEADS, figures.module_rows(bench.module))),
        (title("Machine"), table(("property", "value"), [list(fact) for fact in facts.items()])),
    ]
    return "\n\n".join(f"{head}\n\n{body}" for head, body in parts) + "\n"


def write(bench: Bench, facts: t.Mapping[str, str]) -> None:
    """Write the results as Markdown and JSON."""
    RESULTS.mkdir(exist_ok=True)
    text = report(bench, facts, figures.markdown, lambda head: f"## {head}")
    # in the format of benchmarks/kept/vm_define.md
    (RESULTS / "latest.md").write_text(f"{contenders.HERE.joinpath('kept', 'page.md').read_text('utf-8')}\n{text}", "utf-8")
    data = {
        "machine": dict(facts),
        "samples": [dataclasses.asdict(sample) for sample in bench.samples],
        "process": [dataclasses.asdict(sample) for sample in bench.module.values()],
    }
    (RESULTS / "latest.json").write_text(json.dumps(data, indent=1) + "\n", "utf-8")


def main() -> None:
    """Set up, measure and print; libvirtd is always stopped at the end."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, one round: to test the benchmark itself")
    parser.add_argument("--no-change", action="store_true", help="only runs without a change and pings; writes no files")
    arguments = parser.parse_args()
    sizes = NO_CHANGE if arguments.no_change else QUICK if arguments.quick else Sizes()
    began = time.monotonic()
    # stop libvirtd if the benchmark is terminated
    signal.signal(signal.SIGTERM, lambda *unused: sys.exit("ended"))
    facts = {**process.machine(contenders.PYTHON, contenders.PLAYBOOK), "community.libvirt": contenders.fetch_peer()}
    with tempfile.TemporaryDirectory(prefix="footprint-bench-") as name:
        folder = pathlib.Path(name)
        daemon = folder / "libvirt"
        try:
            output = subprocess.run([LIBVIRTD, "start", str(daemon)], check=True, capture_output=True, text=True).stdout
            addresses = dict(line.split("=", 1) for line in output.splitlines())
            who = Contenders(shlex.split(addresses["FOOTPRINT_TEST_QEMU_URI"])[0], folder)
            bench = Bench(who, sizes, lambda line: print(line, file=sys.stderr, flush=True))
            if arguments.no_change:
                bench.no_change()
                print(figures.plain(figures.HEADS, figures.rows(figures.Samples(bench.samples))))
                return
            bench.run()
        except process.Failed as error:
            sys.exit(str(error))
        finally:
            subprocess.run([LIBVIRTD, "stop", str(daemon)], check=False)
    facts["the run took"] = f"{(time.monotonic() - began) / 60:.0f} minutes"
    write(bench, facts)
    print(report(bench, facts, figures.plain, str))


if __name__ == "__main__":
    main()
