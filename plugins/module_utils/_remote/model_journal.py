# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The journal of a migration: what was done, what it cost, where to go on.

It is one JSON document, rewritten atomically at every step; times are Unix seconds.
"""

from __future__ import annotations

import dataclasses
import json
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError

SCHEMA = 1

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

# running: a unit works on it (or died while it did); stopped: ended at stop_after;
# failed: ended before the services were touched; rolled_back: the source serves again.
STATES = ("new", "running", "stopped", "failed", "done", "rolled_back", "retired")

# What the source says of itself: it serves; its services are held; it gave up the admin address
# and waits for the outcome; it is ready to give it up for good and waits for the final word; it did.
SERVING = "serving"
QUIESCED = "quiesced"
PARKED = "parked"
HANDING_OVER = "handing_over"
HANDED_OVER = "handed_over"


@dataclasses.dataclass
class Journal:
    """The one mutable thing of a migration; the worker alone writes it."""

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
    schema: int = SCHEMA

    def begin(self, phase: str, now: float) -> None:
        """Enter a phase (again, after a resume)."""
        self.phase = phase
        self.state = "running"
        self.phases[phase] = {"state": "running", "started": now, "ended": None, "seconds": None}

    def end(self, phase: str, now: float, state: str = "done") -> None:
        """Leave a phase."""
        entry = self.phases.setdefault(phase, {"started": now})
        entry.update(state=state, ended=now, seconds=round(now - entry["started"], 3))

    def finished(self, phase: str) -> bool:
        """Whether a phase was ended well in this attempt."""
        return self.phases.get(phase, {}).get("state") == "done"

    def forget_from(self, phase: str) -> None:
        """Take back a phase and all after it, so that they are done again."""
        for later in PHASES[PHASES.index(phase) :]:
            self.phases.pop(later, None)
        self.phase = phase

    def new_attempt(self, now: float) -> None:
        """Begin again after a return; disk and definition stay, so the copy only catches up."""
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
        """Bytes of file content brought over so far, all passes."""
        return sum(int(each.get("bytes", 0)) for each in self.passes)

    def to_json(self) -> str:
        """The document as it is written."""
        return json.dumps(dataclasses.asdict(self), indent=1, sort_keys=True) + "\n"


def parse_journal(text: str) -> Journal:
    """A journal from its document.

    :raises FootprintError: when it is no journal this version reads.
    """
    try:
        data = json.loads(text)
        if data.get("schema") != SCHEMA:
            raise ValueError(f"schema {data.get('schema')!r}")
        return Journal(**data)
    except (ValueError, TypeError, AttributeError) as error:
        raise FootprintError(
            f"The journal of the migration cannot be read: {error}.", hint="Use the version of the collection that wrote it."
        ) from error


def report(journal: Journal) -> dict[str, t.Any]:
    """What modules return about a migration."""
    return {
        "name": journal.name,
        "state": journal.state,
        "phase": journal.phase,
        "attempt": journal.attempt,
        "started": journal.started,
        "ended": journal.ended,
        "phases": journal.phases,
        "passes": journal.passes,
        "progress": journal.progress,
        "bytes": journal.bytes,
        "files": sum(int(each.get("files", 0)) for each in journal.passes),
        "downtime": journal.downtime.get("seconds"),
        "downtime_predicted": journal.downtime.get("predicted"),
        "downtime_parts": journal.downtime.get("parts", {}),
        "rehearsal": journal.facts.get("rehearsal"),
        "verified": journal.verified,
        "reason": journal.reason,
        "problems": journal.problems,
        "warnings": journal.warnings,
        "vm": journal.facts.get("vm", {}),
        "source": journal.facts.get("source", {}),
    }
