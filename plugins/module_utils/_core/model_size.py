# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sizes and rates as people write them: ``2``, ``1.5``, ``"512 MiB"``, ``"6G"``, ``"100 MiB/s"``.

Units are libvirt's own: ``KiB, MiB, GiB, TiB`` (short ``K, M, G, T``) count in 1024,
``KB, MB, GB, TB`` in 1000, ``B`` (or ``bytes``) is one.
"""

from __future__ import annotations

import decimal
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors

KIB = 1024
MIB = 1024**2
GIB = 1024**3
TIB = 1024**4

_UNITS: t.Mapping[str, int] = {
    "b": 1,
    "byte": 1,
    "bytes": 1,
    "k": KIB,
    "kib": KIB,
    "kb": 1000,
    "m": MIB,
    "mib": MIB,
    "mb": 1000**2,
    "g": GIB,
    "gib": GIB,
    "gb": 1000**3,
    "t": TIB,
    "tib": TIB,
    "tb": 1000**4,
}
_SIZE = re.compile(r"\A\s*([0-9]{1,30}(?:\.[0-9]{1,30})?)\s*([A-Za-z]*)\s*\Z")
_PER_SECOND = re.compile(r"\s*/\s*s\s*\Z")
_HINT = "Write a number or a number with a unit, for example 2, 1.5 or '512 MiB'."


def parse_size(value: t.Any, default_unit: str, path: str) -> int:
    """Return a size in whole bytes, rounded up.

    :arg value: number (in ``default_unit``) or text with or without a unit.
    :arg default_unit: unit of a number without a unit, e.g. ``GiB``.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise model_errors.InputError(f"{model_errors.shown(value)} is not a size.", path, _HINT)
    text = value if isinstance(value, str) else format(decimal.Decimal(str(value)), "f")
    if text.strip().startswith("-"):
        raise model_errors.InputError(f"{model_errors.shown(value)} is negative.", path, _HINT)
    found = _SIZE.match(text)
    if not found:
        raise model_errors.InputError(f"{model_errors.shown(value)} is not a size.", path, _HINT)
    unit = (found.group(2) or default_unit).lower()
    if unit not in _UNITS:
        raise model_errors.InputError(
            f"{model_errors.shown(value)} has the unknown unit {found.group(2)!r}.", path, "Use one of B, KiB, MiB, GiB, TiB, KB, MB, GB, TB."
        )
    size = int((decimal.Decimal(found.group(1)) * _UNITS[unit]).to_integral_value(decimal.ROUND_CEILING))
    if size <= 0:
        raise model_errors.InputError(f"{model_errors.shown(value)} is not greater than 0.", path, _HINT)
    return size


def parse_rate(value: t.Any, path: str) -> int:
    """Return a rate such as ``100 MiB/s`` in bytes per second, 0 for no limit.

    :arg value: as for :func:`parse_size`, with or without ``/s``; a number without a unit is in MiB.
    """
    if value in (None, "", 0, "0"):
        return 0
    return parse_size(_PER_SECOND.sub("", value) if isinstance(value, str) else value, "MiB", path)


def size_text(size: int) -> str:
    """Return a human-readable size in the largest suitable 1024-unit, e.g. ``1.5 GiB``."""
    for unit, factor in (("TiB", TIB), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if size >= factor:
            number = f"{size / factor:.2f}".rstrip("0").rstrip(".")
            return f"{number} {unit}"
    return f"{size} B"
