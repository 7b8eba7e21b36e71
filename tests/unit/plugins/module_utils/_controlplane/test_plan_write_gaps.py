# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What acknowledged rows tell of the clients' fate."""

from __future__ import annotations

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_write_gaps import parse_acknowledged, tell

ROWS = [(1, 100.0), (2, 100.2), (3, 103.4), (4, 103.6)]


def test_the_longest_pause_and_lost_rows_are_told() -> None:
    told = tell(ROWS, {1, 2, 4})
    assert (told["rows"], told["seconds"], told["rows_lost"], told["lost"]) == (4, 3.6, 1, [3])
    assert (told["largest_gap_seconds"], told["largest_gap_at"]) == (3.2, "1970-01-01T00:01:40Z")


def test_a_database_that_was_not_asked_is_not_said_to_have_all() -> None:
    assert tell(ROWS, None)["rows_lost"] is None
    assert tell(ROWS, set())["rows_lost"] == 4


def test_without_rows_there_is_no_gap_to_tell() -> None:
    told = tell([], set())
    assert (told["rows"], told["largest_gap_seconds"], told["rows_lost"]) == (0, None, 0)


def test_a_line_that_a_kill_cut_off_is_no_promise() -> None:
    assert parse_acknowledged('{"n": 1, "t": 100.0}\nnoise\n{"t": 3}\n{"n": 2, "t": 10') == [(1, 100.0)]
