# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A finding of ``doctor``, and the repairs that it makes on request: none of them stops anything, removes data, or opens a way in."""

from __future__ import annotations

import typing as t

OK, NOTE, REPAIR, UNKNOWN = "ok", "note", "repair", "unknown"
#: Host → its answer.
Known = t.Mapping[str, t.Mapping[str, t.Any]]


class Finding(t.NamedTuple):
    """What one check found.

    :arg todo: what to do, a sentence without its full stop.
    :arg host: empty if it is about several.
    :arg fix: a step that is safe, see :func:`remove_key` and :func:`start_unit`.
    """

    check: str
    state: str
    text: str
    todo: str = ""
    host: str = ""
    fix: t.Mapping[str, t.Any] = {}


def remove_key(found: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Remove a key that sshd does not accept any more; one of the same name that was placed meanwhile is another key, and is kept."""
    return {"remove_key": {"name": found["name"], "public_key": found["public_key"]}}


def start_unit(unit: str) -> dict[str, t.Any]:
    """Start a unit that is enabled, so that the next start of the host would start it as well."""
    return {"start_unit": unit}


def steps(findings: t.Iterable[Finding]) -> dict[str, list[t.Mapping[str, t.Any]]]:
    """Return host → its repairs."""
    found: dict[str, list[t.Mapping[str, t.Any]]] = {}
    for one in findings:
        if one.fix:
            found.setdefault(one.host, []).append(one.fix)
    return found
