# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The transitions of a VM's record: what must be true before an event changes it, and how. Nothing else decides which host may run a VM.

* The former owner becomes ``former`` of epoch *e* before the next one becomes ``owner`` of epoch *e* + 1.
* Each voter promises the epoch *e* + 1 to one machine only, and permits no start of the owner of *e* from then on. All must promise; for a start after a
  boot one of them is sufficient.
* An answer is used only with the record with which it was asked for; after a change it is asked for again.
* Without the hand of the former owner, it is proven to be off after all have promised, and the promises are read again after the proof.
"""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.model_owner import (
    ARRIVED,
    ASK,
    FORMER,
    FREE,
    HANDED_OVER,
    INCOMING,
    MOVE,
    OWNER,
    PROMISE,
    PROMISED,
    STANDBY,
    STOPPED,
    TAKEOVER,
    VOTER,
    Absent,
    Answer,
    Known,
    Operation,
    Proof,
    Record,
)

#: The role of a machine without a record.
NONE = "none"
#: The reason of a promise of a machine that had no record.
AGAIN = "installed again"


class Event(t.NamedTuple):
    """What happens on a machine.

    :arg here: the name of this machine.
    :arg to: the machine that becomes the owner, or for ``received`` the one that hands over.
    :arg of: the record of the machine that sends the event; for ``created`` the new record, whose counterparts are all machines that may know the VM.
    :arg answers: what other machines answered, by their names; a missing one did not answer.
    :arg running: whether the VM runs here, ``None`` if that is not known.
    :arg complete: of a copy for a standby: it is complete, and the newest one.
    :arg permitted: this machine may run the VM since its last boot.
    """

    name: str
    here: str = ""
    token: str = ""
    to: str = ""
    of: Record | None = None
    answers: t.Mapping[str, Answer] = {}
    running: bool | None = None
    complete: bool = False
    permitted: bool = False
    proof: Proof | None = None
    at: str = ""

    def answer(self, name: str) -> Record | None:
        """Return the record that a machine answered with, ``None`` if it answered with none or not at all."""
        found = self.answers.get(name)
        return found.record if isinstance(found, Known) else None


Old = t.Optional[Record]


class Condition(t.NamedTuple):
    """What must be true.

    :arg name: path of the refusal.
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


def _of_now(old: Old, event: Event) -> bool:
    return old is None or event.of is None or event.of.epoch >= old.epoch


def _kept_promise(answer: Old, old: Record) -> bool:
    return answer is not None and answer.epoch == old.epoch and answer.operation is not None and answer.operation[:2] == (PROMISE, old.token)


def _all_promised(old: Record, event: Event) -> bool:
    return all(_kept_promise(event.answer(name), old) for name in old.voters - {event.here})


def _handed(old: Record, event: Event) -> bool:
    given = event.answer(old.operation.by if old.operation else "")
    return given is not None and given.epoch == old.epoch and given.role == FORMER and given.token == old.token


def _kept(old: Record, event: Event) -> bool:
    given = event.answer(old.operation.by if old.operation else "")
    return given is not None and given.token != old.token or _named(old, event)


def _arrives(old: Record, event: Event) -> bool:
    given = event.answer(old.operation.to) if old.operation else None
    return given is not None and given.role == INCOMING and given.token == old.token and given.operation is not None and given.operation.step == ARRIVED


def _is_here(old: Record, event: Event) -> bool:
    return old.role != INCOMING or old.operation is not None and (old.operation.step == ARRIVED or old.operation.kind == TAKEOVER)


def _named(old: Record, event: Event) -> bool:
    lost = old.operation.by if old.role == INCOMING and old.operation else old.to
    return event.proof is not None and event.proof.by == lost


def _elsewhere(old: Record, event: Event) -> bool:
    given = event.answer(old.to)
    return given is not None and given.role == OWNER and given.epoch >= old.epoch


def _given_up(old: Record, event: Event) -> bool:
    to = old.operation.to if old.operation else ""
    given = event.answer(to)
    return isinstance(event.answers.get(to), Absent) or given is not None and given.epoch == old.epoch and given.token != old.token


def _with_step(old: Record, step: str) -> Record:
    return old._replace(operation=old.operation._replace(step=step) if old.operation else None)


def _ended(old: Record, event: Event) -> Record:
    return old._replace(operation=None, at=event.at)


def _promised(old: Record, event: Event) -> Record:
    # a repeated promise keeps its reason
    same, by = old.token == event.token, event.of.to if event.of else ""
    return old if same else old._replace(operation=Operation(PROMISE, event.token, event.to, by))


