#!/usr/bin/env python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rounds of transactions under faults in pairs and triples, on a control plane that the roles deployed; everything acknowledged must be there afterwards.

In a round, ten clients write through the virtual address while machines, links and processes fail in an order that the seed of the round gives. Then
all of them return, the members must serve again without a person, and each transaction is checked, on each member. A power loss discards what
a member has not synchronised; that of the witness, which has no data, only kills its processes.

``rounds.py TOPOLOGY [ROUND...]``: ``witness`` is two servers and a witness, ``three`` is three servers. A round is ``NAME:SEED`` or ``SEED``, also in the
environment variable ``SEED``. Without any, the known combinations run, then ``--random`` others, which are printed; several of them are the same until
the code changes, so that ``--resume`` continues. What a failed round had is kept in tests/output/consistency.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import time
import typing as t

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("lab", "tests/e2e", "tests/support", "tests/controllers", "tests/witness", "tests/consistency")]

import fault_plan  # noqa: E402
from cells import Cells, workspace  # noqa: E402
from consistency_lab import TOPOLOGIES, ConsistencyLab  # noqa: E402
from messages import Messages, install  # noqa: E402
from rflab import history, transactions  # noqa: E402
from rflab.say import LabError  # noqa: E402
from support import eventually  # noqa: E402

OUTPUT = ROOT / "tests" / "output" / "consistency"
#: Rounds of every run: what Galera or its guard has answered wrongly.
KNOWN = ("older-kill:1", "older-power:2", "majority-power:3", "power-all:4", "transfer-power:5", "transfer-hang:6")
ERRORS = (AssertionError, LabError, OSError, subprocess.SubprocessError, *transactions.ERRORS)


