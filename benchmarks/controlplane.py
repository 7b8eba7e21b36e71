# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measure the deployment of a control plane on three servers, and the effect of failures on its clients.

    LAB_NAME=bench LAB_NETWORK=10.240.0.0/24 PYTHONPATH=.cache/collections:. .venv/bin/python -m benchmarks.controlplane [--rounds 3]

Run as root from the root of the collection. It creates a lab of that name with three empty servers and removes it afterwards; with
``--reuse`` it uses a running lab with its control plane, and does not remove it. ``--inventory FILE`` deploys with another
inventory, which must contain those three servers and the writer's account.

A client inserts a numbered row five times a second through the virtual address. A gap is the time between two acknowledged rows.
Failures are caused by SIGKILL or a power cut, without notice.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
import statistics
import subprocess
import sys
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_write_gaps import parse_acknowledged, summarize
from benchmarks import figures, process

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "lab"), str(ROOT / "tests" / "e2e"), str(ROOT / "tests" / "controllers")]

from controllers_lab import SERVERS, ControllersLab  # noqa: E402
from support import eventually  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"
#: Maximum time of a run without a change, relative to the first run.
MOST_AGAIN = 0.25
#: Seconds of writing before a failure, and after recovery.
SETTLE = 5.0
HEADS = ("failure", "largest gap, s (median)", "worst, s", "rows acknowledged", "lost", "rounds")
DEPLOY_HEADS = ("deployment", "seconds", "share of the first", "changed tasks", "")
STOP_HEADS = ("full stop", "seconds", "")


class MeasurementError(Exception):
    """The control plane did not recover, so that nothing can be measured."""


@dataclasses.dataclass(frozen=True)
class Gap:
    """One failure: the longest time without a row, the number of acknowledged rows, and of lost ones."""

    what: str
    seconds: float
    rows: int
    lost: int


def deploy_rows(first: float, again: float, changed: int) -> list[list[str]]:
    """Return the table of deployments, ``MISS`` if the target is not met."""
    share = again / first
    met = "met" if share <= MOST_AGAIN and changed == 0 else "MISS"
    verdict = f"≤ {MOST_AGAIN:.0%} and 0: {met}"
    return [["first", f"{first:.0f}", "", "", ""], ["again, nothing to change", f"{again:.0f}", f"{share:.0%}", str(changed), verdict]]


def gap_rows(gaps: t.Sequence[Gap]) -> list[list[str]]:
    """Return the table of failures, in order of their first occurrence."""
    rows = []
    for what in dict.fromkeys(gap.what for gap in gaps):
        mine = [gap for gap in gaps if gap.what == what]
        seconds = [gap.seconds for gap in mine]
        rows.append([what, f"{statistics.median(seconds):.1f}", f"{max(seconds):.1f}", str(sum(gap.rows for gap in mine)),
                     str(sum(gap.lost for gap in mine)), str(len(mine))])  # fmt: skip
    return rows


