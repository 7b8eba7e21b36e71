# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A manifest brought from the source: only what is other than in the one that both sides have already.

The wire: the header, ``base IDENTITY`` (or ``base -``), then lines of the manifest behind ``+`` or ``-``, ``~FILES BYTES`` now
and then while nothing else is to be told, and ``end FILES READ BYTES``.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import subprocess
import tempfile
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, CommandError
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_manifest
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_manifest import END, Line, merged, parse_header, parse_line


def send(
    stream: t.BinaryIO,
    stored: pathlib.Path,
    left_out: re.Pattern[bytes],
    *,
    have: str | None,
    mounts: t.Collection[bytes],
    settle: bool,
    root: bytes = b"/",
) -> None:
    """Take this machine's manifest and tell it.

    :arg stored: where it is kept; what stands there saves reading what did not change.
    :arg have: identity of the one that the other side has.
    """
    earlier = io_manifest.read_header(stored)
    known = earlier is not None and earlier.identity == have
    header = io_manifest.new_header(stored, os.sync if settle else None)
    stream.write(header.encode())
    stream.write(b"base %s\n" % (have.encode("ascii") if known and have else b"-"))

    def report(sign: bytes, line: Line) -> None:
        # what the other side never heard of need not be taken back
        if known or sign == b"+":
            stream.write(sign + line.encode())

    def told(files: int, size: int) -> None:
        stream.write(b"~%d %d\n" % (files, size))
        stream.flush()

    taken = io_manifest.take(root, stored, left_out, header, mounts=mounts, report=report, everything=not known, told=told)
    stream.write(END + b" %d %d %d\n" % (taken.files, taken.read, taken.bytes))
    stream.flush()


def fetch(argv: t.Sequence[str], given: t.Mapping[str, t.Any], stored: pathlib.Path, told: t.Callable[[int, int], object] | None = None) -> io_manifest.Taken:
    """Let a program that :func:`send`s do so; afterwards ``stored`` is the source's manifest.

    :arg argv: the program, or ssh with it.
    :arg given: what it reads as JSON; ``have`` is added.
    :raises BackendError: it did not come to an end.
    """
    earlier = io_manifest.read_header(stored)
    asked = json.dumps({**given, "have": earlier.identity if earlier else None}).encode("ascii")
    # a file for the complaints: a pipe nobody reads meanwhile would block
    with tempfile.TemporaryFile() as complaints:
        # pylint: disable-next=ansible-bad-function  # no AnsibleModule reaches this layer
        with subprocess.Popen(list(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints, bufsize=1 << 20) as process:
            try:
                taken = _receive(process, asked, stored, told)
            except (ValueError, OSError) as error:
                process.kill()
                process.wait()
                complaints.seek(0)
                said = complaints.read().decode(errors="replace")
                lost = "The connection to the source was lost" if process.returncode == 255 else None
                raise CommandError(argv, process.returncode, said or str(error), hint="Look whether the source runs and can be reached.", what=lost) from error
            process.wait()
    if taken is None:
        raise BackendError("The source's list of files broke off.", hint="Look whether the source runs and can be reached.")
    return taken


def _receive(process: subprocess.Popen[bytes], asked: bytes, stored: pathlib.Path, told: t.Callable[[int, int], object] | None) -> io_manifest.Taken | None:
    if process.stdin is None or process.stdout is None:
        raise ValueError("no pipes")
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(asked)
        process.stdin.close()
    header = parse_header(process.stdout.readline())
    known = process.stdout.readline() != b"base -\n"
    end: list[int] = []

    def changes() -> t.Iterator[tuple[bytes, Line]]:
        for raw in process.stdout or ():
            sign = raw[:1]
            if sign in b"+-":
                yield sign, parse_line(raw[1:])
            elif sign == b"~":
                if told:
                    files, size = raw[1:].split()
                    told(int(files), int(size))
            else:
                end.extend(int(each) for each in raw.split()[1:])
                return
        raise ValueError("it broke off")

    number = io_manifest.write(stored, header, merged(io_manifest.read(stored) if known else iter(()), changes()))
    if len(end) != 3 or end[0] != number:
        stored.unlink()
        raise ValueError(f"{number} files came instead of {end[0] if end else 'some'}")
    return io_manifest.Taken(number, end[1], end[2], 0.0)
