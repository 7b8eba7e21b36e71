# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""JSON text from users. Duplicate keys are an error, because one of the two values would be dropped silently."""

from __future__ import annotations

import json
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors

_PLAIN = re.compile(r"\A[A-Za-z_][A-Za-z0-9_-]*\Z")


class _Twice(t.NamedTuple):
    """Placeholder for a mapping with a duplicate key, until its path is known."""

    key: str


def parse_json(text: str, path: str) -> t.Any:
    """Return the value of a JSON text.

    :raises InputError: it is not valid JSON, or a mapping has a duplicate key; with the path of that key.
    """
    found: list[_Twice] = []

    def mapping(pairs: list[tuple[str, t.Any]]) -> t.Any:
        value = dict(pairs)
        if len(value) == len(pairs):
            return value
        keys = [key for key, unused in pairs]
        twice = _Twice(next(key for index, key in enumerate(keys) if key in keys[:index]))
        found.append(twice)
        return twice

    try:
        value = json.loads(text, object_pairs_hook=mapping)
    except (ValueError, RecursionError) as error:
        raise model_errors.InputError(f"is not valid JSON: {error}.", path, "Correct the JSON text, or pass the value itself instead of a text.") from error
    if found:
        where, key = _find(value, path) or (path, found[0].key)
        raise model_errors.InputError(
            "is a duplicate key; only one of its values would be used.", _below(where, key), "Remove one of the two."
        )
    return value


def parse_all(text: str) -> t.Any:
    """Return the value of a JSON text, with the values of a duplicate key as a list. Used to find secrets.

    :raises ValueError: it is not valid JSON.
    """

    def mapping(pairs: list[tuple[str, t.Any]]) -> dict[str, t.Any]:
        values: dict[str, list[t.Any]] = {}
        for key, value in pairs:
            values.setdefault(key, []).append(value)
        return {key: each if len(each) > 1 else each[0] for key, each in values.items()}

    try:
        return json.loads(text, object_pairs_hook=mapping)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _find(value: t.Any, path: str) -> tuple[str, str] | None:
    """Return the path of the first mapping with a duplicate key, and the key."""
    waiting = [(value, path)]
    while waiting:
        value, path = waiting.pop()
        if isinstance(value, _Twice):
            return path, value.key
        inner: t.Iterable[tuple[t.Any, str]] = ()
        if isinstance(value, dict):
            inner = [(each, _below(path, key)) for key, each in value.items()]
        elif isinstance(value, list):
            inner = [(each, f"{path}[{index}]") for index, each in enumerate(value)]
        waiting.extend(reversed(list(inner)))
    return None


def _below(path: str, key: str) -> str:
    return f"{path}.{key}" if _PLAIN.match(key) else f"{path}[{model_errors.shown(key)}]"
