# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The record of whole servers that are assigned to requests."""

from __future__ import annotations

import json
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError

_VERSION = 1


class Assignment(t.NamedTuple):
    """A server that is assigned to a request, since a time (UTC)."""

    name: str
    server: str
    since: str


def parse_record(text: str | None, path: str) -> dict[str, Assignment]:
    """Return the assignments of a record by the name of the request; none without a record."""
    if text is None:
        return {}
    try:
        data = json.loads(text)
        if data["version"] != _VERSION:
            raise ValueError("version")
        found = {str(name): Assignment(str(name), str(entry["server"]), str(entry["since"])) for name, entry in data["assigned"].items()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError("is not a record of assignments.", path, "Restore it from a backup; without it, servers would be assigned twice.") from error
    servers = [one.server for one in found.values()]
    twice = sorted({server for server in servers if servers.count(server) > 1})
    if twice:
        raise InputError(f"assigns {twice[0]} twice.", path, "Remove one of the entries.")
    return found


def record_text(assigned: t.Mapping[str, Assignment]) -> str:
    """Return the text of a record."""
    entries = {name: {"server": one.server, "since": one.since} for name, one in sorted(assigned.items())}
    return json.dumps({"version": _VERSION, "assigned": entries}, indent=2) + "\n"
