# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Serialize plain values as YAML; standard library only.

Hosts need no YAML library, and YAML 1.1 and 1.2 read the output alike:
block mappings and lists, strings in double quotes, nothing that could be read as another type.
"""

from __future__ import annotations

import re
import typing as t

_PLAIN_KEY = re.compile(r"\A[A-Za-z_][A-Za-z0-9_-]*\Z")
# read as booleans or null by YAML 1.1
_WORDS = frozenset(("y", "n", "yes", "no", "true", "false", "on", "off", "null"))
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def to_yaml(value: t.Any) -> str:
    """Return mappings, lists, strings, numbers, booleans and ``None`` as a YAML document.

    :raises TypeError: any other type; the message contains the type, never the value.
    """
    lines = _block(value)
    return "\n".join(lines) + "\n"


def _block(value: t.Any) -> list[str]:
    if isinstance(value, t.Mapping) and value:
        lines = []
        for key, entry in value.items():
            inner = _block(entry)
            if _is_block(entry):
                lines += [f"{_key(key)}:"] + [f"  {line}" for line in inner]
            else:
                lines.append(f"{_key(key)}: {inner[0]}")
        return lines
    if isinstance(value, (list, tuple)) and value:
        lines = []
        for entry in value:
            inner = _block(entry)
            lines += [f"- {inner[0]}"] + [f"  {line}" for line in inner[1:]]
        return lines
    return [_scalar(value)]


def _is_block(value: t.Any) -> bool:
    return isinstance(value, (t.Mapping, list, tuple)) and bool(value)


def _key(key: t.Any) -> str:
    if isinstance(key, str) and _PLAIN_KEY.match(key) and key.lower() not in _WORDS:
        return key
    return _scalar(key)


def _scalar(value: t.Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return _float(float(value))
    if isinstance(value, str):
        return '"' + "".join(_character(one) for one in value) + '"'
    if isinstance(value, t.Mapping):
        return "{}"
    if isinstance(value, (list, tuple)):
        return "[]"
    raise TypeError(f"a value of type {type(value).__name__} cannot be written as YAML")


def _float(value: float) -> str:
    text = repr(value)
    if text in ("inf", "-inf", "nan"):
        return {"inf": ".inf", "-inf": "-.inf", "nan": ".nan"}[text]
    # YAML 1.1 requires a decimal point before the exponent and a sign in it
    number, unused, exponent = text.partition("e")
    if exponent:
        return f"{number if '.' in number else number + '.0'}e{exponent if exponent[0] in '+-' else '+' + exponent}"
    return number


def _character(one: str) -> str:
    if one in _ESCAPES:
        return _ESCAPES[one]
    code = ord(one)
    if one.isprintable() and code < 0x10000:
        return one
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
