# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Query and control the HAProxy of this host through its admin socket."""

from __future__ import annotations

import csv
import io
import re
import socket
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError

SOCKET = "/run/haproxy-footprint.sock"
_IN_USE = re.compile(r"\bserver_key=(\S+)")
_HINT = "Check `systemctl status haproxy` on the host; the role load_balancer configures it."


class HaProxy:
    """A HAProxy process.

    :arg path: its admin socket.
    """

    def __init__(self, path: str = SOCKET, timeout: float = 5) -> None:
        self.path = path
        self.timeout = timeout

    def ask(self, command: str) -> str:
        """Return the answer to one command.

        :raises BackendError: HAProxy does not answer.
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
        """Return frontend → ``servers`` (name → ``status`` and ``sessions``) and ``in_use``, the only server it uses, or ``None``.

        :raises BackendError: HAProxy does not answer.
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
        """Mark a server as down until its next successful health checks: its sessions are closed and other servers are used.

        The mark lasts a few seconds only, so it need not be reverted.

        :raises BackendError: HAProxy rejects the command.
        """
        answer = self.ask(f"set server {frontend}/{server} health down").strip()
        if answer:
            raise BackendError(f"HAProxy cannot mark {frontend}/{server} as down: {answer}", hint=_HINT)
