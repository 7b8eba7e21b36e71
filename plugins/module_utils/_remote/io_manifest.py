# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read a file tree into a manifest; files that are unchanged since an earlier manifest are not read again.

Runs on the source and on the destination. Memory usage depends on the largest folder, not on the number of files.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import pathlib
import re
import shutil
import stat
import struct
import tempfile
import time
import typing as t
import uuid

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import rename
from ansible_collections.reduced.footprint.plugins.module_utils._remote import model_manifest
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_manifest import Line, Own, order, parse_line, parse_own

_BLOCK = 1 << 20
_ZEROS = bytes(_BLOCK)
# file system timestamps are coarse, those of FAT have a resolution of two seconds
_GRAIN_NS = 2_000_000_000
_SPARSE_FROM = 1 << 20
_KEPT_FLAGS = model_manifest.IMMUTABLE | model_manifest.APPEND
_GET_FLAGS = 0x80086601
_SET_FLAGS = 0x40086602
# FAT, tmpfs and others do not support flags
_NO_FLAGS = (errno.ENOTTY, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)
# with SELinux, the first boot of the copy relabels all files
_NOT_COMPARED = frozenset(("security.selinux",))
_NAMESPACES = ("user.", "security.", "trusted.", "system.posix_acl_")


class Taken(t.NamedTuple):
    """Statistics of a manifest: all files, files read, bytes read, seconds."""

    files: int
    read: int
    bytes: int
    seconds: float


def new_header(out: pathlib.Path, settle: t.Callable[[], object] | None = None) -> model_manifest.Header:
    """Return the header of the next manifest at ``out``.

    :arg settle: updates the times of all files written so far (``sync``). Without it, files that
        changed since the earlier manifest count as still changing, and the next manifest reads them again.
    """
    earlier = read_header(out)
    settled = earlier.settled_ns if earlier else 0
    if settle is not None:
        # further writes to a dirty page of a mapped file do not update the file's time
        settled = time.time_ns() - _GRAIN_NS
        settle()
    return model_manifest.Header(uuid.uuid4().hex, settled)


def take(
    root: bytes,
    out: pathlib.Path,
    left_out: re.Pattern[bytes],
    header: model_manifest.Header,
    *,
    mounts: t.Collection[bytes] | None = None,
    report: t.Callable[[bytes, Line], object] | None = None,
    everything: bool = False,
    progress: t.Callable[[int, int], object] | None = None,
) -> Taken:
    """Read a tree into the manifest ``out``; an existing one is used as the earlier manifest.

    :arg root: top folder of the tree; paths in the manifest start with ``/`` below it.
    :arg mounts: mount points (as paths in the manifest) that belong to the tree; ``None`` for all.
    :arg report: called with ``b"+"`` and each new or changed line, ``b"-"`` and each removed one.
    :arg progress: called periodically with files and bytes read.
    """
    began = time.monotonic()
    counter = _Counter(progress)
    emit = report or (lambda sign, line: None)
    with contextlib.closing(read(out)) as before, _replacing(out) as stream:
        stream.write(header.encode())
        old = next(before, None)
        for path, full, status, foreign in _walk(root.rstrip(b"/"), left_out, mounts):
            key = order(path)
            while old is not None and order(old.path) < key:
                emit(b"-", old)
                old = next(before, None)
            earlier = old if old is not None and old.path == path else None
            if earlier is not None and _unchanged(earlier, status):
                line = earlier
            else:
                try:
                    line = describe(path, full, status, header.settled_ns, foreign, counter)
                except (FileNotFoundError, NotADirectoryError):
                    continue
            if everything or line != earlier:
                emit(b"+", line)
            if earlier is not None:
                old = next(before, None)
            counter.files += 1
            stream.write(line.encode())
        while old is not None:
            emit(b"-", old)
            old = next(before, None)
        stream.write(model_manifest.END + b"\t%d\n" % counter.files)
    return Taken(counter.files, counter.read, counter.bytes, round(time.monotonic() - began, 3))


class _Counter:
    """Counts what was read; reports it at most once a second."""

    def __init__(self, progress: t.Callable[[int, int], None] | None) -> None:
        self.progress = progress
        self.files = self.read = self.bytes = 0
        self.last = time.monotonic()

    def add(self, size: int) -> None:
        """Add bytes read."""
        self.bytes += size
        if self.progress and time.monotonic() - self.last > 1:
            self.last = time.monotonic()
            self.progress(self.files, self.bytes)


