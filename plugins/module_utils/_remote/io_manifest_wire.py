# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Transfer of a manifest from the source: only the differences from the earlier one that both sides have.

Protocol: the header, ``base IDENTITY`` (or ``base -``), then lines of the manifest prefixed with ``+`` or ``-``, ``~FILES BYTES``
periodically as progress, and ``end FILES READ BYTES``.
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
    """Take this machine's manifest and send it.

    :arg stored: where it is stored; files unchanged since the stored one are not read again.
    :arg have: identity of the manifest that the receiver has.
    """
    earlier = io_manifest.read_header(stored)
    known = earlier is not None and earlier.identity == have
    header = io_manifest.new_header(stored, os.sync if settle else None)
    stream.write(header.encode())
    stream.write(b"base %s\n" % (have.encode("ascii") if known and have else b"-"))

    def report(sign: bytes, line: Line) -> None:
        # a receiver without the earlier manifest needs no removed lines
        if known or sign == b"+":
            stream.write(sign + line.encode())

    def progress(files: int, size: int) -> None:
        stream.write(b"~%d %d\n" % (files, size))
        stream.flush()

    taken = io_manifest.take(root, stored, left_out, header, mounts=mounts, report=report, everything=not known, progress=progress)
    stream.write(END + b" %d %d %d\n" % (taken.files, taken.read, taken.bytes))
    stream.flush()


def fetch(
    argv: t.Sequence[str], given: t.Mapping[str, t.Any], stored: pathlib.Path, progress: t.Callable[[int, int], object] | None = None
) -> io_manifest.Taken:
    """Run a program that calls :func:`send`; afterwards ``stored`` is the source's manifest.

    :arg given: its input, sent as JSON; ``have`` is added.
    :arg progress: called with files and bytes read.
    :raises BackendError: the manifest is not complete.
    """
    earlier = io_manifest.read_header(stored)
    request = json.dumps({**given, "have": earlier.identity if earlier else None}).encode("ascii")
    # a file for stderr: a pipe that is not read meanwhile would block
    with tempfile.TemporaryFile() as errors:
        # pylint: disable-next=ansible-bad-function  # no AnsibleModule reaches this layer
        with subprocess.Popen(list(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, bufsize=1 << 20) as process:
            try:
                taken = _receive(process, request, stored, progress)
            except (ValueError, OSError) as error:
                process.kill()
                process.wait()
                errors.seek(0)
                output = errors.read().decode(errors="replace")
                lost = "The connection to the source was lost" if process.returncode == 255 else None
                raise CommandError(argv, process.returncode, output or str(error), hint="Check that the source runs and can be reached.", what=lost) from error
            process.wait()
    if taken is None:
        raise BackendError("The source's list of files is incomplete.", hint="Check that the source runs and can be reached.")
    return taken


def _receive(
    process: subprocess.Popen[bytes], request: bytes, stored: pathlib.Path, progress: t.Callable[[int, int], object] | None
) -> io_manifest.Taken | None:
    if process.stdin is None or process.stdout is None:
        raise ValueError("no pipes")
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(request)
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
                if progress:
                    files, size = raw[1:].split()
                    progress(int(files), int(size))
            else:
                end.extend(int(each) for each in raw.split()[1:])
                return
        raise ValueError("the list of files is incomplete")

    number = io_manifest.write(stored, header, merged(io_manifest.read(stored) if known else iter(()), changes()))
    if len(end) != 3 or end[0] != number:
        stored.unlink()
        raise ValueError(f"received {number} files, expected {end[0] if end else 'some'}")
    return io_manifest.Taken(number, end[1], end[2], 0.0)
