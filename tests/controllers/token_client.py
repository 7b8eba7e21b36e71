# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A client of identity: gets tokens and has them validated, on and on, and remembers what failed."""

from __future__ import annotations

import json
import shlex
import ssl
import threading
import time
import typing as t
import urllib.error
import urllib.request

DOMAIN = {"id": "default"}


class Refused(Exception):
    """Keystone answered, and not as hoped."""


class Client:
    """One identity service.

    :arg openrc: the variables of the file an operator has.
    :arg url: where to ask, if not at its public URL.
    """

    def __init__(self, openrc: t.Mapping[str, str], url: str = "", timeout: float = 5) -> None:
        self.openrc = openrc
        self.url = (url or openrc["OS_AUTH_URL"]).rstrip("/")
        self.timeout = timeout
        self.context = ssl.create_default_context(cafile=openrc["OS_CACERT"]) if self.url.startswith("https") else None

    def _ask(self, method: str, headers: t.Mapping[str, str], body: t.Any = None) -> tuple[t.Mapping[str, str], t.Any]:
        data = json.dumps(body).encode("utf-8") if body else None
        request = urllib.request.Request(f"{self.url}/auth/tokens", data, {"Content-Type": "application/json", **headers}, method=method)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=self.context))
        try:
            with opener.open(request, timeout=self.timeout) as answer:
                # names of headers in whatever case a proxy writes them
                return answer.headers, json.load(answer)
        except urllib.error.HTTPError as error:
            raise Refused(f"{method} {self.url}: {error.code} {error.reason}") from error

    def issue(self) -> str:
        """A new token."""
        user = {"name": self.openrc["OS_USERNAME"], "domain": DOMAIN, "password": self.openrc["OS_PASSWORD"]}
        scope = {"project": {"name": self.openrc["OS_PROJECT_NAME"], "domain": DOMAIN}}
        body = {"auth": {"identity": {"methods": ["password"], "password": {"user": user}}, "scope": scope}}
        return self._ask("POST", {}, body)[0]["X-Subject-Token"]

    def validate(self, token: str, by: str = "") -> dict[str, t.Any]:
        """What keystone says of a token."""
        return self._ask("GET", {"X-Auth-Token": by or token, "X-Subject-Token": token})[1]["token"]


def read_openrc(text: str) -> dict[str, str]:
    """The variables that a shell would have."""
    words = [shlex.split(line.partition(" ")[2])[0] for line in text.splitlines() if line.startswith("export ")]
    return dict(word.split("=", 1) for word in words)


class Load:
    """Threads that get a token from one client and have it validated by another; use as a context manager."""

    def __init__(self, clients: t.Sequence[Client], threads: int = 3, pause: float = 0.05) -> None:
        self.clients, self.pause = list(clients), pause
        self.done: list[float] = []
        self.failures: list[tuple[float, str]] = []
        self._end = threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(number,), daemon=True) for number in range(threads)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *unused: object) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join()

    def _work(self, number: int) -> None:
        token, turn = "", number
        while not self._end.is_set():
            turn += 1
            issuer, reader = self.clients[turn % len(self.clients)], self.clients[(turn + 1) % len(self.clients)]
            try:
                fresh = issuer.issue()
                reader.validate(fresh)
                # also the one before, which another one may have encrypted
                issuer.validate(token or fresh)
                token = fresh
                self.done.append(time.monotonic())
            except (OSError, Refused, KeyError, ValueError) as error:
                self.failures.append((time.monotonic(), f"{time.strftime('%X')} {error!r}"))
            self._end.wait(self.pause)

    def largest_gap(self) -> float:
        """Seconds without a success."""
        times = sorted(self.done)
        return max((later - earlier for earlier, later in zip(times, times[1:])), default=float("inf"))
