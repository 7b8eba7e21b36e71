# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The transitions of a VM's record: what must be true before an event changes it, and how. Nothing else decides which host may run a VM.

* The former owner becomes ``former`` of epoch *e* before the next one becomes ``owner`` of epoch *e* + 1.
* An answer of another machine is used only with the record with which it was asked for; after a change it is asked for again.
* Without the hand of the former owner, a person names it as lost.
"""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.model_owner import (
    ARRIVED,
    FORMER,
    FREE,
    INCOMING,
    LIVE,
    MOVE,
    OWNER,
    STOPPED,
    TAKEOVER,
    Operation,
    Record,
)

#: The role of a machine without a record.
NONE = "none"


class Event(t.NamedTuple):
    """What happens on a machine.

    :arg here: the name of this machine; for ``begun`` that of the machine that begins it.
    :arg token: identifies the operation.
    :arg of: the record of the machine that hands over; of a machine without a record, the record that names the VM.
    :arg answers: the records of other machines, as they answered; one without a record, or without an answer, is missing.
    :arg lost: the machine that a person named as lost.
    :arg running: whether the VM runs here, ``None`` if that is not known.
    :arg complete: all data are at the destination, as far as this machine knows: libvirt has migrated the VM, or they were copied back to its former owner.
        On the destination: libvirt has the VM.
    :arg live: the VM is migrated while it runs.
    """

    name: str
    here: str = ""
    token: str = ""
    to: str = ""
    of: Record | None = None
    answers: t.Mapping[str, Record] = {}
    running: bool | None = None
    complete: bool = False
    live: bool = False
    lost: str = ""
    at: str = ""


Old = t.Optional[Record]


class Condition(t.NamedTuple):
    """What must be true.

    :arg message: completed with the VM (``vm``), its owner as far as known (``to``), and the operation (``kind``, ``by``, ``holder``).
    """

    name: str
    holds: t.Callable[[t.Any, Event], bool]
    message: str
    hint: str


class Row(t.NamedTuple):
    """An event on a machine with one of some roles."""

    event: str
    roles: tuple[str, ...]
    conditions: tuple[Condition, ...]
    becomes: t.Callable[[t.Any, Event], Old]


def _handed(old: Record, event: Event) -> bool:
    given = event.answers.get(old.operation.by if old.operation else "")
    return given is not None and given.epoch == old.epoch and given.role == FORMER and given.token == old.token


def _handed_back(old: Record, event: Event) -> bool:
    given = event.answers.get(old.to)
    asked = old.operation is not None and old.operation.to == event.here
    return asked and given is not None and given.role == FORMER and given.to == event.here and given.token == old.token


def _kept(old: Record, event: Event) -> bool:
    given = event.answers.get(old.operation.by if old.operation else "")
    return given is not None and given.token != old.token and (given.role == OWNER or given.is_taken)


def _arrives(old: Record, event: Event) -> bool:
    given = event.answers.get(old.operation.to) if old.operation else None
    if given is None or given.operation is None or not old.operation:
        return False
    if given.role == FORMER:
        # which still asks for it
        return event.complete and old.operation.step == STOPPED and given.operation[:3] == old.operation[:3]
    if given.role != INCOMING or given.token != old.token:
        return False
    return given.operation.step == ARRIVED and old.operation.step == STOPPED or given.operation.step == LIVE and event.complete


def _is_newer(old: Record, event: Event) -> bool:
    # of a return
    asking = event.answers.get(event.here)
    return asking is None or asking.epoch < old.epoch


def _is_here(old: Record, event: Event) -> bool:
    return old.operation is not None and (old.operation.step == ARRIVED or old.operation.step == LIVE and event.complete)


def _elsewhere(old: Record, event: Event) -> bool:
    given = event.answers.get(old.to)
    return given is not None and given.role == OWNER and given.operation is None and given.epoch > old.epoch


def _with_step(old: Record, step: str) -> Record:
    return old._replace(operation=old.operation._replace(step=step) if old.operation else None)


def _ended(old: Record, event: Event) -> Record:
    return old._replace(operation=None, at=event.at)


def _begun(old: Record, event: Event) -> Record:
    if old.operation and old.operation.step and old.token == event.token:
        # repeated
        return old
    return old._replace(operation=Operation(MOVE, event.token, event.to, event.here, LIVE if event.live else ""), at=event.at)


def _asked_back(old: Record, event: Event) -> Record:
    return old._replace(operation=Operation(MOVE, event.token, event.here, event.here), at=event.at)


def _received(old: Old, event: Event) -> Record:
    of = t.cast(Record, event.of)
    step = LIVE if of.operation and of.operation.step == LIVE else ""
    was_former = old is not None and (old.role == FORMER or old.role == INCOMING and old.operation is not None and old.operation.reason == FORMER)
    operation = Operation(MOVE, event.token, event.here, event.to, step, FORMER if was_former else "")
    # whether it asks before a start is a matter of each machine
    start = old.start if old is not None else Record._field_defaults["start"]
    return of._replace(role=INCOMING, to=event.here, at=event.at, operation=operation, proof="", start=start)


def _discarded(old: Record, event: Event) -> Old:
    by, reason = (old.operation.by, old.operation.reason) if old.operation else ("", "")
    return old._replace(role=FORMER, to=by, at=event.at, operation=None) if reason == FORMER else None


def _next(old: Record, event: Event, epoch: int, proof: str) -> Record:
    return old._replace(role=OWNER, epoch=epoch + 1, to=event.here, at=event.at, operation=None, proof=proof)


def _left(old: Old, event: Event, operation: Operation | None = None) -> Record:
    return (old or t.cast(Record, event.of))._replace(role=FORMER, to=event.to, at=event.at, operation=operation, proof="")


IDLE = Condition(
    "operation",
    lambda old, event: old is None or old.operation is None,
    "the move of {vm} from this machine is not confirmed.",
    "Confirm it first, or move the VM back with state: returned.",
)
BEFORE = Condition(
    "step",
    lambda old, event: event.of.operation is None or event.of.operation.step != STOPPED,
    "{vm} was received here before, and its data may be missing.",
    "Cancel the move, and begin it again.",
)
UNFINISHED = Condition(
    "step", lambda old, event: old.operation.step != ARRIVED and not event.complete, "all data of {vm} are here.", "Discard them first, if its source keeps it."
)
NEWER = Condition("epoch", _is_newer, "{vm} was created here after it had been moved.", "Find out which of the two is valid.")
OFF = Condition("running", lambda old, event: event.running is False, "{vm} runs here, or that cannot be read.", "Shut it down, or repair libvirt.")
SAME = Condition("token", lambda old, event: old.token == event.token, "another move of {vm} is under way, or none.", "Run again.")
ARRIVES = Condition("destination", _arrives, "{holder} does not answer that all data of {vm} arrived.", "Run again.")
HANDED = Condition("handed over", _handed, "{by} does not answer that it handed {vm} over.", "Wait until it answers.")
HANDED_BACK = Condition("handed over", _handed_back, "{to} does not answer that it handed {vm} back.", "Wait until it answers.")
KEPT = Condition("kept", _kept, "{by} does not answer that it keeps {vm}.", "Wait until it answers.")
ELSEWHERE = Condition("owner", _elsewhere, "{to} does not answer that it has {vm}.", "Wait until it answers.")
NAMED = Condition(
    "proof",
    lambda old, event: event.lost == old.to,
    "{to}, which has {vm}, was not named as lost.",
    "Name it, if it never runs the VM again.",
)
KEPT_HERE = Condition("data", lambda old, event: old.operation is not None, "the old copy of {vm} here was removed.", "Restore it from a backup.")
HERE = Condition("data", _is_here, "not all data of {vm} are here.", "Wait for its source.")

#: A row for each event and roles; the tests remove each condition and find what happens without it.
TABLE: tuple[Row, ...] = (
    # the owner
    Row("begun", (OWNER,), (NEWER,), _begun),
    Row("stopped", (OWNER,), (OFF,), lambda old, event: _with_step(old, STOPPED)),
    Row("cancelled", (OWNER,), (), _ended),
    Row("handed over", (OWNER,), (ARRIVES,), lambda old, event: old._replace(role=FORMER, to=old.operation.to, at=event.at)),
    Row("confirmed", (FORMER,), (ELSEWHERE,), _ended),
    # the destination of a move
    Row("received", (NONE, FORMER), (IDLE, BEFORE), _received),
    Row("received", (INCOMING,), (UNFINISHED,), _received),
    Row("arrived", (INCOMING,), (SAME,), lambda old, event: _with_step(old, ARRIVED)),
    Row("taken", (INCOMING,), (HANDED, HERE), lambda old, event: _next(old, event, old.epoch, f"handed over by {old.operation.by}")),
    Row("discarded", (INCOMING,), (KEPT,), _discarded),
    # the way back, to the former owner
    Row("asked back", (FORMER,), (ELSEWHERE, KEPT_HERE), _asked_back),
    Row("taken", (FORMER,), (HANDED_BACK,), lambda old, event: _next(old, event, event.answers[old.to].epoch, f"handed over by {old.to}")),
    # the one that is named would be of the epoch after that of this machine
    Row("taken over", (FORMER,), (NAMED, KEPT_HERE), lambda old, event: _next(old, event, old.epoch + 1, f"{event.lost} was named as lost")),
    # with its disks: one that is created again has nothing to do with its epochs; a guard is kept until the copies end
    Row("removed", (OWNER,), (), lambda old, event: old._replace(epoch=0) if old.start != FREE else None),
    # its standby has started it from a copy; a new VM has replaced it
    Row("learned", (NONE, OWNER, INCOMING, FORMER), (), lambda old, event: _left(old, event, Operation(TAKEOVER, "", event.to))),
    Row("replaced", (NONE, OWNER, INCOMING, FORMER), (), _left),
)


def step(old: Old, event: Event, table: t.Sequence[Row] = TABLE) -> Old:
    """Return the record after an event, ``None`` for none.

    :arg old: the record on this machine, ``None`` if it has none; one that cannot be read is not passed here.
    """
    role = old.role if old is not None else NONE
    row = next((row for row in table if row.event == event.name and role in row.roles), None)
    about = old or event.of
    words = {
        "vm": about.id if about else "the VM",
        "to": (old.to if old else "") or "another server",
        "holder": old.operation.to if old and old.operation else "another server",
        "by": old.operation.by if old and old.operation else "its source",
    }
    if row is None:
        raise RefusedError(f"{words['vm']} cannot be {event.name} on a machine whose role is {role}.", "role", "Run this on the server that has the VM.")
    for condition in row.conditions:
        if not condition.holds(old, event):
            raise RefusedError(condition.message.format(**words), condition.name, condition.hint)
    return row.becomes(old, event)


def refusal(record: t.Mapping[str, t.Any], permitted: bool) -> str | None:
    """Return why a VM must not be started on this host, ``None`` if it may; it only depends on the record and on a permit since the boot.

    :arg record: as JSON values; the hook of libvirt contains this function.
    """
    role, operation = record["role"], record["operation"] or {"kind": "", "step": ""}
    if role == "incoming" and operation["step"] == "live":
        # libvirt starts it to receive the memory of the running VM
        return None
    if role != "owner":
        return f"it belongs to {record['to'] or 'another server'} (role {role})"
    if operation["step"] == "stopped":
        return f"its last data are being copied to {operation['to']}"
    if record["start"] == "cluster":
        return None if permitted else "only the cluster manager starts it"
    if record["start"] == "ask" and not permitted:
        return "no other machine has confirmed since the boot of this server that it was not started elsewhere (reduced-footprint-standby-guard.service asks)"
    return None
