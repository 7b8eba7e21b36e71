# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Texts about a migration: one progress line while it runs, a summary at its end. All take the ``migration`` that modules return."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import size_text
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import waits_until

Report = t.Mapping[str, t.Any]

_PARTS = ("quiesce", "final", "fixup", "verify", "detach", "boot", "checks")


def progress_line(migration: Report) -> str:
    """Return one line about the progress."""
    progress = migration.get("progress") or {}
    parts = [f"{migration['name']}: {migration['phase']}"]
    if "number" in progress:
        parts.append(f"pass {progress['number']}")
        if progress["number"] == 1 and "percent" in progress:
            parts.append(f"{progress['percent']} %")
        parts.append(size_text(int(progress.get("bytes", 0))))
        if progress.get("rate"):
            parts.append(str(progress["rate"]))
        if progress.get("seconds_left") is not None:
            parts.append(f"{duration(progress['seconds_left'])} left")
    if progress.get("step"):
        parts.append(str(progress["step"]))
    if progress.get("hook") is not None:
        parts.append(f"hook {progress['hook']}")
    if progress.get("waiting_for"):
        parts.append(f"waiting: {progress['waiting_for']}")
    if migration.get("predicted_downtime_seconds") is not None and migration.get("downtime_seconds") is None:
        parts.append(f"predicted downtime {duration(migration['predicted_downtime_seconds'])}")
    return ", ".join(parts)


def duration(seconds: float) -> str:
    """Format seconds, e.g. ``1 min 22 s``."""
    whole = round(seconds)
    if whole < 60:
        return f"{round(seconds, 1):g} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


def summary(migration: Report) -> list[str]:
    """Return the result of a migration in a few lines."""
    name, state = migration["name"], migration["state"]
    lines = [_outcome(migration)]
    if migration.get("downtime_seconds") is not None:
        predicted = migration.get("predicted_downtime_seconds")
        expected = f", predicted {duration(predicted)}" if predicted is not None else ""
        # a journal that was read from its file has lost the order
        known = sorted((migration.get("downtime_seconds_by_phase") or {}).items(), key=lambda each: _PARTS.index(each[0]) if each[0] in _PARTS else len(_PARTS))
        parts = ", ".join(f"{part} {duration(seconds)}" for part, seconds in known)
        lines.append(f"downtime: {duration(migration['downtime_seconds'])}{expected}" + (f" ({parts})" if parts else ""))
    passes = migration.get("passes") or []
    if passes:
        proof = ", source and copy found equal" if migration.get("verified") else ""
        lines.append(f"copied: {size_text(int(migration.get('bytes', 0)))}, {migration.get('files', 0)} files in {len(passes)} passes{proof}")
    rehearsal = migration.get("rehearsal") or {}
    if rehearsal.get("passed"):
        lines.append(f"rehearsal: passed in {duration(rehearsal.get('seconds', 0))}")
    if waits_until(migration):
        problem = migration["progress"].get("problem")
        lines += [f"the last update failed, which is tried again: {problem}"] if problem else []
        lines.append("to begin earlier or later, run again with another cutover_at; rollback_master ends it")
    if state == "done":
        parked = (migration.get("source") or {}).get("temporary_address")
        lines.append(f"source: waits at {parked}; rollback_master returns {name} to it, retire_source shuts it down")
    lines += [f"note: {warning}" for warning in migration.get("warnings") or []]
    return lines


def _outcome(migration: Report) -> str:
    name, state, host = migration["name"], migration["state"], migration.get("host")
    if state == "done":
        return f"{name} serves from a VM of {host}"
    if state == "stopped":
        return f"{name}: the copy is ready up to {migration['phase']}; the source serves as before"
    if state == "rolled_back":
        return f"{name}: the source serves as before"
    if state == "retired":
        return f"{name} serves from a VM of {host}; its source is shut down"
    until = waits_until(migration)
    if until:
        predicted = migration.get("predicted_downtime_seconds")
        expected = f", predicted downtime {duration(predicted)}" if predicted is not None else ""
        return f"{name}: the copy is kept up to date; the source serves until {until}{expected}"
    return f"{name}: {state} at {migration['phase']}"


class MigrationFailed(FootprintError):
    """The migration did not reach the requested state; the result contains its report."""

    def __init__(self, migration: Report, log: t.Sequence[str] = ()) -> None:
        status = f"in phase {migration['phase']}"
        if migration["state"] == "rolled_back":
            status = "rolled back: the source serves as before"
        elif "quiesce" not in migration["phases"]:
            status = "the source serves as before"
        why = migration.get("reason") or f"its worker died; {(list(log) or ['no log'])[-1]}"
        super().__init__(f"The migration {migration['name']} failed ({status}): {why}", hint="Fix the error and run again; the migration resumes if possible.")
        self.migration = migration

    def as_result(self) -> dict[str, t.Any]:
        """The error with the migration's report."""
        return {**super().as_result(), "migration": dict(self.migration)}


def still_running(name: str) -> FootprintError:
    """The error for a migration that still runs when ``wait_timeout`` has passed."""
    return FootprintError(
        f"The migration {name} is still running after wait_timeout.",
        hint="Run this again to wait for its end, or check its progress with master_migrate_info; it continues in the background.",
    )
