# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The journal of a migration: finished phases, their duration, and where to continue.

It is one JSON document, rewritten atomically at every step; times are Unix seconds.
"""

from __future__ import annotations

import dataclasses
import json
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_schema
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_time import dated

PHASES = (
    "preflight",
    "define",
    "prepare",
    "partition",
    "precopy",
    "rehearse",
    "quiesce",
    "final",
    "fixup",
    "verify",
    "cutover",
    "commit",
)

# running: a unit works on it (or was killed meanwhile); stopped: ended at stop_after;
# failed: ended before the services were stopped; rolled_back: the source serves again.
STATES = ("new", "running", "stopped", "failed", "done", "rolled_back", "retired")

# States the source reports: it serves; its services are stopped; it released the admin address
# and waits for the outcome; it is ready to hand over and waits for the confirmation; it has handed over.
SERVING = "serving"
QUIESCED = "quiesced"
PARKED = "parked"
HANDING_OVER = "handing_over"
HANDED_OVER = "handed_over"

_J = t.TypeVar("_J", bound="Journal")


@dataclasses.dataclass
class Journal:
    """The only mutable state of a migration; only the worker writes it."""

    #: What it is a journal of, in messages.
    WHAT: t.ClassVar[str] = "migration"
    SCHEMA: t.ClassVar[model_schema.Schema] = model_schema.MIGRATION_JOURNAL

    name: str
    state: str = "new"
    phase: str = PHASES[0]
    attempt: int = 1
    started: float | None = None
    ended: float | None = None
    phases: dict[str, dict[str, t.Any]] = dataclasses.field(default_factory=dict)
    passes: list[dict[str, t.Any]] = dataclasses.field(default_factory=list)
    progress: dict[str, t.Any] = dataclasses.field(default_factory=dict)
    facts: dict[str, t.Any] = dataclasses.field(default_factory=dict)
    downtime: dict[str, t.Any] = dataclasses.field(default_factory=dict)
    verified: bool = False
    reason: str | None = None
    problems: list[dict[str, t.Any]] = dataclasses.field(default_factory=list)
    warnings: list[str] = dataclasses.field(default_factory=list)

    def begin(self, phase: str, now: float) -> None:
        """Start a phase, or start it again after a resume."""
        self.phase = phase
        self.state = "running"
        self.phases[phase] = {"state": "running", "started": now, "ended": None, "seconds": None}

    def end(self, phase: str, now: float, state: str = "done") -> None:
        """End a phase."""
        entry = self.phases.setdefault(phase, {"started": now})
        entry.update(state=state, ended=now, seconds=round(now - entry["started"], 3))

    def finished(self, phase: str) -> bool:
        """Whether a phase succeeded in this attempt."""
        return self.phases.get(phase, {}).get("state") == "done"

    def forget_from(self, phase: str) -> None:
        """Discard a phase and all later ones, so that they run again."""
        for later in PHASES[PHASES.index(phase) :]:
            self.phases.pop(later, None)
        self.phase = phase

    def new_attempt(self, now: float) -> None:
        """Start again after a rollback; disk and definition are kept, so the copy is only brought up to date."""
        self.attempt += 1 if self.started else 0
        self.started = self.started or now
        self.ended = None
        self.downtime = {}
        self.passes = []
        self.progress = {}
        self.problems = []
        self.warnings = []
        self.verified = False
        self.forget_from("precopy")
        self.phases.pop("preflight", None)

    @property
    def bytes(self) -> int:
        """Bytes of file content transferred so far, in all passes."""
        return sum(int(each.get("bytes", 0)) for each in self.passes)

    def to_json(self) -> str:
        """Return the document."""
        return json.dumps(self.SCHEMA.mark(dataclasses.asdict(self)), indent=1, sort_keys=True) + "\n"

    @classmethod
    def parse(cls: type[_J], text: str, place: t.Any = "journal.json") -> _J:
        """Parse a journal document."""
        try:
            return cls(**cls.SCHEMA.load(text, place))
        except (ValueError, TypeError, AttributeError) as error:
            raise FootprintError(f"The journal of the {cls.WHAT} in {place} cannot be read: {error}.", hint=model_schema.HINT) from error


def waits_until(migration: t.Mapping[str, t.Any]) -> str | None:
    """Return the time at which the pause of a migration begins, whose copy is kept up to date until then; ``None`` if it does not wait.

    :arg migration: as :func:`report` returns it, or the values of a journal.
    """
    return (migration.get("progress") or {}).get("cutover_at") if migration.get("state") == "running" else None


def report(journal: Journal) -> dict[str, t.Any]:
    """Return the report of a migration, as modules return it; times are timestamps."""
    names = ("name", "state", "phase", "attempt", "started", "ended", "passes", "progress", "bytes", "verified", "reason", "problems", "warnings")
    values = {
        **{name: getattr(journal, name) for name in names},
        "phases": {name: dated(entry) for name, entry in journal.phases.items()},
        "files": sum(int(each.get("files", 0)) for each in journal.passes),
        "downtime_seconds": journal.downtime.get("seconds"),
        "predicted_downtime_seconds": journal.downtime.get("predicted"),
        "downtime_seconds_by_phase": journal.downtime.get("parts", {}),
        "rehearsal": dated(journal.facts["rehearsal"]) if journal.facts.get("rehearsal") else None,
        "vm": journal.facts.get("vm", {}),
        "source": journal.facts.get("source", {}),
    }
    return dated(values)
