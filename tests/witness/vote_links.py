#!/usr/bin/env python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measure what a distant witness costs, and which timeout finds a silent vote soon without losing a healthy one.

``links``: rows per second of one client and of several, for each delay and loss of the link to the witness and each setting. ``timeouts``: for each
``evs.suspect_timeout`` the pauses after a database that hangs and after each machine lost its power, then the changes of membership during
``--minutes`` of load: ``--burners`` processes that use all processors, up to 20 MiB/s of wide rows, a witness with jitter. The lab must be up and
deployed: run ``vote_faults.py --only none --keep-lab`` first.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import functools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
import typing as t

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("lab", "tests/e2e", "tests/support", "tests/controllers", "tests/witness")]

from rflab import transactions  # noqa: E402
from slow_link import SlowLink  # noqa: E402
from support import eventually  # noqa: E402
from witness_lab import DATA, WITNESS, WitnessLab  # noqa: E402

GARBD, CONFIG = "garbd@lab.service", "/etc/reduced.footprint/witness/lab/garbd.cfg"
CLIENTS = 10


class Bench:
    """The lab, its clients, and settings that are changed while it runs."""

    def __init__(self, lab: WitnessLab) -> None:
        self.lab = lab
        password = (lab.state / "writer-password").read_text(encoding="utf-8").strip()
        self.account = transactions.Account("writer", password, "footprint")
        self.configured = lab.run(WITNESS, ["cat", CONFIG])

    def status(self, host: str) -> dict[str, str]:
        """Return the replication status of a member."""
        return transactions.status(self.account, self.lab.addresses[host])

    def whole(self, votes: int = 3) -> bool:
        """Whether both members are synchronised with this number of votes."""
        return all(transactions.whole(self.status(name), votes) for name in DATA)

    def rate(self, clients: int, seconds: float) -> float:
        """Return the rows per second that clients at the virtual address get acknowledged."""
        writing = transactions.Clients(self.account, self.lab.virtual_address, "links", clients, pause=0, mix={"insert": 1})
        writing.prepare()
        writing.start()
        time.sleep(seconds)
        writing.stop()
        return len(writing.acknowledged()) / seconds

    def set_options(self, options: t.Mapping[str, str]) -> None:
        """Set options of the provider of all three, those of the members without a restart."""
        text = "; ".join(f"{name}={value}" for name, value in options.items())
        if text:
            for name in DATA:
                self.lab.run(name, ["mariadb", "--execute", f"SET GLOBAL wsrep_provider_options = '{text}'"])
        self.restart_witness(text)

    def restart_witness(self, more: str = "") -> None:
        """Restart the witness with more options, as a restart of its machine would."""
        lines = [f"{line.rstrip()}; {more}" if more and line.startswith("options") else line for line in self.configured.splitlines()]
        self.lab.run(WITNESS, ["tee", CONFIG], stdin="\n".join(lines) + "\n")
        self.lab.run(WITNESS, ["systemctl", "restart", GARBD])
        eventually("all votes are there", self.whole, 120)

    def link(self, round_trip: float, jitter: float = 0, loss: float = 0) -> contextlib.AbstractContextManager[t.Any]:
        """Return the link to the witness as a context."""
        if not (round_trip or jitter or loss):
            return contextlib.nullcontext()
        return SlowLink(self.lab.settings.host_nic(WITNESS), self.lab.settings.bridge, round_trip, jitter, loss)

    def changes(self) -> int:
        """Return the number of changes of membership so far."""
        return int(self.status(DATA[0])["wsrep_cluster_conf_id"])


def say(**row: t.Any) -> None:
    """Print a row."""
    sys.stdout.write(json.dumps(row) + "\n")
    sys.stdout.flush()


def links(bench: Bench, seconds: float) -> None:
    """Measure rows per second."""
    bench.lab.run(WITNESS, ["systemctl", "stop", GARBD])
    eventually("two votes are there", lambda: bench.whole(2), 60)
    say(link="no witness", one=round(bench.rate(1, seconds), 1), several=round(bench.rate(CLIENTS, seconds), 1))
    cases: list[tuple[str, float, float, dict[str, str]]] = [
        ("local", 0, 0, {}),
        ("50 ms", 0.05, 0, {}),
        ("150 ms", 0.15, 0, {}),
        ("150 ms, another segment", 0.15, 0, {"gmcast.segment": "1"}),
        ("150 ms, larger windows", 0.15, 0, {"evs.send_window": "1024", "evs.user_send_window": "512"}),
        ("local, 1 % loss", 0, 0.01, {}),
        ("50 ms, 1 % loss", 0.05, 0.01, {}),
    ]
    for name, round_trip, loss, options in cases:
        shared = {key: value for key, value in options.items() if key.startswith("evs.")}
        bench.set_options(shared)
        bench.restart_witness("; ".join(f"{key}={value}" for key, value in options.items()))
        with bench.link(round_trip, loss=loss):
            time.sleep(3)
            before = bench.changes()
            paused = float(bench.status(DATA[0])["wsrep_flow_control_paused_ns"])
            row = {"one": round(bench.rate(1, seconds), 1), "several": round(bench.rate(CLIENTS, seconds), 1)}
            held = (float(bench.status(DATA[0])["wsrep_flow_control_paused_ns"]) - paused) / 1e9
            say(link=name, **row, flow_control_seconds=round(held, 2), membership_changes=bench.changes() - before)
    # in this order: the second must not be larger than the first
    bench.set_options({"evs.user_send_window": "2", "evs.send_window": "4"})
    bench.restart_witness()


