# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The mounts of this host, in the order in which they were made; source: proc_pid_mountinfo(5)."""

from __future__ import annotations

import re
import typing as t

MOUNTS = "/proc/self/mountinfo"
_OCTAL = re.compile(r"\\([0-7]{3})")


class Mount(t.NamedTuple):
    """One mount: device number (``8:1``), mount point, type of the file system, and what is mounted."""

    number: str
    point: str
    kind: str
    source: str


def mounts(path: str = MOUNTS) -> list[Mount]:
    """Return all mounts."""
    # a mount point can have any bytes, but no newline
    with open(path, encoding="utf-8", errors="surrogateescape") as stream:
        lines = stream.read().split("\n")
    found = []
    for line in lines:
        fields, unused, more = line.partition(" - ")
        parts, kind_and_source = fields.split(" "), more.split(" ")
        if len(parts) > 4:
            found.append(Mount(parts[2], unescaped(parts[4]), kind_and_source[0], unescaped(kind_and_source[1]) if len(kind_and_source) > 1 else ""))
    return found


def unescaped(text: str) -> str:
    """Return a field of a file in /proc, where spaces and some other characters are octal."""
    return _OCTAL.sub(lambda octal: chr(int(octal.group(1), 8)), text)
