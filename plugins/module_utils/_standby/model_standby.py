# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Copies of a VM's disks on another server: the request, the copies, and the record of the VM's start there."""

from __future__ import annotations

import dataclasses
import json
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_schema
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_fields import number
from ansible_collections.reduced.footprint.plugins.module_utils._move.model_machine import Machine, parse_machine
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import Journal
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_parts import parse_name
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_standby import LEAST_INTERVAL, MOST_COPIES, MOST_INTERVAL

#: Bytes of a disk that are compared and sent as a whole.
CHUNK = 256 * 1024
DIGEST = 32

LOOK, BEGIN, COPY, FINISH, PRUNE = ("look", "begin", "copy", "finish", "prune")
# of the record on the standby: copies are accepted; the VM was started there
RECEIVING, STARTED = "receiving", "started"
# of the journal on the server of the VM
COPIED, FAILED, TAKEN = "copied", "failed", "taken"

#: The ID with which the unit of the copies would have the name of the guard's.
RESERVED = "guard"

# argument of the worker, which its unit runs after it was killed
THAW = "thaw"

_COPY = re.compile(r"\A[0-9]{8}T[0-9]{6}Z\Z")


class Job(t.NamedTuple):
    """What is copied, where to, and how often.

    :arg former: earlier standbys that may still have copies, and earlier witnesses that may still accept the key.
    :arg automatic: whether a cluster of both servers starts the VM on the standby by itself.
    """

    id: str
    cluster: str
    name: str
    uuid: str
    uri: str
    standby: Machine
    witnesses: tuple[Machine, ...]
    interval: int
    copies: int
    bandwidth_limit: int
    source: str
    former: tuple[str, ...] = ()
    automatic: bool = False

    @property
    def accepting(self) -> tuple[str, ...]:
        """The names of all machines that may accept the key of the copies."""
        return tuple(dict.fromkeys((self.standby.name, *(each.name for each in self.witnesses), *self.former)))


class Ended(t.NamedTuple):
    """Copies that ended, while machines may accept their key still.

    :arg public_key: the whole line; a key of the same name may be that of another server by now.
    """

    id: str
    cluster: str
    public_key: str
    machines: tuple[str, ...]


@dataclasses.dataclass
class StandbyJournal(Journal):
    """The journal of the last copy, kept on the server of the VM; ``facts`` hold what it cost."""

    WHAT: t.ClassVar[str] = "copy"
    SCHEMA: t.ClassVar[model_schema.Schema] = model_schema.STANDBY_JOURNAL

    phase: str = LOOK

    def renew(self, now: float) -> None:
        """Start with another copy; what is known of the last complete one stays."""
        self.attempt += 1 if self.started else 0
        self.started, self.ended, self.reason = now, None, None
        self.phases, self.passes, self.progress, self.problems, self.warnings = {}, [], {}, [], []
        self.phase, self.verified = LOOK, False


class CopyDisk(t.NamedTuple):
    """One disk of a copy: ``path`` is the disk of the VM, ``file`` the image on the standby."""

    target: str
    path: str
    format: str
    capacity: int
    file: str


class Copy(t.NamedTuple):
    """A complete and verified copy; it exists only when all of it was read back and compared.

    ``at`` is the point in time (Unix seconds); ``files`` are small files in base64: firmware variables, the cloud-init seed.
    ``machine`` is the machine-id of its source, empty if unknown, and ``epoch`` that of the VM's record there.
    """

    id: str
    vm: str
    uuid: str
    name: str
    source: str
    at: float
    verified_at: float
    frozen: bool
    mode: str
    bytes: int
    seconds: float
    xml: str
    files: t.Mapping[str, str]
    autostart: bool
    disks: tuple[CopyDisk, ...]
    machine: str = ""
    epoch: int = 0

    def to_json(self) -> str:
        """Return the manifest."""
        return json.dumps(model_schema.STANDBY_COPY.mark({**self._asdict(), "disks": [disk._asdict() for disk in self.disks]}), indent=1, sort_keys=True) + "\n"


