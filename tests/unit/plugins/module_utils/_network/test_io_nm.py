# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._network.io_nm import fields, settings


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a:b:c", ["a", "b", "c"]),
        ("a::c", ["a", "", "c"]),
        (":b:", ["", "b", ""]),
        (r"a\:b:c\\:d", ["a:b", "c\\", "d"]),
        ("", [""]),
    ],
)
def test_fields_of_a_terse_line(line, expected):
    assert fields(line) == expected


def test_settings_keep_colons_and_leave_out_what_says_nothing():
    text = "ipv6.addresses:2001:db8::11/64\nipv4.dns:\nipv4.method:auto\nipv4.route-metric:-1\nipv4.dns-priority:-1\nipv6.mtu:auto\n\n"
    assert settings(text) == {"ipv6.addresses": "2001:db8::11/64", "ipv4.method": "auto", "ipv4.dns-priority": "-1"}
