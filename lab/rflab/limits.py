# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Limits of this host's kernel, which all machines of all labs share.

A dozen init processes under one user exceed the default number of inotify instances, and units fail with "Too many open files".
"""

from __future__ import annotations

import pathlib
import typing as t

WANTED = {"fs.inotify.max_user_instances": 1024, "fs.inotify.max_user_watches": 65536}


def _path(name: str) -> pathlib.Path:
    return pathlib.Path("/proc/sys") / name.replace(".", "/")


def widen() -> dict[str, int]:
    """Raise limits that are too low; return the previous values by name."""
    before = {}
    for name, wanted in WANTED.items():
        value = int(_path(name).read_text())
        if value < wanted:
            try:
                _path(name).write_text(str(wanted))
            except OSError:
                continue  # read-only: this host is a container
            before[name] = value
    return before


def restore(before: t.Mapping[str, int]) -> None:
    """Restore the previous values, unless they were changed in the meantime."""
    for name, value in before.items():
        if int(_path(name).read_text()) == WANTED.get(name):
            _path(name).write_text(str(value))
