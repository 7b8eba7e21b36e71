# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide with the other members whose data counts after a failure, and return with it.

``galera_guard.py MEMBERS``, a service on every member, with the file that the role writes: ``socket``, ``name``, ``port``, ``witnesses`` and ``members``
(name → address).

Each second it reads the state of the own server, publishes it for the health check, which serves it to the other members at ``/state``, reads theirs,
and does what ``galera_return.step`` decides. An answer that is missing, late, invalid or older than the last change of the own server counts as unknown.
While a run restarts members, it forms no component; when the run has deployed the database, it does again.

A member that differs from the others or could not apply a change (a full disk, for example) leaves the cluster, and its server never connects again.
The guard restarts it a limited number of times while another member serves.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import json
import os
import pathlib
import socket
import subprocess
import sys
import time
import typing as t

import pymysql

import galera_report
import galera_return

PAUSE = 1.0
STATE = pathlib.Path("/run/footprint-galera/state.json")
#: Exists while a starting server is replaced by one that forms the component.
FORMING = pathlib.Path("/run/footprint-galera/forming")
#: Record of a run that restarts members; see the module controlplane_lock.
LOCK = pathlib.Path("/run/reduced.footprint/locks/controlplane-run.json")
#: Its copy, when that run has deployed the database and restarts no more of its members.
RELEASED = pathlib.Path("/run/reduced.footprint/locks/controlplane-run.galera.json")
#: Seconds for which that run may decide. One that was killed, or whose control node is lost, leaves its record.
DEFERRED = 600.0
#: Free part of the file system below which it counts as full, and from which a member may receive the data of another one.
FULL, ENOUGH = 0.01, 0.05
#: Seconds for which a restart must be necessary: what the others report is up to some seconds old.
HOLD = 5.0
#: Seconds for which forming a component must be possible if a witness may be Primary alone: the witness is restarted meanwhile, and what the others
#: report is not from before that.
ALONE = 8.0
#: Seconds after which a server that does not connect, although others serve, is restarted.
OUTSIDE = 20.0
#: Seconds before each further restart of a server; after the last one it is left to a person.
PAUSES = (0.0, 30.0, 60.0, 120.0, 300.0)
#: Seconds after which a member that serves counts as repaired.
REPAIRED = 120.0
#: What the server, systemd or the disk may fail with.
ERRORS = (pymysql.MySQLError, OSError, subprocess.SubprocessError)
#: Seconds within which the others must report again after a server was stopped to form the component.
AGAIN = 10.0


def log(text: str, level: int = 4) -> None:
    """Write a line with its priority to the journal."""
    print(f"<{level}>{text}", flush=True)


def free_part(folder: pathlib.Path) -> float:
    """Return the free part of a file system for users other than root, 0 to 1."""
    found = os.statvfs(folder)
    return found.f_bavail / found.f_blocks if found.f_blocks else 1.0


