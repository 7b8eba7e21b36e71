# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The journal of a move, kept on the host the VM leaves.

Until ``switched`` the VM's truth is here, from then on it is at the destination: whoever finds the
journal knows which copy may run, whatever happened to the process that wrote it.
"""

from __future__ import annotations

import dataclasses
import json
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import SCHEMA, Journal

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
# what each method goes through
LIVE_PHASES = (PREFLIGHT, RECEIVE, PRECOPY, PLACE, MIGRATE, SWITCH, START, SETTLE)
COPY_PHASES = (PREFLIGHT, RECEIVE, PRECOPY, STOP, COPY, VERIFY, PLACE, SWITCH, START, SETTLE)

RUNNING, FAILED, MOVED, CONFIRMED, RETURNED = "running", "failed", "moved", "confirmed", "returned"


@dataclasses.dataclass
class MoveJournal(Journal):
    """``facts`` hold the VM as it was found; ``going`` is the state it is being brought to."""

    phase: str = PREFLIGHT
    method: str | None = None
    live_blockers: list[str] = dataclasses.field(default_factory=list)
    switched: bool = False
    going: str = MOVED

    def renew(self, now: float) -> None:
        """Begin again: what was copied stays where it is and is caught up with."""
        self.attempt += 1 if self.started else 0
        self.started = now
        self.ended = self.reason = self.method = None
        self.phases, self.passes, self.progress, self.downtime = {}, [], {}, {}
        # what the other host knew of the VM before the first attempt
        self.facts = {"before": self.facts.get("before")}
        self.problems, self.warnings, self.live_blockers = [], [], []
        self.verified = self.switched = False
        self.going = MOVED
        self.phase = PREFLIGHT


def parse_journal(text: str) -> MoveJournal:
    """A journal from its document.

    :raises FootprintError: when it is no journal this version reads.
    """
    try:
        data = json.loads(text)
        if data.get("schema") != SCHEMA:
            raise ValueError(f"schema {data.get('schema')!r}")
        return MoveJournal(**data)
    except (ValueError, TypeError, AttributeError) as error:
        raise FootprintError(f"The journal of the move cannot be read: {error}.", hint="Use the version of the collection that wrote it.") from error


def report(journal: MoveJournal) -> dict[str, t.Any]:
    """What the module returns about a move."""
    vm = journal.facts.get("vm", {})
    return {
        "id": journal.name,
        "name": vm.get("name"),
        "uuid": vm.get("uuid"),
        "macs": vm.get("macs", []),
        "state": journal.state,
        "phase": journal.phase,
        "attempt": journal.attempt,
        "method": journal.method,
        "live_blockers": journal.live_blockers,
        "from": journal.facts.get("from"),
        "to": journal.facts.get("to"),
        "started": journal.started,
        "ended": journal.ended,
        "phases": journal.phases,
        "passes": journal.passes,
        "bytes": journal.bytes,
        "downtime_seconds": journal.downtime.get("seconds"),
        "verified": journal.verified,
        "volumes": [each["path"] for each in vm.get("items", [])],
        "kept": journal.facts.get("kept", []),
        "reason": journal.reason,
        "warnings": journal.warnings,
    }
