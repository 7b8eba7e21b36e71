# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A slow or lossy link of a machine of the lab, in user space: this kernel may have no netem.

The interface of the machine is taken out of the bridge. A process copies its frames to a port of the bridge and back, later. ``python slow_link.py
NIC PORT SECONDS JITTER LOSS`` is this process; :class:`SlowLink` starts it.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import random
import select
import socket
import subprocess
import sys
import time
import types

_PACKET, _VNET_HEADER, _IGNORE_OUTGOING = 263, 15, 23
_ALL = 0x0003
_LARGEST = 1 << 17


class SlowLink:
    """Delays all frames of one machine in both directions, as a context manager.

    :arg nic: interface of the machine on this host.
    :arg round_trip: seconds that a frame and its answer take in addition.
    :arg jitter: up to this many seconds more in each direction, random. The order of frames stays.
    :arg loss: share of frames that are lost.
    """

    def __init__(self, nic: str, bridge: str, round_trip: float, jitter: float = 0, loss: float = 0) -> None:
        self.nic, self.bridge, self.numbers = nic, bridge, (round_trip / 2, jitter, loss)
        self.port, self.inner = f"{nic[:12]}-sb", f"{nic[:12]}-si"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> SlowLink:
        for argv in (
            ["ip", "link", "add", self.port, "type", "veth", "peer", "name", self.inner],
            ["ip", "link", "set", self.port, "master", self.bridge, "up"],
            ["ip", "link", "set", self.inner, "up"],
            ["ip", "link", "set", self.nic, "nomaster"],
        ):
            subprocess.run(argv, check=True)
        argv = [sys.executable, __file__, self.nic, self.inner, *(str(number) for number in self.numbers)]
        self._process = subprocess.Popen(argv)  # pylint: disable=consider-using-with
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None) -> None:
        if self._process:
            self._process.kill()
            self._process.wait()
        subprocess.run(["ip", "link", "set", self.nic, "master", self.bridge], check=False)
        subprocess.run(["ip", "link", "delete", self.port], check=False)


def _socket(nic: str) -> socket.socket:
    ear = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL))
    # frames that the kernel has not divided and whose checksum it has not filled in yet keep their header of offloads
    ear.setsockopt(_PACKET, _VNET_HEADER, 1)
    ear.setsockopt(_PACKET, _IGNORE_OUTGOING, 1)
    ear.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 25)
    ear.bind((nic, 0))
    ear.setblocking(False)
    return ear


def relay(nic: str, port: str, delay: float, jitter: float, loss: float) -> None:
    """Copy frames between two interfaces, later, without end."""
    ears = [_socket(nic), _socket(port)]
    other = {ears[0]: ears[1], ears[1]: ears[0]}
    last = dict.fromkeys(ears, 0.0)
    numbers, waiting = itertools.count(), []
    while True:
        now = time.monotonic()
        while waiting and waiting[0][0] <= now:
            _due, _number, target, frame = heapq.heappop(waiting)
            with contextlib.suppress(OSError):
                target.send(frame)
        pause = max(0.0, waiting[0][0] - time.monotonic()) if waiting else 1.0
        for ear in select.select(ears, [], [], pause)[0]:
            with contextlib.suppress(BlockingIOError):
                for _unused in range(200):
                    frame = ear.recv(_LARGEST)
                    if random.random() >= loss:
                        last[ear] = max(last[ear], time.monotonic() + delay + random.random() * jitter)
                        heapq.heappush(waiting, (last[ear], next(numbers), other[ear], frame))


if __name__ == "__main__":
    relay(sys.argv[1], sys.argv[2], *(float(number) for number in sys.argv[3:6]))
