# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sizes with and without units."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import GIB, KIB, MIB, TIB, parse_rate, parse_size, size_text

GOOD = [
    (2, GIB, 2 * GIB),
    (1.5, GIB, 3 * GIB // 2),
    ("2", GIB, 2 * GIB),
    ("512 MiB", GIB, 512 * MIB),
    ("6G", MIB, 6 * GIB),
    ("1kb", GIB, 1000),
    ("1 TiB", GIB, TIB),
    ("10 B", GIB, 10),
    ("0.1 KiB", GIB, 103),
]
NAMES = {GIB: "GiB", MIB: "MiB"}
BAD = [
    (0, "x: 0 is not greater than 0."),
    (-3, "x: -3 is negative."),
    ("-3 GiB", "x: '-3 GiB' is negative."),
    (True, "x: True is not a size."),
    (None, "x: None is not a size."),
    ([1], "x: [1] is not a size."),
    ("", "x: '' is not a size."),
    ("much", "x: 'much' is not a size."),
    ("1e9", "x: '1e9' is not a size."),
    ("5 Gigs", "x: '5 Gigs' has the unknown unit 'Gigs'."),
    (float("inf"), "x: inf is not a size."),
    (float("nan"), "x: nan is not a size."),
]


@pytest.mark.parametrize("value, unit, size", GOOD, ids=[str(case[0]) for case in GOOD])
def test_valid_sizes(value: object, unit: int, size: int) -> None:
    assert parse_size(value, NAMES[unit], "x") == size


@pytest.mark.parametrize("value, message", BAD, ids=[str(case[0]) for case in BAD])
def test_invalid_sizes_are_refused(value: object, message: str) -> None:
    with pytest.raises(InputError) as raised:
        parse_size(value, "GiB", "x")
    assert str(raised.value).startswith(message)
    assert raised.value.hint


def test_a_rate_is_a_size_per_second() -> None:
    rates = {"100 MiB/s": 100 * MIB, "1 KiB / s": KIB, "2": 2 * MIB, 2: 2 * MIB, "0": 0, "": 0, None: 0}
    assert {value: parse_rate(value, "x") for value in rates} == rates
    with pytest.raises(InputError, match="x: 'fast' is not a size"):
        parse_rate("fast", "x")


@given(st.one_of(st.text(), st.integers(), st.floats(), st.none(), st.booleans()))
def test_arbitrary_value_is_a_size_or_refused(value: object) -> None:
    try:
        assert parse_size(value, "GiB", "x") > 0
    except InputError as error:
        assert error.path == "x"


@given(st.integers(min_value=1, max_value=1024))
def test_text_of_whole_gibibytes_reads_back(number: int) -> None:
    assert parse_size(size_text(number * GIB), "B", "x") == number * GIB


@pytest.mark.parametrize("size, text", [(1, "1 B"), (KIB, "1 KiB"), (3 * GIB // 2, "1.5 GiB"), (TIB, "1 TiB")])
def test_text(size: int, text: str) -> None:
    assert size_text(size) == text