def pauses(bench: Bench, faults: t.Sequence[tuple[str, t.Callable[[], t.Any], t.Callable[[], t.Any]]], options: t.Mapping[str, str]) -> dict[str, t.Any]:
    """Return the pauses of a client at the virtual address for each fault: its name, what starts and what ends it."""
    found: dict[str, list[float]] = {}
    for name, begin, end in faults:
        # a member that was restarted has the configured value again
        bench.set_options(options)
        client = transactions.Clients(bench.account, bench.lab.virtual_address, "timeouts", number=1, timeout=1, pause=0.1)
        client.prepare()
        client.start()
        time.sleep(3)
        since = time.monotonic()
        begin()
        time.sleep(15)
        client.stop()
        found.setdefault(name, []).append(round(client.gap(since, time.monotonic()), 1))
        end()
        eventually("all votes are there", bench.whole, 240)
    return {name: {"median": statistics.median(each), "longest": max(each), "all": each} for name, each in found.items()}


def faults_of(lab: WitnessLab, rounds: int) -> t.Iterator[tuple[str, t.Callable[[], t.Any], t.Callable[[], t.Any]]]:
    """Yield a database that hangs and a loss of power, in turn of each machine."""

    def signal(host: str, name: str) -> t.Callable[[], t.Any]:
        return lambda: lab.run(host, ["systemctl", "kill", f"--signal={name}", "mariadb.service"], check=False)

    for number in range(rounds):
        host, machine = DATA[number % 2], (*DATA, WITNESS)[number % 3]
        yield "a database hangs", signal(host, "STOP"), signal(host, "CONT")
        yield "power is lost", functools.partial(lab.lose_power, machine), functools.partial(lab.power_on, machine)


def soak(bench: Bench, minutes: float, burners: int) -> dict[str, t.Any]:
    """Return the changes of membership during load."""
    burning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _unused in range(burners)]
    end = time.monotonic() + 60 * minutes
    writer = transactions.Clients(bench.account, bench.lab.virtual_address, "soak", number=1, pause=0.1)
    writer.prepare()
    writer.start()

    def widely(number: int) -> int:
        """Write wide rows, at most 5 MiB per second, and return how many MiB."""
        written, start = 0, time.monotonic()
        while time.monotonic() < end:
            with contextlib.suppress(*transactions.ERRORS), contextlib.closing(bench.account.connect(bench.lab.virtual_address, 60)) as connection:
                with connection.cursor() as cursor:
                    cursor.execute(f"CREATE TABLE IF NOT EXISTS wide_{number} (n INT PRIMARY KEY, content LONGBLOB) ENGINE=InnoDB")
                    while time.monotonic() < end:
                        cursor.execute(f"REPLACE INTO wide_{number} VALUES ({written % 8}, REPEAT(CHAR(RAND() * 200 + 33), 1048576))")
                        written += 1
                        time.sleep(max(0.0, start + written / 5 - time.monotonic()))
        return written

    began, before = time.monotonic(), bench.changes()
    try:
        with bench.link(0, jitter=0.05), concurrent.futures.ThreadPoolExecutor(4) as pool:
            mebibytes = sum(pool.map(widely, range(4)))
    finally:
        writer.stop()
        for burner in burning:
            burner.kill()
            burner.wait()
    return {
        "minutes": round(minutes, 1), "load": os.getloadavg()[2],
        "MiB per second": round(mebibytes / (time.monotonic() - began), 1), "transactions": len(writer.acknowledged()),
        "membership changes": bench.changes() - before, "longest pause": round(writer.gap(began, end), 1),
    }  # fmt: skip


def timeouts(bench: Bench, values: t.Sequence[str], rounds: int, minutes: float, burners: int) -> None:
    """Measure pauses and changes of membership for each timeout."""
    for value in values:
        # in this order: Galera refuses a period of a third of the timeout or more
        options = {"evs.keepalive_period": "PT0.3S", "evs.suspect_timeout": value}
        say(timeout=value, **pauses(bench, list(faults_of(bench.lab, rounds)), options))
        bench.set_options(options)
        say(timeout=value, **soak(bench, minutes, burners))
    bench.set_options({"evs.suspect_timeout": "PT1.8S", "evs.keepalive_period": "PT0.4S"})
    bench.restart_witness()


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["links", "timeouts"])
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--values", nargs="+", default=["PT5S", "PT3S", "PT1.8S", "PT1S"])
    parser.add_argument("--burners", type=int, default=4, help="processes that use all processors; 0 on a machine that is busy otherwise")
    options = parser.parse_args()
    bench = Bench(WitnessLab())
    if options.what == "links":
        links(bench, options.seconds)
    else:
        timeouts(bench, options.values, options.rounds, options.minutes, options.burners)


if __name__ == "__main__":
    main()
