# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide for which services a run has nothing to do, from answers that were gathered for all of them at once."""

from __future__ import annotations

import typing as t

Answers = t.Mapping[str, t.Any]


def settled(answers: t.Mapping[str, Answers]) -> list[str]:
    """Return the services that have everything they need on all of their members, and answer there.

    A difference on a member counts for all of its services: they share files and accounts.

    :arg answers: each host of the run with ``members``, the hosts of each of its services, ``health`` of each service (``services`` of ``controlplane_info``),
        and ``compared``, results in check mode of the modules that would change something; one that was skipped had nothing to compare, one that failed
        is unknown. Empty for a host without answers.
    """
    same = {host for host, found in answers.items() if found and all(_same(result) for result in found["compared"])}
    members = {name: hosts for found in answers.values() for name, hosts in (found.get("members") or {}).items()}
    return [name for name, hosts in members.items() if hosts and all(host in same and _serves(name, answers[host]) for host in hosts)]


def _same(result: Answers) -> bool:
    return bool(result.get("skipped")) or result.get("actions") == []


def _serves(name: str, found: Answers) -> bool:
    seen = found["health"].get(name)
    return name in found["members"] and bool(seen) and seen["problems"] == [] and bool(seen.get("facts")) and not seen["facts"].get("drained")
