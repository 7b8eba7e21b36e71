# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read and control a controller's units, addresses and client ports."""

from __future__ import annotations

import json
import socket

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run


def addresses() -> list[str]:
    """Return the IPv4 addresses of this host."""
    links = json.loads(run(["ip", "-json", "-4", "address", "show"], timeout=30).stdout or "[]")
    return [info["local"] for link in links for info in link.get("addr_info") or () if info.get("local")]


def database_greets(address: str, port: int, timeout: float = 3) -> bool:
    """Whether a database answers: it sends a greeting, while a load balancer without a server closes the connection."""
    try:
        with socket.create_connection((address, port), timeout=timeout) as stream:
            stream.settimeout(timeout)
            # packet length and number, then the protocol version, which is 10; 255 is an error
            head = stream.recv(5)
            return len(head) == 5 and head[4] == 10
    except OSError:
        return False


def touch(address: str, port: int, timeout: float = 3) -> bool:
    """Connect as a client and disconnect; returns whether a server answered."""
    try:
        with socket.create_connection((address, port), timeout=timeout) as stream:
            stream.settimeout(0.3)
            try:
                # closed: the load balancer has no server; data or a timeout: it has selected one
                return stream.recv(1) != b""
            except (TimeoutError, socket.timeout):  # the same from Python 3.10 on
                return True
    except OSError:
        return False


def restart(unit: str) -> None:
    """Restart a unit and wait for it."""
    run(["systemctl", "restart", "--", unit], timeout=120, hint=f"Check `journalctl -u {unit}` on the host.")
