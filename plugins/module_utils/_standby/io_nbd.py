# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Disks over NBD: libnbd as client, qemu-nbd as server of image files."""

from __future__ import annotations

import contextlib
import hashlib
import os
import pathlib
import subprocess
import tempfile
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_standby import CHUNK

try:
    import nbd

    NBD_ERROR: ImportError | None = None
except ImportError as error:
    nbd = None
    NBD_ERROR = error

ALLOCATION = "base:allocation"
_HINT = "Install python3-libnbd on the host."
#: Bytes that are read or written at once.
BLOCK = 16 * CHUNK
_ASKED = 1 << 30
_SERVER_START = 15.0
_SERVER_END = 60
_ZERO_STATE = 2


class NbdDisk:
    """A connection to one exported disk. Use as a context manager."""

    def __init__(self, bitmap: str | None = None) -> None:
        if NBD_ERROR is not None:
            raise BackendError("libnbd's Python bindings are not installed.", hint=_HINT) from NBD_ERROR
        self._handle = nbd.NBD()
        self._bitmap = bitmap
        self._errors: t.Callable[[], str] | None = None
        with self._translated("cannot prepare the connection"):
            self._handle.add_meta_context(ALLOCATION)
            if bitmap:
                self._handle.add_meta_context(bitmap)

    def connect_socket(self, path: str, export: str = "") -> NbdDisk:
        """Connect to a UNIX socket of this host."""
        with self._translated(f"cannot connect to {path}"):
            self._handle.set_export_name(export)
            self._handle.connect_unix(path)
        return self._checked()

    def connect_command(self, argv: t.Sequence[str], errors: t.Callable[[], str] | None = None) -> NbdDisk:
        """Connect to the standard input and output of a command."""
        self._errors = errors
        with self._translated("cannot reach the disk on the other server"):
            self._handle.connect_command(list(argv))
        return self._checked()

    def _checked(self) -> NbdDisk:
        if self._bitmap and not self._handle.can_meta_context(self._bitmap):
            raise BackendError(f"the export has no bitmap {self._bitmap}.")
        return self

    def __enter__(self) -> NbdDisk:
        return self

    def __exit__(self, *unused: object) -> None:
        with contextlib.suppress(nbd.Error):
            self._handle.shutdown()
        # libnbd closes the connection, and waits for the command, when nothing refers to the handle any more
        self._handle = None

    @contextlib.contextmanager
    def _translated(self, what: str) -> t.Iterator[None]:
        try:
            yield
        except nbd.Error as error:
            more = self._errors() if self._errors else ""
            raise BackendError(f"{what}: {more or error.string}.") from error

    @property
    def size(self) -> int:
        """Size in bytes."""
        with self._translated("cannot read the size"):
            return int(self._handle.get_size())

    def read(self, offset: int, length: int) -> bytes:
        """Read some bytes."""
        with self._translated("cannot read the disk"):
            return bytes(self._handle.pread(length, offset))

    def write(self, offset: int, content: bytes) -> None:
        """Write some bytes."""
        with self._translated("cannot write the disk"):
            self._handle.pwrite(content, offset)

    def zero(self, offset: int, length: int) -> None:
        """Write zeros."""
        with self._translated("cannot write the disk"):
            self._handle.zero(length, offset)

    def flush(self) -> None:
        """Make all writes durable."""
        with self._translated("cannot flush the disk"):
            self._handle.flush()

    def extents(self, context: str) -> list[tuple[int, int, int]]:
        """Return offset, length and state of all extents of a metadata context."""
        found: list[tuple[int, int, int]] = []
        offset, size = 0, self.size
        while offset < size:
            part: list[tuple[int, int]] = []

            with self._translated("cannot read the map of the disk"):
                self._handle.block_status(min(_ASKED, size - offset), offset, _collector(context, part))
            if not part:
                raise BackendError(f"the export has no map {context}.")
            for length, state in part:
                found.append((offset, min(length, size - offset), state))
                offset += length
        return found

    def zeros(self) -> list[tuple[int, int]]:
        """Return the extents that read as zeros."""
        return [(offset, length) for offset, length, state in self.extents(ALLOCATION) if state & _ZERO_STATE]

    def dirty(self) -> list[tuple[int, int]]:
        """Return the extents that the bitmap marks."""
        return [(offset, length) for offset, length, state in self.extents(self._bitmap or "") if state & 1]


def _collector(context: str, found: list[tuple[int, int]]) -> t.Callable[..., int]:
    """Return a function for libnbd that adds length and state of the extents of one context to a list."""

    def keep(name: str, unused_offset: int, entries: t.Sequence[int], unused_error: t.Any) -> int:
        if name == context:
            found.extend(zip(entries[0::2], entries[1::2]))
        return 0

    return keep


def digests_of(content: bytes) -> list[bytes]:
    """Return the digest of each chunk."""
    return [hashlib.sha256(content[at : at + CHUNK]).digest() for at in range(0, len(content), CHUNK)]


def _ended(process: subprocess.Popen[bytes]) -> bool:
    """End a qemu-nbd, which forgets a signal that comes just after it has made its socket; return whether it ended by itself."""
    for unused in range(_SERVER_END):
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=1)
            return True
    process.kill()
    process.wait()
    return False


@contextlib.contextmanager
def served(path: str, form: str, *, writable: bool = False, locked: bool = True, uncached: bool = False) -> t.Iterator[str]:
    """Serve an image on a UNIX socket of its own, and return the path of the socket.

    :arg locked: false for a disk that a starting VM must be able to open.
    :arg uncached: read from the disk, not from memory.
    """
    with tempfile.TemporaryDirectory(prefix="rf-nbd-") as folder:
        address = os.path.join(folder, "socket")
        image = f"driver={form},file.driver=file,file.filename={path.replace(',', ',,')}" + ("" if locked else ",file.locking=off")
        argv = ["qemu-nbd", f"--socket={address}", "--image-opts", *([] if writable else ["--read-only"])]
        argv += ["--cache=none"] if uncached else []
        # pylint: disable-next=ansible-bad-function  # no AnsibleModule reaches this layer
        with tempfile.TemporaryFile() as errors, subprocess.Popen([*argv, image], stdin=subprocess.DEVNULL, stdout=errors, stderr=errors) as process:
            try:
                until = time.monotonic() + _SERVER_START
                while not pathlib.Path(address).exists():
                    if process.poll() is not None or time.monotonic() > until:
                        errors.seek(0)
                        text = errors.read().decode(errors="replace").strip() or "it does not listen"
                        raise BackendError(f"qemu-nbd cannot open {path}: {text.splitlines()[-1]}.")
                    time.sleep(0.02)
                yield address
            finally:
                if not _ended(process) and writable:
                    raise BackendError(f"qemu-nbd did not write all of {path}: it did not end within {_SERVER_END} seconds.")
