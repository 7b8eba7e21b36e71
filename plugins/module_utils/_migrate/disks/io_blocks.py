# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Copy a block device from the source: only blocks that differ from the copy, each verified by its hash.

Both sides represent a device as a list of SHA-256 hashes of blocks of a fixed size. Protocol, to the source: a line of JSON and
the list of the copy's hashes. Back: a line of JSON, records, and an end record with the hash of the source's whole list.
A device that was not written to since the last read is not read again: the kernel counts writes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pathlib
import stat
import struct
import subprocess
import tempfile
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_schema import BLOCK_HASHES
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import KIB, size_text

BLOCK = 256 * KIB
_HASH = 32
_ZERO = bytes(BLOCK)
# records: number and data of a block; number of a block of zeros; bytes read so far; not written to since the last read; end
_DATA, _HOLE, _AT, _SAME, _END = b"D", b"Z", b"~", b"S", b"E"
_PROGRESS_EVERY = 64
# fields of /sys/dev/block/*/stat with the sectors written and discarded; the numbers of requests would include the flush in send()
_WRITTEN = (6, 13)
SYS = pathlib.Path("/sys/dev/block")
_HINT = "Check whether the source is running and reachable."


class Fetched(t.NamedTuple):
    """Result of one :func:`fetch`: ``changed`` blocks, ``bytes`` transferred, bytes ``read`` on the source (0 if it was not written to)."""

    read: int
    changed: int
    bytes: int
    counter: list[int] | None
    boot_id: str
    root: str


def written(device: str) -> list[int] | None:
    """The kernel's counters of sectors written to and discarded on a device since boot; ``None`` if it does not count."""
    number = os.stat(device).st_rdev
    place = pathlib.Path(os.path.realpath(SYS / f"{os.major(number)}:{os.minor(number)}"))
    queue = (place.parent if (place / "partition").exists() else place) / "queue" / "iostats"
    try:
        if queue.read_text(encoding="ascii").strip() != "1":
            return None
        fields = (place / "stat").read_text(encoding="ascii").split()
        return [int(fields[each]) for each in _WRITTEN]
    except (OSError, IndexError, ValueError):
        return None


def send(stream: t.BinaryIO, request: t.BinaryIO, boot_id: str) -> None:
    """Send the blocks of a device of this machine that differ from those of the destination.

    :arg boot_id: of this machine; the kernel's counters are valid for one boot.
    :raises OSError: the path is not a block device, or cannot be read.
    """
    given = json.loads(request.readline())
    have = _exactly(request, _HASH * count(given["size"]))
    if not stat.S_ISBLK(os.stat(given["device"]).st_mode):
        raise OSError(f"{given['device']} is not a block device.")
    with open(given["device"], "rb", buffering=0) as source:
        # flush data in memory to the disk, so that it is included in the counter
        os.fsync(source.fileno())
        counter = written(given["device"])
        size = source.seek(0, os.SEEK_END)
        source.seek(0)
        stream.write(json.dumps({"size": size, "counter": counter, "boot_id": boot_id}).encode("ascii") + b"\n")
        if size != given["size"]:
            return
        if counter is not None and given.get("counter") == counter and given.get("boot_id") == boot_id:
            stream.write(_SAME)
            return
        _send_blocks(stream, source, size, have, keep_cache=not given.get("nice"))


def _send_blocks(stream: t.BinaryIO, source: t.BinaryIO, size: int, have: bytes, *, keep_cache: bool) -> None:
    whole = hashlib.sha256()
    for index, data in _blocks_of(source, size):
        found = digest(data)
        whole.update(found)
        if have[index * _HASH : (index + 1) * _HASH] != found:
            stream.write(_HOLE + struct.pack(">Q", index) if _is_zero(data) else _DATA + struct.pack(">QI", index, len(data)) + data)
        if index % _PROGRESS_EVERY == 0:
            stream.write(_AT + struct.pack(">Q", index * BLOCK))
            stream.flush()
            if not keep_cache:
                # keep the source's page cache free of data that is read only once
                os.posix_fadvise(source.fileno(), max(0, index - _PROGRESS_EVERY) * BLOCK, _PROGRESS_EVERY * BLOCK, os.POSIX_FADV_DONTNEED)
    stream.write(_END + whole.digest())


