# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Schema numbers; ``tests/unit/test_upgrade.py`` has the files of every kind."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_schema import Schema

KIND = Schema("record", 3)
CACHE = Schema("cache", 3, cache=True)


@pytest.mark.parametrize(
    "text, unnumbered, wanted",
    [
        ('{"a": 1}', None, {"a": 1}),
        ('{"a": 1, "schema": 0}', None, {"a": 1}),
        ('{"a": 1, "schema": 3}', None, {"a": 1}),
        ("[1, 2]", "list", {"list": [1, 2]}),
        ("7\n", "size", {"size": 7}),
        ("pool/volume\n", "volume", {"volume": "pool/volume"}),
        ('{"volume": "a", "schema": 3}', "volume", {"volume": "a"}),
    ],
)
def test_all_earlier_forms_are_read(text: str, unnumbered: str | None, wanted: dict[str, t.Any]) -> None:
    assert KIND.load(text, "a file", unnumbered) == wanted


@pytest.mark.parametrize("text", ["[]", "7", "{", ""])
def test_other_texts_are_damaged(text: str) -> None:
    with pytest.raises(ValueError):
        KIND.load(text, "a file")


@pytest.mark.parametrize("number", ["4", '"3"', "true", "-1", "1.0"])
def test_a_newer_number_is_refused_with_a_hint_and_a_newer_cache_is_empty(number: str) -> None:
    text = f'{{"a": 1, "schema": {number}}}'
    with pytest.raises(RefusedError, match=r"the record in a file has the schema .*; this version .* up to 3\. Use the version") as error:
        KIND.load(text, "a file")
    assert error.value.hint
    assert CACHE.load(text, "a file") == {}


def test_the_number_is_added() -> None:
    assert KIND.mark({"a": 1}) == {"a": 1, "schema": 3}
    assert Schema("facts", 2, key="format").mark({}) == {"format": 2}
