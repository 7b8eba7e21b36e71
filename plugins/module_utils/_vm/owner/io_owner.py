# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The records of this host: whether a VM may run here; and the permits of VMs that ask another machine after each boot.

Records are on the root file system, because another one may not be mounted. Permits are below ``/run``, so none survives a restart of the server:
whatever fails afterwards, the VM stays off.
"""

from __future__ import annotations

import pathlib

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import RUN, make_folder, private_folder, read_text, sync_path, write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner.model_owner import (
    ASK,
    FREE,
    OWNER,
    Absent,
    Answer,
    Known,
    Record,
    Unknown,
    parse_record,
)

HOME = pathlib.Path("/etc/reduced.footprint/vms")
#: Without it the folder was not written by this collection, or cannot be read.
PRESENT = ".present"
PERMITS = RUN / "standby"
# content of a permit
_DUE = "start\n"


def prepare() -> None:
    """Create the folder of the records, which proves with a file that it can be read."""
    make_folder(HOME, 0o755)
    if not (HOME / PRESENT).exists():
        write_atomic(HOME / PRESENT, "")


def is_prepared() -> bool:
    """Whether the folder of the records exists."""
    return (HOME / PRESENT).exists()


def read(uuid: str) -> Answer:
    """Return the record of a VM; only a file that does not exist in a folder that can be read is none."""
    path = HOME / f"{uuid}.json"
    try:
        text = read_text(path)
        if text is None:
            missing = HOME.exists() and not is_prepared()
            return Unknown(f"{HOME / PRESENT} is missing") if missing else Absent()
        return Known(parse_record(text, str(path)))
    except OSError as error:
        return Unknown(f"{path} cannot be read: {error.strerror}")
    except FootprintError as error:
        return Unknown(str(error))


def known(uuid: str) -> Record | None:
    """Return the record of a VM, ``None`` if it has none.

    :raises BackendError: that is not known.
    """
    answer = read(uuid)
    if isinstance(answer, Unknown):
        raise BackendError(f"it is not known whether the VM {uuid} may run on this host: {answer.reason}.", str(HOME), "Repair the root file system.")
    return answer.record if isinstance(answer, Known) else None


def write(record: Record) -> None:
    """Store a record durably."""
    prepare()
    write_atomic(HOME / f"{record.uuid}.json", record.to_json())


def guard(record: Record, *, permitted: bool) -> None:
    """From now on the VM starts after a boot only with a permit.

    :arg record: names the VM; an existing record is kept otherwise.
    """
    if permitted:
        permit(record.uuid)
    write((known(record.uuid) or record)._replace(start=ASK))


def permit(uuid: str, *, due: bool = False) -> None:
    """Allow starts of a VM until the next restart of this server.

    :arg due: its start was refused after a boot, and is made up for next; see :func:`is_start_due`.
    """
    private_folder(RUN)
    PERMITS.mkdir(exist_ok=True, mode=0o700)
    write_atomic(PERMITS / uuid, _DUE if due else "")


def revoke(uuid: str) -> None:
    """Refuse starts of a VM."""
    (PERMITS / uuid).unlink(missing_ok=True)


def is_guarded(uuid: str) -> bool:
    """Whether a VM starts only with a permit.

    :raises BackendError: that is not known.
    """
    record = known(uuid)
    return record is not None and record.start == ASK


def is_permitted(uuid: str) -> bool:
    """Whether a VM may start."""
    return (PERMITS / uuid).exists()


def is_start_due(uuid: str) -> bool:
    """Whether a VM may start, but was not started since: that failed, or the guard was killed."""
    return read_text(PERMITS / uuid) == _DUE


def release(uuid: str) -> bool:
    """Let a VM start freely; returns whether it needed a permit.

    :raises BackendError: that is not known.
    """
    record = known(uuid)
    if record is not None and record.start == ASK:
        free = record._replace(start=FREE)
        if (free.role, free.epoch, free.operation) == (OWNER, 0, None):
            (HOME / f"{uuid}.json").unlink(missing_ok=True)
            sync_path(HOME)
        else:
            write(free)
    revoke(uuid)
    return record is not None and record.start == ASK
