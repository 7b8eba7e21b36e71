# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Limits of this host that all machines of all labs share, since they share its kernel.

A dozen inits under one user outgrow the usual number of inotify instances, and
then units fail with "Too many open files" here and there.
"""

from __future__ import annotations

import pathlib
import typing as t

WANTED = {"fs.inotify.max_user_instances": 1024, "fs.inotify.max_user_watches": 65536}


def _path(name: str) -> pathlib.Path:
    return pathlib.Path("/proc/sys") / name.replace(".", "/")


def widen() -> dict[str, int]:
    """Raise what is too low; answer the values before, by name."""
    before = {}
    for name, wanted in WANTED.items():
        value = int(_path(name).read_text())
        if value < wanted:
            try:
                _path(name).write_text(str(wanted))
            except OSError:
                continue  # read-only here: this host is a container itself
            before[name] = value
    return before


def restore(before: t.Mapping[str, int]) -> None:
    """Put back the values from before, unless somebody changed them since."""
    for name, value in before.items():
        if int(_path(name).read_text()) == WANTED.get(name):
            _path(name).write_text(str(value))