def read_header(path: pathlib.Path) -> model_manifest.Header | None:
    """Return the header of a complete manifest, else ``None``."""
    try:
        with open(path, "rb") as stream:
            header = model_manifest.parse_header(stream.readline())
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - 64))
            last = stream.read().rstrip(b"\n").rpartition(b"\n")[2]
            return header if last.startswith(model_manifest.END + b"\t") else None
    except (OSError, ValueError):
        return None


def read(path: pathlib.Path) -> t.Generator[Line, None, None]:
    """The lines of a manifest; empty when it is missing or incomplete."""
    if read_header(path) is None:
        return
    with open(path, "rb", buffering=1 << 20) as stream:
        stream.readline()
        for raw in stream:
            if raw.startswith(model_manifest.END + b"\t"):
                return
            yield parse_line(raw)


def write(path: pathlib.Path, header: model_manifest.Header, lines: t.Iterable[Line]) -> int:
    """Write a manifest from its lines; returns their number."""
    number = 0
    with _replacing(path) as stream:
        stream.write(header.encode())
        for line in lines:
            stream.write(line.encode())
            number += 1
        stream.write(model_manifest.END + b"\t%d\n" % number)
    return number


@contextlib.contextmanager
def _replacing(path: pathlib.Path) -> t.Iterator[t.BinaryIO]:
    """Write a temporary file that replaces ``path`` when it is complete; removes those of other writers."""
    for left in path.parent.glob(f"{path.name}.*.new"):
        left.unlink(missing_ok=True)
    handle, half_made = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.", suffix=".new")
    try:
        with open(handle, "wb", buffering=1 << 20) as stream:
            yield stream
        rename(half_made, path, new=False)
    except BaseException:
        pathlib.Path(half_made).unlink(missing_ok=True)
        raise


def _walk(root: bytes, left_out: re.Pattern[bytes], mounts: t.Collection[bytes] | None) -> t.Iterator[tuple[bytes, bytes, os.stat_result, bool]]:
    """Path, path on this machine, status, whether a foreign file system is mounted there; in the order of a manifest."""
    top = os.lstat(root or b"/")
    yield b"/", root or b"/", top, False
    levels = [(b"", _names(root or b"/"), top.st_dev)]
    while levels:
        parent, names, device = levels[-1]
        if not names:
            levels.pop()
            continue
        path = parent + b"/" + names.pop()
        if left_out.match(path):
            continue
        full = root + path
        try:
            status = os.lstat(full)
        except (FileNotFoundError, NotADirectoryError):
            continue
        is_folder = stat.S_ISDIR(status.st_mode)
        foreign = is_folder and status.st_dev != device and mounts is not None and path not in mounts
        yield path, full, status, foreign
        if is_folder and not foreign:
            levels.append((path, _names(full), status.st_dev))


def _names(folder: bytes) -> list[bytes]:
    """Names in a folder in reverse order."""
    try:
        return sorted(os.listdir(folder), reverse=True)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _unchanged(line: Line, status: os.stat_result) -> bool:
    own = parse_own(line.own)
    if own.racy or own.inode != status.st_ino or own.changed_ns != status.st_ctime_ns:
        return False
    # hard links are identified by device and inode
    return stat.S_ISDIR(status.st_mode) or own.links == 1 == status.st_nlink or (own.device, own.links) == (status.st_dev, status.st_nlink)


def describe(path: bytes, full: bytes, status: os.stat_result, settled_ns: int, foreign: bool = False, counter: _Counter | None = None) -> Line:
    """Read one file and return its line."""
    mode = status.st_mode
    size = time_ns = device = flags = sparse = content = model_manifest.NONE
    attributes = model_manifest.NONE
    if not foreign:
        time_ns = b"%d" % status.st_mtime_ns
        attributes = _attributes(full)
    if stat.S_ISREG(mode):
        size = b"%d" % status.st_size
        if status.st_size >= _SPARSE_FROM and status.st_blocks * 512 < status.st_size // 2:
            sparse = b"s"
        content, flags = _content(full, counter)
    elif stat.S_ISDIR(mode) and not foreign:
        flags = flags_text(get_flags(full))
    elif stat.S_ISLNK(mode):
        content = hashlib.sha256(os.readlink(full)).hexdigest().encode("ascii")
    elif stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        device = b"%d:%d" % (os.major(status.st_rdev), os.minor(status.st_rdev))
    if counter:
        counter.read += 1
    same = b" ".join((b"%o" % mode, b"%d" % status.st_uid, b"%d" % status.st_gid, size, time_ns, device, flags, sparse, attributes, content))
    racy = max(status.st_mtime_ns, status.st_ctime_ns) >= settled_ns
    links = 1 if stat.S_ISDIR(mode) else status.st_nlink
    return Line(path, same, Own(links, status.st_dev, status.st_ino, status.st_ctime_ns, racy).encode())


