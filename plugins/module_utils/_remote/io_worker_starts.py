# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Count the starts of a worker since it last ended without being killed; stored in memory, because a host restart does not count."""

from __future__ import annotations

import contextlib
import json
import pathlib
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import read_text
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_schema import WORKER_STARTS

#: Removed by a restart of the host.
HOME = pathlib.Path("/run/reduced.footprint")
_KEPT = 50


def clock() -> float:
    """Seconds since the host booted, including suspend."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _file(name: str, home: pathlib.Path | None) -> pathlib.Path:
    return (home or HOME) / f"migrate-{name}.starts"


def note(name: str, home: pathlib.Path | None = None) -> t.Sequence[float]:
    """Record this start; returns the times of all recorded starts."""
    file = _file(name, home)
    starts: list[float] = []
    with contextlib.suppress(ValueError, TypeError):
        starts = [float(each) for each in WORKER_STARTS.load(read_text(file) or "[]", file, "starts").get("starts", [])]
    starts = [*starts, clock()][-_KEPT:]
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file.write_text(json.dumps(WORKER_STARTS.mark({"starts": starts})), encoding="ascii")
    return starts


def forget(name: str, home: pathlib.Path | None = None) -> None:
    """Remove the recorded starts after the worker ended without being killed."""
    with contextlib.suppress(OSError):
        _file(name, home).unlink()
