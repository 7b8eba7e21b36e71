# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Identities never change: these very values are on people's switches and in their DHCP servers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_identity import nic_mac, vm_uuid


def test_identities_never_change() -> None:
    assert vm_uuid("lab", "controller3") == "dc1b51cf-e0b6-53d3-98ea-67069d4d3041"
    assert nic_mac("lab", "controller3", 0) == "52:54:00:c9:de:35"
    assert nic_mac("lab", "a", "admin") == "52:54:00:1a:6c:86"


def test_a_number_and_its_text_are_the_same_id() -> None:
    assert vm_uuid("lab", 0) == vm_uuid("lab", "0")
    assert nic_mac("lab", 0, 1) == nic_mac("lab", "0", 1)


def test_similar_ids_have_different_identities() -> None:
    assert vm_uuid("ab", "c") != vm_uuid("a", "bc")
    assert len({nic_mac("lab", vm, nic) for vm in range(20) for nic in range(4)}) == 80


@given(st.text(), st.text(), st.integers(min_value=0, max_value=64))
def test_mac_is_a_unicast_address(cluster: str, vm_id: str, index: int) -> None:
    mac = nic_mac(cluster, vm_id, index)
    assert mac.startswith("52:54:00:")
    assert len(mac) == 17
