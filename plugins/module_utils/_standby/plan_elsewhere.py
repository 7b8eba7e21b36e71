# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide whether a VM may be started from its copy: not if another virt host has it, or a move of it that has not ended."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError, InputError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_plan import Plan

_PATH = "start_standby_abandon_move"
_LOST = "start_standby_lost"
Results = t.Sequence[t.Mapping[str, t.Any]]


class Wanted(t.NamedTuple):
    """The start.

    :arg source: the server of the VM, which was lost.
    :arg abandoned: virt hosts with the record of a move that is ended by the start, as typed by a person.
    :arg lost: virt hosts that do not answer, as typed by a person who made sure that they do not run it.
    """

    id: str
    uuid: str
    source: str
    abandoned: t.Sequence[str] = ()
    lost: t.Sequence[str] = ()


def plan(wanted: Wanted, vms: Results, moves: Results) -> Plan:
    """Decide about a start. The journal of a move is on the lost server; its destination has a record until the VM is settled there, then only the VM.

    :arg vms: results of ``vm_info`` on the other virt hosts, each with the key ``item``, the name of the host.
    :arg moves: results of ``vm_move_info`` there.
    """
    silent = sorted({str(one["item"]) for results, key in ((vms, "vms"), (moves, "moves")) for one in results if one.get(key) is None})
    found = [(str(one["item"]), move) for one in moves for move in one.get("moves") or () if move["uuid"] == wanted.uuid]
    having = [f"{one['item']} ({vm['state']})" for one in vms for vm in one.get("vms") or () if _is_there(vm, wanted.uuid, str(one["item"]))]
    having += [f"{name} (moving to {move['to']})" for name, move in found if move["state"] == "moving"]
    opened = [name for name, move in found if move["state"] == "arriving"]
    return Plan((), problems=(*_silent(wanted, silent), *(_twice(wanted, having) if having else _open(wanted, opened))))


def _silent(wanted: Wanted, silent: t.Sequence[str]) -> t.Iterator[FootprintError]:
    """Yield an error for servers that may have it."""
    left = [name for name in silent if name not in wanted.lost]
    other = [name for name in wanted.lost if name not in silent]
    if other:
        yield InputError(f"{', '.join(other)} answers, or is not another virt host.", _LOST, "Omit it.")
    if left:
        yield InputError(
            f"{', '.join(left)} did not answer. If {wanted.id} was moved to one of them before {wanted.source} was lost, it may run there, and would run "
            "twice.",
            _LOST,
            f"Repair them, or make sure that they do not run it, then set {_LOST}: {','.join(silent)}.",
        )


def _is_there(vm: t.Mapping[str, t.Any], uuid: str, host: str) -> bool:
    # the old VM of a move from there is off, and kept until that move is confirmed
    return bool(vm["uuid"] == uuid and (vm.get("moved") in (None, "", host) or vm["state"] != "shutdown"))


def _twice(wanted: Wanted, having: t.Sequence[str]) -> t.Iterator[FootprintError]:
    where, source = ", ".join(having), wanted.source
    yield FootprintError(
        f"{where} has {wanted.id}, which was moved there from {source}, or a move there was interrupted: with its copy it could run twice.",
        hint=f"If it runs on {where}, it has all its data: move its details there in the inventory. Otherwise switch {source} on, and finish the move there "
        f"with move_vm. If {source} never returns, docs/standby.md describes what to do.",
    )


def _open(wanted: Wanted, opened: t.Sequence[str]) -> t.Iterator[FootprintError]:
    left = [name for name in opened if name not in wanted.abandoned]
    other = [name for name in wanted.abandoned if name not in opened]
    if left and other:
        yield InputError(f"{', '.join(other)} has no unfinished move of the VM.", _PATH)
    if left:
        yield FootprintError(
            f"{', '.join(opened)} has the record of a move of {wanted.id} that has not ended, but not the VM.",
            hint=f"Switch {wanted.source} on, and finish the move there with move_vm. To start the copy instead, which ends the move, set {_PATH}: "
            f"{','.join(opened)}.",
        )
