# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Growth: which controller goes where, in which order, and whether the control plane may be touched now."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._placement.report.plan_availability import grade_availability
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_moved import MOVED, MOVING

# What HAProxy says of a server it sends clients to.
_SERVING = ("UP", "no check")


@dataclasses.dataclass(frozen=True)
class Wanted:
    """What one controller has to be before anything is done to another one.

    :arg size: members the cluster is to have; ``None`` takes any.
    :arg uuid: the cluster it has to belong to; ``None`` takes any.
    :arg position: what it has to have applied at least.
    :arg absent: controllers that are under way, so that nobody's load balancer need reach them.
    :arg balanced: whether a load balancer and a virtual address stand in front.
    """

    size: int | None = None
    uuid: str | None = None
    position: int = -1
    absent: tuple[str, ...] = ()
    balanced: bool = True


def problems(seen: t.Mapping[str, t.Any], wanted: Wanted) -> list[str]:
    """Why a controller is not well, in words; empty when it is.

    :arg seen: what the module ``grow_info`` returns as ``controller``.
    """
    found = [f"{unit} is {word}" for unit, word in sorted((seen.get("services") or {}).items()) if word != "active"]
    galera = seen.get("galera") or {}
    if not galera.get("ready"):
        found.append("its database is no ready member: " + ("; ".join(galera.get("problems") or ()) or f"the server is {galera.get('unit') or 'not there'}"))
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
            yield f"its load balancer finds nobody who serves {name} ({', '.join(down)}); what this footprint does not have, footprint_components leaves out"
        elif down:
            yield f"its load balancer says of {name}: {', '.join(down)}"


@dataclasses.dataclass(frozen=True)
class Gate:
    """Whether the control plane may be touched, and what was seen.

    :arg why: what speaks against it.
    :arg holders: who holds the virtual address.
    :arg writers: the members that frontends with one member use.
    :arg size: members the cluster is to have, nothing while one of them is under way.
    """

    why: tuple[str, ...]
    uuid: str | None
    position: int
    holders: tuple[str, ...]
    writers: tuple[str, ...]
    size: int | None = None

    def as_dict(self) -> dict[str, t.Any]:
        """Plain values, for Ansible."""
        return {
            "ok": not self.why,
            "why": list(self.why),
            "uuid": self.uuid,
            "position": self.position,
            "holder": self.holders[0] if len(self.holders) == 1 else None,
            "writers": list(self.writers),
            "size": self.size,
        }


def judge(
    looks: t.Mapping[str, t.Mapping[str, t.Any] | None], virtual_address: str | None = None, absent: t.Sequence[str] = (), uuid: str | None = None
) -> Gate:
    """Put what every controller said together.

    :arg looks: every controller with what ``grow_info`` returned as ``controller``, or nothing for one that does not answer.
    :arg absent: controllers that are under way: they may be there or not, come and go, and the others must do without them.
    :arg uuid: the cluster all have to belong to.
    """
    there = {name: seen for name, seen in looks.items() if name not in absent}
    uuids = sorted({str((seen.get("galera") or {}).get("cluster_uuid")) for seen in there.values() if seen and (seen.get("galera") or {}).get("ready")})
    size = None if absent else len(there)
    wanted = Wanted(size, uuid or (uuids[0] if len(uuids) == 1 else None), absent=tuple(absent), balanced=bool(virtual_address))
    why = []
    for name, seen in there.items():
        why += [f"{name}: {text}" for text in (problems(seen, wanted) if seen else ["does not answer"])]
    if len(uuids) > 1:
        why.append(f"the members belong to {len(uuids)} clusters: {', '.join(uuids)}")
    holders = tuple(name for name, seen in there.items() if seen and virtual_address and virtual_address in (seen.get("addresses") or ()))
    if virtual_address and len(holders) != 1:
        why.append(f"the virtual address {virtual_address} is on {' and '.join(holders) or 'no controller'}")
    if not there:
        why.append("there are no controllers")
    positions = [int((seen.get("galera") or {}).get("seqno") or 0) for seen in there.values() if seen]
    return Gate(tuple(why), wanted.uuid, max(positions, default=-1), holders, _writers(there, holders), size)


def _writers(looks: t.Mapping[str, t.Mapping[str, t.Any] | None], holders: t.Sequence[str]) -> tuple[str, ...]:
    """Whom the load balancer that clients speak to, or each one when nobody is known to, sends them to."""
    asked = holders or tuple(looks)
    frontends = [frontend for name in asked for frontend in ((looks[name] or {}).get("frontends") or {}).values()]
    return tuple(sorted({frontend["in_use"] for frontend in frontends if frontend.get("in_use")}))


def steps(
    plan: t.Mapping[str, t.Any],
    found: t.Mapping[str, t.Sequence[t.Mapping[str, t.Any]]],
    notes: t.Mapping[str, t.Sequence[t.Mapping[str, t.Any]]],
    controllers: t.Sequence[str],
    cluster: str,
) -> dict[str, t.Any]:
    """What growth has to do, in order: what was begun is finished first, then one move after the other.

    :arg plan: what ``footprint_plan`` returned.
    :arg found: server → its VMs as ``vm_info`` lists them.
    :arg notes: server → VMs that left it or are on their way, as ``vm_move_info`` lists them.
    :arg controllers: names of the VMs and servers that are controllers.
    :returns: ``steps`` (``id``, ``name``, ``source``, ``destination``, ``reason``, ``begun``), ``others`` (moves the plan
        proposes of VMs that are no controllers), ``before`` and ``after`` (grades), ``places`` (name → server), ``why`` (what
        keeps growth from beginning).
    """
    places = current_places(found, notes, controllers, cluster)
    wanted, why = [], []
    for server, listed in notes.items():
        for note in listed:
            if note["cluster"] == cluster and note["name"] in places and note["state"] in (MOVING, MOVED):
                wanted.append(_step(note, server, note["to"], "its move was begun and not finished", True))
                if note["to"] not in found:
                    why.append(f"{note['name']} is on its way from {server} to {note['to']}, which is no server of the inventory")
    if len(wanted) > 1:
        why.append(f"{len(wanted)} moves were begun and not finished: {', '.join(step['name'] for step in wanted)}; finish one with the playbook move_vm")
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
    """Where each controller stands, whatever the inventory says; one that is no VM stands on itself."""
    places = {name: name for name in controllers}
    for server, vms in found.items():
        # an old copy is no place, one that is only on its way stands where it was
        left = {note["uuid"] for note in notes.get(server) or () if note["state"] != MOVING}
        for vm in vms:
            if vm.get("id") is not None and vm.get("cluster") == cluster and vm["name"] in places and vm["uuid"] not in left:
                places[vm["name"]] = server
    return places


def listed_elsewhere(places: t.Mapping[str, str], listed: t.Mapping[str, str | None]) -> list[dict[str, str]]:
    """The controllers whose VM details stand in the list of another server than the one they run on."""
    found = []
    for name, place in sorted(places.items()):
        if listed.get(name) and listed[name] != place:
            text = f"inventory: move the entry of {name} from the vms of {listed[name]} to the vms of {place}, where it stands"
            found.append({"name": name, "listed": str(listed[name]), "stands": place, "text": text})
    return found


def _step(vm: t.Mapping[str, t.Any], source: str, destination: str, reason: str, begun: bool) -> dict[str, t.Any]:
    text = f"{vm['name']} {'goes on' if begun else 'moves'} from {source} to {destination}: {reason}"
    return {"id": vm["id"], "name": vm["name"], "source": source, "destination": destination, "reason": reason, "begun": begun, "text": text}
