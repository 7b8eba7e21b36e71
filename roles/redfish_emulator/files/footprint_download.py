# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Download a virtual medium to standard output: without privileges, from permitted addresses, within limits of time, size and memory.

A process of its own, because only that can be ended at any time. Standard input is JSON: ``url``, ``auth`` (user and password, or null), ``verify``,
``certificate`` (PEM of the authority, or null), ``sources`` (addresses and networks), ``seconds``, ``bytes``. The exit status is 1 for a request
that is refused, 2 for a server that fails; standard error is the reason.
"""

from __future__ import annotations

import base64
import http.client
import ipaddress
import json
import os
import resource
import signal
import socket
import ssl
import sys
import typing as t
import urllib.request as u

_UNPRIVILEGED = (65534, 65534, 65534)
_MEMORY = 1024**3
_SILENCE = 30
# the file system is also that of the host's own services
_LEFT_FREE = 1024**3
_PART = 1024**2
_SYSTEM_RESOLVER = socket.getaddrinfo


def permitted(address: str, sources: t.Sequence[str]) -> bool:
    """Whether an address is one of the sources; loopback, link-local and this host's own ones only if they are listed as single addresses."""
    found = ipaddress.ip_address(address)
    found = getattr(found, "ipv4_mapped", None) or found
    networks = [network for network in (ipaddress.ip_network(source, strict=False) for source in sources) if found in network]
    special = found.is_loopback or found.is_link_local or found.is_unspecified or found.is_multicast
    return any(network.num_addresses == 1 for network in networks) or bool(networks) and not special and not _own(str(found))


def _own(address: str) -> bool:
    """Whether the kernel uses an address as the source for itself; one that cannot be reached is not known to be another host's."""
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((address, 9))
        except OSError:
            return True
        return bool(probe.getsockname()[0] == address)


def confine(request: t.Mapping[str, t.Any]) -> None:
    """Limit this process, and let it connect to permitted addresses only, after redirects as well."""
    signal.alarm(request["seconds"])
    resource.setrlimit(resource.RLIMIT_FSIZE, (request["bytes"],) * 2)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY,) * 2)
    os.setgroups([])
    os.setresgid(*_UNPRIVILEGED)
    os.setresuid(*_UNPRIVILEGED)

    def resolve(host: t.Any, *values: t.Any, **named: t.Any) -> list[t.Any]:
        found = [entry for entry in _SYSTEM_RESOLVER(host, *values, **named) if permitted(str(entry[4][0]), request["sources"])]
        if not found:
            raise ValueError(f"{host} is not in redfish_emulator_media_sources")
        return found

    socket.getaddrinfo = resolve


def download(request: t.Mapping[str, t.Any]) -> None:
    """Copy the answer to standard output."""
    context = ssl.create_default_context(cadata=request["certificate"])
    if not request["verify"]:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    # neither proxies of the environment nor files
    opener = u.OpenerDirector()
    for kind in (u.HTTPHandler, u.HTTPRedirectHandler, u.HTTPErrorProcessor, u.HTTPDefaultErrorHandler, u.UnknownHandler):
        opener.add_handler(kind())
    opener.add_handler(u.HTTPSHandler(context=context))
    asked = u.Request(request["url"])
    if request["auth"]:
        asked.add_unredirected_header("Authorization", "Basic " + base64.b64encode(":".join(request["auth"]).encode()).decode())
    with opener.open(asked, timeout=_SILENCE) as answer, os.fdopen(1, "wb", closefd=False) as target:
        store(answer, target)
        if answer.length:
            raise http.client.IncompleteRead(b"", answer.length)


def store(answer: t.Any, target: t.BinaryIO) -> None:
    """Copy a stream to a file, as long as its file system has enough free space for others.

    :raises OSError: it has not.
    """
    while part := answer.read(_PART):
        space = os.fstatvfs(target.fileno())
        if space.f_bavail * space.f_frsize < _LEFT_FREE:
            raise OSError("the virt host has too little free space for it")
        target.write(part)


if __name__ == "__main__":
    given = json.load(sys.stdin)
    confine(given)
    try:
        download(given)
    except (ValueError, OSError, http.client.HTTPException, MemoryError) as failed:
        # an HTTPError is an OSError; the kernel ends the write that exceeds the size
        wrong = isinstance(failed, ValueError) or 400 <= getattr(failed, "code", 0) < 500 or os.fstat(1).st_size >= given["bytes"]
        print(f"it has more than {given['bytes']} bytes" if os.fstat(1).st_size >= given["bytes"] else failed or type(failed).__name__, file=sys.stderr)
        sys.exit(1 if wrong else 2)