class Guard:
    """Decides and acts, once a turn.

    :arg settings: the content of the file that the role writes.
    """

    def __init__(self, settings: t.Mapping[str, t.Any]) -> None:
        self.name, self.port, self.witnesses = settings["name"], settings["port"], settings["witnesses"]
        self.addresses = dict(settings["members"])
        self.server = galera_report.Server(settings["socket"])
        self.observer = galera_report.Observer(self.name, self.server)
        self.pool = concurrent.futures.ThreadPoolExecutor(max(1, len(self.addresses)))
        self.step = galera_return.Step("none", "")
        #: What the own server was at the last look, and since when: reports that the others made before may be of another component.
        self.seen: t.Any = None
        self.changed = 0.0
        #: Since when the action is the same one.
        self.since = 0.0
        self.tries, self.last, self.failed = 0, -PAUSES[-1], ""
        #: Since when it has been as good as repaired, and since when it has been outside of a component that others are in.
        self.well: float | None = None
        self.outside: float | None = None
        #: Since when it has left a decision to a run that restarts members.
        self.deferred: float | None = None

    def turn(self) -> None:
        """Look once, and act if necessary."""
        began = time.monotonic()
        self._continue_forming()
        report = self.observer.look()
        shown = report and {**dataclasses.asdict(report), "failed": self.failed or None}
        galera_report.write(STATE, {"at": began, "report": shown, "step": dataclasses.asdict(self.step)})
        self._note(report)
        if report is None or report.state == "stopped":
            self.since = time.monotonic()
            return
        reports = {**self.others(), self.name: report}
        if time.monotonic() - began > galera_report.OLD:
            return
        self._count(report, reports)
        step = self._decide(report, reports)
        if step != self.step and step.action != "none":
            log(f"{step.action}: {step.reason}", 5)
        if step.action != self.step.action:
            self.since = time.monotonic()
        self.step = step
        try:
            self._act(step, report)
        except ERRORS as error:
            log(f"{step.action} failed, and is tried again: {error}", 3)

    def _note(self, report: galera_return.Report | None) -> None:
        """Remember when the own server was last in use, was started, ended, or changed its component."""
        seen = report and (report.primary, report.state, report.joined, report.node)
        if seen != self.seen or (report and report.primary and report.ready):
            self.seen, self.changed = seen, time.monotonic()

    def others(self) -> dict[str, galera_return.Report | None]:
        """Ask the other members at the same time."""
        within = min(galera_report.OLD, time.monotonic() - self.changed)
        peers = {name: address for name, address in self.addresses.items() if name != self.name}
        answers = self.pool.map(lambda address: galera_report.ask(self.addresses[self.name], address, self.port), peers.values())
        return {name: galera_report.report_of(name, answer, within) for name, answer in zip(peers, answers)}

    def _count(self, report: galera_return.Report, reports: t.Mapping[str, galera_return.Report | None]) -> None:
        """Measure for how long this member has been well, or outside although others serve."""
        now = time.monotonic()
        self.well = (self.well or now) if report.ready else None
        if self.well and now - self.well > REPAIRED:
            self.tries, self.failed = 0, ""
        serving = [other for name, other in reports.items() if name != self.name and other and other.primary and other.ready and not other.isolated]
        # the data of another cluster is left to a person
        served = any(not report.uuid or other.uuid in (None, report.uuid) for other in serving)
        if report.state == "running":
            waits = not report.primary and (not report.isolated or self._left())
        else:
            # not while its position is being recovered
            waits = not report.joined and (report.position is not None or report.uuid is None)
        self.outside = (self.outside or now) if served and waits else None

    def _left(self) -> bool:
        """Whether the server left the cluster, and never connects again."""
        return bool(self.observer.status) and self.observer.status.get("wsrep_connected") != "ON"

    def _decide(self, report: galera_return.Report, reports: t.Mapping[str, galera_return.Report | None]) -> galera_return.Step:
        if self.outside and time.monotonic() - self.outside > (0 if self._left() else OUTSIDE):
            # Galera stops connecting when a handshake of another member was interrupted, as when that one forms a component
            state = self.observer.status.get("wsrep_local_state_comment", report.state)
            lacks = "; its data lack changes, so it receives a copy of all" if galera_report.INCOMPLETE.exists() else ""
            return galera_return.Step("restart", f"it is {state} and does not connect, although others serve{lacks}")
        # a server that formed the cluster has none
        peers = [peer for peer in self.observer.status.get("wsrep_cluster_address", "").partition("://")[2].partition("?")[0].split(",") if peer]
        step = galera_return.step(self.name, reports, self.witnesses, len(peers) or None)
        if self._left() and step.action in ("connect", "form"):
            step = dataclasses.replace(step, action="restart")
        run = LOCK.exists() and galera_report.text_of(LOCK) != galera_report.text_of(RELEASED)
        if report.primary or not run:
            self.deferred = None
        elif step.action in ("restart", "form"):
            now = time.monotonic()
            self.deferred = self.deferred or now
            if now - self.deferred <= DEFERRED:
                return galera_return.Step("wait", f"a run that restarts members ({LOCK}) decides; otherwise {step.action}: {step.reason}")
        return step

    def _act(self, step: galera_return.Step, report: galera_return.Report) -> None:
        if step.action == "isolate" and not report.isolated:
            self.server.isolate(report.node)
        elif step.action == "connect" and report.isolated:
            self.server.connect()
        elif step.action == "restart":
            self._restart()
        elif step.action == "form" and not self.observer.bootstraps and not (step.hold and time.monotonic() - self.since < ALONE):
            self._form(report)

    def _restart(self) -> None:
        now = time.monotonic()
        free = free_part(galera_report.DATA)
        if self._left() and free < ENOUGH:
            self.failed = f"its disk has {free:.0%} free; at least {ENOUGH:.0%} are needed before it can rejoin"
        elif self.tries >= len(PAUSES):
            self.failed = f"it was restarted {self.tries} times and did not rejoin; compare its data, then restart it"
        elif now - self.since >= HOLD and now - self.last >= PAUSES[self.tries]:
            self.tries, self.last, self.failed = self.tries + 1, now, ""
            log(f"restarting MariaDB ({self.tries} of {len(PAUSES)}): {self.step.reason}")
            self.server.kill()

    def _form(self, report: galera_return.Report) -> None:
        log(f"forming the Primary Component at position {report.position}: {self.step.reason}")
        if report.state == "running":
            self.server.form()
            return
        if free_part(galera_report.DATA) < FULL:
            self.failed = "its disk is full: the server would not start again"
            return
        FORMING.touch()
        self.server.stop()
        self.changed = time.monotonic()
        if self._still_forms(dataclasses.replace(report, state="stopped", primary=False, ready=False, joined=False)):
            self.server.bootstrap(str(report.uuid))
            FORMING.unlink()
        else:
            log("starting the server again instead: the others do not confirm it")

    def _still_forms(self, stopped: galera_return.Report) -> bool:
        """Ask the others again after the own server was stopped: it may have been in a component, or one of them is in one now."""
        while time.monotonic() - self.changed < AGAIN:
            time.sleep(PAUSE)
            step = galera_return.step(self.name, {**self.others(), self.name: stopped}, self.witnesses)
            if step.action != "wait":
                return step.action == "form"
        return False

    def _continue_forming(self) -> None:
        """Start the server if it was stopped for forming and not started again: this guard was killed, or another member was faster."""
        if FORMING.exists():
            self.server.start()
            FORMING.unlink()


def watched(message: str) -> None:
    """Send a message to systemd, if it started this program; without one for some time it restarts it."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection:
            connection.sendto(message.encode(), address.replace("@", "\0", 1) if address.startswith("@") else address)


def main() -> None:
    """Take a turn each second; with the argument ``others``, write what the guards of the other members report now."""
    guard = Guard(json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")))
    if sys.argv[2:] == ["others"]:
        found = {name: report and dataclasses.asdict(report) for name, report in guard.others().items()}
        print(json.dumps({"name": guard.name, "others": found}))
        return
    while True:
        try:
            guard.turn()
        except ERRORS as error:
            log(f"the state could not be read or changed, and is tried again: {error}", 3)
        watched("WATCHDOG=1")
        time.sleep(PAUSE)


if __name__ == "__main__":
    main()
