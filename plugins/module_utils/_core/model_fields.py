# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Validation of single fields of a request; errors contain the path of the field."""

from __future__ import annotations

import difflib
import ipaddress
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, kind_of, shown

#: The similarity from which a name is taken for a misspelt one, where unknown names are valid.
SLIP = 0.75
_MAC = re.compile(r"\A[0-9a-f]{2}(:[0-9a-f]{2}){5}\Z")


def choice(value: t.Any, choices: t.Sequence[str], path: str) -> str:
    """Return a value that must be one of ``choices``."""
    if value not in choices:
        raise InputError(f"{value!r} is not supported.", path, f"Use one of {', '.join(choices)}.")
    return str(value)


def number(value: t.Any, default: int, least: int, most: int, path: str) -> int:
    """Return an integer between ``least`` and ``most``, ``default`` for ``None``."""
    if value is None:
        return default
    try:
        # a fraction would be cut off, and infinity cannot be converted
        if isinstance(value, bool) or isinstance(value, float) and not value.is_integer():
            raise TypeError
        found = int(value)
    except (TypeError, ValueError) as error:
        raise InputError(f"{value!r} is not a whole number.", path, f"Use a number from {least} to {most}.") from error
    if not least <= found <= most:
        raise InputError(f"{found} is not between {least} and {most}.", path, f"Use a number from {least} to {most}.")
    return found


def mapping(value: t.Any, path: str, hint: str) -> dict[str, t.Any]:
    """Return a mapping with text keys, an empty one for an empty value."""
    if value in (None, ""):
        return {}
    if not isinstance(value, t.Mapping):
        raise InputError(f"expected a mapping, got {kind_of(value)}.", path, hint)
    return {str(key): entry for key, entry in value.items()}


def sequence(value: t.Any, path: str, hint: str) -> list[t.Any]:
    """Return a list, an empty one for an empty value."""
    if value in (None, ""):
        return []
    if isinstance(value, (str, bytes, t.Mapping)) or not isinstance(value, t.Sequence):
        raise InputError(f"expected a list, got {kind_of(value)}.", path, hint)
    return list(value)


def near_miss(name: t.Any, known: t.Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the most similar of some names, ``None`` if none is similar or if the name is one of them.

    :arg cutoff: least similarity, 1 is equality; use :data:`SLIP` where other names are valid as well.
    """
    names = sorted(known)
    return None if name in names else next(iter(difflib.get_close_matches(str(name).lower(), names, 1, cutoff)), None)


def did_you_mean(name: t.Any, known: t.Iterable[str], otherwise: str) -> str:
    """Return the hint for an unknown name: the most similar known one, or another hint if none is similar."""
    near = near_miss(name, known)
    return f"Did you mean {near}?" if near else otherwise


def refuse_slips(entry: t.Iterable[str], known: t.Iterable[str], path: str, cutoff: float = SLIP) -> None:
    """Refuse keys that are similar to a known one, in a mapping where other keys are valid as well."""
    for key in entry:
        near = near_miss(key, known, cutoff)
        if near:
            raise InputError("is not a known key.", f"{path}.{key}", f"Did you mean {near}?")


def check_known(entry: t.Any, known: t.Sequence[str], path: str, hint: str) -> None:
    """Refuse a value that is not a mapping, and unknown keys."""
    if not isinstance(entry, t.Mapping):
        raise InputError(f"is {kind_of(entry)}, not a mapping.", path, hint)
    for key in entry:
        if key not in known:
            raise InputError("is not a known key.", f"{path}.{key}" if path else key, did_you_mean(key, known, f"Use {', '.join(known)}."))


def ipv4(value: t.Any, path: str) -> str:
    """Return an IPv4 address."""
    try:
        return str(ipaddress.IPv4Address(str(value)))
    except ValueError as error:
        raise InputError(f"{value!r} is not an IPv4 address.", path, "Write an address such as 192.0.2.10.") from error


def parse_mac(value: t.Any, path: str) -> str:
    """Return the MAC address of a network card in lower case, with colons.

    :raises InputError: any other value; YAML reads an address of decimal digits without quotes as a number.
    """
    hint = "Write the address in quotes: '52:54:00:12:34:56'."
    if not isinstance(value, str):
        raise InputError("is required." if value is None else f"is {kind_of(value)}, not a MAC address.", path, hint)
    mac = value.lower().replace("-", ":")
    if not _MAC.match(mac) or int(mac[:2], 16) & 1:
        raise InputError(f"{shown(value)} is not a MAC address of a network card.", path, hint)
    return mac


def matched(value: t.Any, pattern: re.Pattern[str], path: str, hint: str) -> str | None:
    """Return a value that must match a pattern, ``None`` for an empty value."""
    if value is None or value == "":
        return None
    if not pattern.match(str(value)):
        raise InputError(f"{value!r} is not valid here.", path, hint)
    return str(value)
