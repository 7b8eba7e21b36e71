# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The phases of a migration: where to continue, when to stop copying, and how long the pause will be.

A lease ensures that only one machine uses the admin address. The source stops its services and releases
the address for ``lease_timeout`` seconds at a time; the worker renews the lease. The resulting decisions
of both sides are in ``_migrate/source/model_handover.py``.
"""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source.model_handover import LENT
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import HANDED_OVER, PHASES, QUIESCED, SERVING, Journal

# Interval of the lease renewals, as a fraction of the lease.
RENEW = 0.15
# Time for one answer of the source, as a fraction of the lease: a late answer counts as well. ssh ends a lost connection much earlier.
_ANSWER = 0.3

# A working destination reports to its source in every phase; a single phase may copy for hours.
SILENT = 6 * 3600.0

_AT_QUIESCE = PHASES.index("quiesce")
_AT_CUTOVER = PHASES.index("cutover")

# estimates in seconds: stopping one service
_STOP = 1.0
# shutdown of the source, and shutdown and boot without services if the duration of its last boot is unknown
_DOWN, _REBOOT = 10.0, 90.0
# boot of the VM if no rehearsal measured one
_BOOT = 30.0


class Resume(t.NamedTuple):
    """Where a worker continues.

    :arg stop_clone: stop the VM first: it must not run while the source serves.
    :arg reason: for the log, ``None`` for an ordinary start.
    """

    phase: str
    stop_clone: bool
    reason: str | None


def answer_timeout(lease: float, least: float = 20.0) -> float:
    """Seconds to wait for one answer of a quiesced or parked source, which may be a slow machine."""
    return max(least, lease * _ANSWER)


def resume(journal: Journal, source_state: str | None, clone_running: bool) -> Resume:
    """Where to continue after a start, a kill, or a reboot of the destination or of the source.

    :arg source_state: the state the source reports, ``None`` when it does not answer.
    """
    phase = next((each for each in PHASES if not journal.finished(each)), PHASES[-1])
    at = PHASES.index(phase)
    if source_state == HANDED_OVER:
        return Resume("commit", False, "the source has already handed over")
    if source_state in LENT:
        if at < _AT_CUTOVER:
            # its services were stopped and the copy was final before it released the address
            return Resume("cutover", False, "the source is already parked")
        if at > _AT_CUTOVER and not clone_running:
            # a VM that does not run cannot be committed
            return Resume("cutover", False, "the VM does not run")
        return Resume(phase, False, f"interrupted in {phase}" if journal.phase == phase and phase in journal.phases else None)
    if source_state == QUIESCED:
        return Resume("quiesce" if at >= _AT_QUIESCE else phase, clone_running, "the services of the source are already stopped")
    if at >= _AT_QUIESCE and source_state == SERVING:
        return Resume("precopy", clone_running, "the source serves again, so the copy is no longer final")
    return Resume(phase, clone_running and at < _AT_CUTOVER, None)


def other_destination(kept: t.Mapping[str, t.Any] | None, source_state: str, host_id: str, now: float) -> str | None:
    """The other host that currently migrates this source, by its last report to the source; ``None`` when there is none.

    A host without a report for :data:`SILENT` seconds while the source serves counts as failed.
    """
    if not kept or kept.get("host_id") in (None, "", host_id):
        return None
    works = kept["journal"].get("state") == "running" and now - float(kept.get("reported_at", 0)) < SILENT
    return str(kept.get("host")) if works or source_state in (QUIESCED, *LENT) else None


def converged(passes: t.Sequence[t.Mapping[str, t.Any]], max_passes: int, max_downtime: float) -> bool:
    """Whether another live pass is not useful: the last one was short enough or no shorter, or the limit is reached."""
    if not passes:
        return False
    last = float(passes[-1]["seconds"])
    if last <= max_downtime or len(passes) >= max_passes:
        return True
    return len(passes) > 1 and last > 0.8 * float(passes[-2]["seconds"])


def predict(passes: t.Sequence[t.Mapping[str, t.Any]], facts: t.Mapping[str, t.Any], services: int, *, reboots: bool = False) -> dict[str, t.Any]:
    """Predict the pause: ``seconds`` in total, ``data`` for copy, fix-ups and verification, ``parts`` by phase.

    The last live pass started right after the one before it had ended, like the final copy; the second comparison of
    the manifests read as few files again as the verification in the pause will.

    :arg facts: of the journal: ``manifest`` (of the last comparison), ``fixup_seconds``, ``boot_seconds`` (of a rehearsal),
        ``reboot_seconds`` (of an earlier maintenance boot), ``source_facts``.
    """
    boot = (facts.get("source_facts") or {}).get("boot_seconds")
    reboot = facts.get("reboot_seconds") or (boot + _DOWN if boot else _REBOOT)
    parts = {
        "quiesce": float(reboot) if reboots else services * _STOP,
        "final": float(passes[-1]["seconds"]) if passes else 0.0,
        "fixup": float(facts.get("fixup_seconds") or 0.0),
        "verify": float((facts.get("manifest") or {}).get("seconds") or 0.0),
        "cutover": float(facts.get("boot_seconds") or _BOOT),
    }
    data = parts["final"] + parts["fixup"] + parts["verify"]
    return {"seconds": round(sum(parts.values()), 1), "data": round(data, 1), "parts": {name: round(seconds, 2) for name, seconds in parts.items()}}
