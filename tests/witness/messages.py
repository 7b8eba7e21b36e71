# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Clients of the message broker on the machine of the lab, and what became of their confirmed messages."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import typing as t

from support import eventually

ROOT = pathlib.Path(__file__).resolve().parents[2]
#: The client of the broker needs python3-amqp of the distribution.
PYTHON = "/usr/bin/python3"


class Cluster(t.Protocol):
    """What it needs of a lab: its directory, its inventory, the addresses of its members, and commands on these."""

    state: pathlib.Path
    inventory_path: pathlib.Path
    addresses: dict[str, str]

    def run(self, host: str, command: t.Sequence[str]) -> str:
        """Return the output of a command on a member."""


class Messages:
    """A client that publishes messages to a quorum queue of its own, on the machine of the lab."""

    def __init__(self, lab: Cluster, queue: str, members: t.Sequence[str]) -> None:
        self.lab, self.queue, self.members = lab, queue, members
        self._confirmed = lab.state / f"amqp-{queue}.jsonl"
        self._settings = lab.state / f"amqp-{queue}.json"
        self._process: subprocess.Popen[bytes] | None = None

    @staticmethod
    def _run(word: str) -> list[str]:
        return [PYTHON, str(ROOT / "tests" / "controllers" / "amqp_client.py"), word]

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "AMQP_SETTINGS": str(self._settings), "AMQP_CONFIRMED": str(self._confirmed)}

    def start(self, wait: bool = True) -> None:
        """Declare the queue and publish from now on.

        :arg wait: until messages are confirmed; otherwise the queue is declared as soon as a member accepts it, after another client was started.
        """
        (secret,) = self.lab.inventory_path.glob(".secrets/*/rabbitmq/footprint.txt")
        authority = self.lab.state / "amqp-ca.pem"
        if wait:
            # later, the member may be off
            authority.write_text(self.lab.run(self.members[0], ["cat", "/etc/rabbitmq/footprint-tls/ca.pem"]), encoding="ascii")
        self._settings.touch(mode=0o600)
        settings = {
            "hosts": [self.lab.addresses[name] for name in self.members], "user": "footprint", "password": secret.read_text("utf-8").strip(),
            "vhost": "notifications", "queue": self.queue, "ca": str(authority),
        }  # fmt: skip
        self._settings.write_text(json.dumps(settings), encoding="utf-8")
        self._confirmed.unlink(missing_ok=True)
        with open(self.lab.state / "amqp-client.log", "ab") as log:
            self._process = subprocess.Popen(self._run("publish"), env=self._environment(), stderr=log)  # pylint: disable=consider-using-with
        if wait:
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
        if not self.confirmed():
            # the client may have been stopped before a member accepted the queue
            return 0
        there: set[int] = set()
        # one that is ended has taken messages whose numbers are lost
        enough = 120 + len(self.confirmed()) / 20

        def taken() -> bool:
            with open(self.lab.state / "amqp-client.log", "ab") as log:
                done = subprocess.run(self._run("consume"), env=self._environment(), stdout=subprocess.PIPE, stderr=log, check=False, timeout=enough)
            there.update(int(line) for line in done.stdout.split())
            return done.returncode == 0

        eventually("the messages are consumed", taken, enough)
        return len(set(self.confirmed()) - there)


def install(*more: str) -> None:
    """Install what the client needs on this machine, and other packages, unless all of it is there."""
    missing = [*more, *(["python3-amqp"] if subprocess.run([PYTHON, "-c", "import amqp"], check=False, capture_output=True).returncode else [])]
    if missing:
        subprocess.run(["apt-get", "install", "-y", "-q", *missing], check=True, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
