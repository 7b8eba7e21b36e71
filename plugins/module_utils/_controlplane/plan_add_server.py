# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Add a server: which controllers are moved where, in which order, and whether one may be moved now."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._placement.report.plan_availability import grade_availability
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_moved import MOVED, MOVING

# Status in HAProxy of a server that gets clients.
_SERVING = ("UP", "no check")


@dataclasses.dataclass(frozen=True)
class Wanted:
    """The state that a controller must have before another one may be changed.

    :arg size: number of members of the cluster; ``None`` accepts any.
    :arg uuid: UUID of its cluster; ``None`` accepts any.
    :arg position: lowest accepted sequence number.
    :arg absent: controllers that are being moved and that no load balancer has to reach.
    :arg balanced: whether there is a load balancer with a virtual address.
    """

    size: int | None = None
    uuid: str | None = None
    position: int = -1
    absent: tuple[str, ...] = ()
    balanced: bool = True


def problems(seen: t.Mapping[str, t.Any], wanted: Wanted) -> list[str]:
    """Return why a controller is unhealthy; empty if it is healthy.

    :arg seen: ``controller`` as returned by the module ``grow_info``.
    """
    found = [f"{unit} is {state}" for unit, state in sorted((seen.get("services") or {}).items()) if state != "active"]
    galera = seen.get("galera") or {}
    if not galera.get("ready"):
        found.append("its database is not ready: " + ("; ".join(galera.get("problems") or ()) or f"the server is {galera.get('unit') or 'not installed'}"))
    else:
        if wanted.size is not None and galera.get("size") != wanted.size:
            found.append(f"its cluster has {galera.get('size')} members, not {wanted.size}")
        if wanted.uuid and galera.get("cluster_uuid") != wanted.uuid:
            found.append(f"it belongs to the cluster {galera.get('cluster_uuid')}, not to {wanted.uuid}")
        if int(galera.get("seqno") or 0) < wanted.position:
            found.append(f"it is at position {galera.get('seqno')}, behind {wanted.position}")
    if wanted.balanced:
        found += _balancer_problems(seen, wanted)
    return found


def _balancer_problems(seen: t.Mapping[str, t.Any], wanted: Wanted) -> t.Iterator[str]:
    if seen.get("answers") is False:
        yield "the database does not answer at the virtual address"
    frontends = seen.get("frontends")
    if frontends is None:
        yield "its load balancer does not answer"
        return
    for name, frontend in sorted(frontends.items()):
        down = [f"{server} is {state['status']}" for server, state in frontend["servers"].items() if not state["status"].startswith(_SERVING)]
        down = [text for text in down if text.partition(" ")[0] not in wanted.absent]
        if down and len(down) == len(frontend["servers"]):
            yield f"its load balancer has no healthy server for {name} ({', '.join(down)}); exclude unused services with footprint_components"
        elif down:
            yield f"its load balancer reports for {name}: {', '.join(down)}"


@dataclasses.dataclass(frozen=True)
class Gate:
    """Whether a controller may be moved, and the state of the control plane.

    :arg why: the reasons against it.
    :arg position: the highest sequence number of all members.
    :arg holders: the controllers with the virtual address.
    :arg writers: the members in use by frontends that use one member at a time.
    :arg size: expected number of members of the cluster, ``None`` while one of them is being moved.
    """

    why: tuple[str, ...]
    uuid: str | None
    position: int
    holders: tuple[str, ...]
    writers: tuple[str, ...]
    size: int | None = None

    def as_dict(self) -> dict[str, t.Any]:
        """Return plain values for Ansible."""
        return {
            "ok": not self.why,
            "why": list(self.why),
            "uuid": self.uuid,
            "position": self.position,
            "holder": self.holders[0] if len(self.holders) == 1 else None,
            "writers": list(self.writers),
            "size": self.size,
        }


def evaluate(
    controllers: t.Mapping[str, t.Mapping[str, t.Any] | None], virtual_address: str | None = None, absent: t.Sequence[str] = (), uuid: str | None = None
) -> Gate:
    """Combine the states of all controllers.

    :arg controllers: name → ``controller`` as returned by ``grow_info``, or ``None`` for a controller that does not answer.
    :arg absent: controllers that are being moved: they may be up or down, and the others must be healthy without them.
    :arg uuid: the cluster to which all must belong.
    """
    present = {name: seen for name, seen in controllers.items() if name not in absent}
    uuids = sorted({str((seen.get("galera") or {}).get("cluster_uuid")) for seen in present.values() if seen and (seen.get("galera") or {}).get("ready")})
    size = None if absent else len(present)
    wanted = Wanted(size, uuid or (uuids[0] if len(uuids) == 1 else None), absent=tuple(absent), balanced=bool(virtual_address))
    why = []
    for name, seen in present.items():
        why += [f"{name}: {text}" for text in (problems(seen, wanted) if seen else ["does not answer"])]
    if len(uuids) > 1:
        why.append(f"the members belong to {len(uuids)} clusters: {', '.join(uuids)}")
    holders = tuple(name for name, seen in present.items() if seen and virtual_address and virtual_address in (seen.get("addresses") or ()))
    if virtual_address and len(holders) != 1:
        why.append(f"the virtual address {virtual_address} is on {' and '.join(holders) or 'no controller'}")
    if not present:
        why.append("there are no controllers")
    positions = [int((seen.get("galera") or {}).get("seqno") or 0) for seen in present.values() if seen]
    return Gate(tuple(why), wanted.uuid, max(positions, default=-1), holders, _writers(present, holders), size)


def _writers(controllers: t.Mapping[str, t.Mapping[str, t.Any] | None], holders: t.Sequence[str]) -> tuple[str, ...]:
    """Return the members in use at the load balancer with the virtual address, or at all of them if the holder is not known."""
    names = holders or tuple(controllers)
    frontends = [frontend for name in names for frontend in ((controllers[name] or {}).get("frontends") or {}).values()]
    return tuple(sorted({frontend["in_use"] for frontend in frontends if frontend.get("in_use")}))


def steps(
    plan: t.Mapping[str, t.Any],
    found: t.Mapping[str, t.Sequence[t.Mapping[str, t.Any]]],
    notes: t.Mapping[str, t.Sequence[t.Mapping[str, t.Any]]],
    controllers: t.Sequence[str],
    cluster: str,
) -> dict[str, t.Any]:
    """Return the moves that are required to add a server, in order; an unfinished move comes first.

    :arg plan: the result of ``footprint_plan``.
    :arg found: server → its VMs as returned by ``vm_info``.
    :arg notes: server → VMs that were or are being moved from it, as returned by ``vm_move_info``.
    :arg controllers: names of the VMs and servers that are controllers.
    :returns: ``steps`` (``id``, ``name``, ``source``, ``destination``, ``reason``, ``begun``), ``others`` (planned moves of VMs
        that are not controllers), ``before`` and ``after`` (grades), ``places`` (name → server), ``why`` (the reasons against
        starting).
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
    after = {**places, **{step["name"]: step["destination"] for step in wanted}}
    return {
        "steps": wanted,
        "others": [dict(move) for move in moves if move["name"] not in places],
        "before": grade_availability(places).grade,
        "after": grade_availability(after).grade,
        "places": places,
        "why": why,
    }


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
