# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""ARP probes and announcements (RFC 5227) on raw sockets."""

from __future__ import annotations

import pathlib
import select
import socket
import struct
import time

_ETH_P_ARP = 0x0806
_BROADCAST = b"\xff" * 6


def mac_of(interface: str) -> bytes:
    """The MAC of a local interface."""
    text = pathlib.Path(f"/sys/class/net/{interface}/address").read_text(encoding="ascii").strip()
    return bytes.fromhex(text.replace(":", ""))


def _packet(operation: int, sender_mac: bytes, sender_ip: str, target_mac: bytes, target_ip: str, ethernet_source: bytes) -> bytes:
    header = _BROADCAST + ethernet_source + struct.pack("!H", _ETH_P_ARP)
    body = struct.pack("!HHBBH", 1, 0x0800, 6, 4, operation)
    return header + body + sender_mac + socket.inet_aton(sender_ip) + target_mac + socket.inet_aton(target_ip)


def probe(interface: str, address: str, attempts: int = 3, wait: float = 0.3) -> str | None:
    """Return the MAC that answers for an address on an interface's network, ``None`` without an answer.

    The sender address is 0.0.0.0, so that no neighbour changes its ARP cache.
    """
    mine = mac_of(interface)
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ARP)) as link:
        link.bind((interface, _ETH_P_ARP))
        for _attempt in range(attempts):
            link.send(_packet(1, mine, "0.0.0.0", b"\0" * 6, address, mine))
            until = time.monotonic() + wait
            while time.monotonic() < until:
                ready, _write, _error = select.select([link], [], [], max(0.0, until - time.monotonic()))
                if not ready:
                    break
                frame = link.recv(128)
                sender = frame[22:28]
                if frame[12:14] == b"\x08\x06" and frame[28:32] == socket.inet_aton(address) and sender != mine:
                    return ":".join(f"{byte:02x}" for byte in sender)
    return None


def announce(interface: str, address: str, mac: str | None = None) -> None:
    """Announce that ``address`` is at ``mac`` (default: the interface's own MAC).

    Sent as ARP request and as ARP reply, because some caches accept only one of them.
    The Ethernet source is always the interface's own MAC, so that no switch learns a wrong port.
    """
    mine = mac_of(interface)
    owner = bytes.fromhex(mac.replace(":", "")) if mac else mine
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ARP)) as link:
        link.bind((interface, _ETH_P_ARP))
        for operation, target in ((1, b"\0" * 6), (2, _BROADCAST)):
            link.send(_packet(operation, owner, address, target, address, mine))
