# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What every worker does around one phase: journal before, journal after, whatever happens in between."""

from __future__ import annotations

import contextlib
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import Journal


class Journaled(t.Protocol):
    """What a worker's context has for that."""

    @property
    def journal(self) -> Journal:
        """The journal that is written."""

    def save(self) -> None:
        """Write it."""

    def log(self, message: str) -> None:
        """One line into the log."""


def run_phase(context: Journaled, name: str, work: t.Callable[[], object]) -> None:
    """One phase with its entry in the journal.

    ``BaseException`` too: a worker that is told to stop leaves a journal that says so.
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
        # what went wrong is told, not that there is no room to write it down
        with contextlib.suppress(OSError):
            context.save()
        raise
    journal.end(name, time.time())
    context.log(f"done in {journal.phases[name]['seconds']} s")
    context.save()
