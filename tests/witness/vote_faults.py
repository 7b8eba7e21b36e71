#!/usr/bin/env python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Faults of two servers and a witness, under clients of the database and of the message broker.

For each fault: how long no row and no message was acknowledged, which acknowledged rows and messages were lost, which rows are on one
server only, and how long it takes after the repair until all votes are there. ``--only TEXT`` selects faults by their name (again for more),
``--rounds N`` repeats each, ``--resume`` leaves out those that held with the same code, ``--reuse-lab`` uses the lab that is up, ``--keep-lab`` leaves
it up. Writes a table to tests/output; exit code 0 if all held.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time
import typing as t

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("lab", "tests/e2e", "tests/support", "tests/controllers", "tests/witness")]

import faults  # noqa: E402
import sql_clients  # noqa: E402
from cells import Cells  # noqa: E402
from support import eventually  # noqa: E402
from witness_lab import DATA, WITNESS, WitnessLab  # noqa: E402

RECOVERY = 240
#: The client of the broker needs python3-amqp of the distribution.
PYTHON = "/usr/bin/python3"


class Messages:
    """A client that publishes messages to a quorum queue of its own, on the machine of the lab."""

    def __init__(self, lab: WitnessLab, queue: str) -> None:
        self.lab, self.queue = lab, queue
        self._confirmed = lab.state / "amqp-confirmed.jsonl"
        self._settings = lab.state / "amqp-client.json"
        self._process: subprocess.Popen[bytes] | None = None

    @staticmethod
    def _run(word: str) -> list[str]:
        return [PYTHON, str(ROOT / "tests" / "controllers" / "amqp_client.py"), word]

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "AMQP_SETTINGS": str(self._settings), "AMQP_CONFIRMED": str(self._confirmed)}

    def start(self) -> None:
        """Publish from now on."""
        secret = self.lab.inventory_path / ".secrets" / "lab" / "rabbitmq" / "footprint.txt"
        authority = self.lab.state / "amqp-ca.pem"
        authority.write_text(self.lab.run(DATA[0], ["cat", "/etc/rabbitmq/footprint-tls/ca.pem"]), encoding="ascii")
        self._settings.touch(mode=0o600)
        settings = {
            "hosts": [self.lab.addresses[name] for name in DATA], "user": "footprint", "password": secret.read_text("utf-8").strip(),
            "vhost": "notifications", "queue": self.queue, "ca": str(authority),
        }  # fmt: skip
        self._settings.write_text(json.dumps(settings), encoding="utf-8")
        self._confirmed.unlink(missing_ok=True)
        with open(self.lab.state / "amqp-client.log", "ab") as log:
            self._process = subprocess.Popen(self._run("publish"), env=self._environment(), stderr=log)  # pylint: disable=consider-using-with
        eventually("messages are confirmed", lambda: len(self.confirmed()) > 20, 90)

    def stop(self) -> None:
        """End the client."""
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None

    def confirmed(self) -> dict[int, float]:
        """Return number → time of its confirmation."""
        lines = self._confirmed.read_text(encoding="ascii").splitlines() if self._confirmed.exists() else []
        return {entry["n"]: entry["t"] for entry in (json.loads(line) for line in lines if line.endswith("}"))}

    def pause(self, since: float, until: float) -> float:
        """Return the longest time without a confirmation in a period."""
        times = [at for at in self.confirmed().values() if since - 2 <= at <= until]
        marks = [*(sorted(times) or [since]), until]
        return max(later - earlier for earlier, later in zip(marks, marks[1:]))

    def lost(self) -> int:
        """Take all messages, and return how many of the confirmed ones are missing."""
        there: set[int] = set()

        def taken() -> bool:
            with open(self.lab.state / "amqp-client.log", "ab") as log:
                done = subprocess.run(self._run("consume"), env=self._environment(), stdout=subprocess.PIPE, stderr=log, check=False, timeout=120)
            there.update(int(line) for line in done.stdout.split())
            return done.returncode == 0

        eventually("the messages are consumed", taken, 120)
        return len(set(self.confirmed()) - there)


