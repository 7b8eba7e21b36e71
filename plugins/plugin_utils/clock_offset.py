# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measure the clock of a host through the connection of an action plugin."""

from __future__ import annotations

import re
import time
import typing as t

from ansible.plugins.action import ActionBase

_TIME = re.compile(r"^([0-9]{9,11}[.][0-9]{6,9})\s*$", re.MULTILINE)


def measure(action: ActionBase, samples: int) -> dict[str, float] | None:
    """Ask the host for its time several times; the fastest answer is the most precise one.

    :returns: ``offset_seconds`` and ``uncertainty_seconds``; ``None`` without an answer.
    """
    answers = [one for one in (_ask(action) for _number in range(samples)) if one]
    if not answers:
        return None
    took, offset = min(answers)
    return {"offset_seconds": round(offset, 6), "uncertainty_seconds": round(took / 2, 6)}


def _ask(action: t.Any) -> tuple[float, float] | None:
    """Return the duration of one request, and the offset at its middle."""
    began, start = time.time(), time.monotonic()
    answer = action._low_level_execute_command("date +%s.%N", sudoable=False)
    took = time.monotonic() - start
    match = _TIME.search(str(answer.get("stdout") or "")) if not answer.get("rc") else None
    return (took, float(match[1]) - (began + took / 2)) if match else None