class Bench:
    """The measurements in one lab."""

    def __init__(self, lab: ControllersLab, components: t.Sequence[str], inventory: pathlib.Path | None, say: t.Callable[[str], None]) -> None:
        self.lab = lab
        self.say = say
        self.last: dict[str, t.Any] = {}
        self.variables = {"deploy_controllers_components": list(components)} if components else {}
        if inventory is None:
            lab.write_inventory()
        else:
            lab.inventory_path.mkdir(parents=True, exist_ok=True)
            (lab.inventory_path / "hosts.yml").write_bytes(inventory.read_bytes())

    def deploy(self) -> tuple[float, int]:
        """Deploy, and return seconds and number of changed tasks."""
        done = self.lab.play("deploy_controllers", variables=self.variables)
        if done.rc:
            raise MeasurementError(f"the deployment failed:\n{done.output[-4000:]}")
        self.say(f"deployed in {done.seconds:.0f} s, {done.changed} changed")
        return done.seconds, done.changed

    def writer(self) -> str:
        """Return the member that received the writes at the last healthy status."""
        return self.last["writer"]

    def _report(self) -> dict[str, t.Any]:
        path = self.lab.state / "benchmark-status.json"
        path.unlink(missing_ok=True)
        done = self.lab.play("status", "-e", f"status_report_file={path}")
        if not path.exists():
            raise MeasurementError(f"the status failed:\n{done.output[-3000:]}")
        return json.loads(path.read_text(encoding="utf-8"))

    def settled(self) -> None:
        """Wait until the status is ok and rows are written."""

        def healthy() -> bool:
            self.last = self._report()
            return self.last["state"] == "ok"

        eventually("the control plane is healthy", healthy, 300)
        eventually("rows are written", self.lab.writing, 60)

    def death(self, what: str, kill: t.Callable[[], None], restore: t.Callable[[], None] = lambda: None) -> Gap:
        """Cause a failure, and return its effect on a client; every acknowledged row must exist on every member at the end."""
        time.sleep(SETTLE)
        begin = time.time()
        kill()
        eventually(f"rows are written after: {what}", self.lab.writing, 180)
        time.sleep(SETTLE)
        end = time.time()
        restore()
        self.settled()
        log = parse_acknowledged((self.lab.state / "writer.jsonl").read_text(encoding="ascii"))
        before = [row for row in log if row[1] < begin][-1:]
        there = set.intersection(*(self.lab.rows_of(name) for name in SERVERS))
        report = summarize(before + [row for row in log if begin <= row[1] <= end], there)
        lost = [number for number, at in log if at <= end and number not in there]
        gap = Gap(what, report["largest_gap_seconds"], report["rows"], len(lost))
        self.say(f"{what}: {gap.seconds:.1f} s, {gap.lost} lost")
        return gap

    def deaths(self) -> t.Iterator[Gap]:
        """Cause all failures once."""
        lab = self.lab
        self.settled()
        writer = self.writer()
        yield self.death("the database of the writer", lambda: self._sigkill(writer, "mariadb.service"))
        holder = lab.holder() or ""
        yield self.death("HAProxy on the holder of the virtual address", lambda: self._sigkill(holder, "haproxy.service"))
        other = lab.holder() or ""
        yield self.death("keepalived on the holder of the virtual address", lambda: self._sigkill(other, "keepalived.service"))
        holds = lab.holder() or ""
        yield self.death("the server that holds the virtual address", lambda: lab.lose_power(holds), lambda: lab.power_on(holds))
        writes = self.writer()
        yield self.death("the server of the writer", lambda: lab.lose_power(writes), lambda: lab.power_on(writes))

    def _sigkill(self, host: str, unit: str) -> None:
        self.lab.run(host, ["systemctl", "kill", "--kill-who=all", "--signal=KILL", unit])

    def full_stop(self) -> list[list[str]]:
        """Stop all databases one after the other while rows are written, then recover them."""
        lab = self.lab
        if not self.last:
            self.settled()
        writer = self.writer()
        for name in [*(name for name in SERVERS if name != writer), writer]:
            lab.run(name, ["systemctl", "stop", "mariadb.service"])
            time.sleep(2)
        stopped = time.time()
        last = max(lab.acknowledged())
        began = time.monotonic()
        done = lab.play("recover_database")
        if done.rc:
            raise MeasurementError(f"the recovery failed:\n{done.output[-4000:]}")
        serves = eventually("rows are written again", lab.writing, 120)
        log = parse_acknowledged((lab.state / "writer.jsonl").read_text(encoding="ascii"))
        before, after = max(at for unused, at in log if at <= stopped), min(at for unused, at in log if at > stopped)
        have = [name for name in SERVERS if last in lab.rows_of(name)]
        promised = {number for number, at in log if at <= stopped}
        lost = len(promised - set.intersection(*(lab.rows_of(name) for name in SERVERS)))
        self.say(f"full stop: recovered in {time.monotonic() - began:.0f} s, last row on {have}, {lost} lost (serving after {serves:.0f} s more)")
        return [
            ["recover_database, all members healthy", f"{done.seconds:.0f}", ""],
            ["from the last stop to the first new row", f"{after - stopped:.0f}", ""],
            ["from the last row before to the first after", f"{after - before:.0f}", ""],
            ["members with the last acknowledged row", f"{len(have)} of {len(SERVERS)}", "met" if len(have) == len(SERVERS) else "MISS"],
            ["acknowledged rows lost", str(lost), "met" if not lost else "MISS"],
        ]


def report(tables: t.Sequence[tuple[str, t.Sequence[str], t.Sequence[t.Sequence[str]]]], table: t.Callable[..., str], title: t.Callable[[str], str]) -> str:
    """Format the tables."""
    return "\n\n".join(f"{title(head)}\n\n{table(heads, lines)}" for head, heads, lines in tables if lines) + "\n"


def main() -> None:
    """Deploy, cause failures, recover and print; the lab is always removed at the end."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--inventory", type=pathlib.Path, help="inventory file for the lab's three servers")
    parser.add_argument("--components", default="", help="comma-separated services; default is all")
    parser.add_argument("--rounds", type=int, default=3, help="number of times each failure is caused")
    parser.add_argument("--reuse", action="store_true", help="use a running lab with its control plane; deployments are not measured then")
    arguments = parser.parse_args()
    command = str(ROOT / "lab" / "lab")
    components = [name for name in arguments.components.split(",") if name]
    facts = process.machine(sys.executable, str(ROOT / ".venv" / "bin" / "ansible-playbook"))
    tables: list[tuple[str, t.Sequence[str], t.Sequence[t.Sequence[str]]]] = []
    gaps: list[Gap] = []
    try:
        if not arguments.reuse:
            subprocess.run([command, "down"], check=False)
            subprocess.run([command, "up", "--servers", "3"], check=True)
        bench = Bench(ControllersLab(), components, arguments.inventory, lambda line: print(line, file=sys.stderr, flush=True))
        if not arguments.reuse:
            first, unused = bench.deploy()
            again, changed = bench.deploy()
            what = ", ".join(components) or "the whole control plane"
            tables.append((f"Deployment of {what} on three servers", DEPLOY_HEADS, deploy_rows(first, again, changed)))
        bench.lab.start_writing()
        for unused_round in range(arguments.rounds):
            gaps.extend(bench.deaths())
        tables.append(("Effect on a client", HEADS, gap_rows(gaps)))
        tables.append(("All databases stopped one after the other", STOP_HEADS, bench.full_stop()))
        bench.lab.stop_writing()
    except (MeasurementError, AssertionError) as error:
        # print the measurements until then
        tables = tables or [("Effect on a client", HEADS, gap_rows(gaps))]
        print(report(tables, figures.plain, str))
        sys.exit(str(error))
    finally:
        if not arguments.reuse:
            subprocess.run([command, "down"], check=False)
    tables.append(("Machine", ("property", "value"), [list(fact) for fact in facts.items()]))
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "controlplane.md").write_text(report(tables, figures.markdown, lambda head: f"## {head}"), encoding="utf-8")
    print(report(tables, figures.plain, str))


if __name__ == "__main__":
    main()
