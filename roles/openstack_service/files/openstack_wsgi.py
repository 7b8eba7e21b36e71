# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Serve the WSGI program of an OpenStack service with a health check of the process that serves the requests.

``/healthcheck`` is for load balancers: 404 while the member is drained, so that it gets no new requests. ``/healthcheck/database`` answers
200 only if the service reads its tables through the connection of its own configuration, and no row of the configured queries names a
problem. It says why otherwise, and whether the member is drained.

The file in the environment variable ``FOOTPRINT_WSGI`` configures it; see the role ``openstack_service``.
"""

from __future__ import annotations

import configparser
import json
import os
import pathlib
import runpy
import sys
import threading
import time
import typing as t
import urllib.parse

Start = t.Callable[..., t.Any]
Environment = t.Dict[str, t.Any]
_SECONDS = 3
#: Seconds for which an answer of the database counts.
_KEPT = 5.0


class Database:
    """The database of a service, asked with the service's own account.

    :arg settings: ``file`` and ``section`` with the connection, and ``queries``: a query must return a row; the rows of a query in
        ``problems`` are problems.
    """

    def __init__(self, settings: t.Mapping[str, t.Any], clock: t.Callable[[], float] = time.monotonic) -> None:
        self.settings = settings
        self.clock = clock
        self.connection: t.Any = None
        self.answer: tuple[float, str] | None = None
        self.lock = threading.Lock()

    def problem(self) -> str:
        """Return why the service cannot use its database; empty if it can."""
        # threads share the connection
        with self.lock:
            if self.answer is None or self.clock() - self.answer[0] >= _KEPT:
                self.answer = (self.clock(), self._ask())
            return self.answer[1]

    def rows(self, query: str, values: t.Sequence[t.Any] = ()) -> t.Sequence[t.Sequence[t.Any]]:
        """Return the rows of a query, over a connection of its own, so that threads do not share one."""
        connection = self.connect()
        try:
            with connection.cursor() as cursor:
                cursor.execute(query, values)
                return t.cast(t.Sequence[t.Sequence[t.Any]], cursor.fetchall())
        finally:
            connection.close()

    def _ask(self) -> str:
        kept = self.connection is not None
        problem = self._ask_once()
        # a kept connection may have been closed since, by a load balancer or with the member that it led to
        return self._ask_once() if kept and self.connection is None else problem

    def _ask_once(self) -> str:
        try:
            if self.connection is None:
                self.connection = self.connect()
            found = []
            with self.connection.cursor() as cursor:
                for query in self.settings.get("queries", ()):
                    cursor.execute(query)
                    if not cursor.fetchall():
                        found.append(f"no row: {query}")
                for query in self.settings.get("problems", ()):
                    cursor.execute(query, (os.uname().nodename,) if "%s" in query else ())
                    found += [" ".join(map(str, row)) for row in cursor.fetchall()]
            return "; ".join(found)
        except Exception as error:  # pylint: disable=broad-except  # whatever happens is the answer
            connection, self.connection = self.connection, None
            if connection is not None:
                try:
                    connection.close()
                except Exception:  # pylint: disable=broad-except
                    pass
            return f"database: {type(error).__name__}: {error}"

    def connect(self) -> t.Any:
        """Connect as the service does."""
        import pymysql  # pylint: disable=import-outside-toplevel  # after the service, which may replace parts of Python's library

        parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
        with open(self.settings["file"], encoding="utf-8") as stream:
            parser.read_file(stream)
        url = urllib.parse.urlsplit(parser.get(self.settings["section"], "connection"))
        options = dict(urllib.parse.parse_qsl(url.query))
        return pymysql.connect(
            host=url.hostname,
            port=url.port or 3306,
            user=urllib.parse.unquote(url.username or ""),
            password=urllib.parse.unquote(url.password or ""),
            database=url.path.lstrip("/"),
            ssl={"ca": options["ssl_ca"]} if "ssl_ca" in options else None,
            connect_timeout=_SECONDS,
            read_timeout=_SECONDS,
            write_timeout=_SECONDS,
            autocommit=True,
        )


def answer(start: Start, status: str, text: str) -> list[bytes]:
    """Send a text."""
    body = f"{text}\n".encode()
    start(status, [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body)))])
    return [body]


def checked(service: t.Any, drain: pathlib.Path, database: Database) -> t.Callable[[Environment, Start], t.Iterable[bytes]]:
    """Return the service with the two paths of the health check."""

    def application(environ: Environment, start: Start) -> t.Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path == "/healthcheck":
            return answer(start, "404 Not Found", "drained") if drain.exists() else answer(start, "200 OK", "OK")
        # the reason names accounts and hosts; clients of the load balancer, which sets this header, do not see it
        if path == "/healthcheck/database" and "HTTP_X_FORWARDED_PROTO" not in environ:
            problem = database.problem()
            if problem:
                return answer(start, "503 Service Unavailable", problem)
            return answer(start, "200 OK", "OK, but drained" if drain.exists() else "OK")
        return t.cast(t.Iterable[bytes], service(environ, start))

    return application


def read_plain_bytes_only() -> None:
    """Let python-memcached, in this process, read every entry that is not plain bytes as a miss.

    memcached has no authentication, and the client unpickles, that is executes, what the flags of an entry call a pickle. keystonemiddleware
    stores its encrypted and signed entries as plain bytes, but it verifies them only after the client has read them.

    :raises TypeError: this version of the client has no such method.
    """
    try:
        import memcache  # pylint: disable=import-outside-toplevel  # see load
    except ImportError:
        return
    if not callable(getattr(getattr(memcache, "Client", None), "_recv_value", None)):
        raise TypeError("openstack_wsgi does not support this version of python-memcached: it could execute what others write to memcached")

    def receive(_client: t.Any, server: t.Any, flags: int, length: int) -> bytes | None:
        found = server.recv(length + 2)
        return t.cast(bytes, found[:-2]) if flags == 0 else None

    memcache.Client._recv_value = receive  # pylint: disable=protected-access


def load(settings: t.Mapping[str, t.Any]) -> t.Any:
    """Load the program of the service, and what wraps it."""
    service = runpy.run_path(settings["program"], run_name="footprint")["application"]
    # Not earlier: the client derives from threading.local, which eventlet programs replace first; oslo.cache fails with a client that was imported
    # before. Early enough: tokens are read when requests are served.
    read_plain_bytes_only()
    if settings.get("wrapper"):
        service = runpy.run_path(settings["wrapper"], run_name="footprint")["wrap"](service, settings, Database)
    return checked(service, pathlib.Path(settings["drain"]), Database(settings["database"]))


if "FOOTPRINT_WSGI" in os.environ:
    if not sys.argv or not sys.argv[0]:
        sys.argv = ["footprint"]
    application = load(json.loads(pathlib.Path(os.environ["FOOTPRINT_WSGI"]).read_text(encoding="utf-8")))
