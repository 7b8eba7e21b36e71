# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Questions put to the new master: through its address, or inside it."""

from __future__ import annotations

import dataclasses
import socket
import typing as t
import urllib.error
import urllib.request

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import CommandError, FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.rehearsal.io_inside import TIMEOUT, RemoteClone
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.model_health_check import INSIDE, HealthCheck
from ansible_collections.reduced.footprint.plugins.module_utils._remote.io_remote_source import scan_host_keys

_TIMEOUT = 5.0


@dataclasses.dataclass(frozen=True)
class Ways:
    """How the new master is reached.

    :arg address: the admin address.
    :arg host_keys: what its ssh must show.
    :arg clone: the way in, for what is asked inside; ``None`` where nothing is.
    """

    address: str
    host_keys: t.Collection[str]
    clone: RemoteClone | None = None


@dataclasses.dataclass(frozen=True)
class Failure:
    """A question without the answer that was wished for."""

    check: HealthCheck
    wrong: str

    def __str__(self) -> str:
        return f"{self.check.title}: {self.wrong}"


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect is an answer like any other; following it would ask somebody else."""

    def redirect_request(self, *unused: t.Any, **more: t.Any) -> None:
        return None


def check_all(checks: t.Sequence[HealthCheck], ways: Ways, *, stop_at_first: bool = False) -> list[Failure]:
    """Every question once, in their order; returns those that were not answered well.

    :arg stop_at_first: after the first failure the others count as failed without being asked: a
        machine that boots answers nothing, and waiting for each in turn would cost downtime.
    """
    failures: list[Failure] = []
    for check in checks:
        wrong = f"not asked, for {failures[0].check.title} fails" if failures and stop_at_first else ask(check, ways)
        if wrong is not None:
            failures.append(Failure(check, wrong))
    return failures


def ask(check: HealthCheck, ways: Ways) -> str | None:
    """One question; returns what is wrong with the answer, ``None`` when all is well."""
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
    # no proxy of the host may answer instead of the master
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect())
    try:
        with opener.open(url, timeout=_TIMEOUT) as answer:
            status = answer.status
    except urllib.error.HTTPError as error:
        status = error.code
    except (OSError, ValueError) as error:
        return str(error)
    return None if status == wanted else f"status {status} instead of {wanted}"


def _ssh(address: str, port: int, host_keys: t.Collection[str]) -> str | None:
    wrong = _tcp(address, port)
    if wrong:
        return wrong
    try:
        shown = scan_host_keys(address, port, host_keys)
    except CommandError as error:
        return str(error)
    if not shown:
        return f"{address}:{port} shows no host key"
    return None if any(key in host_keys for key in shown) else f"{address}:{port} shows another host key than the source had"


def _inside(check: HealthCheck, clone: RemoteClone | None) -> str | None:
    if clone is None:
        return "there is no way in"
    try:
        # ssh itself and the start of Python on a machine that is still busy booting come on top
        answer = clone.ask("look_inside", {"unit": check.unit, "command": list(check.command)}, timeout=TIMEOUT + 30)
    except FootprintError as error:
        return error.message
    wrong = answer["wrong"]
    return None if wrong is None else str(wrong)
