# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Add a server: which controllers are moved where, and in which order."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._placement.report.plan_availability import grade_availability
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.model_owner import MOVED, MOVING


def steps(
    plan: t.Mapping[str, t.Any],
    found: t.Mapping[str, t.Sequence[t.Mapping[str, t.Any]]],
    notes: t.Mapping[str, t.Sequence[t.Mapping[str, t.Any]]],
    controllers: t.Sequence[str],
    cluster: str,
    witnesses: t.Sequence[str] = (),
) -> dict[str, t.Any]:
    """Return the moves that are required to add a server, in order; an unfinished move comes first.

    :arg plan: the result of ``footprint_plan``.
    :arg found: server → its VMs as returned by ``vm_info``.
    :arg notes: server → VMs that were or are being moved from it, as returned by ``vm_move_info``.
    :arg controllers: names of the VMs and servers that are controllers.
    :arg witnesses: names of the machines that vote only.
    :returns: ``steps`` (``id``, ``name``, ``source``, ``destination``, ``reason``, ``begun``), ``others`` (planned moves of VMs
        that are not controllers), ``before`` and ``after`` (grades), ``places`` (name → server), ``why`` (the reasons against
        starting), ``lines`` (the plan as text).
    """
    places = current_places(found, notes, controllers, cluster)
    wanted, why = [], []
    for server, listed in notes.items():
        for note in listed:
            if note["cluster"] == cluster and note["name"] in places and note["state"] in (MOVING, MOVED):
                wanted.append(_step(note, server, note["to"], "its move is unfinished", True))
                if note["to"] not in found:
                    why.append(f"{note['name']} is being moved from {server} to {note['to']}, which is not a server of the inventory")
    if len(wanted) > 1:
        why.append(f"{len(wanted)} moves are unfinished: {', '.join(step['name'] for step in wanted)}; finish one with the playbook move_vm")
    begun = {step["id"] for step in wanted}
    moves = [move for move in plan.get("moves") or [] if move["id"] not in begun]
    wanted += [_step(move, move["previous"], move["server"], move["reason"], False) for move in moves if move["name"] in places]
    voting = {name: name for name in witnesses}
    moved = {**places, **{step["name"]: step["destination"] for step in wanted}}
    before, after = (grade_availability({**voting, **each}).grade for each in (places, moved))
    others = [dict(move) for move in moves if move["name"] not in places]
    lines = [f"high availability is {before} now, and will be {after}", *([step["text"] for step in wanted] or ["no controller has to be moved"])]
    lines += [f"{move['name']} is not a controller and is not moved" for move in others]
    return {"steps": wanted, "others": others, "before": before, "after": after, "places": places, "why": why, "lines": [*lines, *(plan.get("ha") or ())]}


def report(
    result: t.Mapping[str, t.Any], before: str, done: t.Iterable[t.Sequence[t.Mapping[str, t.Any]]] = (), written: t.Mapping[str, t.Any] | None = None
) -> list[str]:
    """Return the lines about a run: its moves, the grades, what clients noticed, and what has to be changed in the inventory.

    :arg result: of :func:`steps` after the moves, with ``listed``, see :func:`listed_elsewhere`.
    :arg before: the grade before them.
    :arg done: for each server ``step`` and the result ``moved`` of its moves.
    :arg written: the report of the write probe.
    """
    lines = [_done(one["step"], one["moved"]) for moves in done for one in moves]
    lines.append(f"high availability was {before} and is {result['before']}")
    if written and written.get("largest_gap_seconds") is not None:
        lost = "an unknown number of" if written["rows_lost"] is None else written["rows_lost"]
        gap = f"{written['largest_gap_seconds']} s at {written['largest_gap_at']}"
        lines.append(f"clients: {written['rows']} rows written in {written['seconds']} s, {lost} lost, largest write gap {gap}")
    return lines + [one["text"] for one in result["listed"]]


def _done(step: t.Mapping[str, t.Any], moved: t.Mapping[str, t.Any]) -> str:
    down, size = round(float(moved.get("downtime_seconds") or 0), 1), moved.get("bytes") or 0
    return f"{step['name']} moved from {step['source']} to {step['destination']} ({moved.get('method') or '?'}, {down} s down, {size} bytes)"


def current_places(
    found: t.Mapping[str, t.Sequence[t.Mapping[str, t.Any]]],
    notes: t.Mapping[str, t.Sequence[t.Mapping[str, t.Any]]],
    controllers: t.Sequence[str],
    cluster: str,
) -> dict[str, str]:
    """Return controller → the server on which it runs, independent of the inventory; a physical controller is its own server."""
    places = {name: name for name in controllers}
    for server, vms in found.items():
        # ignore the old copies of moved VMs; a VM that is still being moved is on its source
        left = {note["uuid"] for note in notes.get(server) or () if note["state"] != MOVING}
        for vm in vms:
            if vm.get("id") is not None and vm.get("cluster") == cluster and vm["name"] in places and vm["uuid"] not in left:
                places[vm["name"]] = server
    return places


def listed_elsewhere(places: t.Mapping[str, str], listed: t.Mapping[str, str | None]) -> list[dict[str, str]]:
    """Return the controllers whose VM details are listed under another server than the one on which they run."""
    found = []
    for name, place in sorted(places.items()):
        if listed.get(name) and listed[name] != place:
            text = f"inventory: move the entry of {name} from the vms of {listed[name]} to the vms of {place}, where it runs"
            found.append({"name": name, "listed": str(listed[name]), "stands": place, "text": text})
    return found


def _step(vm: t.Mapping[str, t.Any], source: str, destination: str, reason: str, begun: bool) -> dict[str, t.Any]:
    text = f"{vm['name']} {'continues its move' if begun else 'moves'} from {source} to {destination}: {reason}"
    return {"id": vm["id"], "name": vm["name"], "source": source, "destination": destination, "reason": reason, "begun": begun, "text": text}