def parse_copy(text: str | None, place: t.Any = "copy.json") -> Copy | None:
    """Return a copy from its manifest, ``None`` if it is not valid."""
    try:
        data = model_schema.STANDBY_COPY.load(text or "", place)
        return Copy(**{**data, "disks": tuple(CopyDisk(**each) for each in data["disks"])})
    except (ValueError, TypeError, KeyError):
        return None


def parse_copy_id(value: t.Any, path: str = "copy") -> str:
    """Parse the name of a copy, which is the time of its begin."""
    if not isinstance(value, str) or not _COPY.match(value):
        raise InputError(f"{value!r} is not the name of a copy.", path, "Use a name as vm_standby_info lists it, e.g. 20261124T101500Z.")
    return value


def _parse_voter(entry: t.Mapping[str, t.Any] | None, path: str) -> Machine:
    """Parse a machine that is asked before the VM starts after a boot: the standby, or a witness."""
    voter = parse_machine(entry, path)
    if not voter.host_keys:
        raise InputError("is empty.", f"{path}.host_keys", "Use the content of its /etc/ssh/ssh_host_*_key.pub.")
    return voter


def check_id(vm_id: str, path: str) -> str:
    """Check the ID of a VM whose disks are copied, and return it."""
    if vm_id == RESERVED:
        raise InputError(f"a VM with the ID {RESERVED} cannot have a standby: its units would have the names of others.", path, "Use another id.")
    return vm_id


def parse_job(data: t.Mapping[str, t.Any]) -> Job:
    """Parse the request, from module parameters and the facts of the VM, or from the job file."""
    witnesses = tuple(_parse_voter(each, f"witnesses[{index}]") for index, each in enumerate(data.get("witnesses") or ()))
    automatic = bool(data.get("automatic"))
    if automatic and not witnesses:
        raise InputError("needs at least one witness.", "automatic", "Name a machine that is neither of the two servers in witnesses.")
    return Job(
        id=check_id(parse_name(data.get("id"), "id"), "id"),
        cluster=parse_name(data.get("cluster") or "default", "cluster"),
        name=str(data["name"]),
        uuid=str(data["uuid"]),
        uri=str(data["uri"]),
        standby=_parse_voter(data.get("standby"), "standby"),
        witnesses=witnesses,
        interval=number(data.get("interval"), 900, LEAST_INTERVAL, MOST_INTERVAL, "interval"),
        copies=number(data.get("copies"), 2, 1, MOST_COPIES, "copies"),
        bandwidth_limit=number(data.get("bandwidth_limit"), 0, 0, 1 << 50, "bandwidth_limit"),
        source=parse_name(data.get("source") or "server", "source"),
        former=tuple(parse_name(each, f"former[{index}]") for index, each in enumerate(data.get("former") or ())),
        automatic=automatic,
    )


def job_data(job: Job) -> dict[str, t.Any]:
    """Return the mapping of the job file."""

    def voter(one: Machine) -> dict[str, t.Any]:
        return {**one._asdict(), "host_keys": list(one.host_keys)}

    return {**job._asdict(), "standby": voter(job.standby), "witnesses": [voter(each) for each in job.witnesses], "former": list(job.former)}


def unit_name(vm_id: str, kind: str = "service") -> str:
    """The systemd service or timer of a VM's copies."""
    return f"reduced-footprint-standby-{vm_id}.{kind}"


def chunks_in(capacity: int) -> int:
    """Return the number of chunks of a disk."""
    return -(-capacity // CHUNK)


def packed(digests: t.Sequence[bytes]) -> bytes:
    """Return the digests as the content of a file."""
    return b"".join(digests)


def unpacked(content: bytes, capacity: int) -> list[bytes] | None:
    """Return the digests from a file, ``None`` if it does not have the length for this capacity."""
    if len(content) != DIGEST * chunks_in(capacity):
        return None
    return [content[at : at + DIGEST] for at in range(0, len(content), DIGEST)]
