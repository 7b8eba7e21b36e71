# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._service.model_allow_list import Rule, networks, parse_allow_lists, port_range

GOOD = {
    "name": "memcached",
    "served": ["192.0.2.12", "192.0.2.11"],
    "rules": [{"protocol": "tcp", "ports": ["11211", "5-7"], "allowed": ["192.0.2.11", "2001:db8::/64"]}, {"protocol": "vrrp", "allowed": []}],
    "units": ["memcached.service"],
}


def test_a_list_is_understood():
    (found,) = parse_allow_lists([GOOD])
    assert found.served == ("192.0.2.11", "192.0.2.12")
    assert found.rules == (Rule("tcp", ((5, 7), (11211, 11211)), ("192.0.2.11", "2001:db8::/64")), Rule("vrrp", (), ()))


@pytest.mark.parametrize(
    "given, found",
    [
        ([], ()),
        ("192.0.2.1", ("192.0.2.1",)),
        (["192.0.2.2", "192.0.2.1", "192.0.2.2/32"], ("192.0.2.1", "192.0.2.2")),
        # neighbours stay two, since addresses of members must stay addresses
        (["192.0.2.2", "192.0.2.3"], ("192.0.2.2", "192.0.2.3")),
        # the packet filter refuses a set whose entries overlap
        (["192.0.2.2", "192.0.2.0/24", "192.0.2.128/25"], ("192.0.2.0/24",)),
        (["2001:db8::1", "192.0.2.2"], ("192.0.2.2", "2001:db8::1")),
    ],
)
def test_addresses_are_normalized(given, found):
    assert networks(given, "x") == found


@pytest.mark.parametrize("value, found", [(5672, (5672, 5672)), ("35672-35682", (35672, 35682))])
def test_ports(value, found):
    assert port_range(value, "x") == found


@pytest.mark.parametrize("value", ["", "0", "65536", "7-5", "5-", "-5", "ssh", "5672; drop", "１２"])
def test_what_is_not_a_port(value):
    with pytest.raises(InputError):
        port_range(value, "x")


@pytest.mark.parametrize(
    "change, path",
    [
        ({"name": "x; flush ruleset"}, "lists[0].name"),
        ({"name": ""}, "lists[0].name"),
        ({"served": ["metal1"]}, "lists[0].served[0]"),
        ({"served": ["192.0.2.0/24"]}, "lists[0].served[0]"),
        ({"units": ["../x.service"]}, "lists[0].units[0]"),
        ({"units": ["x.mount"]}, "lists[0].units[0]"),
        ({"rules": [{"protocol": "sctp", "ports": ["1"]}]}, "lists[0].rules[0].protocol"),
        ({"rules": [{"protocol": "tcp"}]}, "lists[0].rules[0].ports"),
        ({"rules": [{"protocol": "vrrp", "ports": ["1"]}]}, "lists[0].rules[0].ports"),
        ({"rules": [{"protocol": "udp"}]}, "lists[0].rules[0].ports"),
        ({"rules": [{"protocol": "udp", "ports": ["40000"]}]}, "lists[0].rules[0].ports"),
        ({"rules": [{"ports": ["x"]}]}, "lists[0].rules[0].ports[0]"),
        ({"rules": [{"ports": ["1"], "allowed": ["192.0.2.1 }"]}]}, "lists[0].rules[0].allowed[0]"),
        ({"rules": [{"ports": ["1"], "allowed": ["192.0.2.1/24"]}]}, "lists[0].rules[0].allowed[0]"),
    ],
)
def test_bad_values_are_named(change, path):
    with pytest.raises(InputError) as caught:
        parse_allow_lists([{**GOOD, **change}])
    assert caught.value.path == path


def test_a_list_that_is_there_twice():
    with pytest.raises(InputError) as caught:
        parse_allow_lists([GOOD, GOOD])
    assert caught.value.path == "lists[1].name"
