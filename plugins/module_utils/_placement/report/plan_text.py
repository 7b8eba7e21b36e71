# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Format the report of a plan as lines for the console."""

from __future__ import annotations

import textwrap
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import MIB, size_text

_WIDTH = 118
_BAR = 20
_MOST_VMS = 12
_MOST_SERVERS = 40
MARKS = {"red": "STOPS", "amber": "WARN ", "green": "OK   "}


def plan_text(report: t.Mapping[str, t.Any]) -> list[str]:
    """Return the report as lines of at most 118 characters, except for longer names."""
    lines = [_headline(report)]
    for words in report["ha"]:
        lines += _wrap(words, "  ", "  ")
    entries = {entry["name"]: entry for entry in report["placements"]}
    shown = report["servers"]
    if len(shown) > _MOST_SERVERS:
        # the most severe losses first
        rank = {"red": 0, "amber": 1, "green": 2}
        order = sorted(range(len(shown)), key=lambda index: (rank[shown[index]["lost"]["severity"]], index))[:_MOST_SERVERS]
        shown = [report["servers"][index] for index in sorted(order)]
    for server in shown:
        lines += ["", _server_line(server)]
        for name in server["vms"][:_MOST_VMS]:
            lines += _vm_lines(entries[name])
        if len(server["vms"]) > _MOST_VMS:
            lines.append(f"    and {len(server['vms']) - _MOST_VMS} more VMs")
        lines += _wrap(server["lost"]["sentence"], f"    {MARKS[server['lost']['severity']]} ", " " * 10)
    if len(report["servers"]) > len(shown):
        lines += ["", f"and {len(report['servers']) - len(shown)} more servers"]
    for title, texts in _sections(report):
        if texts:
            lines += ["", title]
            for text in texts:
                lines += _wrap(text, "  - ", "    ")
    lines += ["", "Disclaimer", *_wrap(report["disclaimer"], "  ", "  ")]
    return lines


def _headline(report: t.Mapping[str, t.Any]) -> str:
    placed, unplaced = len(report["placements"]), len(report["unplaced"])
    missing = sum(1 for wanted in report["wanted"] if not wanted["server"])
    what = f"all {placed} VMs have a server" if not unplaced else f"NO server for {unplaced} of {placed + unplaced} VMs"
    if missing:
        what += f", NO match for {missing} of {len(report['wanted'])} wanted servers"
    return f"Plan for cluster {report['cluster']}: {what}. High availability: {report['ha_grade']}."


def _server_line(server: t.Mapping[str, t.Any]) -> str:
    parts = [server["name"]]
    memory = server.get("memory_mib")
    if server["wanted_by"]:
        parts.append(f"assigned whole to {server['wanted_by']}")
    if memory and server["carries"]:
        limit, used = memory["limit"], memory["used"]
        full = min(_BAR, round(_BAR * used / limit)) if limit else 0
        parts.append(f"[{'#' * full}{'.' * (_BAR - full)}] {_size(used)} of {_size(limit)}")
        vcpus = server["vcpus"]
        parts.append(f"{vcpus['used']} of {vcpus['limit']} vCPUs")
        parts += [f"{name}: {_size(pool['promised_bytes'] // MIB)} of {_size(pool['capacity_bytes'] // MIB)}" for name, pool in server["pools"].items()]
    elif not server["wanted_by"]:
        parts.append("carries no VMs" if memory else "not measured")
    if server["roles"]:
        parts.append(f"({', '.join(server['roles'])})")
    return "  ".join(parts)


def _vm_lines(entry: t.Mapping[str, t.Any]) -> list[str]:
    sign = {"stay": " ", "place": "+", "move": ">"}[entry["action"]]
    head = f"  {sign} {entry['name']:<16} {_size(entry['memory_mib']):>9} {entry['vcpus']:>3} vCPU  {entry['hypervisor']:<5} "
    return _wrap(entry["reason"], head, " " * len(head))


def _sections(report: t.Mapping[str, t.Any]) -> t.Iterator[tuple[str, list[str]]]:
    yield "Without a server", [f"{one['name']}: {reason}" for one in report["unplaced"] for reason in one["reasons"]]
    yield "Changes that would place every VM (any one of them)", report["changes"]
    yield "Whole servers", [f"{one['name']}: {one['server'] or 'none'}; {one['reason']}" for one in report["wanted"]]
    yield "Moves", [f"{move['name']}: {move['previous']} to {move['server']}; {move['reason']}" for move in report["moves"]]
    yield "Standbys", [_standby(one) for one in report["standbys"]]
    yield "Advice", report["advice"]
    yield "Overcommit", report["overcommit"][:_MOST_SERVERS]
    yield "Warnings", [*report["labels"], *report["warnings"]]


def _standby(one: t.Mapping[str, t.Any]) -> str:
    size = f", {_size(one['needed_bytes'] // MIB)} of space" if one["needed_bytes"] else ""
    return f"{one['name']}: copied to {one['server']} every {one['interval_seconds']} s, {one['copies']} copies kept{size}"


def _wrap(text: str, first: str, rest: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False) or [first.rstrip()]


def _size(mib: int) -> str:
    return size_text(mib * MIB) if mib > 0 else "0"
