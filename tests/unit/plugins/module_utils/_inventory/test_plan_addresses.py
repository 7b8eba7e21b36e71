# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Leases, neighbours and their judgement."""

from __future__ import annotations

import ipaddress
import json

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._inventory.plan_addresses import (
    check_sources,
    choose,
    from_pairs,
    merge,
    parse_excluded,
    parse_leases,
    parse_neighbours,
    sweep_targets,
)

M1, M2 = "52:54:00:00:00:01", "52:54:00:00:00:02"

LEASES = """\
2000 52:54:00:00:00:01 192.0.2.101 c1 ff:00
1500 52:54:00:00:00:02 192.0.2.102 * 01:52
900 52:54:00:00:00:03 192.0.2.103 expired *
0 52:54:00:00:00:04 192.0.2.104 forever *
1800 06-52:54:00:00:00:05 192.0.2.105 otherkind *
1800 52:54:00:00:00:01 192.0.2.109 older *
nonsense
1800 not-a-mac 192.0.2.110 x *
1800 52:54:00:00:00:06 not-an-address x *
duid 00:01:00:01
1700 12345 2001:db8::1 c1 ff
"""


def test_leases():
    assert parse_leases(LEASES, 1000) == {
        "52:54:00:00:00:04": ["192.0.2.104"],
        M1: ["192.0.2.101", "192.0.2.109"],
        "52:54:00:00:00:05": ["192.0.2.105"],
        M2: ["192.0.2.102"],
    }
    assert parse_leases("", 0) == {}


KEA = """\
address,hwaddr,client_id,valid_lifetime,expire,subnet_id,fqdn_fwd,fqdn_rev,hostname,state,user_context,pool_id
192.0.2.101,52:54:00:00:00:01,01:52,3600,1500,1,0,0,c1,0,,0
192.0.2.101,52:54:00:00:00:01,01:52,3600,2000,1,0,0,c1,0,,0
192.0.2.102,52:54:00:00:00:02,,3600,900,1,0,0,expired,0,,0
192.0.2.103,52:54:00:00:00:02,,4294967295,800,1,0,0,forever,0,,0
192.0.2.104,52:54:00:00:00:03,,3600,2000,1,0,0,deleted,0,,0
192.0.2.104,52:54:00:00:00:03,,0,2000,1,0,0,deleted,0,,0
192.0.2.105,,,3600,2000,1,0,0,declined,1,,0
192.0.2.106,52:54:00:00:00:04,,3600,2000,1,0,0,reclaimed,2,,0
192.0.2.107,52:54:00:00:00:05,,3600,2000,1
192.0.2.108,52:54:00:00:00:06,,3600,20
"""


def test_leases_of_kea():
    assert parse_leases(KEA, 1000) == {M2: ["192.0.2.103"], M1: ["192.0.2.101"], "52:54:00:00:00:05": ["192.0.2.107"]}
    assert parse_leases(KEA.splitlines()[0], 0) == {}


def test_damaged_leases_end_in_no_traceback():
    assert parse_leases(f"² {M1} 192.0.2.101 c1 *\n0 {M2} 192.0.2.102 c2 *\n", 1000) == {M2: ["192.0.2.102"]}
    assert parse_leases(f"{KEA}192.0.2.110,{M2},{'x' * 200000},3600,2000,1\n", 1000) == parse_leases(KEA, 1000)
    assert parse_leases(KEA.replace("3600", "²"), 1000) == {M2: ["192.0.2.103"]}


def test_neighbours():
    text = json.dumps(
        [
            {"dst": "192.0.2.1", "dev": "br0", "lladdr": M1, "state": ["STALE"]},
            {"dst": "192.0.2.2", "dev": "br0", "lladdr": M1.upper(), "state": ["REACHABLE"]},
            {"dst": "192.0.2.3", "dev": "br0", "state": ["FAILED"]},
            {"dst": "192.0.2.4", "dev": "br0", "lladdr": M2, "state": ["FAILED"]},
            {"dst": "fe80::1", "dev": "br0", "lladdr": M2, "state": ["REACHABLE"]},
        ]
    )
    assert parse_neighbours(text) == {M1: ["192.0.2.2", "192.0.2.1"]}
    assert parse_neighbours("") == {}
    assert parse_neighbours("not json") == {}


def test_the_first_nic_with_an_address_wins():
    table = from_pairs([(M2, "192.0.2.2"), (M1, "192.0.2.1"), (M1, "192.0.2.9")])
    found = choose([M1, M2], table, "lease")
    assert (found.address, found.source, found.others) == ("192.0.2.1", "lease", ("192.0.2.9",))
    assert choose([M2.upper()], table, "arp").address == "192.0.2.2"
    assert choose(["52:54:00:00:00:09"], table, "arp") is None


def test_what_is_never_an_address():
    table = from_pairs([(M1, "127.0.0.1"), (M1, "169.254.1.1"), (M1, "192.0.2.20"), (M1, "192.0.2.5")])
    assert choose([M1], table, "agent", [ipaddress.IPv4Network("192.0.2.20")]).address == "192.0.2.5"


def test_earlier_tables_are_trusted_more():
    assert merge([{M1: ["192.0.2.1"]}, {M1: ["192.0.2.2", "192.0.2.1"]}]) == {M1: ["192.0.2.1", "192.0.2.2"]}


def test_sweep():
    assert sweep_targets("192.0.2.0/30", "x") == ("192.0.2.1", "192.0.2.2")
    assert len(sweep_targets("10.0.0.0/22", "x")) == 1022
    with pytest.raises(RefusedError, match=r"discover_network: 10.0.0.0/21 has 2048 addresses; at most 1024"):
        sweep_targets("10.0.0.0/21", "discover_network")
    with pytest.raises(InputError, match="discover_network: 'x' is not a valid IPv4 network"):
        sweep_targets("x", "discover_network")


def test_bad_options():
    with pytest.raises(InputError, match=r"address_sources\[1\]: 'dns' is not a valid source"):
        check_sources(["lease", "dns"], "address_sources")
    with pytest.raises(InputError, match=r"exclude_addresses\[0\]: 'vip' is not a valid IPv4"):
        parse_excluded(["vip"], "exclude_addresses")