class Cell:
    """Runs one fault once."""

    def __init__(self, lab: WitnessLab, fault: faults.Fault) -> None:
        self.lab, self.fault = lab, fault
        password = (lab.state / "writer-password").read_text(encoding="utf-8").strip()
        self.account = sql_clients.Account("writer", password, "footprint")
        self.where = {"vip": lab.virtual_address, **{name: lab.addresses[name] for name in DATA}}

    def names(self) -> dict[str, str]:
        """Return what each machine is now."""
        holder = self.lab.holder()
        assert holder, "no server has the virtual address"
        return {"holder": holder, "other": next(name for name in DATA if name != holder), "witness": WITNESS}

    def database_whole(self) -> bool:
        """Whether both members with data are synchronised with all votes."""
        return all(sql_clients.whole(sql_clients.status(self.account, self.where[name]), 3) for name in DATA)

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
        clients = {name: sql_clients.Client(self.account, host, f"faults_{name}") for name, host in self.where.items()}
        messages = Messages(self.lab, f"faults-{time.time_ns()}")
        for client in clients.values():
            client.prepare()
            client.start()
        messages.start()
        try:
            time.sleep(3)
            since = time.time()
            try:
                self.fault.begin(self.lab, names)
                time.sleep(max(0.0, since + self.fault.seconds - time.time()))
                served = {name: self._served(client) for name, client in clients.items()}
            finally:
                self.fault.end(self.lab, names)
            repaired = time.time()
            database = self._until(self.database_whole)
            broker = self._until(self.broker_whole)
            time.sleep(2)
            until = time.time()
        finally:
            for client in clients.values():
                client.stop()
            messages.stop()
        row: dict[str, t.Any] = {
            "fault": self.fault.name,
            "rows: longest pause": round(clients["vip"].pause(since, until), 1),
            "messages: longest pause": round(messages.pause(since, until), 1),
            "served during it": ", ".join(name for name in DATA if served[name]) or "none",
            "rows acknowledged": sum(len(client.acknowledged) for client in clients.values()),
            "rows lost": 0,
            "split writes": 0,
            "messages confirmed": len(messages.confirmed()),
            "messages lost": messages.lost() if broker is not None else "unknown",
            "database whole after repair": database if database is None else round(database - repaired, 1),
            "broker whole after repair": broker if broker is None else round(broker - repaired, 1),
        }
        if database is not None:
            for client in clients.values():
                on = {name: client.rows(self.where[name]) for name in DATA}
                row["rows lost"] += len(set(client.acknowledged) - set.intersection(*on.values()))
                row["split writes"] += len(set.union(*on.values()) - set.intersection(*on.values()))
        safe = (row["rows lost"], row["split writes"], row["messages lost"]) == (0, 0, 0)
        soon = self.fault.most is None or row["rows: longest pause"] <= self.fault.most
        return {**row, "held": safe and soon and database is not None and broker is not None}

    @staticmethod
    def _served(client: sql_clients.Client) -> bool:
        """Whether a client was served at the end of the fault."""
        return any(at > time.time() - 5 for at in list(client.acknowledged.values())[-50:])

    @staticmethod
    def _until(whole: t.Callable[[], bool]) -> float | None:
        end = time.time() + RECOVERY
        while time.time() < end:
            if whole():
                return time.time()
            time.sleep(2)
        return None


def prepare(lab: WitnessLab, reuse: bool) -> None:
    """Deploy the control plane, with access for the clients."""
    if not reuse:
        lab.command("down")
        lab.command("up", "--servers", "2")
    missing = [] if faults.library() else ["libfaketime"]
    if subprocess.run([PYTHON, "-c", "import amqp"], check=False, capture_output=True).returncode:
        missing.append("python3-amqp")
    if missing:
        subprocess.run(["apt-get", "install", "-y", "-q", *missing], check=True, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
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
                except (AssertionError, OSError, subprocess.SubprocessError, *sql_clients.ERRORS) as error:
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
