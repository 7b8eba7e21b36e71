# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A client that publishes messages from a machine outside of the cluster, and what became of those that were confirmed."""

from __future__ import annotations

import json
import pathlib
import time
import typing as t

from controllers_lab import SERVERS, ControllersLab
from support import eventually

CLIENT = "laptop"
QUEUE = "notifications.info"
TOOL = ["python3", "/run/amqp_client.py"]


def password(lab: ControllersLab) -> str:
    return (lab.inventory_path / ".secrets" / "lab" / "rabbitmq" / "footprint.txt").read_text("utf-8").strip()


def write(lab: ControllersLab, host: str, path: str, text: str) -> None:
    """Write a file that only root can read."""
    lab.run(host, ["install", "-m", "0600", "/dev/null", path])
    lab.run(host, ["tee", path], stdin=text)


class Publisher:
    """The publishing client, on a machine outside the cluster."""

    def __init__(self, lab: ControllersLab) -> None:
        self.lab = lab
        self.queue = QUEUE

    def prepare(self) -> None:
        if not self.lab.answers(CLIENT, ["python3", "-c", "import amqp"]):
            self.lab.run(CLIENT, ["apt-get", "update", "-q"])
            self.lab.run(CLIENT, ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y", "-q", "python3-amqp"])
        write(self.lab, CLIENT, "/run/amqp_client.py", (pathlib.Path(__file__).parent / "amqp_client.py").read_text("utf-8"))
        settings = {
            "hosts": [self.lab.addresses[name] for name in SERVERS], "user": "footprint", "password": password(self.lab),
            "vhost": "notifications", "queue": self.queue, "ca": "/run/amqp-ca.pem",
        }
        write(self.lab, CLIENT, "/run/amqp-ca.pem", self.lab.run(SERVERS[0], ["cat", "/etc/rabbitmq/footprint-tls/ca.pem"]))
        write(self.lab, CLIENT, "/run/amqp-client.json", json.dumps(settings))

    def start(self) -> None:
        self.stop()
        self.prepare()
        self.lab.run(CLIENT, ["rm", "-f", "/run/amqp-confirmed.jsonl"])
        self.lab.run(CLIENT, ["systemd-run", "--quiet", "--unit=amqp-publisher", "--collect", *TOOL, "publish"])
        eventually("messages are confirmed", lambda: len(self.confirmed()) > 20, 60)

    def stop(self) -> None:
        self.lab.run(CLIENT, ["systemctl", "stop", "amqp-publisher.service"], check=False)

    def confirmed(self) -> list[dict[str, t.Any]]:
        text = self.lab.run(CLIENT, ["cat", "/run/amqp-confirmed.jsonl"], check=False)
        return [json.loads(line) for line in text.splitlines() if line.endswith("}")]

    def confirms(self, seconds: float = 2) -> bool:
        """Whether messages are being confirmed now."""
        before = len(self.confirmed())
        time.sleep(seconds)
        return len(self.confirmed()) > before

    def ends(self) -> dict[str, t.Any]:
        """Stop the client and consume all messages; every confirmed message must exist."""
        eventually("messages are confirmed", self.confirms, 120)
        self.stop()
        entries = self.confirmed()
        there = {int(line) for line in self.lab.run(CLIENT, [*TOOL, "consume"]).split()}
        lost = sorted({entry["n"] for entry in entries} - there)
        gaps = [later["t"] - earlier["t"] for earlier, later in zip(entries, entries[1:])]
        assert len(entries) > 20
        assert not lost, f"{len(lost)} of {len(entries)} confirmed messages are lost: {lost[:10]}"
        return {"messages_confirmed": len(entries), "messages_lost": len(lost), "largest_gap_seconds": round(max(gaps), 2)}

    def logs_in(self, host: str) -> bool:
        return self.lab.answers(CLIENT, [*TOOL, "login", self.lab.addresses[host]])
