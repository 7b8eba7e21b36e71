# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_fields import mapping, number, parse_mac, sequence


@pytest.mark.parametrize("value, found", [(None, 7), (3, 3), ("3", 3), (3.0, 3)])
def test_a_whole_number(value, found):
    assert number(value, 7, 1, 10, "replicas.database") == found


@pytest.mark.parametrize("value", [2.5, float("inf"), float("nan"), True, "2.5", "two", [2], 0, 11])
def test_any_other_value_is_refused(value):
    with pytest.raises(InputError) as caught:
        number(value, 7, 1, 10, "replicas.database")
    assert (caught.value.path, caught.value.hint) == ("replicas.database", "Use a number from 1 to 10.")


@pytest.mark.parametrize("empty", [None, ""])
def test_an_empty_value_has_no_entries(empty):
    assert mapping(empty, "servers", "") == {} and sequence(empty, "servers", "") == []


@pytest.mark.parametrize("parse, value", [(mapping, [1]), (mapping, "a"), (mapping, False), (sequence, "a"), (sequence, {"a": 1}), (sequence, 0)])
def test_another_kind_of_value_is_refused(parse, value):
    with pytest.raises(InputError, match="^servers: expected a (list|mapping), got .*Write it so.$"):
        parse(value, "servers", "Write it so.")


@pytest.mark.parametrize("value", ["52:54:00:ab:cd:ef", "52-54-00-AB-CD-EF", "52:54:00:AB:cd:EF"])
def test_a_mac_address(value):
    assert parse_mac(value, "bmc.boot_mac") == "52:54:00:ab:cd:ef"


# the numbers are what YAML makes of 52:54:00:12:34:56 and 00:00:00:00:00:00 without quotes
@pytest.mark.parametrize("value", [41135085296, 0, True, None, "", "52:54:00:12:34", "01:00:5e:00:00:01", "52:54:00:12:34:56\n", ["52:54:00:12:34:56"]])
def test_the_advice_about_a_mac_address_is_to_quote_it(value):
    with pytest.raises(InputError) as caught:
        parse_mac(value, "bmc.boot_mac")
    assert (caught.value.path, caught.value.hint) == ("bmc.boot_mac", "Write the address in quotes: '52:54:00:12:34:56'.")
