# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The repairs that ``doctor`` makes on request: none of them stops anything, removes data, or opens a way in."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_doctor_finding import Finding


def key(found: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Remove a key that sshd does not accept any more; one of the same name that was placed meanwhile is another key, and is kept."""
    return {"remove_key": {"name": found["name"], "public_key": found["public_key"]}}


def start(unit: str) -> dict[str, t.Any]:
    """Start a unit that is enabled, so that the next start of the host would start it as well."""
    return {"start_unit": unit}


def steps(findings: t.Iterable[Finding]) -> dict[str, list[t.Mapping[str, t.Any]]]:
    """Return host → its repairs."""
    found: dict[str, list[t.Mapping[str, t.Any]]] = {}
    for one in findings:
        if one.fix:
            found.setdefault(one.host, []).append(one.fix)
    return found
