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

#: ``owner`` may run it, ``incoming`` is receiving it and never ran it, ``former`` had it and may have its disks, ``standby`` has copies, ``voter`` only votes.
ROLES = OWNER, INCOMING, FORMER, STANDBY, VOTER = ("owner", "incoming", "former", "standby", "voter")
#: ``free`` starts with the host, ``ask`` after a boot only with a permit, ``cluster`` only by the cluster manager.
STARTS = FREE, ASK, CLUSTER = ("free", "ask", "cluster")
PARTS = SOURCE, DESTINATION, STANDBY_PART, VOTER_PART = ("source", "destination", "standby", "voter")
PROOFS = HANDED_OVER, POWER_OFF, FENCED, PERSON = ("handed over", "power off", "fenced", "a person")
#: Operations: ``promise`` is that of another machine, which alone may become the next owner.
KINDS = MOVE, TAKEOVER, REPLACE, PROMISE = ("move", "takeover", "replace", "promise")
#: Steps: the VM must not be started, because its last data are copied; it arrives while it runs; all its data are here; all voters have promised.
STEPS = BEGUN, STOPPED, LIVE, ARRIVED, PROMISED = ("", "stopped", "live", "arrived", "promised")


class Counterpart(t.NamedTuple):
    """Another machine that must agree."""

    name: str
    part: str
    address: str = ""
    host_keys: tuple[str, ...] = ()
    machine_id: str = ""


class Operation(t.NamedTuple):
    """What is under way.

    :arg token: identifies this operation, on all machines.
    :arg to: name of the machine that becomes the owner.
    :arg by: name of the machine that began it.
    """

    kind: str
    token: str
    to: str = ""
    by: str = ""
    step: str = BEGUN
    reason: str = ""


class Proof(t.NamedTuple):
    """What justified the last change of owner.

    :arg by: who stated it, e.g. the name that a person typed.
    :arg claim: token of the claim that all voters had promised when it was obtained.
    """

    kind: str
    by: str = ""
    at: str = ""
    claim: str = ""


class Record(t.NamedTuple):
    """The record; ``to`` is the server that has the VM or receives it, as far as this host knows, ``at`` the time of the record (UTC)."""

    cluster: str
    id: str
    uuid: str
    name: str
    epoch: int = 0
    role: str = OWNER
    to: str = ""
    at: str = ""
    counterparts: tuple[Counterpart, ...] = ()
    start: str = FREE
    operation: Operation | None = None
    proof: Proof | None = None

    @property
    def voters(self) -> frozenset[str]:
        """Names of the machines that promise the next epoch to one machine only."""
        return frozenset(each.name for each in self.counterparts if each.part in (STANDBY_PART, VOTER_PART))

    @property
    def token(self) -> str | None:
        """The token of the operation."""
        return self.operation.token if self.operation else None

    def to_json(self) -> str:
        """Return the record as JSON text."""
        values = {**self._asdict(), "counterparts": [each._asdict() for each in self.counterparts]}
        values.update({key: value._asdict() if value else None for key, value in (("operation", self.operation), ("proof", self.proof))})
        return json.dumps(VM_OWNER.mark(values), indent=1, sort_keys=True) + "\n"


class Known(t.NamedTuple):
    """The machine that must know answered with its record."""

    record: Record


class Absent(t.NamedTuple):
    """The machine that must know answered that it has no record."""


class Unknown(t.NamedTuple):
    """No answer, or none that can be read. It never counts as :class:`Absent`."""

    reason: str


Answer = t.Union[Known, Absent, Unknown]


def parse_record(text: str, path: str) -> Record:
    """Return the record from its JSON text.

    :arg path: of its file, for messages.
    :raises FootprintError: it is damaged, or from a newer version of the collection.
    """
    try:
        data = VM_OWNER.load(text, path)
    except ValueError as error:
        raise InputError(f"is not a record of a VM: {error}.", path, "Restore the file, or name its server to take the VM over from it.") from error
    return record_from(data, path)


def record_from(data: t.Mapping[str, t.Any], path: str) -> Record:
    """Return the record from its values, every one of which is checked.

    :raises InputError: with the path of the invalid value.
    """
    check_known(data, Record._fields, path, "")
    missing = [key for key in Record._fields if key not in data]
    if missing:
        raise InputError("is missing.", f"{path}.{missing[0]}")
    texts = {key: _text(data[key], f"{path}.{key}") for key in ("cluster", "id", "uuid", "name", "to", "at")}
    if path.rpartition("/")[2] != f"{texts['uuid']}.json":
        raise InputError(f"{shown(texts['uuid'])} is not the UUID in the name of the file.", f"{path}.uuid")
    return Record(
        **texts,
        epoch=_whole(data["epoch"], f"{path}.epoch"),
        role=choice(data["role"], ROLES, f"{path}.role"),
        start=choice(data["start"], STARTS, f"{path}.start"),
        counterparts=tuple(
            _counterpart(each, f"{path}.counterparts[{place}]") for place, each in enumerate(_list(data["counterparts"], f"{path}.counterparts"))
        ),
        operation=_operation(data["operation"], f"{path}.operation"),
        proof=_proof(data["proof"], f"{path}.proof"),
    )


def _text(value: t.Any, path: str) -> str:
    if not isinstance(value, str) or not (value.isprintable() or not value):
        raise InputError(f"is {kind_of(value)}, not a line of text.", path)
    return value


def _whole(value: t.Any, path: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InputError(f"{shown(value)} is not a whole number.", path)
    return value


def _list(value: t.Any, path: str) -> list[t.Any]:
    if not isinstance(value, list):
        raise InputError(f"is {kind_of(value)}, not a list.", path)
    return value


def _texts(value: t.Any, kind: t.Any, path: str) -> dict[str, str]:
    check_known(value, kind._fields, path, "")
    return {key: _text(each, f"{path}.{key}") for key, each in value.items() if key != "host_keys"}


def _counterpart(value: t.Any, path: str) -> Counterpart:
    texts = _texts(value, Counterpart, path)
    choice(texts.get("part"), PARTS, f"{path}.part")
    keys = _list(value.get("host_keys", []), f"{path}.host_keys")
    checked = tuple(_text(each, f"{path}.host_keys[{place}]") for place, each in enumerate(keys))
    return Counterpart(**{"name": "", **texts}, host_keys=checked)  # type: ignore[arg-type]


def _operation(value: t.Any, path: str) -> Operation | None:
    if value is None:
        return None
    texts = _texts(value, Operation, path)
    choice(texts.get("kind"), KINDS, f"{path}.kind")
    choice(texts.get("step", BEGUN), STEPS, f"{path}.step")
    return Operation(**{"token": "", **texts})


def _proof(value: t.Any, path: str) -> Proof | None:
    if value is None:
        return None
    texts = _texts(value, Proof, path)
    choice(texts.get("kind"), PROOFS, f"{path}.kind")
    return Proof(**texts)
