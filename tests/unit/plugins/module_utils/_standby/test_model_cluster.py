# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two servers with automatic VMs, as an operator may describe them."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_cluster import check_authkey, parse_cluster

BMC = {"address": "192.0.2.101", "user": "fence", "password": "secret"}


def member(name: str, *addresses: str, **more: t.Any) -> dict[str, t.Any]:
    return {"name": name, "addresses": list(addresses), **more}


FIRST, SECOND = member("metal1", "192.0.2.11", bmc=BMC), member("metal2", "192.0.2.12", bmc={**BMC, "address": "192.0.2.102"})
GIVEN = {"cluster": "lab-metal1-metal2", "members": [SECOND, FIRST], "witness": "192.0.2.20"}
BARE = [member("metal1", "192.0.2.11"), member("metal2", "192.0.2.12")]
WATCHED = [{**each, "watchdog": True} for each in BARE]


def test_the_order_of_the_servers_does_not_matter() -> None:
    cluster = parse_cluster(GIVEN)
    assert [each.name for each in cluster.members] == ["metal1", "metal2"] and not cluster.watchdog
    assert cluster == parse_cluster({**GIVEN, "members": [FIRST, SECOND]})


@pytest.mark.parametrize(("members", "wish", "used"), [
    ([FIRST, SECOND], "auto", False), (WATCHED, "auto", True), ([{**FIRST, "watchdog": True}, WATCHED[1]], "auto", True),
    ([{**FIRST, "watchdog": True}, {**SECOND, "watchdog": True}], "auto", False), ([{**FIRST, "watchdog": True}, {**SECOND, "watchdog": True}], "always", True),
    ([{**FIRST, "watchdog": True}, {**SECOND, "watchdog": True}], "never", False),
])  # fmt: skip
def test_watchdogs_are_used_where_a_controller_is_missing(members: list[dict[str, t.Any]], wish: str, used: bool) -> None:
    assert parse_cluster({**GIVEN, "members": members, "watchdog": wish}).watchdog is used


@pytest.mark.parametrize(("change", "path", "text"), [
    ({"members": BARE}, "automatic", "metal1 and metal2 have no bmc in the inventory, and metal1 and metal2 no hardware watchdog"),
    ({"members": [FIRST, BARE[1]]}, "automatic", "metal2 has no bmc in the inventory, and metal1 and metal2 no hardware watchdog"),
    # the watchdog of one of them is of no use
    ({"members": [FIRST, WATCHED[1]]}, "automatic", "and metal1 no hardware watchdog"),
    ({"members": WATCHED, "watchdog": "never"}, "automatic", "have no bmc in the inventory"),
    ({"watchdog": "always"}, "watchdog", "no hardware watchdog"),
    ({"members": [FIRST]}, "members", "1 entries"),
    ({"members": [FIRST, FIRST]}, "members", "twice"),
    ({"members": [FIRST, member("metal2", "192.0.2.11", bmc=BMC)]}, "members", "twice"),
    ({"members": [FIRST, member("metal2", "192.0.2.12", "198.51.100.12", bmc=BMC)]}, "members", "metal2 2"),
    ({"members": [FIRST, member("metal2", "metal2.example", bmc=BMC)]}, "members[1].addresses[0]", "not an IP address"),
    ({"members": [FIRST, member("metal2", bmc=BMC)]}, "members[1].addresses", "0 entries"),
    ({"members": [FIRST, member("metal2", "192.0.2.12", bmc={**BMC, "address": "https://x/"})]}, "members[1].bmc.address", "not an address"),
    ({"witness": "witness1"}, "witness", "not an IP address"),
    ({"cluster": "a b"}, "cluster", "not a valid name"),
])  # fmt: skip
def test_what_cannot_work_is_refused(change: dict[str, t.Any], path: str, text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_cluster({**GIVEN, **change})
    assert caught.value.path == path and text in caught.value.message, (caught.value.path, caught.value.message)


@pytest.mark.parametrize("key", ["", "k" * 127, "k" * 129, "k" * 127 + "\n", "k" * 127 + "é"])
def test_a_key_of_another_length_is_refused(key: str) -> None:
    assert check_authkey("k" * 128) == "k" * 128
    with pytest.raises(InputError):
        check_authkey(key)
