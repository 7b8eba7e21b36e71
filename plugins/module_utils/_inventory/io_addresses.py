# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read addresses from lease files, libvirt and the neighbour table of the control node."""

from __future__ import annotations

import contextlib
import pathlib
import socket
import time
import typing as t
import urllib.parse

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, missing_libraries
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_guest_addresses import AGENT, reported

try:
    import libvirt
except ImportError:
    libvirt = None

# Far above the lease file of a whole site; an endless response must not fill the memory.
_MOST_BYTES = 4 * 1024 * 1024

# Kea starts a new lease file at each cleanup, by default every hour. Earlier leases are in the result of the last one and in the file that is being
# cleaned up; or, before this is removed, in the new result.
_KEA_HEADER = "address,hwaddr,"
_KEA_EARLIER, _KEA_COMPLETED = (".2", ".1"), ".completed"

# The discard port: nothing answers there, but the kernel has to resolve the MAC address first.
_DISCARD = 9


def read_leases(location: str, timeout: float) -> str:
    """Return the text of a lease file.

    :arg location: a path, or an http(s) URL that serves the file.
    """
    try:
        if urllib.parse.urlsplit(location).scheme in ("http", "https"):
            # takes a third of the time of an inventory without leases
            from ansible.module_utils.urls import open_url

            # the admin network is reached directly, not through a proxy that the control node uses for the internet
            with open_url(location, timeout=timeout, use_proxy=False) as answer:
                return answer.read(_MOST_BYTES).decode("utf-8", "replace")
        path = pathlib.Path(location).expanduser()
        text = path.read_text(encoding="utf-8", errors="replace")
        return f"{_earlier(str(path))}{text}" if text.startswith(_KEA_HEADER) else text
    except Exception as error:
        # open_url raises a dozen kinds of exceptions; all of them mean that the file cannot be read
        raise BackendError(f"cannot read the leases at {location}: {error}") from error


def _earlier(path: str) -> str:
    """Return the leases from before the last cleanup of a lease file of Kea, the oldest first; files that are missing or unreadable are left out."""
    texts = []
    for ending in (_KEA_COMPLETED,) if pathlib.Path(f"{path}{_KEA_COMPLETED}").exists() else _KEA_EARLIER:
        with contextlib.suppress(OSError):
            texts.append(pathlib.Path(f"{path}{ending}").read_text(encoding="utf-8", errors="replace"))
    return "".join(f"{text.rstrip()}\n" for text in texts if text.startswith(_KEA_HEADER))


def neighbours() -> str:
    """Return the neighbour table of the control node as ``ip -json`` prints it."""
    return run(["ip", "-json", "-4", "neigh", "show"], timeout=10).stdout


def sweep(addresses: t.Iterable[str], wait: float = 1.5) -> None:
    """Send one empty datagram to each address and give the kernel time to resolve them."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        for number, address in enumerate(addresses):
            try:
                sender.sendto(b"", (address, _DISCARD))
            except OSError:
                # no route, a full queue or an unresolved neighbour: the table will not contain it
                pass
            if number % 64 == 63:
                time.sleep(0.05)
    time.sleep(wait)


def libvirt_available() -> bool:
    """Whether Python's libvirt binding is installed here."""
    return libvirt is not None


def probe(uri: str, timeout: float) -> None:
    """Check that the host of a libvirt URI accepts connections; libvirt itself waits minutes for a host that is down."""
    try:
        parts = urllib.parse.urlsplit(uri)
        given = parts.port
    except ValueError as error:
        raise BackendError(f"{uri} is not a valid URI: {error}", "libvirt_uri") from error
    if not parts.hostname:
        return
    transport = parts.scheme.rpartition("+")[2]
    port = given or {"ssh": 22, "libssh": 22, "libssh2": 22, "tcp": 16509}.get(transport, 16514)
    try:
        socket.create_connection((parts.hostname, port), timeout).close()
    except OSError as error:
        raise BackendError(f"{parts.hostname} does not answer on port {port}: {error}") from error


def domain_addresses(uri: str, uuids: t.Sequence[str], source: str, timeout: float) -> list[tuple[str, str]]:
    """Return the addresses of domains that libvirt reports.

    :arg source: ``lease``, ``agent`` or ``arp``.
    :returns: pairs of MAC and IPv4 address; domains that are missing, stopped or without an address are left out.
    """
    if libvirt is None:
        raise missing_libraries("libvirt")
    probe(uri, timeout)
    # without a handler libvirt prints every error to stderr, also expected ones
    libvirt.registerErrorHandler(lambda _context, _error: None, None)
    try:
        connection = libvirt.openReadOnly(uri) if source != AGENT else libvirt.open(uri)
    except libvirt.libvirtError as error:
        raise BackendError(f"cannot connect to libvirt at {uri}: {error}") from error
    try:
        found = [pair for uuid in uuids for pair in reported(connection, uuid, source) or ()]
    finally:
        connection.close()
    return [(mac, address) for mac, address in found if ":" not in address]
