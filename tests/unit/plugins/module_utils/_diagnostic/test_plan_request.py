# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sizes that are asked for, and the report of hosts that were silent."""

from __future__ import annotations

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._diagnostic import plan_request


@pytest.mark.parametrize(
    ("host_size", "size", "hosts", "share"),
    [("8 MiB", "128 MiB", 3, 8 << 20), ("8 MiB", "128 MiB", 32, 4 << 20), ("1", "2", 0, 1 << 20), (" 64 KiB", "1", 16, 65536)],
)
def test_the_size_is_divided(host_size: str, size: str, hosts: int, share: int) -> None:
    assert plan_request.share(host_size, size, hosts) == share


@pytest.mark.parametrize(
    ("host_size", "size", "message"),
    [
        ("1 KiB", "1 GiB", "diagnostic_snapshot_host_size: 1 KiB is less than 64 KiB. Use 8 MiB, for example."),
        ("8 MiB", "100 KiB", "diagnostic_snapshot_size: 100 KiB is less than 64 KiB for each of 2 hosts. Use a larger size, or fewer hosts with --limit."),
        ("large", "1", "diagnostic_snapshot_host_size: 'large' is not a size."),
        ("1", "-1 GiB", "diagnostic_snapshot_size: '-1 GiB' is negative."),
    ],
)
def test_sizes_that_are_invalid(host_size: str, size: str, message: str) -> None:
    with pytest.raises(InputError) as raised:
        plan_request.share(host_size, size, 2)
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize(("given", "message"), [((0, 1), "snapshot_hours: 0 is not a number of hours above 0"), ((1, -1), "snapshot_timeout: -1 is not")])
def test_numbers_that_are_invalid(given: tuple[int, int], message: str) -> None:
    plan_request.check_numbers(1, 1)
    with pytest.raises(InputError, match=message):
        plan_request.check_numbers(*given)


def test_hosts_with_the_same_reason_are_one_line() -> None:
    assert plan_request.silences({"m1": "is off", "m2": "no Python", "m3": "is off"}) == ["NO ANSWER m1, m3: is off", "NO ANSWER m2: no Python"]
    assert plan_request.silences({}) == []
