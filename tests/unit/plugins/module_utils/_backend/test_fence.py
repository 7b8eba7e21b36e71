# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.reduced.footprint.plugins.module_utils._backend import fence


def test_the_fence_stops_new_connections_to_one_card_only():
    text = fence.rules("master", "52:54:00:11:22:33")
    assert text.count("ether daddr 52:54:00:11:22:33") == 2
    assert "saddr" not in text
    assert text.index("delete table") < text.index("chain forward")


def test_any_name_makes_a_legal_table():
    names = {fence.table(each) for each in ("master", "a.b-c", "x" * 63)}
    assert len(names) == 3
    assert all(each.replace("_", "").isalnum() and len(each) < 40 for each in names)