def _released(old: Record, event: Event) -> Old:
    return None if old.operation and old.operation.reason == AGAIN else _ended(old, event)


def _next(old: Record, event: Event, proof: Proof | None) -> Record:
    # without another voter no machine could permit its start, and only a person takes it over
    start = old.start if old.voters - {event.here} else FREE
    return old._replace(role=OWNER, epoch=old.epoch + 1, to=event.here, at=event.at, start=start, operation=None, proof=proof)


def _learned(old: Record, event: Event) -> Record:
    of = t.cast(Record, event.of)
    role = FORMER if old.role == OWNER else old.role
    return old._replace(role=role, epoch=of.epoch, to=of.to, at=event.at, operation=None)


def _as(role: str, event: Event, operation: Operation | None = None) -> Record:
    return t.cast(Record, event.of)._replace(role=role, at=event.at, operation=operation, proof=None)


IDLE = Condition("operation", lambda old, event: old.operation is None, "{kind} of {vm} is under way.", "Complete or cancel it first.")
NOT_OLD = Condition("epoch", _of_now, "this machine knows of a later owner of {vm}, {to}.", "Ask that server.")
BEFORE = Condition(
    "step",
    lambda old, event: event.of.operation is None or event.of.operation.step != STOPPED,
    "{vm} was received here before, and its data may be missing.",
    "Cancel the move, and begin it again.",
)
OFF = Condition("running", lambda old, event: event.running is False, "{vm} runs here, or that cannot be read.", "Shut it down, or repair libvirt.")
SAME = Condition("token", lambda old, event: old.token == event.token, "another move of {vm} is under way, or none.", "Run again.")
ARRIVES = Condition("destination", _arrives, "{holder} does not answer that all data of {vm} arrived.", "Run again.")
PROMISES = Condition("promises", _all_promised, "not all voters of {vm} have promised it.", "Run again when all answer.")
HANDED = Condition("handed over", _handed, "{by} does not answer that it handed {vm} over.", "Wait until it answers.")
KEPT = Condition("kept", _kept, "{by} does not answer that it keeps {vm}.", "Wait until it answers, or name it as lost with its data.")
ELSEWHERE = Condition("owner", _elsewhere, "{to} does not answer that it has {vm}.", "Wait until it answers.")
ASKS = Condition("start", lambda old, event: old.start == ASK, "{to} would start {vm} without asking.", "Guard the VM before its server is lost.")
PROVEN = Condition(
    "proof",
    lambda old, event: event.proof is not None and event.proof.claim == old.token and old.operation and old.operation.step == PROMISED,
    "it was not proven that {to} is off since all voters promised {vm} to this server.",
    "Prove it again.",
)
NAMED = Condition("proof", _named, "the server that had {vm} was not named as lost.", "Name it, if it never runs the VM again.")
HERE = Condition("data", _is_here, "not all data of {vm} are here.", "Wait for its source.")
GIVEN_UP = Condition("promise", _given_up, "{holder} does not answer that it gave {vm} up.", "Wait until it answers.")
FREE_FOR = Condition(
    "promise",
    lambda old, event: old.operation is None or old.operation[:3] == (PROMISE, event.token, event.to),
    "{vm} is promised to {holder}.",
    "Wait until that has ended.",
)
OPEN = Condition(
    "step",
    lambda old, event: event.of.operation is None or event.of.operation.step != PROMISED,
    "{vm} is not promised here, although all had promised it.",
    "Withdraw the claim, and claim again.",
)
SAME_EPOCH = Condition("epoch", lambda old, event: event.of.epoch == old.epoch, "the owner of {vm} is another one, as far as is known here.", "Run again.")
HIGHER = Condition("epoch", lambda old, event: event.of.epoch > old.epoch, "{vm} has no later owner.", "Nothing is to be done.")
GUARDED = Condition("start", lambda old, event: event.of.start == ASK, "{vm} starts without asking its standby.", "Guard the VM first.")
PERMITTED = Condition("permit", lambda old, event: event.permitted, "the owner of {vm} has no permit since its boot.", "Wait until a voter answers.")
NEWER = Condition("copy", lambda old, event: event.complete and event.of.epoch >= old.epoch, "this machine has a newer copy of {vm}.", "Make another copy.")
NO_ONE = Condition(
    "answers",
    lambda old, event: all(isinstance(event.answers.get(each.name), Absent) for each in event.of.counterparts),
    "a machine knows {vm}, or does not answer.",
    "Take the VM over there, or wait until all answer.",
)

