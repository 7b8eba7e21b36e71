#!/usr/bin/env python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Continuously probe who answers for an address: for how long two machines did, for how long none.

It sends ARP probes as in RFC 5227, with the sender 0.0.0.0, so that no ARP cache is changed, and counts
only answers to its own probes: an announcement for another host is not an answer. Its own machine
must not have the address.

    address_watch.py INTERFACE ADDRESS    until SIGTERM or SIGINT, then one JSON document on standard output

In a test::

    with AddressWatch("rflab0", "10.213.0.2") as watch:
        ...
    assert watch.report()["seconds_two"] == 0
"""

from __future__ import annotations

import json
import pathlib
import select
import signal
import socket
import struct
import sys
import threading
import time
import typing as t

ETH_P_ARP = 0x0806
#: Seconds from one question to the next; what comes in between answers the last one.
PERIOD = 0.2


class Round(t.NamedTuple):
    """One probe: its time in Unix seconds, and the MACs that answered."""

    at: float
    macs: tuple[str, ...]


def question(mac: bytes, address: str) -> bytes:
    """Return an ARP probe for an address."""
    header = b"\xff" * 6 + mac + struct.pack("!H", ETH_P_ARP)
    return header + struct.pack("!HHBBH", 1, 0x0800, 6, 4, 1) + mac + b"\0" * 4 + b"\0" * 6 + socket.inet_aton(address)


def answerer(frame: bytes, mac: bytes, address: str) -> str | None:
    """Return the MAC of an answer to our probe, ``None`` for any other frame."""
    if len(frame) < 42 or frame[:6] != mac or frame[12:14] != b"\x08\x06" or frame[20:22] != b"\0\x02":
        return None
    if frame[28:32] != socket.inet_aton(address):
        return None
    return ":".join(f"{byte:02x}" for byte in frame[22:28])


def summary(rounds: t.Sequence[Round], period: float = PERIOD) -> dict[str, t.Any]:
    """Return the seconds with two or more answers, with none, and the periods: MACs, start and end."""
    stretches: list[dict[str, t.Any]] = []
    for one in rounds:
        if not stretches or stretches[-1]["macs"] != list(one.macs):
            stretches.append({"from": round(one.at, 2), "seconds": 0.0, "macs": list(one.macs)})
        stretches[-1]["seconds"] = round(one.at + period - stretches[-1]["from"], 2)
    silent = [each["seconds"] for each in stretches if not each["macs"]]
    return {
        "seconds": round(len(rounds) * period, 2),
        "seconds_two": round(sum(each["seconds"] for each in stretches if len(each["macs"]) > 1), 2),
        "seconds_none": round(sum(silent), 2),
        "longest_none": max(silent, default=0.0),
        "stretches": stretches,
    }


class AddressWatch:
    """A thread that sends probes; use as a context manager."""

    def __init__(self, interface: str, address: str, period: float = PERIOD) -> None:
        self.interface = interface
        self.address = address
        self.period = period
        self.rounds: list[Round] = []
        self.error: OSError | None = None
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._work, name="address-watch", daemon=True)

    def __enter__(self) -> AddressWatch:
        self._thread.start()
        return self

    def __exit__(self, *unused: object) -> None:
        self._end.set()
        self._thread.join()

    def report(self) -> dict[str, t.Any]:
        """Return the current summary.

        :raises AssertionError: nothing was asked, or asking failed: then silence proves nothing.
        """
        assert self.error is None, f"{self.interface}: {self.error}"
        assert self.rounds, "nothing was asked"
        return summary(self.rounds, self.period)

    def holder(self) -> tuple[str, ...]:
        """Return the MACs that answered the last probe."""
        return self.rounds[-1].macs if self.rounds else ()

    def _work(self) -> None:
        text = pathlib.Path(f"/sys/class/net/{self.interface}/address").read_text(encoding="ascii")
        mac = bytes.fromhex(text.strip().replace(":", ""))
        try:
            with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ARP)) as link:
                link.bind((self.interface, ETH_P_ARP))
                while not self._end.is_set():
                    self.rounds.append(self._ask(link, mac))
        except OSError as error:
            self.error = error

    def _ask(self, link: socket.socket, mac: bytes) -> Round:
        began, until = time.time(), time.monotonic() + self.period
        link.send(question(mac, self.address))
        found: set[str] = set()
        while (left := until - time.monotonic()) > 0:
            if select.select([link], [], [], left)[0]:
                who = answerer(link.recv(256), mac, self.address)
                found |= {who} if who else set()
        return Round(began, tuple(sorted(found)))


def main(argv: t.Sequence[str]) -> int:
    """Entry point."""
    if len(argv) != 2:
        sys.stderr.write("usage: address_watch.py INTERFACE ADDRESS\n")
        return 2
    end = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *unused: end.set())
    with AddressWatch(*argv) as watch:
        end.wait()
    sys.stdout.write(json.dumps(watch.report(), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
