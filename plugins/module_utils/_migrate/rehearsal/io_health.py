# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Health checks of the new master, over the network or inside it."""

from __future__ import annotations

import http.client
import socket
import typing as t
import urllib.error
import urllib.request

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import CommandError, FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.rehearsal.io_inside import TIMEOUT, RemoteClone
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.model_health_check import INSIDE, HealthCheck
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_remote_source import scan_host_keys

_TIMEOUT = 5.0


class Ways(t.NamedTuple):
    """How the new master is reached.

    :arg address: the admin address.
    :arg clone: ssh connection for checks inside the VM; ``None`` without such checks.
    """

    address: str
    host_keys: t.Collection[str]
    clone: RemoteClone | None = None


class Failure(t.NamedTuple):
    """A failed check and the reason."""

    check: HealthCheck
    reason: str

    def __str__(self) -> str:
        return f"{self.check.title}: {self.reason}"


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Do not follow redirects: they may lead to another server."""

    def redirect_request(self, *unused: t.Any, **more: t.Any) -> None:
        return None


def check_all(checks: t.Sequence[HealthCheck], ways: Ways, *, stop_at_first: bool = False) -> list[Failure]:
    """Run all checks once, in their order; returns the failed ones.

    :arg stop_at_first: after the first failure the remaining checks count as failed without being run: a
        booting machine does not answer, and waiting for each check would be downtime.
    """
    failures: list[Failure] = []
    for check in checks:
        reason = f"skipped because {failures[0].check.title} failed" if failures and stop_at_first else ask(check, ways)
        if reason is not None:
            failures.append(Failure(check, reason))
    return failures


def ask(check: HealthCheck, ways: Ways) -> str | None:
    """Run one check; returns the reason of a failure, ``None`` when it passed."""
    if check.type == "tcp":
        return _tcp(ways.address, check.port)
    if check.type == "http":
        return _http(t.cast(str, check.url), check.status)
    if check.type in INSIDE:
        return _inside(check, ways.clone)
    return _ssh(ways.address, check.port, ways.host_keys)


def _tcp(address: str, port: int) -> str | None:
    try:
        with socket.create_connection((address, port), timeout=_TIMEOUT):
            return None
    except OSError as error:
        return f"{address}:{port}: {error}"


def _http(url: str, wanted: int) -> str | None:
    # ignore proxies of the host, which would answer instead of the master
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect())
    try:
        with opener.open(url, timeout=_TIMEOUT) as answer:
            status = answer.status
    except urllib.error.HTTPError as error:
        status = error.code
    except (OSError, ValueError, http.client.HTTPException) as error:
        # the last kind: what answers does not speak HTTP, for example another service while the machine boots
        return f"{type(error).__name__}: {error}" if isinstance(error, http.client.HTTPException) else str(error)
    return None if status == wanted else f"expected status {wanted}, got {status}"


def _ssh(address: str, port: int, host_keys: t.Collection[str]) -> str | None:
    reason = _tcp(address, port)
    if reason:
        return reason
    try:
        shown = scan_host_keys(address, port, host_keys)
    except CommandError as error:
        return str(error)
    if not shown:
        return f"{address}:{port} presents no host key"
    return None if any(key in host_keys for key in shown) else f"the host key of {address}:{port} is not that of the source"


def _inside(check: HealthCheck, clone: RemoteClone | None) -> str | None:
    if clone is None:
        return "no ssh connection into the VM is configured"
    try:
        # plus time for ssh and the start of Python on a machine that is still booting
        answer = clone.ask("look_inside", {"unit": check.unit, "command": list(check.command)}, timeout=TIMEOUT + 30)
    except FootprintError as error:
        return error.message
    reason = answer["wrong"]
    return None if reason is None else str(reason)
