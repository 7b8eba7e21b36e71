# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The script with which keepalived decides whether a host may hold the address, with real requests to local servers."""

from __future__ import annotations

import http.server
import pathlib
import subprocess
import threading
import typing as t

import jinja2
import pytest

TEMPLATE = pathlib.Path(__file__).resolve().parents[4] / "roles" / "load_balancer" / "templates" / "usable.sh.j2"
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


class Host(t.NamedTuple):
    """The script of a host, and the file in which it remembers the first failure."""

    script: pathlib.Path
    since: pathlib.Path

    def holds(self) -> bool:
        """Whether the host may hold the address."""
        return subprocess.run([self.script], check=False, timeout=10).returncode == 0

    def age(self, seconds: int) -> None:
        """Let it be cut off for longer."""
        self.since.write_text(f"{int(self.since.read_text('ascii')) - seconds}\n", "ascii")


def host(folder: pathlib.Path, port: int, haproxy: int) -> Host:
    """Write the script; HAProxy answers at a port."""
    since = folder / "since"
    values = {
        "__load_balancer_pause": 1,
        "load_balancer_stats_port": haproxy,
        "__load_balancer_usable_uri": "/usable",
        "__load_balancer_cut_off_since": str(since),
        "__load_balancer_database_addresses": [BEFORE, HERE],
        "__load_balancer_database_number": 1,
        "__load_balancer_database": {"check_port": port},
    }
    path = folder / "usable.sh"
    path.write_text(jinja2.Template(TEMPLATE.read_text("utf-8"), keep_trailing_newline=True, trim_blocks=True).render(values), "utf-8")
    path.chmod(0o755)
    return Host(path, since)


@pytest.fixture(name="started")
def fixture_started() -> t.Iterator[t.Callable[..., http.server.HTTPServer]]:
    """Start servers that end with the test."""
    servers = []

    def start(*arguments: t.Any) -> http.server.HTTPServer:
        servers.append(serve(*arguments))
        return servers[-1]

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


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
        # no majority here: HAProxy has no usable member then
        (503, "not ready\n", None, True),
        (None, "", None, True),
    ],
)
def test_the_address_is_given_up_only_for_a_member_that_the_database_has(
    tmp_path: pathlib.Path, started: t.Callable[..., http.server.HTTPServer], own: int | None, members: str, before: int | None, holds: bool
) -> None:
    first = started(HERE, 0, own or 200, members.encode())
    port = first.server_port
    here = host(tmp_path, port, started("127.0.0.1", 0, 200).server_port)
    if own is None:
        first.shutdown()
        first.server_close()
    if before:
        started(BEFORE, port, before)
    assert here.holds(), "the database needs some time to exclude a member that is lost"
    assert here.since.exists() is not holds
    if not holds:
        here.age(4)
        assert here.holds()
        here.age(6)
    assert here.holds() is holds


def test_the_time_begins_again_after_an_answer(tmp_path: pathlib.Path, started: t.Callable[..., http.server.HTTPServer]) -> None:
    port = started(HERE, 0, 200, f"{HERE}\n{BEFORE}\n".encode()).server_port
    here = host(tmp_path, port, started("127.0.0.1", 0, 200).server_port)
    assert here.holds()
    here.age(20)
    assert not here.holds()
    started(BEFORE, port, 200)
    assert here.holds() and not here.since.exists()


@pytest.mark.parametrize("status", [503, None])
def test_a_host_without_a_usable_member_gives_the_address_up_at_once(
    tmp_path: pathlib.Path, started: t.Callable[..., http.server.HTTPServer], status: int | None
) -> None:
    port = started(HERE, 0, 200, f"{HERE}\n".encode()).server_port
    haproxy = started("127.0.0.1", 0, status or 200)
    here = host(tmp_path, port, haproxy.server_port)
    assert here.holds() is (status is None)
    if status is None:
        haproxy.shutdown()
        haproxy.server_close()
        assert not here.holds()
