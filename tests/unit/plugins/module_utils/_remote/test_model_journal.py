# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_journal import MoveJournal
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import PHASES, Journal, report


def test_a_journal_survives_being_written():
    journal = Journal(name="master")
    journal.new_attempt(10.0)
    journal.begin("preflight", 11.0)
    journal.end("preflight", 12.5)
    journal.passes.append({"bytes": 5, "files": 1})
    journal.passes.append({"bytes": 7, "files": 2})
    again = Journal.parse(journal.to_json())
    assert again == journal
    assert again.phases["preflight"]["seconds"] == 1.5
    assert (report(again)["started"], report(again)["ended"]) == ("1970-01-01T00:00:10Z", None)
    assert report(again)["phases"]["preflight"]["ended"] == "1970-01-01T00:00:12Z"
    assert (report(again)["bytes"], report(again)["files"], report(again)["phase"]) == (12, 3, "preflight")


def test_a_new_attempt_keeps_disk_and_definition():
    journal = Journal(name="master")
    journal.new_attempt(1.0)
    for phase in PHASES[:7]:
        journal.begin(phase, 1.0)
        journal.end(phase, 2.0)
    journal.downtime = {"started": 1.0}
    journal.new_attempt(3.0)
    assert journal.attempt == 2
    assert journal.started == 1.0
    assert journal.downtime == {}
    assert set(journal.phases) == {"define", "prepare", "partition"}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 99, "name": "x"}', '{"schema": 1, "nam": "x"}'])
def test_invalid_journal_is_refused(text):
    for kind, words in ((Journal, "the migration"), (MoveJournal, "the move")):
        with pytest.raises(FootprintError, match=words):
            kind.parse(text)
