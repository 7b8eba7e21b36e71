# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names of secrets, and of what they are made."""

from __future__ import annotations

import base64
import random
import typing as t

import pytest
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_secret import Recipe, environment_name, secret_name
from hypothesis import given
from hypothesis import strategies as st

CHANCE = random.SystemRandom()


@pytest.mark.parametrize("name", ["rabbitmq/footprint", "a", "keystone/fernet/0", "x.y-z_1", "_/_"])
def test_valid_secret_name(name: str) -> None:
    assert secret_name(name) == name


@pytest.mark.parametrize(
    "name",
    ["", "/", "/etc/passwd", "a/", "a//b", "..", "a/../b", ".hidden", "a b", "a\n", "a\0", "ä", None, 3, ["a"], "a/" * 9 + "a", "x" * 101, "a\\b", "~/a"],
)
def test_invalid_secret_name_is_refused(name: t.Any) -> None:
    with pytest.raises(InputError, match="is not a valid secret name"):
        secret_name(name)


@pytest.mark.parametrize("name", ["", "..", "a/b", None, "a b"])
def test_invalid_environment_name_is_refused(name: t.Any) -> None:
    with pytest.raises(InputError, match="footprint_environment: .* is not a valid environment name"):
        environment_name(name)


@given(length=st.integers(8, 200), chars=st.lists(st.sampled_from(["ascii_letters", "digits", "punctuation", "hexdigits", "xyz"]), min_size=1))
def test_characters(length: int, chars: list[str]) -> None:
    recipe = Recipe.parse(length, chars)
    value = recipe.make(CHANCE)
    assert len(value) == length
    assert set(value) <= set(recipe.alphabet)
    assert value == value.strip()
    assert len(value.splitlines()) == 1


def test_characters_are_equally_likely() -> None:
    """A character named twice does not come twice as often."""
    assert Recipe.parse(8, ["aab", "ab"]).alphabet == "ab"


@pytest.mark.parametrize(
    ("encoding", "decode"), [("base64url", base64.urlsafe_b64decode), ("base64", base64.b64decode), ("hex", bytes.fromhex)]
)
def test_bytes(encoding: str, decode: t.Callable[[str], bytes]) -> None:
    recipe = Recipe.parse(32, ["digits"], 32, encoding)
    values = {recipe.make(CHANCE) for _count in range(20)}
    assert len(values) == 20
    assert {len(decode(value)) for value in values} == {32}


@pytest.mark.parametrize(
    ("given_options", "path"),
    [
        ({"length": 7}, "length"),
        ({"length": 5000}, "length"),
        ({"length": "32"}, "length"),
        ({"length": True}, "length"),
        ({"size": 4}, "bytes"),
        ({"size": -1}, "bytes"),
        ({"chars": []}, "chars"),
        ({"chars": ["a"]}, "chars"),
        ({"chars": ["a b"]}, "chars"),
        ({"chars": ["ab\n"]}, "chars"),
        ({"encoding": "rot13"}, "encoding"),
    ],
)
def test_invalid_recipe_is_refused(given_options: dict[str, t.Any], path: str) -> None:
    with pytest.raises(InputError) as refused:
        Recipe.parse(**{"length": 32, "chars": ["digits"], **given_options})
    assert refused.value.path == path
    assert refused.value.hint
