# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The record of a VM on a host: whether the VM may run there. One for each VM and host; see ``plan_owner`` for its transitions.

A VM that never had anything to do with another machine has no record.
"""

from __future__ import annotations

import json
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, kind_of, shown
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_fields import check_known, choice
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_schema import VM_OWNER

#: ``owner`` may run it, ``incoming`` is receiving it and never ran it, ``former`` had it and may have its disks.
ROLES = OWNER, INCOMING, FORMER = ("owner", "incoming", "former")
#: ``free`` starts with the host, ``ask`` after a boot only with a permit, ``cluster`` only by the cluster manager.
STARTS = FREE, ASK, CLUSTER = ("free", "ask", "cluster")
#: Operations: ``takeover`` is that of a standby that has started the VM.
KINDS = MOVE, TAKEOVER = ("move", "takeover")
#: Steps: the VM must not be started, because its last data are copied; it arrives while it runs; all its data are here.
STEPS = BEGUN, STOPPED, LIVE, ARRIVED = ("", "stopped", "live", "arrived")
#: What :attr:`Record.state` is, for people: the VM leaves this host, has left it while its old copy is kept, has left it for good, or arrives.
MOVING, MOVED, CONFIRMED, ARRIVING = ("moving", "moved", "confirmed", "arriving")


class Operation(t.NamedTuple):
    """What is under way.

    :arg token: identifies this operation, on all machines.
    """

    kind: str
    token: str
    to: str = ""
    by: str = ""
    step: str = BEGUN
    reason: str = ""


class Record(t.NamedTuple):
    """The record.

    :arg to: the server that has the VM or receives it, as far as this host knows.
    :arg proof: what justified the last change of owner, for people.
    """

    cluster: str
    id: str
    uuid: str
    name: str
    epoch: int = 0
    role: str = OWNER
    to: str = ""
    at: str = ""
    start: str = FREE
    operation: Operation | None = None
    proof: str = ""

    @property
    def token(self) -> str | None:
        """The token of the operation."""
        return self.operation.token if self.operation else None

    @property
    def state(self) -> str | None:
        """Why the VM is not changed on this host, ``None`` if it may be: it belongs to this host, and no operation is under way."""
        if self.role == OWNER:
            return MOVING if self.operation else None
        return ARRIVING if self.role == INCOMING else MOVED if self.operation else CONFIRMED

    @property
    def where(self) -> str:
        """The server that has the VM, or will have it."""
        return self.operation.to if self.role == OWNER and self.operation else self.to

    @property
    def is_taken(self) -> bool:
        """Whether the VM was started on its standby, from a copy."""
        return self.role == FORMER and self.operation is not None and self.operation.kind == TAKEOVER

    def values(self) -> dict[str, t.Any]:
        """Return plain values, for a file or another machine."""
        return {**self._asdict(), "operation": self.operation._asdict() if self.operation else None}

    def to_json(self) -> str:
        """Return the record as JSON text."""
        return json.dumps(VM_OWNER.mark(self.values()), indent=1, sort_keys=True) + "\n"


def parse_record(text: str, path: str) -> Record:
    """Return the record from its JSON text."""
    try:
        data = VM_OWNER.load(text, path)
    except ValueError as error:
        raise InputError(f"is not a record of a VM: {error}.", path, "Restore the file, or name its server to take the VM over from it.") from error
    return record_from(data, path)


def record_from(data: t.Mapping[str, t.Any], path: str) -> Record:
    """Return the record from its values, every one of which is checked.

    :arg path: that of the file, or of another machine with the UUID that it was asked for.
    """
    check_known(data, Record._fields, path, "")
    missing = [key for key in Record._fields if key not in data]
    if missing:
        raise InputError("is missing.", f"{path}.{missing[0]}")
    texts = {key: _text(data[key], f"{path}.{key}") for key in ("cluster", "id", "uuid", "name", "to", "at", "proof")}
    if path.rpartition("/")[2] != f"{texts['uuid']}.json":
        raise InputError(f"{shown(texts['uuid'])} is not the UUID in the name of the file.", f"{path}.uuid")
    return Record(
        **texts,
        epoch=_whole(data["epoch"], f"{path}.epoch"),
        role=choice(data["role"], ROLES, f"{path}.role"),
        start=choice(data["start"], STARTS, f"{path}.start"),
        operation=_operation(data["operation"], f"{path}.operation"),
    )


def _text(value: t.Any, path: str) -> str:
    if not isinstance(value, str) or not (value.isprintable() or not value):
        raise InputError(f"is {kind_of(value)}, not a line of text.", path)
    return value


def _whole(value: t.Any, path: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InputError(f"{shown(value)} is not a whole number.", path)
    return value


def _operation(value: t.Any, path: str) -> Operation | None:
    if value is None:
        return None
    check_known(value, Operation._fields, path, "")
    texts = {key: _text(each, f"{path}.{key}") for key, each in value.items()}
    choice(texts.get("kind"), KINDS, f"{path}.kind")
    choice(texts.get("step", BEGUN), STEPS, f"{path}.step")
    return Operation(**{"token": "", **texts})
