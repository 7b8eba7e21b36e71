# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Gaps and losses of clients, computed from acknowledged rows."""

from __future__ import annotations

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_write_gaps import parse_acknowledged, summarize

ROWS = [(1, 100.0), (2, 100.2), (3, 103.4), (4, 103.6)]


def test_largest_gap_and_lost_rows_are_reported() -> None:
    report = summarize(ROWS, {1, 2, 4})
    assert (report["rows"], report["seconds"], report["rows_lost"], report["lost"]) == (4, 3.6, 1, [3])
    assert (report["largest_gap_seconds"], report["largest_gap_at"]) == (3.2, "1970-01-01T00:01:40Z")


def test_a_database_that_was_not_asked_is_not_said_to_have_all() -> None:
    assert summarize(ROWS, None)["rows_lost"] is None
    assert summarize(ROWS, set())["rows_lost"] == 4


def test_report_without_rows_has_no_gap() -> None:
    report = summarize([], set())
    assert (report["rows"], report["largest_gap_seconds"], report["rows_lost"]) == (0, None, 0)


def test_a_line_that_a_kill_cut_off_is_no_promise() -> None:
    assert parse_acknowledged('{"n": 1, "t": 100.0}\nnoise\n{"t": 3}\n{"n": 2, "t": 10') == [(1, 100.0)]
