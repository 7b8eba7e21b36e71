# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The journal of a move, kept on the source.

Until ``switched`` the VM is the copy on the source, afterwards the copy at the destination. So the journal
shows which copy may run, even if the process that wrote it was killed.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_schema
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_time import dated
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import Journal

PREFLIGHT, RECEIVE, PRECOPY, STOP, COPY, VERIFY, PLACE, MIGRATE, SWITCH, START, SETTLE = PHASES = (
    "preflight",
    "receive",
    "precopy",
    "stop",
    "copy",
    "verify",
    "place",
    "migrate",
    "switch",
    "start",
    "settle",
)
# the phases of each method
LIVE_PHASES = (PREFLIGHT, RECEIVE, PRECOPY, PLACE, MIGRATE, SWITCH, START, SETTLE)
COPY_PHASES = (PREFLIGHT, RECEIVE, PRECOPY, STOP, COPY, VERIFY, PLACE, SWITCH, START, SETTLE)

RUNNING, FAILED, MOVED, CONFIRMED, RETURNED = "running", "failed", "moved", "confirmed", "returned"


@dataclasses.dataclass
class MoveJournal(Journal):
    """``facts`` hold the VM as it was found, and ``job``: the token of the last job that has begun, and whether it has ended; ``going`` is the target state.
    ``failed`` is the reason while a move is rolled back, ``there`` the record of the destination that has all data.

    ``progress`` contains ``waiting_for``, a host, while the worker waits until that answers; ``reason`` is the whole message then.
    """

    WHAT: t.ClassVar[str] = "move"
    SCHEMA: t.ClassVar[model_schema.Schema] = model_schema.MOVE_JOURNAL

    phase: str = PREFLIGHT
    method: str | None = None
    live_blockers: list[str] = dataclasses.field(default_factory=list)
    switched: bool = False
    going: str = MOVED

    def renew(self, now: float) -> None:
        """Reset the journal for a new attempt; data that was already copied is kept and reused."""
        self.attempt += 1 if self.started else 0
        self.started = now
        self.ended = self.reason = self.method = None
        self.phases, self.passes, self.progress, self.downtime = {}, [], {}, {}
        # the job that makes this attempt
        self.facts = {key: self.facts[key] for key in ("job",) if key in self.facts}
        self.problems, self.warnings, self.live_blockers = [], [], []
        self.verified = self.switched = False
        self.going = MOVED
        self.phase = PREFLIGHT


def waiting(journal: MoveJournal) -> str | None:
    """Return what the worker waits for, as a message; ``None`` if it does not wait for another host."""
    return journal.reason if journal.state == RUNNING and journal.progress.get("waiting_for") else None


def report(journal: MoveJournal) -> dict[str, t.Any]:
    """Return the move as the module reports it; times are timestamps."""
    vm = journal.facts.get("vm", {})
    names = ("state", "phase", "attempt", "method", "live_blockers", "started", "ended", "passes", "bytes", "verified", "reason", "warnings")
    values = {
        **{name: getattr(journal, name) for name in names},
        "id": journal.name,
        "name": vm.get("name"),
        "uuid": vm.get("uuid"),
        "macs": vm.get("macs", []),
        "from": journal.facts.get("from"),
        "to": journal.facts.get("to"),
        "phases": {name: dated(entry) for name, entry in journal.phases.items()},
        "downtime_seconds": journal.downtime.get("seconds"),
        "volumes": [each["path"] for each in vm.get("items", [])],
        "kept": journal.facts.get("kept", []),
    }
    return dated(values)
