# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Evaluate acknowledged rows: the largest write gap, and rows that were lost."""

from __future__ import annotations

import json
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_time import utc


def parse_acknowledged(text: str) -> list[tuple[int, float]]:
    """Return number and time of each acknowledged row from the lines of the log; incomplete lines are skipped."""
    found = []
    for line in text.splitlines():
        try:
            entry = json.loads(line)
            found.append((int(entry["n"]), float(entry["t"])))
        except (ValueError, TypeError, KeyError):
            continue
    return found


def summarize(rows: t.Sequence[tuple[int, float]], stored: t.Container[int] | None) -> dict[str, t.Any]:
    """Return the report on the rows.

    :arg stored: the rows in the database at the end, ``None`` if they are not known.
    """
    pauses = [(after[1] - before[1], before[1]) for before, after in zip(rows, rows[1:])]
    longest = max(pauses, default=None)
    lost = None if stored is None else [number for number, _at in rows if number not in stored]
    return {
        "rows": len(rows),
        "seconds": round(rows[-1][1] - rows[0][1], 1) if rows else 0.0,
        "rows_lost": None if lost is None else len(lost),
        "lost": (lost or [])[:20],
        "largest_gap_seconds": round(longest[0], 3) if longest else None,
        "largest_gap_at": utc(longest[1]) if longest else None,
    }
