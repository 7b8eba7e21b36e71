# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Capture of the traffic of a lab at its bridge."""

from __future__ import annotations

import collections
import select
import socket
import struct
import threading
import types
import typing as t

_ALL = 0x0003
_IPV4 = b"\x08\x00"
_TCP = 6
_LARGEST = 1 << 18


class Capture:
    """Captures all TCP traffic of a bridge's machines, as a context manager.

    :arg interfaces: the bridge's ports.
    :arg canary: text that must not be readable in the traffic.
    :ivar bytes: port → bytes of payload from and to it.
    :ivar seen: ports from or to which the canary was sent in plain text.
    """

    def __init__(self, interfaces: t.Sequence[str], canary: bytes) -> None:
        self.interfaces, self.canary = interfaces, canary
        self.bytes: t.Counter[int] = collections.Counter()
        self.seen: set[int] = set()
        self._tails: dict[tuple[int, bytes, bytes, int, int], bytes] = {}
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._sockets: list[socket.socket] = []

    def __enter__(self) -> Capture:
        for name in self.interfaces:
            ear = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL))
            ear.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 25)
            ear.bind((name, 0))
            self._sockets.append(ear)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None) -> None:
        self._end.set()
        self._thread.join(timeout=10)
        for ear in self._sockets:
            ear.close()

    def _listen(self) -> None:
        while not self._end.is_set():
            for ear in select.select(self._sockets, [], [], 0.2)[0]:
                self._hear(ear.fileno(), ear.recv(_LARGEST))

    def _hear(self, ear: int, frame: bytes) -> None:
        if frame[12:14] != _IPV4 or frame[23] != _TCP:
            return
        begin = 14 + (frame[14] & 0x0F) * 4
        source, target = struct.unpack_from("!HH", frame, begin)
        (length,) = struct.unpack_from("!H", frame, 16)
        payload = frame[begin + (frame[begin + 12] >> 4) * 4 : 14 + length if length else None]
        if not payload:
            return
        self.bytes.update({source: len(payload), target: len(payload)})
        # a canary may lie across two segments; a frame is heard at each port of the bridge it passes
        stream = (ear, frame[26:30], frame[30:34], source, target)
        text = self._tails.get(stream, b"") + payload
        self._tails[stream] = text[-len(self.canary) :]
        if self.canary in text:
            self.seen.update((source, target))
