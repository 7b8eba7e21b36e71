# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""As much of MariaDB's client protocol as a handful of plain statements needs, so that a server needs no client program."""

from __future__ import annotations

import contextlib
import hashlib
import socket
import struct

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError

_QUERY = 3
_OK, _EOF, _ERROR = 0x00, 0xFE, 0xFF
# long password, with database, protocol 4.1, transactions, secure connection, plugin authentication
_ABILITIES = 0x1 | 0x8 | 0x200 | 0x2000 | 0x8000 | 0x80000
_UTF8 = 45
_NATIVE = b"mysql_native_password"


class SqlClient:
    """One connection, over the network, with a password.

    :arg timeout: seconds for each answer.
    :raises BackendError: nobody answers, or lets us in.
    """

    def __init__(self, address: str, port: int, user: str, password: str, database: str, timeout: float = 2) -> None:
        try:
            self._stream = socket.create_connection((address, port), timeout=timeout)
        except OSError as error:
            raise BackendError(f"nobody answers at {address} port {port}: {error}.") from error
        self._number = 0
        try:
            self._log_in(user, password, database)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Hang up."""
        with contextlib.suppress(OSError):
            self._stream.close()

    def query(self, statement: str) -> list[list[str | None]]:
        """The rows of one statement; none for one that returns nothing.

        :raises BackendError: the server refuses, or is gone. Whether it did what was asked is then unknown.
        """
        self._number = 0
        self._send(bytes([_QUERY]) + statement.encode("utf-8"))
        head = self._answer()
        if head[0] == _OK:
            return []
        while not _is_end(self._answer()):  # the columns' descriptions
            pass
        rows = []
        while not _is_end(packet := self._answer()):
            rows.append(_fields(packet))
        return rows

    def _log_in(self, user: str, password: str, database: str) -> None:
        greeting = self._answer()
        if greeting[0] != 10:
            raise BackendError(f"the server speaks protocol {greeting[0]}, not 10.")
        at = greeting.index(b"\0", 1) + 5
        scramble = greeting[at : at + 8] + greeting[at + 27 : at + 39]
        token = native_token(password, scramble)
        self._send(
            struct.pack("<IIB23x", _ABILITIES, 1 << 24, _UTF8)
            + user.encode("utf-8") + b"\0" + bytes([len(token)]) + token + database.encode("utf-8") + b"\0" + _NATIVE + b"\0"
        )  # fmt: skip
        answer = self._answer()
        if answer[0] == _EOF:  # it wants another way to prove the password; only one is known here
            name, _nul, rest = answer[1:].partition(b"\0")
            if name != _NATIVE:
                raise BackendError(f"the server asks for {name.decode('ascii', 'replace')}, not for {_NATIVE.decode('ascii')}.")
            self._send(native_token(password, rest[:20]))
            self._answer()

    def _send(self, payload: bytes) -> None:
        try:
            self._stream.sendall(struct.pack("<I", len(payload))[:3] + bytes([self._number & 0xFF]) + payload)
        except OSError as error:
            raise BackendError(f"the server is gone: {error}.") from error

    def _answer(self) -> bytes:
        head = self._read(4)
        self._number = head[3] + 1
        packet = self._read(int.from_bytes(head[:3], "little"))
        if not packet:
            raise BackendError("the server sent an empty packet.")
        if packet[0] == _ERROR:
            raise BackendError(f"the server refuses: {packet[9:].decode('utf-8', 'replace')}.")
        return packet

    def _read(self, length: int) -> bytes:
        parts = b""
        while len(parts) < length:
            try:
                part = self._stream.recv(length - len(parts))
            except OSError as error:
                raise BackendError(f"the server is gone: {error}.") from error
            if not part:
                raise BackendError("the server hung up.")
            parts += part
        return parts


def native_token(password: str, scramble: bytes) -> bytes:
    """The proof of a password that ``mysql_native_password`` asks for."""
    if not password:
        return b""
    once = hashlib.sha1(password.encode("utf-8")).digest()
    mixed = hashlib.sha1(scramble + hashlib.sha1(once).digest()).digest()
    return bytes(left ^ right for left, right in zip(once, mixed))


def _is_end(packet: bytes) -> bool:
    return packet[0] == _EOF and len(packet) < 9


def _fields(packet: bytes) -> list[str | None]:
    found: list[str | None] = []
    at = 0
    while at < len(packet):
        first = packet[at]
        at += 1
        if first == 0xFB:
            found.append(None)
            continue
        width = {0xFC: 2, 0xFD: 3, 0xFE: 8}.get(first, 0)
        length = int.from_bytes(packet[at : at + width], "little") if width else first
        at += width
        found.append(packet[at : at + length].decode("utf-8", "replace"))
        at += length
    return found
