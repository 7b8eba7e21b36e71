# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""List the listeners and connections of this host and probe their protocol."""

from __future__ import annotations

import contextlib
import http.client
import json
import math
import os
import pathlib
import re
import socket
import ssl
import struct
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import CommandError

_TABLES = ("tcp", "tcp6")
_LISTEN, _ESTABLISHED = "0A", "01"
_MOST_BYTES = 65536
_SHORTEST = re.compile(r"\bminrtt:([0-9.]+)")


def listeners(proc: pathlib.Path = pathlib.Path("/proc/net")) -> list[tuple[str, int]]:
    """Return address and port of every TCP listener of this host; ``0.0.0.0`` and ``::`` listen on all addresses."""
    return sorted({local for state, local, unused, inode in _sockets(proc) if state == _LISTEN})


def listeners_of(pid: int, proc: pathlib.Path = pathlib.Path("/proc")) -> list[tuple[str, int]]:
    """Return address and port of every TCP listener of a process; empty if it has ended, or belongs to another user and this one is not root."""
    own = set()
    with contextlib.suppress(OSError):
        for path in (proc / str(pid) / "fd").iterdir():
            # a file may be closed meanwhile
            with contextlib.suppress(OSError):
                own.add(os.readlink(path))
    return sorted({local for state, local, unused, inode in _sockets(proc / "net") if state == _LISTEN and f"socket:[{inode}]" in own})


def connections(proc: pathlib.Path = pathlib.Path("/proc/net")) -> list[tuple[tuple[str, int], tuple[str, int]]]:
    """Return local and remote address and port of every established TCP connection of this host."""
    return sorted({(local, remote) for state, local, remote, unused in _sockets(proc) if state == _ESTABLISHED})


def round_trips(port: int, timeout: float = 20) -> dict[str, float]:
    """Return remote address → round trip in seconds of the established connections from or to a port, the shortest one that the kernel has seen lately.

    Later ones contain the delay of a busy machine. Empty if it cannot be measured.
    """
    found: dict[str, float] = {}
    with contextlib.suppress(CommandError):
        for line in run(["ss", "-HOtin", "state", "established", f"( sport = :{port} or dport = :{port} )"], timeout=timeout).stdout.splitlines():
            shortest, words = _SHORTEST.search(line), line.split()
            if shortest and len(words) > 3:
                remote = words[3].rpartition(":")[0].strip("[]").removeprefix("::ffff:")
                found[remote] = min(float(shortest[1]) / 1000, found.get(remote, math.inf))
    return found


def _sockets(proc: pathlib.Path) -> t.Iterator[tuple[str, tuple[str, int], tuple[str, int], str]]:
    for table in _TABLES:
        try:
            lines = (proc / table).read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue  # no IPv6 on this host
        for line in lines:
            words = line.split()
            if len(words) > 3:
                ends = [word.partition(":") for word in words[1:3]]
                local, remote = ((_address(address), int(port, 16)) for address, unused, port in ends)
                yield words[3], local, remote, words[9] if len(words) > 9 else ""


def _address(text: str) -> str:
    """Decode an address of the kernel, which writes 32 bit words in the byte order of the processor."""
    words = [int(text[place : place + 8], 16) for place in range(0, len(text), 8)]
    packed = struct.pack(f"={len(words)}I", *words)
    return socket.inet_ntop(socket.AF_INET if len(words) == 1 else socket.AF_INET6, packed)


def reachable_at(port: int, found: t.Sequence[tuple[str, int]], avoid: t.Container[str] = ()) -> str | None:
    """Return an address at which a service of this host listens on a port.

    :arg avoid: addresses to skip, such as virtual ones, at which another service may listen.
    """
    addresses = [address for address, listens in found if listens == port and address not in avoid]
    for address in addresses:
        if address in ("0.0.0.0", "::"):
            return "127.0.0.1"
    return addresses[0] if addresses else None


def memcached_version(address: str, port: int, timeout: float = 5) -> str | None:
    """Return the version that memcached reports, ``None`` if it does not answer."""
    answer = _converse(address, port, b"version\r\n", timeout)
    return answer.split()[1] if answer.startswith("VERSION ") and len(answer.split()) > 1 else None


def _converse(address: str, port: int, request: bytes, timeout: float) -> str:
    """Return the answer to a request, empty without one."""
    try:
        with socket.create_connection((address, port), timeout=timeout) as stream:
            stream.sendall(request)
            return stream.recv(_MOST_BYTES).decode("utf-8", "replace").strip()
    except OSError:
        return ""


def http_json(address: str, port: int, path: str, tls: bool = False, timeout: float = 5) -> t.Any:
    """Return the JSON answer of an HTTP service, ``None`` without one. Certificates are not verified."""
    connection: http.client.HTTPConnection
    if tls:
        connection = http.client.HTTPSConnection(address, port, timeout=timeout, context=_any_certificate())
    else:
        connection = http.client.HTTPConnection(address, port, timeout=timeout)
    try:
        connection.request("GET", path, headers={"Accept": "application/json"})
        answer = connection.getresponse()
        text = answer.read(_MOST_BYTES)
        return json.loads(text) if answer.status in (200, 300) else None
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()


def http_problem(address: str, port: int, path: str, timeout: float = 5) -> str:
    """Return why an HTTP service is not healthy: the first line of an answer other than 200, or the error; empty if it is healthy."""
    connection = http.client.HTTPConnection(address, port, timeout=timeout)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        text = answer.read(_MOST_BYTES).decode("utf-8", "replace").strip()
        return "" if answer.status == 200 else f"{answer.status} {text.splitlines()[0][:200] if text else answer.reason}"
    except (OSError, http.client.HTTPException) as error:
        return f"does not answer: {error}"
    finally:
        connection.close()


def drained(units: t.Iterable[str], folder: str = "/run") -> list[str]:
    """Return the units of APIs that answer load balancers with 404, because the file of a drain is there."""
    return [unit for unit in units if os.path.exists(f"{folder}/footprint-{unit.rpartition('.')[0]}.drain")]


def _any_certificate() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def scheme_of(address: str, port: int, timeout: float = 2) -> str | None:
    """Return the protocol of a listener: ``https``, ``http`` or ``tcp``; ``None`` if the connection is refused.

    Do not use it on a database, which counts aborted connections and blocks hosts with too many of them.
    """
    try:
        socket.create_connection((address, port), timeout=timeout).close()
    except OSError:
        return None
    return _spoken(address, port, timeout)


def _spoken(address: str, port: int, timeout: float) -> str:
    try:
        with socket.create_connection((address, port), timeout=timeout) as stream, _any_certificate().wrap_socket(stream):
            return "https"
    except (OSError, ValueError):
        return "http" if _converse(address, port, b"HEAD / HTTP/1.0\r\n\r\n", timeout).startswith("HTTP/") else "tcp"
