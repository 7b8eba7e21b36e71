# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rehearsals on the lab: start, observation of both sides, and remains."""

from __future__ import annotations

import contextlib
import json
import threading
import time
import typing as t

from rflab.plays import REPOSITORY, PlayRun, play
from support import Lab

LOGS = REPOSITORY / "tests" / "output" / "rehearse"
UNIT = "reduced-footprint-migrate-master.service"
FOLDER = "/var/lib/reduced.footprint/migrations/master"
STAND_IN = "master-rehearsal"
SERVICES = ("mariadb", "dnsmasq", "footprint-api", "ssh", "systemd-networkd")
# what a rehearsal makes on the server, wherever it runs
TRACES = (
    "virsh -q list --all --name | grep rehearsal; find /var/lib/libvirt /var/log/libvirt /run/netns"
    " \\( -name '*rehearsal*.qcow2' -o -name '*rehearsal*.fd' -o -name '*rehearsal-console*' -o -path '/run/netns/*' \\) 2>/dev/null;"
    " ip -o link | grep -o 'rfr[0-9a-f]*'; true"
)


class StageLab(Lab):
    """The lab with one server, on which the master is rehearsed but not moved."""

    def play(self, name: str, *arguments: str, **options: t.Any) -> PlayRun:
        """Run a playbook; keep its output below tests/output/rehearse."""
        self._plays += 1
        return play(f"reduced.footprint.{name}", *arguments, log=LOGS / f"{self._plays:02d}-{name}.log", **options)

    def rehearse(self, *checks: t.Mapping[str, t.Any], **variables: t.Any) -> PlayRun:
        """Update the copy and rehearse it, with health checks in addition to those of the lab."""
        own = [{"type": "tcp", "port": 3306}, {"type": "http", "url": f"http://{self.master}:8080/health"}]
        given = {"stop_after": "rehearse", "rehearse_timeout": 1200, "health_checks": [*own, *checks], **variables}
        return self.play("migrate_master", "-e", json.dumps({f"master_migrate_{key}": value for key, value in given.items()}))

    def journal(self) -> dict[str, t.Any]:
        """Return the current journal of the migration."""
        return json.loads(self.ssh("metal1", "cat", f"{FOLDER}/journal.json"))

    def slow(self) -> int:
        """Return a timeout in seconds for a boot on this machine, based on the last successful rehearsal."""
        return int(3 * self.journal()["facts"]["boot_seconds"]) + 60

    def log(self) -> list[str]:
        """Return the log of the migration."""
        return self.ssh("metal1", "cat", f"{FOLDER}/log").splitlines()

    def traces(self) -> list[str]:
        """List traces of a rehearsal on the server."""
        return self.ssh("metal1", TRACES).split()

    def identity(self) -> dict[str, str]:
        """Return values that change with any effect on the source: boot, addresses, start times of services."""
        since = self.ssh("laptop", "systemctl", "show", "--property=Id,ActiveState,ActiveEnterTimestampMonotonic,MainPID", *SERVICES)
        return {
            "boot": self.ssh("laptop", "cat", "/proc/sys/kernel/random/boot_id"),
            "addresses": self.ssh("laptop", "ip", "-o", "-4", "address"),
            "services": since,
        }

    def mark(self, text: str) -> None:
        """Write a file on the source, which the copy must contain."""
        self.ssh("laptop", "tee", "/srv/marker", stdin=text)

    @contextlib.contextmanager
    def watched(self) -> t.Iterator[list[list[str]]]:
        """Record the traces on the server every few seconds while the block runs."""
        seen: list[list[str]] = []
        end = threading.Event()

        def look() -> None:
            while not end.wait(4):
                with contextlib.suppress(AssertionError):
                    seen.append(self.traces())

        thread = threading.Thread(target=look, daemon=True)
        thread.start()
        try:
            yield seen
        finally:
            end.set()
            thread.join()

    def kill_on_stage(self) -> None:
        """Kill the worker with signal 9 while the stand-in runs, and prevent systemd from restarting it."""
        until = time.monotonic() + 900
        while STAND_IN not in self.ssh("metal1", "virsh", "-q", "list", "--name", check=False).split():
            assert time.monotonic() < until, "no rehearsal began"
            time.sleep(1)
        # well into its boot
        time.sleep(5)
        self.ssh("metal1", "systemctl", "kill", "--kill-who=main", "--signal=KILL", UNIT)
        self.ssh("metal1", "systemctl", "stop", UNIT, check=False)
