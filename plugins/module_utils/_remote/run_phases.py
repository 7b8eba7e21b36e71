# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run a phase of a worker with its journal entries, also when it fails."""

from __future__ import annotations

import contextlib
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import Journal


class Journaled(t.Protocol):
    """The part of a worker's context that is used here."""

    @property
    def journal(self) -> Journal:
        """The worker's journal."""

    def save(self) -> None:
        """Write the journal."""

    def log(self, message: str) -> None:
        """Write a line to the log."""


def run_phase(context: Journaled, name: str, work: t.Callable[[], object]) -> None:
    """Run one phase, and record it in the journal.

    Handles ``BaseException``: a worker that is terminated records that as well.
    """
    journal = context.journal
    journal.begin(name, time.time())
    journal.progress = {"phase": name}
    context.log("begins")
    context.save()
    try:
        work()
    except BaseException:
        journal.end(name, time.time(), "failed")
        # report the original error, not a full disk
        with contextlib.suppress(OSError):
            context.save()
        raise
    journal.end(name, time.time())
    context.log(f"done in {journal.phases[name]['seconds']} s")
    context.save()
