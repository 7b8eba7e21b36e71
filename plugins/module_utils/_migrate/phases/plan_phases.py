# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The phase machine of a migration: where to go on, when to stop copying, what must be true beforehand.

The address rule rests on a lease. The source holds its services and gives up the admin
address only for ``return_after`` seconds at a time; the worker renews that. What follows from it
on both sides is decided in ``_migrate/source/model_handover.py``.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.model_handover import LENT
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import HANDED_OVER, PHASES, QUIESCED, SERVING, Journal

# How often the lease is renewed, as a part of it.
RENEW = 0.15

# A destination that works tells its source something at every phase, and it may copy for long in one.
SILENT = 6 * 3600.0

_AT_QUIESCE = PHASES.index("quiesce")
_AT_CUTOVER = PHASES.index("cutover")


@dataclasses.dataclass(frozen=True)
class Resume:
    """Where a worker begins.

    :arg phase: the first phase to do.
    :arg stop_clone: the clone must not run while the source serves; stop it first.
    :arg reason: for the log, ``None`` for an ordinary start.
    """

    phase: str
    stop_clone: bool
    reason: str | None


def resume(journal: Journal, source_state: str | None, clone_running: bool) -> Resume:
    """Where to go on after a start, a kill, a reboot of the destination or of the source.

    :arg source_state: what the source says, ``None`` when it cannot be asked.
    """
    phase = next((each for each in PHASES if not journal.finished(each)), PHASES[-1])
    at = PHASES.index(phase)
    if source_state == HANDED_OVER:
        return Resume("commit", False, "the source has handed over already")
    if source_state in LENT:
        if at < _AT_CUTOVER:
            # its services are off and the copy was final before it left the address
            return Resume("cutover", False, "the source is parked already")
        if at > _AT_CUTOVER and not clone_running:
            # it is nobody's master that does not run
            return Resume("cutover", False, "the VM does not run")
        return Resume(phase, False, f"interrupted in {phase}" if journal.phase == phase and phase in journal.phases else None)
    if source_state == QUIESCED:
        return Resume("quiesce" if at >= _AT_QUIESCE else phase, clone_running, "the services of the source are held already")
    if at >= _AT_QUIESCE and source_state == SERVING:
        return Resume("precopy", clone_running, "the source serves again, so the copy is no longer final")
    return Resume(phase, clone_running and at < _AT_CUTOVER, None)


def other_destination(kept: t.Mapping[str, t.Any] | None, source_state: str, host_id: str, now: float) -> str | None:
    """The other host that moves this source at present, by what that host last told it; ``None`` when there is none.

    A host that was not heard from for :data:`SILENT` while the source serves has given up or is lost.
    """
    if not kept or kept.get("host_id") in (None, "", host_id):
        return None
    works = kept["journal"].get("state") == "running" and now - float(kept.get("reported_at", 0)) < SILENT
    return str(kept.get("host")) if works or source_state in (QUIESCED, *LENT) else None


def converged(passes: t.Sequence[t.Mapping[str, t.Any]], max_passes: int, max_downtime: float) -> bool:
    """Whether another live pass is not worth it: short enough, no gain any more, or the limit."""
    if not passes:
        return False
    last = float(passes[-1]["seconds"])
    if last <= max_downtime or len(passes) >= max_passes:
        return True
    return len(passes) > 1 and last > 0.8 * float(passes[-2]["seconds"])
