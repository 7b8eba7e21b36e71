# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Report over HTTP whether the local Galera member may be used: 200 or 503, with the reasons as text.

Started by systemd, which passes the listening socket; queries MariaDB through its local socket as the system user that it
runs as, which has no other privileges.
"""

from __future__ import annotations

import http.client
import http.server
import ipaddress
import json
import pathlib
import socket
import sys
import threading
import time
import typing as t

import pymysql

import galera_plan

#: What the guard of this member has found out.
STATE = pathlib.Path("/run/footprint-galera/state.json")
#: Seconds between two queries, from the last answer until it counts as none, and for the answer of another member.
PAUSE, PATIENCE, PEER = 0.25, 1.5, 0.3


class Seen(t.NamedTuple):
    """When the server has answered, its ``wsrep_*`` status, and why it may not be used."""

    at: float
    status: t.Mapping[str, str]
    why: tuple[str, ...]


def members(status: t.Mapping[str, str]) -> list[str]:
    """Return the addresses of the members in this one's component; a witness has none."""
    return [each.rpartition(":")[0].strip("[]") for each in status.get("wsrep_incoming_addresses", "").split(",") if ":" in each]


def is_synced(address: str, port: int) -> bool:
    """Return whether the check of another member says that it is; silence does not."""
    connection = http.client.HTTPConnection(address, port, timeout=PEER)
    try:
        connection.request("GET", "/synced")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


class Database:
    """Queries the server periodically, so that one which hangs delays no response, however many load balancers ask.

    :arg path: its socket.
    :arg port: at which the other members' checks listen.
    """

    def __init__(self, path: str, user: str, port: int) -> None:
        self.path, self.user, self.port = path, user, port
        #: opened again after an error
        self.connection: t.Any = None
        self.look()

    def _status(self) -> dict[str, str]:
        if self.connection is None:
            self.connection = pymysql.connect(unix_socket=self.path, user=self.user, connect_timeout=2, read_timeout=2, write_timeout=2)
        with self.connection.cursor() as cursor:
            cursor.execute("SHOW GLOBAL STATUS LIKE 'wsrep\\_%'")
            return dict(cursor.fetchall())

    def look(self) -> None:
        """Query the server once; the only member that serves does so even if it lags behind."""
        try:
            status = self._status()
            why = galera_plan.problems(status, serves=True)
            if not why and galera_plan.lags(status) and any(is_synced(address, self.port) for address in members(status)):
                why = ("it lags behind as a donor, and another member is synchronised",)
        except Exception as error:  # pylint: disable=broad-exception-caught
            # of any kind: this thread must not end
            self.connection = None
            status, why = {}, (f"the server does not answer: {error}",)
        self.seen = Seen(time.monotonic(), status, why)

    def watch(self) -> None:
        """Query the server for ever."""
        while True:
            time.sleep(PAUSE)
            self.look()

    def latest(self) -> Seen:
        """Return the last answer, or that it is too old."""
        seen = self.seen
        age = time.monotonic() - seen.at
        return seen if age < PATIENCE else Seen(seen.at, {}, (f"the server has not answered for {age:.1f} s",))


class Handler(http.server.BaseHTTPRequestHandler):
    """Returns the same response for any path but three.

    ``/members`` returns the addresses of the members that have the cluster's data; ``/synced`` whether this one is synchronised, so not a donor;
    ``/state`` what the guard has found out, to members only.
    """

    server_version = "footprint"
    sys_version = ""
    timeout = 5
    # the whole response in one packet: a load balancer closes the connection as soon as it has read the status
    wbufsize = -1
    database: Database
    members: t.Collection[str] = ()

    def do_GET(self) -> None:  # pylint: disable=invalid-name
        """Check the member and respond."""
        if self.path == "/state":
            self._state()
            return
        seen = self.database.latest()
        why = seen.why or (galera_plan.problems(seen.status) if self.path == "/synced" else ())
        lines: t.Sequence[str] = why or (members(seen.status) if self.path == "/members" else ("ready",))
        self._respond(503 if why else 200, "text/plain; charset=utf-8", "\n".join(lines) + "\n")

    def _state(self) -> None:
        """Respond with the guard's report and its age in seconds, because the clocks of two hosts differ."""
        if str(ipaddress.ip_address(self.client_address[0].partition("%")[0])) not in self.members:
            self._respond(403, "text/plain; charset=utf-8", "only members of the cluster may ask\n")
            return
        try:
            state = json.loads(STATE.read_text(encoding="utf-8"))
            body = json.dumps({"age": time.monotonic() - state["at"], "report": state["report"]})
        except (OSError, ValueError, TypeError, KeyError):
            self._respond(503, "text/plain; charset=utf-8", "the guard does not run\n")
            return
        self._respond(200, "application/json", body)

    def _respond(self, code: int, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_OPTIONS = do_GET  # noqa: N815

    def log_message(self, format: str, *args: t.Any) -> None:  # pylint: disable=redefined-builtin
        """Do not log requests: there are several per second."""


class Server(http.server.ThreadingHTTPServer):
    """Serves on the socket that systemd passes."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("", 0), Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = socket.socket(fileno=3)

    def handle_error(self, request: t.Any, client_address: t.Any) -> None:
        """Log no closed connections: a load balancer closes one whenever a response is late."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def main() -> None:
    """Run ``galera_check.py MEMBERS``, with the file that the guard reads as well; the database account has the name of the system user."""
    import getpass

    settings = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    Handler.members = {str(ipaddress.ip_address(address)) for address in settings["members"].values()}
    server = Server()
    Handler.database = Database(settings["socket"], getpass.getuser(), server.socket.getsockname()[1])
    threading.Thread(target=Handler.database.watch, daemon=True).start()
    server.serve_forever()


if __name__ == "__main__":
    main()
