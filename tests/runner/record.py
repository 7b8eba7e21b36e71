# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which gates passed, so that a run of hours that was interrupted need not repeat them."""

from __future__ import annotations

import json
import os
import pathlib
import threading
import typing as t

from counts import Count


class Record:
    """Passed gates with their count and seconds, in a file that holds for one state of the checkout.

    :arg path: the file.
    :arg state: what identifies the state of the checkout, as :func:`workspace.code_state` returns it.
    :arg resume: whether gates that passed at this state are not run again.
    """

    def __init__(self, path: pathlib.Path, state: str, resume: bool) -> None:
        self._path, self._state, self._resume = path, state, resume
        self._lock = threading.Lock()
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            kept = {}
        self._passed: dict[str, t.Any] = kept.get("passed", {}) if kept.get("state") == state else {}

    def passed(self, gate: str) -> tuple[Count, float] | None:
        """Count and seconds of a gate that need not run again."""
        entry = self._passed.get(gate) if self._resume else None
        return (Count(entry["passed"], 0, entry["skipped"]), entry["seconds"]) if entry else None

    def add(self, gate: str, count: Count, seconds: float) -> None:
        """Keep a gate that passed, forget one that failed."""
        with self._lock:
            self._passed.pop(gate, None)
            if count.passed and not count.failed:
                self._passed[gate] = {"passed": count.passed, "skipped": count.skipped, "seconds": round(seconds, 1)}
            self._path.parent.mkdir(parents=True, exist_ok=True)
            new = self._path.with_suffix(".new")
            new.write_text(json.dumps({"state": self._state, "passed": self._passed}, indent=1), encoding="utf-8")
            os.replace(new, self._path)
