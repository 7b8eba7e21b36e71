# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Questions put to the new master through the admin address."""

from __future__ import annotations

import socket
import typing as t
import urllib.error
import urllib.request

from ansible_collections.reduced.footprint.plugins.module_utils._backend.remote_source import scan_host_keys
from ansible_collections.reduced.footprint.plugins.module_utils._model.errors import CommandError
from ansible_collections.reduced.footprint.plugins.module_utils._model.migration import HealthCheck

_TIMEOUT = 5.0


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect is an answer like any other; following it would ask somebody else."""

    def redirect_request(self, *unused: t.Any, **more: t.Any) -> None:
        return None


def ask(check: HealthCheck, address: str, host_keys: t.Collection[str]) -> str | None:
    """One question; returns what is wrong with the answer, ``None`` when all is well."""
    if check.type == "tcp":
        return _tcp(address, check.port)
    if check.type == "http":
        return _http(t.cast(str, check.url), check.status)
    return _ssh(address, check.port, host_keys)


def _tcp(address: str, port: int) -> str | None:
    try:
        with socket.create_connection((address, port), timeout=_TIMEOUT):
            return None
    except OSError as error:
        return f"tcp {address}:{port}: {error}"


def _http(url: str, wanted: int) -> str | None:
    # no proxy of the host may answer instead of the master
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect())
    try:
        with opener.open(url, timeout=_TIMEOUT) as answer:
            status = answer.status
    except urllib.error.HTTPError as error:
        status = error.code
    except (OSError, ValueError) as error:
        return f"{url}: {error}"
    return None if status == wanted else f"{url}: status {status} instead of {wanted}"


def _ssh(address: str, port: int, host_keys: t.Collection[str]) -> str | None:
    wrong = _tcp(address, port)
    if wrong:
        return wrong
    try:
        shown = scan_host_keys(address, port, host_keys)
    except CommandError as error:
        return str(error)
    if not shown:
        return f"ssh {address}:{port}: shows no host key"
    return None if any(key in host_keys for key in shown) else f"ssh {address}:{port}: shows another host key than the source had"
