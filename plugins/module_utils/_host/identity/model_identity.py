# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The identity of a physical server, as the other servers keep it: which machine has the name of a server."""

from __future__ import annotations

import json
import re
import typing as t
import uuid

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_errors
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_schema import SERVER_IDENTITY
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_time import parse_time
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_parts import parse_name

#: The machine has the name; it is taking over the name of an earlier machine.
KNOWN, REPLACING = "known", "replacing"
_MACHINE_ID = re.compile(r"\A[0-9a-f]{32}\Z")
_UUID = re.compile(r"\A[0-9a-f-]{0,64}\Z")
_ADDRESS = re.compile(r"\A[0-9A-Za-z.:_%-]{0,255}\Z")


class Machine(t.NamedTuple):
    """A machine.

    :arg machine_id: content of ``/etc/machine-id``, which decides; a firmware may give several servers the same ``product_uuid``.
    """

    machine_id: str
    product_uuid: str = ""
    address: str = ""


def same_uuid(one: str, other: str) -> bool:
    """Return whether two texts are the same UUID; management controllers and kernels differ in case and in the byte order of the first three fields."""
    try:
        first, second = uuid.UUID(one.strip()), uuid.UUID(other.strip())
    except ValueError:
        return bool(one.strip()) and one.strip().lower() == other.strip().lower()
    return second.bytes in (first.bytes, first.bytes_le)


class Identity(t.NamedTuple):
    """The record about a server.

    :arg at: since when (UTC).
    :arg old: machines that had the name before, the last one first.
    """

    name: str
    machine: Machine
    at: str
    state: str = KNOWN
    old: tuple[Machine, ...] = ()
    proof: str = ""

    def as_dict(self) -> dict[str, t.Any]:
        """Return plain values for Ansible."""
        values = {**self._asdict(), **self.machine._asdict(), "old": [machine._asdict() for machine in self.old]}
        del values["machine"]
        return values

    def to_json(self) -> str:
        """Return the record as JSON text."""
        return json.dumps(SERVER_IDENTITY.mark(self.as_dict()), indent=1, sort_keys=True) + "\n"


def parse_identity(text: str, place: t.Any) -> Identity:
    """Return the record from its JSON text."""
    try:
        found = SERVER_IDENTITY.load(text, place)
        old = tuple(parse_machine(one, "old") for one in found["old"])
        if found["state"] not in (KNOWN, REPLACING):
            raise ValueError(found["state"])
        return Identity(parse_name(found["name"], "name"), parse_machine(found, ""), parse_time(found["at"], "at"), found["state"], old, str(found["proof"]))
    except (AttributeError, ValueError, TypeError, KeyError, model_errors.InputError) as error:
        raise model_errors.BackendError(f"{place} is not a record of a server.", hint="Remove it; provision_virt writes it again.") from error


def parse_machine(given: t.Mapping[str, t.Any], path: str) -> Machine:
    """Return a machine from its values."""
    values = []
    for key, pattern, hint in (
        ("machine_id", _MACHINE_ID, "Copy /etc/machine-id of the server: 32 lower-case hexadecimal digits."),
        ("product_uuid", _UUID, "Copy /sys/class/dmi/id/product_uuid of the server, or leave it out."),
        ("address", _ADDRESS, "Use the ansible_host of the server."),
    ):
        value = given.get(key) or ""
        if not isinstance(value, str) or not pattern.match(value):
            raise model_errors.InputError(f"{model_errors.shown(value)} is not valid.", f"{path}.{key}".lstrip("."), hint)
        values.append(value)
    return Machine(*values)
