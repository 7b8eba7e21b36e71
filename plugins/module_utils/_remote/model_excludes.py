# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Excludes of a copy: absolute paths or patterns of rsync."""

from __future__ import annotations

import fnmatch
import re
import typing as t

# what a pattern adds to a folder when it means everything in it
_CONTENT = re.compile(r"/\**\Z")


def base(pattern: str) -> str:
    """The file or folder that a pattern excludes, itself or with all of its content; it may contain wildcards."""
    return _CONTENT.sub("", pattern)


def covers(pattern: str, path: str) -> bool:
    """Whether a pattern excludes the whole content of a folder, because it names it or a folder above it."""
    wanted, parts = base(pattern).split("/"), path.rstrip("/").split("/")
    return "**" not in base(pattern) and len(parts) >= len(wanted) and all(map(fnmatch.fnmatchcase, parts, wanted))


def excluded(path: str, excludes: t.Iterable[str]) -> bool:
    """Whether the whole content of a folder is excluded."""
    return any(covers(pattern, path) for pattern in excludes)