#: A row for each event and roles; the tests remove each condition and find what happens without it.
TABLE: tuple[Row, ...] = (
    # the owner
    Row("created", (NONE,), (NO_ONE,), lambda old, event: _as(OWNER, event)._replace(epoch=1, to=event.here)),
    Row("begun", (OWNER,), (), lambda old, event: old._replace(operation=Operation(MOVE, event.token, event.to, event.here), at=event.at)),
    Row("stopped", (OWNER,), (OFF,), lambda old, event: _with_step(old, STOPPED)),
    Row("cancelled", (OWNER,), (), _ended),
    Row(
        "handed over",
        (OWNER,),
        (ARRIVES, PROMISES),
        lambda old, event: old._replace(role=FORMER, to=old.operation.to, at=event.at),
    ),
    Row("learned", (OWNER, FORMER, STANDBY, VOTER), (HIGHER,), _learned),
    Row("confirmed", (FORMER,), (ELSEWHERE,), lambda old, event: None),
    # the destination of a move
    Row(
        "received",
        (NONE, FORMER),
        (NOT_OLD, BEFORE),
        lambda old, event: _as(INCOMING, event, Operation(MOVE, event.token, event.here, event.to))._replace(to=event.here),
    ),
    Row("arrived", (INCOMING,), (SAME,), lambda old, event: _with_step(old, ARRIVED)),
    Row("taken", (INCOMING,), (HANDED, HERE), lambda old, event: _next(old, event, Proof(HANDED_OVER, old.operation.by, event.at))),
    Row("discarded", (INCOMING,), (KEPT,), lambda old, event: None),
    # standby and other voters
    Row("prepared", (NONE,), (PERMITTED, GUARDED), lambda old, event: _as(STANDBY if event.complete else VOTER, event)),
    Row("copied", (STANDBY,), (IDLE, NEWER), lambda old, event: _as(STANDBY, event)),
    Row(
        "promised",
        (STANDBY, VOTER),
        (FREE_FOR, OPEN, SAME_EPOCH),
        _promised,
    ),
    # installed again, it knows of no later owner, so it permits nothing until an owner that runs the VM prepares it
    Row("promised", (NONE,), (), lambda old, event: _as(VOTER, event, Operation(PROMISE, event.token, event.to, event.of.to, reason=AGAIN))),
    Row("released", (STANDBY, VOTER), (GIVEN_UP,), _released),
    # a takeover without the hand of the owner
    Row("claimed", (STANDBY,), (IDLE, ASKS), lambda old, event: old._replace(operation=Operation(TAKEOVER, event.token, event.here, event.here))),
    Row(
        "claimed",
        (FORMER, INCOMING),
        (NAMED, HERE),
        lambda old, event: old._replace(operation=Operation(TAKEOVER, event.token, event.here, event.proof.by)),
    ),
    Row("claim promised", (STANDBY, FORMER, INCOMING), (PROMISES,), lambda old, event: _with_step(old, PROMISED)),
    Row("taken over", (STANDBY, FORMER, INCOMING), (PROMISES, PROVEN), lambda old, event: _next(old, event, event.proof)),
    Row("withdrawn", (STANDBY, FORMER), (), _ended),
)


def step(old: Old, event: Event, table: t.Sequence[Row] = TABLE) -> Old:
    """Return the record after an event, ``None`` for none.

    :arg old: the record on this machine, ``None`` if it has none; one that cannot be read is not passed here.
    :raises RefusedError: with the path of the condition that is not met, and a hint.
    """
    role = old.role if old is not None else NONE
    row = next((row for row in table if row.event == event.name and role in row.roles), None)
    about = old or event.of
    words = {
        "vm": about.id if about else "the VM",
        "to": (old.to if old else "") or "another server",
        "kind": f"the operation {old.operation.kind}" if old and old.operation else "",
        "holder": old.operation.to if old and old.operation else "",
        "by": old.operation.by if old and old.operation else "",
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
        return "no other machine has confirmed since the boot of this server that it was not started elsewhere"
    return None


def may_permit(record: Record | None, epoch: int) -> bool:
    """Whether the answer of a voter permits the owner of an epoch to start the VM: it has promised the next epoch to no one."""
    return record is not None and record.epoch == epoch and record.operation is None and record.role in (STANDBY, VOTER)
