# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_node import HostFacts
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.plan_left import left
from ansible_collections.reduced.footprint.plugins.module_utils._host.removal.model_removal import Guest

FACTS = HostFacts(8192, 4, "x86_64", "6.1", "CPU", "0x1", "7.2")


def guest(state):
    return Guest(state, state, "qemu:///system", state, True, memory_mib=1024, cpu=2)


@pytest.mark.parametrize("state, holds", [("running", True), ("paused", True), ("suspended", True), ("crashed", True), ("shutdown", False)])
def test_a_guest_that_has_a_process_holds_memory(state, holds):
    report = left(FACTS, {"memory_reserve_mib": 2048, "vcpu_ratio": 1.5}, [guest(state)])
    assert report["memory_left_mib"] == 8192 - 2048 - (1024 if holds else 0)
    assert report["vcpus_left"] == 6 - (2 if holds else 0)
    assert report["memory_left_all_running_mib"] == 8192 - 2048 - 1024


def test_what_was_never_recorded_keeps_nothing():
    assert left(FACTS, {}, [])["memory_left_mib"] == 8192
