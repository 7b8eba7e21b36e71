# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.reduced.footprint.plugins.module_utils._core import io_files
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import meminfo


def test_meminfo_has_sizes_in_bytes_and_no_counts(tmp_path):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "meminfo").write_text("MemTotal:       16384000 kB\nMemAvailable:   1 kB\nHugePages_Total:       7\n", "utf-8")
    assert meminfo(str(tmp_path)) == {"MemTotal": 16384000 * 1024, "MemAvailable": 1024}
    assert meminfo(str(tmp_path / "none")) == {}


def test_meminfo_of_this_machine():
    assert meminfo()["MemTotal"] > meminfo()["MemAvailable"] > 0


def test_a_link_survives_a_power_loss(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(io_files, "sync_path", lambda path: synced.append((path, [each.name for each in path.iterdir()])))
    link, target = tmp_path / "wants" / "a.service", tmp_path / "a.service"
    for unused in range(2):
        io_files.make_link(link, target)
        assert link.readlink() == target and synced == [(tmp_path / "wants", ["a.service"])]
