#!/usr/bin/env python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Faults of two servers and a witness, under clients of the database and of the message broker.

For each fault: how long no transaction and no message was acknowledged, which acknowledged ones were lost, whether the servers
differ, and how long it takes after the repair until all votes are there. ``--only TEXT`` selects faults by their name (again for more),
``--rounds N`` repeats each, ``--resume`` leaves out those that held with the same code, ``--reuse-lab`` uses the lab that is up, ``--keep-lab`` leaves
it up. Writes a table to tests/output; exit code 0 if all held.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import subprocess
import sys
import time
import typing as t

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("lab", "tests/e2e", "tests/support", "tests/controllers", "tests/witness")]

import faults  # noqa: E402
from cells import Cells  # noqa: E402
from messages import Messages, install  # noqa: E402
from rflab import history, transactions  # noqa: E402
from support import eventually  # noqa: E402
from witness_lab import DATA, RECOVERY, WITNESS, WitnessLab  # noqa: E402


class Cell:
    """Runs one fault once."""

    def __init__(self, lab: WitnessLab, fault: faults.Fault) -> None:
        self.lab, self.fault = lab, fault
        password = (lab.state / "writer-password").read_text(encoding="utf-8").strip()
        self.account = transactions.Account("writer", password, "footprint")
        self.where = {"vip": lab.virtual_address, **{name: lab.addresses[name] for name in DATA}}

    def names(self) -> dict[str, str]:
        """Return what each machine is now."""
        holder = self.lab.holder()
        assert holder, "no server has the virtual address"
        return {"holder": holder, "other": next(name for name in DATA if name != holder), "witness": WITNESS}

    def database_whole(self) -> bool:
        """Whether both members with data are synchronised with all votes."""
        return all(transactions.whole(transactions.status(self.account, self.where[name]), 3) for name in DATA)

    def broker_whole(self) -> bool:
        """Whether the brokers of all three are running and connected."""
        command = ["rabbitmqctl", "--quiet", "--formatter=json", "cluster_status"]
        try:
            found = json.loads(self.lab.run(WITNESS, command, check=False))
        except ValueError:
            return False
        return len(found.get("running_nodes") or ()) == 3 and not any((found.get("partitions") or {}).values())

    def run(self) -> dict[str, t.Any]:
        """Inject the fault, repair it, and return the row of the table."""
        eventually("all votes are there", lambda: self.database_whole() and self.broker_whole(), RECOVERY)
        names = self.names()
        self.fault.before(self.lab, names)
        try:
            eventually("all votes are there again", lambda: self.database_whole() and self.broker_whole(), RECOVERY)
            return self._measure(names)
        finally:
            self.fault.after(self.lab, names)

    def _measure(self, names: t.Mapping[str, str]) -> dict[str, t.Any]:
        # those of the members try to write on both sides of a partition
        clients = {name: transactions.Clients(self.account, host, f"faults_{name}", number=1, pause=0.1) for name, host in self.where.items()}
        messages = Messages(self.lab, f"faults-{time.time_ns()}", DATA)
        for client in clients.values():
            client.prepare()
            client.start()
        messages.start()
        try:
            time.sleep(3)
            since, begun = time.time(), time.monotonic()
            try:
                self.fault.begin(self.lab, names)
                time.sleep(max(0.0, since + self.fault.seconds - time.time()))
                served = {name: self._served(client) for name, client in clients.items()}
            finally:
                self.fault.end(self.lab, names)
            repaired = time.time()
            database = self._seconds_until(self.database_whole, repaired)
            broker = self._seconds_until(self.broker_whole, repaired)
            time.sleep(2)
            until, ended = time.time(), time.monotonic()
        finally:
            for client in clients.values():
                client.stop()
            messages.stop()
        row: dict[str, t.Any] = {
            "fault": self.fault.name,
            "transactions: longest pause": round(clients["vip"].gap(begun, ended), 1),
            "messages: longest pause": round(messages.pause(since, until), 1),
            "served during it": ", ".join(name for name in DATA if served[name]) or "none",
            "transactions acknowledged": sum(len(client.acknowledged()) for client in clients.values()),
            "lost or wrong": 0,
            "split writes": 0,
            "messages confirmed": len(messages.confirmed()),
            "messages lost": messages.lost() if broker is not None else "unknown",
            "database whole after repair": database,
            "broker whole after repair": broker,
        }
        if database is not None:
            for client in clients.values():
                on = [client.tables(self.where[name]) for name in DATA]
                row["lost or wrong"] += len({problem for tables in on for problem in history.check(client.history, tables)})
                row["split writes"] += any(tables != on[0] for tables in on)
        safe = (row["lost or wrong"], row["split writes"], row["messages lost"]) == (0, 0, 0)
        soon = self.fault.most is None or row["transactions: longest pause"] <= self.fault.most
        return {**row, "held": safe and soon and database is not None and broker is not None}

    @staticmethod
    def _served(client: transactions.Clients) -> bool:
        """Whether a client was served at the end of the fault."""
        return any(at > time.monotonic() - 5 for at in client.acknowledged()[-50:])

    @staticmethod
    def _seconds_until(whole: t.Callable[[], bool], repaired: float) -> float | None:
        """Return the seconds from the repair until something is whole; ``None`` if it is not in time, which is the same for all."""
        while True:
            there, seconds = whole(), time.time() - repaired
            if there or seconds > RECOVERY:
                return round(seconds, 1) if there and seconds <= RECOVERY else None
            time.sleep(2)


def prepare(lab: WitnessLab, reuse: bool) -> None:
    """Deploy the control plane, with access for the clients."""
    if not reuse:
        lab.command("down")
        lab.command("up", "--servers", "2")
    install(*([] if faults.library() else ["libfaketime"]))
    faults.repair(lab)
    here = f"{lab.net}.1"
    lab.write_witness_inventory(galera_allowed=[here], rabbitmq_allowed=[here, lab.master])
    lab.deploys()


def main() -> int:
    """Run the selected faults."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--rounds", type=int, default=1)
    for switch in ("--resume", "--reuse-lab", "--keep-lab", "--list"):
        parser.add_argument(switch, action="store_true")
    options = parser.parse_args()
    chosen = [fault for fault in faults.every() if not options.only or any(text in fault.name for text in options.only)]
    if options.list:
        sys.stdout.writelines(f"{fault.name}\n" for fault in chosen)
        return 0
    lab = WitnessLab()
    prepare(lab, options.reuse_lab)
    cells, bad = Cells("vote-faults", hidden=()), []
    try:
        for number in range(1, options.rounds + 1):
            for fault in chosen:
                cell = (fault.name, str(number))
                if options.resume and cells.held(cell):
                    continue
                try:
                    row = Cell(lab, fault).run()
                except (AssertionError, OSError, subprocess.SubprocessError, *transactions.ERRORS) as error:
                    row = {"fault": fault.name, "held": False, "error": str(error)[-600:]}
                cells.add(cell, row)
                bad += [] if row["held"] else [" ".join(cell)]
    finally:
        faults.repair(lab)
        if not options.keep_lab:
            lab.command("down")
    sys.stdout.write(f"{options.rounds * len(chosen) - len(bad)} passed, {len(bad)} failed: {'; '.join(bad) or 'none'}\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
