# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where virtual addresses belong on a host."""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._loadbalancer.plan_virtual_addresses import parse_interfaces, place

OWN = "192.0.2.11"
TEXT = json.dumps(
    [
        {"ifname": "lo", "address": "00:00:00:00:00:00", "addr_info": [{"family": "inet", "local": "127.0.0.1", "prefixlen": 8}]},
        {
            "ifname": "eno1@if4",
            "address": "02:00:00:00:00:01",
            "addr_info": [
                # the virtual one may stand first on its holder
                {"family": "inet", "local": "192.0.2.20", "prefixlen": 32},
                {"family": "inet", "local": OWN, "prefixlen": 24},
                {"family": "inet6", "local": "fe80::1", "prefixlen": 64},
            ],
        },
        {"ifname": "public0", "address": "02:00:00:00:00:02", "addr_info": [{"family": "inet", "local": "198.51.100.11", "prefixlen": 24}]},
        {"ifname": "bare0", "address": "02:00:00:00:00:03", "addr_info": []},
    ]
)
INTERFACES = parse_interfaces(TEXT)
MAIN = {"name": "main", "address": "192.0.2.20"}


def test_each_is_placed_where_its_network_is() -> None:
    placed = place(
        [
            MAIN,
            {"name": "public", "address": "198.51.100.20", "prefix": 24},
            {"name": "named", "address": "203.0.113.20", "interface": "bare0", "router_id": 99},
            {"name": "afar", "address": "203.0.113.21"},
        ],
        OWN,
        INTERFACES,
    )
    assert [(one.name, one.interface, one.router_id, one.prefix) for one in placed] == [
        ("main", "eno1", 20, 32), ("public", "public0", 21, 24), ("named", "bare0", 99, 32), ("afar", "eno1", 23, 32),
    ]


@pytest.mark.parametrize(
    ("more", "path", "words"),
    [
        ({"name": "b", "address": "10.999.0.1"}, "addresses[1].address", "not a valid IPv4"),
        ({"name": "b", "address": "192.0.2.21/24"}, "addresses[1].address", "prefix length"),
        ({"name": "b", "address": OWN}, "addresses[1].address", "own address"),
        ({"name": "b", "address": "192.0.2.20"}, "addresses[1].address", "already used by main"),
        ({"name": "main", "address": "192.0.2.21"}, "addresses[1].name", "already used by main"),
        ({"name": "b", "address": "192.0.2.21", "router_id": 20}, "addresses[1].router_id", "already used by main"),
        ({"name": "b", "address": "192.0.2.21", "router_id": 256}, "addresses[1].router_id", "between 1 and 255"),
        ({"name": "b", "address": "192.0.2.21", "prefix": 0}, "addresses[1].prefix", "between 1 and 32"),
        ({"name": "b c", "address": "192.0.2.21"}, "addresses[1].name", "not a valid name"),
        ({"name": "b", "address": "192.0.2.21", "interface": "eth7"}, "addresses[1].interface", "public0"),
    ],
)
def test_what_is_refused(more: dict[str, t.Any], path: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        place([MAIN, more], OWN, INTERFACES)
    assert caught.value.path == path


def test_the_own_address_must_be_here() -> None:
    with pytest.raises(InputError, match="198.51.100.11") as caught:
        place([MAIN], "192.0.2.99", INTERFACES)
    assert caught.value.path == "own"
