# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Probe a service that the operator declares, on its own host."""

from __future__ import annotations

import http.client
import socket
import ssl
import urllib.error
import urllib.request

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import io_listeners, io_plane
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.model_probe import PORT, URL, Probe


def problem(probe: Probe, timeout: float) -> str:
    """Return why a service is not healthy, empty if it is."""
    if probe.kind == PORT:
        return _port(int(probe.target), timeout)
    return _url(probe.target, timeout) if probe.kind == URL else _unit(probe.target, timeout)


def _port(port: int, timeout: float) -> str:
    address = io_listeners.reachable_at(port, io_listeners.listeners())
    if not address:
        return f"nothing listens on port {port}"
    try:
        socket.create_connection((address, port), timeout=timeout).close()
    except OSError as error:
        return f"port {port} does not answer: {error}"
    return ""


def _url(url: str, timeout: float) -> str:
    context = ssl.create_default_context()
    # the host itself is asked, often by a name that is not the one in the certificate
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    try:
        opener.open(url, timeout=timeout).close()
    except urllib.error.HTTPError as error:
        return f"answers {error.code} {error.reason}"
    except (OSError, http.client.HTTPException, ValueError) as error:
        return f"does not answer: {getattr(error, 'reason', error)}"
    return ""


def _unit(name: str, timeout: float) -> str:
    found = io_plane.units([name], timeout).get(name)
    return f"{name} is {found['state']}" if found and found["state"] != "active" else "" if found else f"{name} is not installed"
