# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A block device brought from the source: only the blocks that are other than those that are here, each proven by its hash.

Both sides know a device as a list of hashes (SHA-256) of blocks of a fixed size. The wire, to the source: a line of JSON and
the list of what is here. Back: a line of JSON, records, and an end that names the hash of the whole list.
A device that nothing was written to since it was read last is not read again: the kernel counts what is written.
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

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import KIB, size_text

BLOCK = 256 * KIB
_HASH = 32
_ZERO = bytes(BLOCK)
# records: a block's number and data; one that is all zeros; so much was read; nothing was written since; the end
_DATA, _HOLE, _AT, _SAME, _END = b"D", b"Z", b"~", b"S", b"E"
_TELL_EVERY = 64
_SECTOR = 512
# where /sys tells how many sectors were written and how many discarded; how often would count the flush that comes before the question
_WRITTEN = (6, 13)
SYS = pathlib.Path("/sys/dev/block")
_HINT = "Look whether the source runs and can be reached."


class Brought(t.NamedTuple):
    """What one look at a device of the source brought: ``changed`` blocks of ``bytes``, ``read`` there (nothing when nobody wrote to it)."""

    read: int
    changed: int
    bytes: int
    counter: list[int] | None
    boot_id: str
    root: str


def written(device: str) -> list[int] | None:
    """What the kernel counted of writes to a device since its start, ``None`` where it does not count."""
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


def send(stream: t.BinaryIO, asked: t.BinaryIO, boot_id: str) -> None:
    """Tell a device of this machine: what is other than what the other side has.

    :arg asked: where the question is read from.
    :raises OSError: it is no block device, or cannot be read.
    """
    given = json.loads(asked.readline())
    have = _exactly(asked, _HASH * count(given["size"]))
    if not stat.S_ISBLK(os.stat(given["device"]).st_mode):
        raise OSError(f"{given['device']} is no block device.")
    with open(given["device"], "rb", buffering=0) as source:
        # what is still in memory goes to the disk, so that it is counted before it is asked how much that was
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
        if index % _TELL_EVERY == 0:
            stream.write(_AT + struct.pack(">Q", index * BLOCK))
            stream.flush()
            if not keep_cache:
                # nobody's cache is to be filled with what is read once
                os.posix_fadvise(source.fileno(), max(0, index - _TELL_EVERY) * BLOCK, _TELL_EVERY * BLOCK, os.POSIX_FADV_DONTNEED)
    stream.write(_END + whole.digest())


def count(size: int) -> int:
    """How many blocks a device has; the last one may be shorter."""
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
        raise ValueError("it broke off")
    return data


def _is_zero(data: bytes) -> bool:
    return data == _ZERO if len(data) == BLOCK else not any(data)


_ZERO_DIGEST = hashlib.sha256(_ZERO).digest()


def digest(data: bytes) -> bytes:
    """The hash of a block."""
    # most of a new disk is empty, and comparing is ten times cheaper
    return _ZERO_DIGEST if data == _ZERO else hashlib.sha256(data).digest()


class Target:
    """A device (or file) of this host that takes a device of the source, and the list of what is on it.

    :arg stored: where the list is kept between two looks; without it the device is read once.
    """

    def __init__(self, node: str, size: int, stored: pathlib.Path) -> None:
        self.node = node
        self.size = size
        self.stored = stored

    def hashes(self) -> bytearray:
        """The list as it is kept, or read anew."""
        with contextlib.suppress(FileNotFoundError):
            kept = self.stored.read_bytes()
            head = self._head()
            if kept.startswith(head) and len(kept) == len(head) + _HASH * count(self.size):
                return bytearray(kept[len(head) :])
        found = bytearray()
        with open(self.node, "rb", buffering=0) as stream:
            if stream.seek(0, os.SEEK_END) < self.size:
                said = f"{self.node} is smaller than the {size_text(self.size)} that are to lie on it."
                raise BackendError(said, "disk_schema", "Make its partition larger.")
            stream.seek(0)
            for _index, data in _blocks_of(stream, self.size):
                found += digest(data)
        return found

    def _head(self) -> bytes:
        return f"blocks 1 {self.size} {BLOCK}\n".encode("ascii")

    def keep(self, hashes: bytes) -> None:
        """Write the list, whole or not at all."""
        new = self.stored.with_name(f"{self.stored.name}.new")
        with open(new, "wb") as stream:
            stream.write(self._head() + hashes)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(new, self.stored)

    def forget(self) -> None:
        """The list is not true any more."""
        self.stored.unlink(missing_ok=True)


