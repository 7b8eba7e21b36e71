# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pathlib
import runpy

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[4] / "roles" / "rabbitmq" / "files" / "rabbitmq_guard.py"
is_stuck = runpy.run_path(str(SCRIPT))["is_stuck"]
ALL = ["rabbit@a", "rabbit@b", "rabbit@c"]


@pytest.mark.parametrize(
    "running, partitions, stuck",
    [
        # as seen after a member was suspended for 40 s
        (["rabbit@a"], {"rabbit@a": ["rabbit@c", "rabbit@b"]}, True),
        # the majority continues
        (["rabbit@b", "rabbit@c"], {"rabbit@b": ["rabbit@a"]}, False),
        # the others are down or cannot be reached: pause_minority decides
        (["rabbit@a"], {}, False),
        (ALL, {}, False),
        # stopped or paused
        ([], {}, False),
        (None, None, False),
    ],
)
def test_only_a_partitioned_member_of_a_minority_is_stuck(running, partitions, stuck):
    assert is_stuck({"disk_nodes": ALL, "ram_nodes": [], "running_nodes": running, "partitions": partitions}) is stuck


def test_of_two_members_each_is_a_minority():
    assert is_stuck({"disk_nodes": ALL[:2], "running_nodes": ["rabbit@a"], "partitions": {"rabbit@a": ["rabbit@b"]}})
