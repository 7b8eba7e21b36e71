# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_node import HostFacts
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.plan_left import OVERHEAD_MIB, left, share
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


def test_the_footprint_keeps_its_memory_and_the_first_cpus():
    found = share(65536, 16, 1024, 4, [(4096, 2), (8192, 4)])
    assert found.reserved_mib == 1024 + 4096 + 8192 + 2 * OVERHEAD_MIB
    assert found.tenant_mib == 65536 - found.reserved_mib
    # one for the host, two for six vCPUs at a ratio of four
    assert (found.reserved_cpus, found.tenant_cpus) == (3, "3-15")


@pytest.mark.parametrize(
    "cpus, vms, reserved, tenants",
    [
        (1, [(1024, 2)], 0, ""),
        (2, [(1024, 2)], 1, "1"),
        (4, [], 1, "1-3"),
        (4, [(1024, 64)], 2, "2-3"),
        (3, [(1024, 64)], 1, "1-2"),
    ],
)
def test_tenants_keep_half_of_the_cpus(cpus, vms, reserved, tenants):
    found = share(8192, cpus, 1024, 4, vms)
    assert (found.reserved_cpus, found.tenant_cpus) == (reserved, tenants)


def test_a_server_without_memory_for_tenants():
    found = share(4096, 4, 1024, 4, [(4096, 2)])
    assert (found.reserved_mib, found.tenant_mib) == (4096, 0)
