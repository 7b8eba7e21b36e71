# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Canaries: secrets that are recognised wherever they are disclosed, also encoded or compressed."""

from __future__ import annotations

import base64
import bz2
import contextlib
import gzip
import io
import lzma
import os
import pathlib
import re
import secrets
import socket
import stat
import tarfile
import threading
import typing as t
import zipfile

_RUN = secrets.token_hex(3)
_DEPTH = 4
#: Larger files are disks of guests, which hold what their owners put there.
_LARGEST = 64 * 1024 * 1024


class Finding(t.NamedTuple):
    """A disclosed canary: its name and place."""

    name: str
    place: str


class Canaries:
    """All canaries of one test; each is named after the input it was given to."""

    def __init__(self) -> None:
        self._by_name: dict[str, str] = {}

    def __call__(self, name: str, length: int = 0) -> str:
        """Return the canary of an input, always the same one.

        :arg length: at most so many characters, where the input takes no more.
        """
        if name not in self._by_name:
            # letters and digits alone: nothing writes it in another way; the number keeps short ones apart
            plain = re.sub(r"[^A-Za-z0-9]", "", name)
            text = f"cNry{len(self._by_name):02d}{secrets.token_hex(2)}{_RUN}{plain}"
            self._by_name[name] = text[: length or len(text)]
        return self._by_name[name]

    def in_bytes(self, data: bytes, place: str, depth: int = _DEPTH) -> list[Finding]:
        """Return the canaries in data, in compressed parts and in base64 text."""
        found = [Finding(name, place) for name, text in self._by_name.items() if any(form in data for form in _forms(text))]
        if depth:
            for inner, content in _unpacked(data):
                found += self.in_bytes(content, f"{place} > {inner}", depth - 1)
        return found

    def in_tree(self, folder: str | os.PathLike[str], readable: bool = False) -> list[Finding]:
        """Return the canaries in the names and contents of all files below a folder.

        :arg readable: only files that users other than the owner can read; the others may contain secrets.
        """
        found = []
        for place, folders, names in os.walk(folder):
            if readable:
                folders[:] = [each for each in folders if _mode(os.path.join(place, each)) & 0o005]
            for name in (*names, *folders):
                path = pathlib.Path(place, name)
                found += self.in_bytes(os.fsencode(name), f"name of {path}", 0)
                if name in names and path.is_file() and not path.is_symlink() and path.stat().st_size <= _LARGEST:
                    if not readable or _mode(path) & 0o004:
                        with contextlib.suppress(OSError):
                            found += self.in_bytes(path.read_bytes(), str(path))
        return found

    def in_text(self, text: str, place: str) -> list[Finding]:
        """Return the canaries in the output of a program."""
        return self.in_bytes(text.encode("utf-8", errors="surrogateescape"), place)


def _forms(text: str) -> t.Iterator[bytes]:
    raw = text.encode()
    yield raw
    yield raw.hex().encode()
    # wherever it begins in what was encoded: the characters that depend on its neighbours are left out
    for offset in range(3):
        encoded = base64.b64encode(b"x" * offset + raw)
        begin = (offset * 8 + 5) // 6
        yield encoded[begin : len(encoded) - 4]


def _unpacked(data: bytes) -> t.Iterator[tuple[str, bytes]]:
    unpack = {b"\x1f\x8b": gzip.decompress, b"BZh": bz2.decompress, b"\xfd7zXZ": lzma.decompress}
    for magic, function in unpack.items():
        if data.startswith(magic):
            with contextlib.suppress(OSError, EOFError, ValueError, lzma.LZMAError):
                yield function.__name__, function(data)
    if data.startswith(b"PK\x03\x04"):
        with contextlib.suppress(zipfile.BadZipFile, RuntimeError, ValueError), zipfile.ZipFile(io.BytesIO(data)) as archive:
            for name in archive.namelist():
                yield name, archive.read(name)
    if data[257:262] == b"ustar":
        with contextlib.suppress(tarfile.TarError), tarfile.open(fileobj=io.BytesIO(data)) as archive:
            for member in archive:
                content = archive.extractfile(member) if member.isfile() else None
                if content is not None:
                    yield member.name, content.read()
    # Ansible's modules travel as an archive inside of a program
    for packed in re.findall(rb"[A-Za-z0-9+/]{400,}={0,2}", data):
        with contextlib.suppress(ValueError):
            yield "base64", base64.b64decode(packed, validate=True)


def _mode(path: str | os.PathLike[str]) -> int:
    try:
        return stat.S_IMODE(os.stat(path).st_mode)
    except OSError:
        return 0


class CommandLines:
    """Watches the command lines and environments of all processes while a test runs; a context manager."""

    def __init__(self, canaries: Canaries) -> None:
        self._canaries = canaries
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.found: set[Finding] = set()
        self.looks = 0

    def __enter__(self) -> CommandLines:
        self._thread.start()
        return self

    def __exit__(self, *unused: object) -> None:
        self._end.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._end.wait(0.05):
            self.looks += 1
            for process in os.listdir("/proc"):
                if process.isdigit():
                    with contextlib.suppress(OSError):
                        data = pathlib.Path("/proc", process, "cmdline").read_bytes()
                        self.found.update(self._canaries.in_bytes(data, "command line " + data[:60].decode(errors="replace"), 0))


class Syslog:
    """Collects messages of programs to the system log from a socket of the test; a context manager."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        path.chmod(0o666)
        self._socket.settimeout(0.1)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self.lines: list[str] = []

    def __enter__(self) -> Syslog:
        self._thread.start()
        return self

    def __exit__(self, *unused: object) -> None:
        self._end.set()
        self._thread.join()
        self._socket.close()

    def _read(self) -> None:
        while True:
            try:
                self.lines.append(self._socket.recv(1 << 20).decode("utf-8", errors="surrogateescape"))
            except socket.timeout:
                if self._end.is_set():
                    return
