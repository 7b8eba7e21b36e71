# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Timestamps for results and journals: ISO 8601 in UTC."""

from __future__ import annotations

import calendar
import re
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors

_AT = re.compile(r"\A\d{8}T\d{6}Z\Z")


def utc(seconds: float | None = None) -> str:
    """Return a timestamp such as ``2026-11-23T02:15:00Z``.

    :arg seconds: Unix time in seconds; default now.
    """
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def seconds(text: str) -> int:
    """Return the Unix time of a timestamp as :func:`utc` returns it."""
    return calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ"))


def dated(entry: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return a mapping with its times ``at``, ``started`` and ``ended``, Unix seconds or ``None``, as timestamps."""
    return {**entry, **{key: utc(entry[key]) for key in ("at", "started", "ended") if entry.get(key) is not None}}


def parse_time(value: t.Any, path: str) -> str:
    """Return a time in the form that is part of file names."""
    if not isinstance(value, str) or not _AT.match(value):
        raise model_errors.InputError(f"{model_errors.shown(value)} is not a time.", path, "Write a time such as 20261125T190000Z.")
    return value
