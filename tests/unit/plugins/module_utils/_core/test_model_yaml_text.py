# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""YAML without a YAML library: what another reader makes of it."""

from __future__ import annotations

import typing as t

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_yaml_text import to_yaml

TEXT = st.text(st.characters(exclude_categories=("Cs",)))
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4), max_leaves=12)


@given(VALUES)
def test_value_is_read_back_unchanged(value: t.Any) -> None:
    assert yaml.safe_load(to_yaml(value)) == value


@pytest.mark.parametrize("text", ["yes", "no", "null", "~", "1", "1e3", "0x10", "2024-01-01", "", " a ", "- a", "#a", "a: b", "a\nb\n", "\t", "é", "😀"])
def test_string_is_read_back_as_string(text: str) -> None:
    assert yaml.safe_load(to_yaml({text: [text]})) == {text: [text]}


def test_output_is_readable() -> None:
    value = {"users": [{"name": "a", "groups": ["x", "y"]}], "empty": {}, "none": [], "n": 1}
    expected = 'users:\n  - name: "a"\n    groups:\n      - "x"\n      - "y"\nempty: {}\nnone: []\n"n": 1\n'
    assert to_yaml(value) == expected


def test_unsupported_type_is_refused_without_its_value() -> None:
    with pytest.raises(TypeError) as raised:
        to_yaml({"a": {"hunter2"}})
    assert "set" in str(raised.value) and "hunter2" not in str(raised.value)
