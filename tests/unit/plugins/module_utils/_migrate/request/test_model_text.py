# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.model_text import MigrationFailed, duration, progress_line, summary
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import PHASES, STATES, Journal, report


@pytest.mark.parametrize(("seconds", "text"), [(0, "0 s"), (1.24, "1.2 s"), (59.4, "59.4 s"), (61, "1 min 01 s"), (3599, "59 min 59 s"), (7384, "2 h 03 min")])
def test_durations_are_formatted(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("state", (*STATES, "interrupted"))
def test_every_state_of_every_phase_has_a_text(state, phase):
    migration = {**report(Journal("master", state=state, phase=phase)), "host": "metal1"}
    assert progress_line(migration).startswith("master: ")
    assert "master" in summary(migration)[0]
    assert "master" in MigrationFailed(migration, []).message


def test_a_later_pass_has_no_percentage_because_its_size_is_unknown():
    journal = Journal("master", state="running", phase="precopy", progress={"phase": "precopy", "number": 2, "percent": 3, "bytes": 2048, "rate": "1MB/s"})
    assert progress_line(report(journal)) == "master: precopy, pass 2, 2 KiB, 1MB/s"


def test_a_failure_names_the_machine_that_serves():
    journal = Journal("master", state="failed", phase="precopy", reason="precopy: no")
    assert "the source serves as before" in MigrationFailed(report(journal)).message
    journal.phases["quiesce"] = {"state": "failed"}
    assert "(in phase precopy)" in MigrationFailed(report(journal)).message


def test_the_parts_of_the_pause_are_in_order():
    parts = {"boot": 20.0, "detach": 3.0, "quiesce": 1.0, "verify": 0.5}
    journal = Journal("master", state="done", downtime={"seconds": 24.5, "predicted": 30.0, "parts": parts})
    assert summary(report(journal))[1] == "downtime: 24.5 s, predicted 30 s (quiesce 1 s, verify 0.5 s, detach 3 s, boot 20 s)"
