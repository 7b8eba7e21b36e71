# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.plan_guest_addresses import addresses_of

A, B, INSIDE = "52:54:00:00:00:0a", "52:54:00:00:00:0b", "02:42:00:00:00:01"
FOUR, OTHER, SIX = "192.0.2.10", "192.0.2.11", "2001:db8::a"

CASES: list[tuple[str, dict[str, t.Any], str | None, list[tuple[str, str, str]] | None]] = [
    ("no source answers", {"lease": None, "agent": None, "arp": None}, None, None),
    ("leases and ARP do not prove that a guest has no address", {"lease": [], "agent": None, "arp": []}, None, None),
    ("the guest says that it has none", {"lease": [], "agent": [], "arp": []}, None, []),
    ("the first source counts", {"lease": [(A, FOUR)], "agent": [(A, FOUR)], "arp": [(A, FOUR)]}, None, [(FOUR, A, "lease")]),
    ("the order is that of the NICs, IPv4 first", {"arp": [(B, OTHER), (A, SIX), (A, FOUR)]}, None, [(FOUR, A, "arp"), (SIX, A, "arp"), (OTHER, B, "arp")]),
    ("interfaces inside of the guest", {"agent": [("00:00:00:00:00:00", "127.0.0.1"), (INSIDE, "172.17.0.1"), (A, FOUR)]}, None, [(FOUR, A, "agent")]),
    ("addresses of one link or guest", {"agent": [(A, "fe80::1"), (A, "169.254.3.4"), (A, "127.0.0.1")]}, None, []),
    ("a declared address that is also seen", {"lease": [(A, OTHER)], "arp": [(B, FOUR)]}, FOUR, [(FOUR, B, "arp"), (OTHER, A, "lease")]),
    ("a declared address that nothing has seen", {"lease": [], "arp": None}, FOUR, [(FOUR, A, "details")]),
]


@pytest.mark.parametrize("reports, declared, expected", [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_addresses(reports: dict[str, t.Any], declared: str | None, expected: list[tuple[str, str, str]] | None) -> None:
    found = addresses_of([A.upper(), B], reports, declared)
    assert (None if found is None else [(row["address"], row["mac"].lower(), row["source"]) for row in found]) == expected