class Running:
    """One round.

    :arg messages: also publish messages, to a queue that was declared before the faults and to one that is declared during them.
    """

    def __init__(self, lab: ConsistencyLab, one: fault_plan.Round, messages: bool) -> None:
        self.lab, self.one = lab, one
        self.steps = one.steps(len(lab.members), len(lab.witnesses))
        self.clients = transactions.Clients(lab.account, lab.virtual_address, "consistency", seed=one.seed)
        queues = [f"consistency-{when}-{time.time_ns()}" for when in ("before", "during")] if messages else []
        self.messages = [Messages(lab, queue, lab.members) for queue in queues]
        self.done: list[str] = []
        self.problems: list[str] = []

    def run(self) -> dict[str, t.Any]:
        """Run it, and return its row."""
        self.lab.settle()
        eventually("the tables are created", self._prepared, 60)
        try:
            self.clients.start()
            for each in self.messages[:1]:
                each.start()
                # what was declared just before a power loss of all may be lost: this queue is older
                for name in self.lab.voters:
                    self.lab.run(name, ["sync"])
            time.sleep(4)
            began = time.monotonic()
            self._faults()
            # a member that copies or repeats changes shall catch up soon
            self.clients.pause = 0.2
            back = self.lab.returns()
            time.sleep(3)
            until = time.monotonic()
        finally:
            operations = self.clients.stop()
            for each in self.messages:
                each.stop()
        row: dict[str, t.Any] = {
            "round": str(self.one), "faults": self.one.name, "acknowledged": len(self.clients.acknowledged()),
            "undecided": sum(each.outcome == history.UNKNOWN for each in operations), "longest gap": round(self.clients.gap(began, until), 1),
            "returned after": None if back is None else round(back, 1),
        }  # fmt: skip
        if back is None:
            self.problems.append("not all members serve again without a person")
            self.lab.restart_lost()
        row.update(self._checked(operations))
        return {**row, "held": not self.problems, "problems": len(self.problems)}

    def _prepared(self) -> bool:
        self.clients.prepare()
        return True

    def _faults(self) -> None:
        """Do each step at its time, and end all faults."""
        writer = self.lab.writer()
        order = [writer, *(name for name in self.lab.voters if name != writer)]
        began = time.monotonic()
        try:
            for number, step in enumerate(self.steps):
                time.sleep(max(0.0, began + step.at - time.monotonic()))
                voters = [tuple(order[one] for one in each) if isinstance(each, tuple) else order[each] for each in step.voters]
                self.done.append(f"{time.monotonic() - began:6.2f} {step.act} {voters}")
                getattr(self.lab, step.act)(*voters)
                if number == 0:
                    for each in self.messages[1:]:
                        each.start(wait=False)
        finally:
            self.lab.heal()

    def _checked(self, operations: t.Sequence[history.Operation]) -> dict[str, int]:
        """Return the counts of violations; each counts once, on however many members it is."""
        found: set[history.Problem] = set()
        checksums = {}
        serving = self.lab.serving()
        self.problems += [] if serving == list(self.lab.members) else [f"serving after a restart of the others: {', '.join(serving) or 'none'}"]
        for name in serving:
            found.update(history.check(operations, self.clients.tables(self.lab.addresses[name])))
            checksums[name] = self.lab.checksums(name)
        assert checksums and all(checksums.values()), "no member serves, or one has no table"
        differing = history.divergent(checksums)
        self.problems += [f"{each.kind}: {each.text}" for each in sorted(found)] + [f"{table} differs between members" for table in differing]
        counts = {kind: sum(each.kind == kind for each in found) for kind in ("lost", "revived", "wrong")}
        row = {**counts, "divergent tables": len(differing)}
        if self.messages:
            row["messages"], row["messages lost"] = sum(len(each.confirmed()) for each in self.messages), sum(each.lost() for each in self.messages)
            self.problems += [f"{row['messages lost']} confirmed messages are lost"] if row["messages lost"] else []
        return row

    def keep(self, folder: pathlib.Path) -> None:
        """Keep what is needed to see what happened."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "faults.txt").write_text("\n".join([f"{self.one}", *self.done, "", *self.problems]) + "\n", encoding="utf-8")
        rows = [dataclasses.asdict(each) for each in sorted(self.clients.history, key=lambda each: each.begin)]
        (folder / "history.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
        if self.messages:
            (folder / "amqp-client.log").write_text((self.lab.state / "amqp-client.log").read_text("utf-8"), "utf-8")
        for name in self.lab.voters:
            with contextlib.suppress(*ERRORS):
                (folder / f"{name}.log").write_text(self.lab.log(name), encoding="utf-8")


def report(rows: t.Sequence[t.Mapping[str, t.Any]]) -> list[str]:
    """Return the lines of the summary: totals, then the time without service of each kind of fault."""
    counted = ("acknowledged", "undecided", "lost", "revived", "wrong", "divergent tables", "messages", "messages lost")
    total = {key: sum(row.get(key) or 0 for row in rows) for key in counted}
    gaps: dict[str, list[float]] = {}
    for row in rows:
        if "longest gap" in row:
            gaps.setdefault(row["faults"], []).append(row["longest gap"])
    lines = [f"{len(rows)} rounds, {', '.join(f'{value} {key}' for key, value in total.items())}"]
    times = sorted(gaps.items())
    return lines + [f"{name}: {len(each)} rounds, median {statistics.median(each):.1f} s, worst {max(each):.1f} s without service" for name, each in times]


def one_round(lab: ConsistencyLab, one: fault_plan.Round, messages: bool, folder: pathlib.Path) -> dict[str, t.Any]:
    """Run one round and return its row; the lab serves afterwards, if need be a new one."""
    running = Running(lab, one, messages)
    try:
        row = running.run()
    except ERRORS as error:
        running.problems.append(str(error)[-600:])
        row = {"round": str(one), "faults": one.name, "held": False, "error": running.problems[-1]}
    if running.problems:
        running.keep(folder)
    if not lab.whole() and lab.returns() is None:
        lab.create()
        lab.deploy(messages)
    return row


def rounds(texts: t.Sequence[str], others: int) -> list[fault_plan.Round]:
    """Return the rounds to run: those that are named, or the known ones and random ones."""
    seeds = random.Random(workspace.code_state() if others > 1 else None)
    return [fault_plan.parse(text) for text in texts or (*KNOWN, *(str(seeds.randrange(10**6)) for _unused in range(others)))]


def main() -> int:
    """Run the rounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("topology", choices=TOPOLOGIES)
    parser.add_argument("rounds", nargs="*", metavar="ROUND", default=os.environ.get("SEED", "").split())
    parser.add_argument("--random", type=int, default=1, help="number of random rounds")
    for switch in ("--messages", "--resume", "--reuse-lab", "--keep-lab"):
        parser.add_argument(switch, action="store_true")
    options = parser.parse_intermixed_args()
    try:
        chosen = rounds(options.rounds, options.random)
    except ValueError as error:
        parser.error(str(error))
    lab = ConsistencyLab(options.topology)
    cells, rows = Cells(f"consistency-{options.topology}", hidden=("held",)), []
    print(f"rounds: {' '.join(map(str, chosen))}", flush=True)
    if options.messages:
        install()
    try:
        if not options.reuse_lab:
            lab.create()
            lab.deploy(options.messages)
        for one in chosen:
            cell = (lab.settings.release, str(one))
            row = cells.held(cell) if options.resume else None
            if not row:
                row = one_round(lab, one, options.messages, OUTPUT / f"{options.topology}-{one.name}-{one.seed}")
                cells.add(cell, row)
            rows.append(row)
    finally:
        lab.connect()
        if not options.keep_lab:
            lab.command("down")
    bad = [row["round"] for row in rows if not row["held"]]
    print("\n".join([*report(rows), f"{len(rows) - len(bad)} passed, {len(bad)} failed: {' '.join(bad) or 'none'}"]))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
