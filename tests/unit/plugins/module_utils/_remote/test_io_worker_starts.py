# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_worker_starts


def test_starts_are_counted_until_the_worker_ends(tmp_path, monkeypatch):
    now = [1.0]
    monkeypatch.setattr(io_worker_starts, "clock", lambda: now[0])
    assert io_worker_starts.note("m", tmp_path / "run") == [1.0]
    now[0] = 2.0
    assert io_worker_starts.note("m", tmp_path / "run") == [1.0, 2.0]
    assert io_worker_starts.note("other", tmp_path / "run") == [2.0]
    io_worker_starts.forget("m", tmp_path / "run")
    io_worker_starts.forget("m", tmp_path / "run")
    assert io_worker_starts.note("m", tmp_path / "run") == [2.0]


def test_unreadable_count_starts_at_zero(tmp_path):
    (tmp_path / "migrate-m.starts").write_text("{")
    assert len(io_worker_starts.note("m", tmp_path)) == 1