def fetch(
    argv: t.Sequence[str], given: t.Mapping[str, t.Any], target: Target, *, limit: int = 0, told: t.Callable[[int, int], object] | None = None
) -> Brought:
    """Let a program that :func:`send`s do so, and write what comes; every block that was written is read back and hashed.

    :arg argv: the program, or ssh with it.
    :arg given: ``device``; ``counter`` and ``boot_id`` of the last look.
    :arg limit: KiB per second at most, 0 for none.
    :arg told: called with the bytes read there and brought here.
    :raises BackendError: it did not come to an end, or is not here as it was there.
    """
    known = target.stored.exists()
    hashes = target.hashes()
    question = json.dumps({**given, "size": target.size, **({} if known else {"counter": None})}).encode("ascii") + b"\n"
    # a file for the complaints: a pipe nobody reads meanwhile would block
    with tempfile.TemporaryFile() as complaints:
        # pylint: disable-next=ansible-bad-function  # no AnsibleModule reaches this layer
        with subprocess.Popen(list(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints, bufsize=1 << 20) as process:
            try:
                brought = _receive(process, question, hashes, target, limit, told)
            except (ValueError, BrokenPipeError, struct.error) as error:
                process.kill()
                process.wait()
                complaints.seek(0)
                said = complaints.read().decode(errors="replace").strip()
                lost = "The connection to the source was lost" if process.returncode == 255 else None
                raise CommandError(argv[:1], process.returncode, said or str(error), hint=_HINT, what=lost) from error
            except BaseException:
                process.kill()
                raise
    return brought


def _receive(
    process: subprocess.Popen[bytes], question: bytes, hashes: bytearray, target: Target, limit: int, told: t.Callable[[int, int], object] | None
) -> Brought:
    if process.stdin is None or process.stdout is None:
        raise ValueError("no pipes")
    process.stdin.write(question)
    process.stdin.write(hashes)
    process.stdin.close()
    stream = t.cast(t.BinaryIO, process.stdout)
    head = json.loads(stream.readline() or b"null")
    if head is None:
        raise ValueError("it said nothing")
    device = json.loads(question)["device"]
    if head["size"] != target.size:
        said = f"{device} has {size_text(head['size'])} now; it had {size_text(target.size)} when the disks were laid out."
        raise BackendError(said, "disk_schema", "Change disk_schema or the VM's disks, so that the disks are made anew.")
    changed: dict[int, bytes] = {}
    moved, began, root = 0, time.monotonic(), b""
    fd = os.open(target.node, os.O_RDWR)
    try:
        while True:
            kind = _exactly(stream, 1)
            if kind == _AT:
                if told:
                    told(struct.unpack(">Q", _exactly(stream, 8))[0], moved)
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
                time.sleep(max(0.0, moved / (limit * KIB) - (time.monotonic() - began)))
        process.wait()
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        for index, wanted in changed.items():
            found = digest(_read_at(fd, index, target.size))
            if found != wanted:
                raise BackendError(f"A block of {device} is not on the copy's disk as it came (at {index * BLOCK}).", hint="Look at the host's disk.")
            hashes[index * _HASH : (index + 1) * _HASH] = found
    finally:
        os.close(fd)
    if root and hashlib.sha256(hashes).digest() != root:
        target.forget()
        raise BackendError(f"{device} and its copy are not equal: something else wrote to the copy.", hint="Run again; the copy is read anew then.")
    target.keep(bytes(hashes))
    return Brought(target.size if root else 0, len(changed), moved, head["counter"], head["boot_id"], hashlib.sha256(hashes).hexdigest())


def _record(stream: t.BinaryIO, kind: bytes, size: int) -> tuple[int, bytes]:
    if kind == _HOLE:
        (index,) = struct.unpack(">Q", _exactly(stream, 8))
        length = min(BLOCK, size - index * BLOCK)
        data = _ZERO[:length]
    elif kind == _DATA:
        index, length = struct.unpack(">QI", _exactly(stream, 12))
        data = _exactly(stream, length) if length <= BLOCK else b""
    else:
        raise ValueError("it sends what is no block")
    if index >= count(size) or len(data) != min(BLOCK, size - index * BLOCK):
        raise ValueError("it sends a block that the device does not have")
    return index, data


def _read_at(fd: int, index: int, size: int) -> bytes:
    return os.pread(fd, min(BLOCK, size - index * BLOCK), index * BLOCK)
