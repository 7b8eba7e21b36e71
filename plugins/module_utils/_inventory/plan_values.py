# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Invalid values in an inventory that no schema shows. No I/O."""

from __future__ import annotations

import ipaddress
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError, InputError, shown

#: What was meant as an IPv4 address or network.
_FOUR_NUMBERS = re.compile(r"\A[0-9]{1,3}(\.[0-9]{1,3}){3}(/[0-9]+)?\Z")


def invalid_addresses(value: t.Any, path: str) -> list[FootprintError]:
    """Return an error for each text that consists of four numbers and is not an IPv4 address or network, also within lists and mappings."""
    if isinstance(value, t.Mapping):
        return [error for key, one in value.items() for error in invalid_addresses(one, f"{path}.{key}")]
    if isinstance(value, (list, tuple)):
        return [error for index, one in enumerate(value) for error in invalid_addresses(one, f"{path}[{index}]")]
    if not isinstance(value, str) or not _FOUR_NUMBERS.match(value):
        return []
    try:
        ipaddress.ip_interface(value)
        return []
    except ValueError:
        return [InputError(f"{shown(value)} is not an IP address.", path, "Write four numbers from 0 to 255, e.g. 192.0.2.10.")]


def has_template(value: t.Any) -> bool:
    """Whether a value contains a template, so that it is known only in a run."""
    if isinstance(value, t.Mapping):
        return any(has_template(one) for one in (*value, *value.values()))
    if isinstance(value, (list, tuple)):
        return any(has_template(one) for one in value)
    return isinstance(value, str) and ("{{" in value or "{%" in value)