def _attributes(full: bytes) -> bytes:
    """Hash of all extended attributes, which include ACLs and capabilities."""
    try:
        names = sorted(os.listxattr(full, follow_symlinks=False))
    except OSError as error:
        if error.errno in (errno.ENOTSUP, errno.EPERM):
            return model_manifest.NONE
        raise
    digest = None
    for name in names:
        if name.startswith(_NAMESPACES) and name not in _NOT_COMPARED:
            with contextlib.suppress(OSError):
                value = os.getxattr(full, name, follow_symlinks=False)
                digest = digest or hashlib.sha256()
                digest.update(b"%s\0%d\0%s" % (os.fsencode(name), len(value), value))
    return digest.hexdigest().encode("ascii") if digest else model_manifest.NONE


def _content(full: bytes, counter: _Counter | None) -> tuple[bytes, bytes]:
    """Hash of a file's content, and its flags. Holes and zeros are equal; holes are not read."""
    try:
        handle = _open(full)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            raise
        return b"unreadable:" + errno.errorcode.get(error.errno or 0, "?").encode("ascii"), model_manifest.NONE
    try:
        flags = flags_text(_flags_of(handle))
        return _hash(handle, counter), flags
    except OSError as error:
        return b"unreadable:" + errno.errorcode.get(error.errno or 0, "?").encode("ascii"), model_manifest.NONE
    finally:
        os.close(handle)


def _open(full: bytes) -> int:
    how = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        return os.open(full, how | os.O_NOATIME)
    except PermissionError:
        return os.open(full, how)


def _hash(handle: int, counter: _Counter | None) -> bytes:
    digest = hashlib.sha256()
    at = zeros = 0
    size = os.fstat(handle).st_size
    while at < size:
        # a hole may be very large: its blocks are counted instead of read
        data = _next_data(handle, at, size) if size > _BLOCK else at
        if data >= size:
            break
        zeros += data // _BLOCK - at // _BLOCK
        at = data // _BLOCK * _BLOCK
        block = os.pread(handle, _BLOCK, at)
        if not block:
            break
        at += _BLOCK
        if counter:
            counter.add(len(block))
        if block == (_ZEROS if len(block) == _BLOCK else _ZEROS[: len(block)]):
            zeros += 1
            continue
        if zeros:
            digest.update(b"0%d;" % zeros)
            zeros = 0
        digest.update(b"1")
        digest.update(block)
    # zeros at the end are covered by the size
    return digest.hexdigest().encode("ascii")


def _next_data(handle: int, at: int, size: int) -> int:
    try:
        return os.lseek(handle, at, os.SEEK_DATA)
    except OSError as error:
        # ENXIO: no more data; a file system without holes reports everything as data
        return size if error.errno == errno.ENXIO else at


def _flags_of(handle: int) -> int:
    buffer = bytearray(8)
    try:
        fcntl.ioctl(handle, _GET_FLAGS, buffer)
    except OSError as error:
        if error.errno in _NO_FLAGS:
            return 0
        raise
    return int(struct.unpack_from("=I", buffer)[0])


def flags_text(flags: int) -> bytes:
    """Flags as written in a manifest."""
    text = (b"i" if flags & model_manifest.IMMUTABLE else b"") + (b"a" if flags & model_manifest.APPEND else b"")
    return text or model_manifest.NONE


def get_flags(full: bytes) -> int:
    """The flags of a file or folder (see ``chattr``)."""
    handle = _open(full)
    try:
        return _flags_of(handle)
    finally:
        os.close(handle)


def set_flags(full: bytes, text: bytes) -> None:
    """Make a file or folder immutable (``i``), append-only (``a``) or neither (``-``); other flags are kept.

    :raises OSError: its file system does not support these flags.
    """
    wanted = (model_manifest.IMMUTABLE if b"i" in text else 0) | (model_manifest.APPEND if b"a" in text else 0)
    handle = _open(full)
    try:
        before = _flags_of(handle)
        if before & _KEPT_FLAGS != wanted:
            fcntl.ioctl(handle, _SET_FLAGS, struct.pack("=Q", before & ~_KEPT_FLAGS | wanted))
    finally:
        os.close(handle)


def remove(full: bytes) -> None:
    """Remove a file, or a folder with its content."""
    if os.path.isdir(full) and not os.path.islink(full):
        shutil.rmtree(full)
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(full)
