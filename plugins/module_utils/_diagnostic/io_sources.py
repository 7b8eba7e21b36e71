# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read the ends of files and of what commands print, with limits: a diagnostic snapshot is taken on hosts that are in trouble."""

from __future__ import annotations

import glob
import os
import pathlib
import select
import stat
import subprocess
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._diagnostic.model_piece import Piece

_BLOCK = 65536


def output(name: str, argv: t.Sequence[str], most: int, seconds: float, path: str = "") -> Piece:
    """Return the end of what a command prints, also of one that fails or does not end in time.

    :arg most: bytes.
    """
    environment = {**os.environ, "LC_ALL": "C", "LANG": "C", "TERM": "dumb"}
    environment.setdefault("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
    try:
        process = subprocess.Popen(  # pylint: disable=consider-using-with
            list(argv), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment
        )
    except FileNotFoundError:
        return Piece(name, error=f"{argv[0]} is not installed")
    except OSError as error:
        return Piece(name, error=f"{argv[0]}: {error.strerror or error}")
    stream = t.cast(t.IO[bytes], process.stdout)
    end, content, lost = time.monotonic() + seconds, bytearray(), 0
    complete = False
    while not complete and select.select([stream], [], [], max(0.0, end - time.monotonic()))[0]:
        block = os.read(stream.fileno(), _BLOCK)
        complete = not block
        content += block
        if len(content) > 2 * most:
            lost += len(content) - most
            del content[: len(content) - most]
    problem = "" if complete else f"{argv[0]} did not end within {seconds:.0f} s"
    stream.close()
    if not complete:
        process.kill()
    try:
        code = process.wait(timeout=1)
    except subprocess.TimeoutExpired:
        # it waits for a disk, and is not waited for
        code = 0
    if complete and code:
        problem = f"{argv[0]} ended with exit code {code}"
    return _end(Piece(name, path=path, error=problem), bytes(content), most, lost)


def end_of_file(name: str, file: pathlib.Path, most: int, path: str, follow: bool) -> Piece:
    """Return the end of a regular file.

    :arg follow: whether a link is followed.
    """
    piece = Piece(name, path=path)
    try:
        handle = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW))
        with os.fdopen(handle, "rb") as stream:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode):
                return piece._replace(error="is not a regular file")
            begin = max(0, found.st_size - most)
            stream.seek(begin)
            return _end(piece, stream.read(most), most, begin)
    except OSError as error:
        return piece._replace(error=f"cannot be read: {error.strerror or error}")


def _end(piece: Piece, content: bytes, most: int, lost: int) -> Piece:
    lost += max(0, len(content) - most)
    content = content[-most:]
    if lost:
        # the rest of a line
        whole = content.partition(b"\n")[2]
        lost, content = lost + len(content) - len(whole), whole
    return piece._replace(text=content.decode("utf-8", "replace"), lost=lost)


def files(root: pathlib.Path, patterns: t.Iterable[str], since: float) -> list[pathlib.Path]:
    """Return the files that match one of the patterns below the root, relative to it.

    :arg since: Unix time of the earliest write.
    """
    found = dict.fromkeys(path for pattern in patterns for path in sorted(glob.glob(str(root / pattern), recursive=True)))
    return [pathlib.Path(path).relative_to(root) for path in found if _written(path) >= since and not os.path.isdir(path)]


def _written(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        # a link without a target
        return 0.0
