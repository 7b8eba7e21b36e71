# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The script that compares the database's view of the cluster with what this host reaches, with real requests to local servers."""

from __future__ import annotations

import http.server
import pathlib
import subprocess
import threading
import typing as t

import jinja2
import pytest

TEMPLATE = pathlib.Path(__file__).resolve().parents[4] / "roles" / "load_balancer" / "templates" / "peers-reachable.sh.j2"
BEFORE, HERE = "127.0.0.2", "127.0.0.3"


class Answers(http.server.BaseHTTPRequestHandler):
    """A health check with a status and a body."""

    status, body = 200, b""

    def do_GET(self) -> None:  # pylint: disable=invalid-name
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, format: str, *args: t.Any) -> None:  # pylint: disable=redefined-builtin
        """Quiet."""


def serve(address: str, port: int, status: int, body: bytes = b"") -> http.server.HTTPServer:
    handler = type("Handler", (Answers,), {"status": status, "body": body})
    server = http.server.HTTPServer((address, port), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def script(folder: pathlib.Path, port: int) -> pathlib.Path:
    values = {
        "__load_balancer_database_addresses": [BEFORE, HERE],
        "__load_balancer_database_number": 1,
        "__load_balancer_database": {"check_port": port},
    }
    path = folder / "peers-reachable.sh"
    path.write_text(jinja2.Template(TEMPLATE.read_text("utf-8"), keep_trailing_newline=True).render(values), "utf-8")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    "own, members, before, holds",
    [
        (200, f"{HERE}\n{BEFORE}\n", 200, True),
        # it is drained or joins, and answers
        (200, f"{HERE}\n{BEFORE}\n", 503, True),
        # the database has it, this host does not reach it: the link is cut
        (200, f"{HERE}\n{BEFORE}\n", None, False),
        # it is lost, and the database knows
        (200, f"{HERE}\n", None, True),
        # another address begins with the same text
        (200, f"{HERE}\n{BEFORE}0\n", None, True),
        # no majority here: decided by another script
        (503, "not ready\n", None, True),
        (None, "", None, True),
    ],
)
def test_the_address_is_given_up_only_for_a_member_that_the_database_has(
    tmp_path: pathlib.Path, own: int | None, members: str, before: int | None, holds: bool
) -> None:
    servers = []
    first = serve(HERE, 0, own or 200, members.encode())
    port = first.server_port
    if own is None:
        first.shutdown()
        first.server_close()
    else:
        servers.append(first)
    if before:
        servers.append(serve(BEFORE, port, before))
    try:
        assert (subprocess.run([script(tmp_path, port)], check=False, timeout=10).returncode == 0) is holds
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()
