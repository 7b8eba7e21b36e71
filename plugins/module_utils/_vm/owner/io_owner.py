# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The records of this host: whether a VM may run here; and the permits of VMs that ask another machine after each boot.

Records are on the root file system, because another one may not be mounted. Permits are below ``/run``, so none survives a restart of the server:
whatever fails afterwards, the VM stays off.
"""

from __future__ import annotations

import errno
import os
import pathlib

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import RUN, make_folder, private_folder, read_text, sync_path, write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, FootprintError, InputError
from ansible_collections.reduced.footprint.plugins.module_utils._vm.owner import model_owner

HOME = pathlib.Path("/etc/reduced.footprint/vms")
#: Without it the folder was not written by this collection, or cannot be read.
PRESENT = ".present"
PERMITS = RUN / "standby"
_NONE = model_owner.Record("", "", "", "")
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


def known(uuid: str) -> model_owner.Record | None:
    """Return the record of a VM; only a file that does not exist in a folder that can be read is none."""
    path = HOME / f"{uuid}.json"
    try:
        text = read_text(path)
        if text is None and HOME.exists() and not is_prepared():
            raise FileNotFoundError(errno.ENOENT, f"{PRESENT} is missing")
        return model_owner.parse_record(text, str(path)) if text is not None else None
    except (OSError, FootprintError) as error:
        why = f"{path} cannot be read: {error.strerror}" if isinstance(error, OSError) else str(error).rstrip(".")
        raise BackendError(f"it is not known whether the VM {uuid} may run on this host: {why}.", str(HOME), "Repair the root file system.") from error


def read_all(home: pathlib.Path | None = None) -> dict[str, model_owner.Record]:
    """UUID → record of each VM that is not changed on this host; see :attr:`Record.state`.

    One that cannot be read counts as that of another host: its file name is the UUID.
    """
    home = home or HOME
    try:
        names = os.listdir(home)
        if names and PRESENT not in names:
            raise FileNotFoundError(errno.ENOENT, f"{PRESENT} is missing")
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not home.exists():
            return {}
        raise BackendError(f"cannot read which VMs other hosts have: {error.strerror}.", str(home), "Run as root. Repair the root file system.") from error
    found = {}
    for uuid, ending in map(os.path.splitext, names):
        if ending == ".json" and not uuid.startswith("."):
            try:
                record = model_owner.parse_record(read_text(home / f"{uuid}.json") or "", f"{home}/{uuid}.json")
            except InputError:
                record = model_owner.Record("", "", uuid, "", role=model_owner.FORMER, to="another host")
            if record.state is not None:
                found[uuid] = record
    return found


def away(uuid: str) -> model_owner.Record | None:
    """Return the record of a VM that is not changed on this host, ``None`` if it may be."""
    record = known(uuid)
    return record if record is not None and record.state is not None else None


def forget(uuid: str) -> None:
    """Remove the record of a VM: it has nothing to do with other machines any more."""
    if known(uuid) is not None:
        (HOME / f"{uuid}.json").unlink()
        sync_path(HOME)


def write(record: model_owner.Record) -> None:
    """Store a record durably."""
    prepare()
    write_atomic(HOME / f"{record.uuid}.json", record.to_json())


def guard(record: model_owner.Record, *, permitted: bool) -> None:
    """From now on the VM starts after a boot only with a permit.

    :arg record: names the VM; an existing record is kept otherwise.
    """
    if permitted:
        permit(record.uuid)
    write((known(record.uuid) or record)._replace(start=model_owner.ASK))


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
    """Whether a VM starts only with a permit."""
    return (known(uuid) or _NONE).start == model_owner.ASK


def is_clustered(uuid: str) -> bool:
    """Whether only the cluster manager starts a VM."""
    return (known(uuid) or _NONE).start == model_owner.CLUSTER


def admit(record: model_owner.Record) -> None:
    """The cluster manager starts a VM on this server, from now on nothing else."""
    write((known(record.uuid) or record)._replace(start=model_owner.CLUSTER))
    permit(record.uuid)


def is_permitted(uuid: str) -> bool:
    """Whether a VM may start."""
    return (PERMITS / uuid).exists()


def is_start_due(uuid: str) -> bool:
    """Whether a VM may start, but was not started since: that failed, or the guard was killed."""
    return read_text(PERMITS / uuid) == _DUE


def release(uuid: str) -> bool:
    """Let a VM start freely; returns whether it asked other machines, or only the cluster manager started it."""
    record = known(uuid)
    held = record is not None and record.start != model_owner.FREE
    if record is not None and held:
        free = record._replace(start=model_owner.FREE)
        if (free.role, free.epoch, free.operation) == (model_owner.OWNER, 0, None):
            forget(uuid)
        else:
            write(free)
    revoke(uuid)
    return held