def count(size: int) -> int:
    """Number of blocks of a device of ``size`` bytes; the last one may be shorter."""
    return -(-size // BLOCK)


def _blocks_of(stream: t.BinaryIO, size: int) -> t.Iterator[tuple[int, bytes]]:
    for index in range(count(size)):
        yield index, _exactly(stream, min(BLOCK, size - index * BLOCK))


def _exactly(stream: t.BinaryIO, length: int) -> bytes:
    data = stream.read(length)
    while data is not None and len(data) < length:
        more = stream.read(length - len(data))
        if not more:
            break
        data += more
    if data is None or len(data) != length:
        raise ValueError("unexpected end of data")
    return data


def _is_zero(data: bytes) -> bool:
    return data == _ZERO if len(data) == BLOCK else not any(data)


_ZERO_DIGEST = hashlib.sha256(_ZERO).digest()


def digest(data: bytes) -> bytes:
    """The hash of a block."""
    # a new disk is mostly empty, and a comparison is ten times faster than a hash
    return _ZERO_DIGEST if data == _ZERO else hashlib.sha256(data).digest()


class Target:
    """A device (or file) of this host that receives a device of the source, and the list of its hashes.

    :arg size: in bytes, of the device of the source.
    :arg stored: file that keeps the list between two passes; if it is missing, the device is read.
    """

    def __init__(self, node: str, size: int, stored: pathlib.Path) -> None:
        self.node = node
        self.size = size
        self.stored = stored

    def hashes(self) -> bytearray:
        """Return the stored list, or read the device."""
        with contextlib.suppress(FileNotFoundError):
            kept = self.stored.read_bytes()
            head = self._head()
            if kept.startswith(head) and len(kept) == len(head) + _HASH * count(self.size):
                return bytearray(kept[len(head) :])
        found = bytearray()
        with open(self.node, "rb", buffering=0) as stream:
            if stream.seek(0, os.SEEK_END) < self.size:
                message = f"{self.node} is smaller than the {size_text(self.size)} to be copied to it."
                raise BackendError(message, "disk_schema", "Increase the size of its partition.")
            stream.seek(0)
            for _index, data in _blocks_of(stream, self.size):
                found += digest(data)
        return found

    def _head(self) -> bytes:
        return f"blocks {BLOCK_HASHES.number} {self.size} {BLOCK}\n".encode("ascii")

    def keep(self, hashes: bytes) -> None:
        """Store the list atomically."""
        write_atomic(self.stored, self._head() + hashes)

    def forget(self) -> None:
        """Discard the stored list, which is no longer valid."""
        self.stored.unlink(missing_ok=True)


def fetch(
    argv: t.Sequence[str], given: t.Mapping[str, t.Any], target: Target, *, limit: int = 0, progress: t.Callable[[int, int], object] | None = None
) -> Fetched:
    """Run a program that calls :func:`send`, and write the blocks it sends; every written block is read back and hashed.

    :arg given: ``device``; ``counter`` and ``boot_id`` of the last pass.
    :arg limit: KiB per second at most, 0 for none.
    :arg progress: called with the bytes read on the source and transferred so far.
    :raises BackendError: the transfer failed, or the copy differs from the source.
    """
    known = target.stored.exists()
    hashes = target.hashes()
    request = json.dumps({**given, "size": target.size, **({} if known else {"counter": None})}).encode("ascii") + b"\n"
    # a file for standard error: a pipe that is not read meanwhile would block
    with tempfile.TemporaryFile() as errors:
        # pylint: disable-next=ansible-bad-function  # no AnsibleModule reaches this layer
        with subprocess.Popen(list(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, bufsize=1 << 20) as process:
            try:
                return _receive(process, request, hashes, target, limit, progress)
            except (ValueError, BrokenPipeError, struct.error) as error:
                process.kill()
                process.wait()
                errors.seek(0)
                stderr = errors.read().decode(errors="replace").strip()
                lost = "The connection to the source was lost" if process.returncode == 255 else None
                raise CommandError(argv[:1], process.returncode, stderr or str(error), hint=_HINT, what=lost) from error
            except BaseException:
                process.kill()
                raise


def _receive(
    process: subprocess.Popen[bytes], request: bytes, hashes: bytearray, target: Target, limit: int, progress: t.Callable[[int, int], object] | None
) -> Fetched:
    if process.stdin is None or process.stdout is None:
        raise ValueError("no pipes")
    process.stdin.write(request)
    process.stdin.write(hashes)
    process.stdin.close()
    stream = t.cast(t.BinaryIO, process.stdout)
    head = json.loads(stream.readline() or b"null")
    if head is None:
        raise ValueError("no answer")
    device = json.loads(request)["device"]
    if head["size"] != target.size:
        message = f"The size of {device} is {size_text(head['size'])}; it was {size_text(target.size)} when the disks were laid out."
        raise BackendError(message, "disk_schema", "Change disk_schema or the VM's disks, so that the disks are created again.")
    changed: dict[int, bytes] = {}
    moved, started, root = 0, time.monotonic(), b""
    fd = os.open(target.node, os.O_RDWR)
    try:
        while True:
            kind = _exactly(stream, 1)
            if kind == _AT:
                if progress:
                    progress(struct.unpack(">Q", _exactly(stream, 8))[0], moved)
                else:
                    _exactly(stream, 8)
                continue
            if kind in (_SAME, _END):
                root = _exactly(stream, _HASH) if kind == _END else b""
                break
            index, data = _record(stream, kind, target.size)
            if not changed:
                target.forget()
            os.pwrite(fd, data, index * BLOCK)
            changed[index] = digest(data)
            moved += len(data) if kind == _DATA else 0
            if limit:
                time.sleep(max(0.0, moved / (limit * KIB) - (time.monotonic() - started)))
        process.wait()
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        for index, wanted in changed.items():
            found = digest(_read_at(fd, index, target.size))
            if found != wanted:
                raise BackendError(f"The block of {device} at {index * BLOCK} differs after it was written to the copy.", hint="Check the host's disk.")
            hashes[index * _HASH : (index + 1) * _HASH] = found
    finally:
        os.close(fd)
    if root and hashlib.sha256(hashes).digest() != root:
        target.forget()
        raise BackendError(f"{device} and its copy differ: another process wrote to the copy.", hint="Run again; the copy is then read again.")
    target.keep(bytes(hashes))
    return Fetched(target.size if root else 0, len(changed), moved, head["counter"], head["boot_id"], hashlib.sha256(hashes).hexdigest())


def _record(stream: t.BinaryIO, kind: bytes, size: int) -> tuple[int, bytes]:
    if kind == _HOLE:
        (index,) = struct.unpack(">Q", _exactly(stream, 8))
        length = min(BLOCK, size - index * BLOCK)
        data = _ZERO[:length]
    elif kind == _DATA:
        index, length = struct.unpack(">QI", _exactly(stream, 12))
        data = _exactly(stream, length) if length <= BLOCK else b""
    else:
        raise ValueError("unknown record")
    if index >= count(size) or len(data) != min(BLOCK, size - index * BLOCK):
        raise ValueError("a block outside of the device")
    return index, data


def _read_at(fd: int, index: int, size: int) -> bytes:
    return os.pread(fd, min(BLOCK, size - index * BLOCK), index * BLOCK)
