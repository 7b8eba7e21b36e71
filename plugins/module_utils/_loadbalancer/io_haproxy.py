# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The HAProxy of this host, spoken to through its own socket."""

from __future__ import annotations

import csv
import io
import re
import socket
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError

SOCKET = "/run/haproxy-footprint.sock"
_IN_USE = re.compile(r"\bserver_key=(\S+)")
_HINT = "Look at `systemctl status haproxy` on the host; the role load_balancer sets it up."


class HaProxy:
    """One HAProxy.

    :arg path: its admin socket.
    """

    def __init__(self, path: str = SOCKET, timeout: float = 5) -> None:
        self.path = path
        self.timeout = timeout

    def ask(self, command: str) -> str:
        """What it answers to one command.

        :raises BackendError: it does not answer.
        """
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
                stream.settimeout(self.timeout)
                stream.connect(self.path)
                stream.sendall(command.encode("ascii") + b"\n")
                parts = iter(lambda: stream.recv(65536), b"")
                return b"".join(parts).decode("utf-8", "replace")
        except OSError as error:
            raise BackendError(f"HAProxy does not answer at {self.path}: {error}.", hint=_HINT) from error

    def frontends(self) -> dict[str, dict[str, t.Any]]:
        """Name of each service → its ``servers`` (name → ``status`` and ``sessions``), and whom it uses alone, if so (``in_use``).

        :raises BackendError: it does not answer.
        """
        found: dict[str, dict[str, t.Any]] = {}
        for row in csv.DictReader(io.StringIO(self.ask("show stat").lstrip("# "))):
            if row.get("svname") in (None, "FRONTEND", "BACKEND"):
                continue
            entry = found.setdefault(row["pxname"], {"servers": {}, "in_use": None})
            entry["servers"][row["svname"]] = {"status": row["status"], "sessions": int(row["scur"] or 0)}
        for table in re.findall(r"^# table: ([^,]+),", self.ask("show table"), re.MULTILINE):
            used = _IN_USE.search(self.ask(f"show table {table}"))
            if used and table in found:
                found[table]["in_use"] = used.group(1)
        return found

    def take_out(self, frontend: str, server: str) -> None:
        """Take a server for down until its own checks say otherwise: its sessions are cut, others serve from now on.

        Nothing of this outlives a few seconds, so nothing has to be taken back.

        :raises BackendError: it refuses.
        """
        answer = self.ask(f"set server {frontend}/{server} health down").strip()
        if answer:
            raise BackendError(f"HAProxy refuses to take {frontend}/{server} out: {answer}", hint=_HINT)
