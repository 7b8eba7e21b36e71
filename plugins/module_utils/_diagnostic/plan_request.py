# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is asked for in a diagnostic snapshot, and what is reported of it."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import KIB, parse_size, size_text

#: With less, most texts would be empty.
LEAST = 64 * KIB
_PREFIX = "diagnostic_snapshot_"


def share(host_size: str, size: str, hosts: int) -> int:
    """Return how many bytes the texts of each host may have.

    :arg host_size: the most for one host.
    :arg size: the most for all hosts.
    """
    one, all_hosts = parse_size(host_size, "MiB", f"{_PREFIX}host_size"), parse_size(size, "MiB", f"{_PREFIX}size")
    if one < LEAST:
        raise InputError(f"{size_text(one)} is less than {size_text(LEAST)}.", f"{_PREFIX}host_size", "Use 8 MiB, for example.")
    if all_hosts < LEAST * max(1, hosts):
        message = f"{size_text(all_hosts)} is less than {size_text(LEAST)} for each of {hosts} hosts."
        raise InputError(message, f"{_PREFIX}size", "Use a larger size, or fewer hosts with --limit.")
    return min(one, all_hosts // max(1, hosts))


def check_numbers(hours: int, timeout: int) -> None:
    """Check the age of the oldest line, and the time for a host."""
    for name, number, unit, example in (("hours", hours, "hours", 24), ("timeout", timeout, "seconds", 60)):
        if number < 1:
            raise InputError(f"{number} is not a number of {unit} above 0.", f"{_PREFIX}{name}", f"Use {example}, for example.")


def silences(silent: t.Mapping[str, str]) -> list[str]:
    """Return a line for each reason why hosts have no texts, which are named in it."""
    reasons = dict.fromkeys(silent.values())
    return [f"NO ANSWER {', '.join(host for host, why in silent.items() if why == reason)}: {reason}" for reason in reasons]
