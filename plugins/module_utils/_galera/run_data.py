# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: the data directory of a member that is copied, set aside or replaced, and never deleted.

Every state is reached by renaming folders whose names tell what they are, so a run that was killed anywhere is completed by the
next one, and one that was completed changes nothing:

* ``DATADIR.LABEL`` what there was before;
* ``DATADIR.LABEL.prepared`` the backup's data, ready to be started from;
* anything that ends in ``.partial`` is half done, and is done anew.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import pwd
import shutil
import stat
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_lock import host_lock
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._galera.io_mariabackup import Mariabackup, digest, free, taken
from ansible_collections.reduced.footprint.plugins.module_utils._galera.io_mariadb import MariaDb
from ansible_collections.reduced.footprint.plugins.module_utils._galera.plan_backup import Backup, check_name, check_server

_GIB = 1 << 30


@dataclasses.dataclass(frozen=True)
class DataRequest:
    """What is to become of the data directory.

    :arg state: ``copied``, ``set_aside``, ``prepared`` or ``replaced``.
    :arg label: names the copy or what is set aside; the same label means the same occasion.
    :arg file: of the backup, for ``prepared``.
    :arg backup: what its note tells.
    """

    state: str
    label: str
    file: str | None = None
    backup: Backup | None = None
    lock_timeout: float = 900


@dataclasses.dataclass(frozen=True)
class DataResult:
    """What was done, or in check mode would be; ``aside`` is the folder with the former data, or with the copy."""

    changed: bool
    actions: tuple[str, ...]
    aside: str


class Directory:
    """The data directory and its neighbours."""

    def __init__(self, database: MariaDb, label: str) -> None:
        self.database = database
        self.data = pathlib.Path(os.path.realpath(database.datadir))
        self.aside = self.data.with_name(f"{self.data.name}.{check_name(label, 'label')}")
        self.prepared = self.aside.with_name(f"{self.aside.name}.prepared")

    def owner(self) -> tuple[int, int, int]:
        """User, group and mode of the data directory, of the one set aside when it is gone, else what the packages give it."""
        for path in (self.data, self.aside):
            if path.exists():
                found = path.stat()
                if found.st_uid:
                    return found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)
        entry = pwd.getpwnam("mysql")
        return entry.pw_uid, entry.pw_gid, 0o755

    def stopped(self) -> bool:
        """Whether no server works on it."""
        return self.database.unit_state().get("ActiveState") in ("inactive", "failed")


def ensure_data(request: DataRequest, database: MariaDb, tool: Mariabackup, *, check_mode: bool) -> DataResult:
    """Bring the data directory there.

    :raises InputError: a bad label or file.
    :raises RefusedError: there is no room, or it is a file system of its own, which cannot be renamed.
    """
    place = Directory(database, request.label)
    work = {"copied": _copied, "set_aside": _set_aside, "prepared": _prepared, "replaced": _replaced}[request.state]
    with host_lock("galera-data", request.lock_timeout):
        actions = work(request, place, tool, check_mode)
    return DataResult(bool(actions), tuple(actions), str(place.aside))


def _copied(request: DataRequest, place: Directory, tool: Mariabackup, check_mode: bool) -> list[str]:
    if place.aside.exists():
        return []
    if not place.data.is_dir():
        raise RefusedError(f"there is no {place.data} to copy.", hint="Restore a backup instead: reduced.footprint.restore_database.")
    _require_room(place.data.parent, taken(place.data))
    actions = ([] if place.stopped() else ["stop"]) + ["copy"]
    if not check_mode:
        _stop(place)
        partial = _nothing(place.aside)
        run(["cp", "--archive", "--reflink=auto", "--", str(place.data), str(partial)], hint="Make room and run again.")
        run(["sync", "--file-system", "--", str(place.data.parent)])
        os.rename(partial, place.aside)
    return actions


def _set_aside(request: DataRequest, place: Directory, tool: Mariabackup, check_mode: bool) -> list[str]:
    if place.aside.exists() and place.data.is_dir():
        return []
    _require_renaming(place)
    actions = ([] if place.aside.exists() or place.stopped() else ["stop"]) + ["set aside"]
    if not check_mode:
        _stop(place)
        owner = place.owner()
        _move_away(place)
        partial = _nothing(place.data)
        partial.mkdir(mode=0o700)
        _hand_over(partial, owner)
        os.rename(partial, place.data)
        _relabel(place.data)
    return actions


def _prepared(request: DataRequest, place: Directory, tool: Mariabackup, check_mode: bool) -> list[str]:
    if place.prepared.exists() or place.aside.exists():
        return []
    if not request.file or not request.backup:
        raise InputError("a backup is needed.", path="file", hint="Name its file, and backup with what its note tells.")
    backup = request.backup
    check_server(backup, tool.server_version())
    _require_renaming(place)
    file = pathlib.Path(request.file)
    if check_mode and not file.exists():
        return ["prepare"]
    if not file.is_file() or digest(file) != backup.sha256:
        raise InputError(f"{file} is not the file of the backup {backup.name}.", path="file", hint="Bring it here again.")
    tool.program()
    tool.compressor([backup.compression])
    if not check_mode:
        partial = _nothing(place.prepared)
        partial.mkdir(mode=0o700)
        _require_room(partial, 2 * backup.bytes)
        tool.unpack(file, partial, backup.compression)
        tool.prepare(partial)
        found = tool.position(partial)
        if found != (backup.uuid, backup.seqno):
            raise InputError(f"the file holds {found[0]}:{found[1]}, its note tells {backup.uuid}:{backup.seqno}.", path="file", hint="Take another backup.")
        tool.tidy(partial)
        _hand_over(partial, place.owner())
        run(["sync", "--file-system", "--", str(partial)])
        os.rename(partial, place.prepared)
    return ["prepare"]


def _replaced(request: DataRequest, place: Directory, tool: Mariabackup, check_mode: bool) -> list[str]:
    if place.aside.exists() and not place.prepared.exists() and place.data.is_dir():
        return []
    if not place.prepared.exists():
        if check_mode:
            return ["replace"]
        raise RefusedError(f"there is no {place.prepared}.", hint="Prepare the backup's data first, with the same label.")
    _require_renaming(place)
    actions = ([] if place.aside.exists() or place.stopped() else ["stop"]) + ["replace"]
    if not check_mode:
        _stop(place)
        _move_away(place)
        os.rename(place.prepared, place.data)
        _relabel(place.data)
    return actions


def _stop(place: Directory) -> None:
    if not place.stopped():
        place.database.stop()


def _move_away(place: Directory) -> None:
    """What there is gets its other name, once; where there was nothing an empty folder says that this is done."""
    if place.aside.exists():
        return
    if place.data.exists():
        os.rename(place.data, place.aside)
    else:
        place.aside.mkdir(mode=0o700)


def _nothing(target: pathlib.Path) -> pathlib.Path:
    """The half-done name of a folder, cleared of what a killed run has left."""
    partial = target.with_name(f"{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    return partial


def _hand_over(folder: pathlib.Path, owner: tuple[int, int, int]) -> None:
    """Everything in a folder belongs to the server's user."""
    user, group, mode = owner
    for root, folders, files in os.walk(folder):
        for name in (*folders, *files):
            os.lchown(os.path.join(root, name), user, group)
    os.chown(folder, user, group)
    os.chmod(folder, mode)


def _relabel(folder: pathlib.Path) -> None:
    """The labels SELinux wants, where there is SELinux."""
    if shutil.which("restorecon"):
        run(["restorecon", "-R", "--", str(folder)], ok=(0, 1))


def _require_renaming(place: Directory) -> None:
    """:raises RefusedError: the data directory is the root of a file system."""
    if place.data.is_dir() and os.path.ismount(place.data):
        raise RefusedError(
            f"{place.data} is a file system of its own, so its data cannot be set aside by renaming them.",
            path="datadir",
            hint=f"Move the data into a directory of that file system, name it as datadir in the server's settings, and mount it above {place.data.name}.",
        )


def _require_room(folder: pathlib.Path, needed: int) -> None:
    """:raises RefusedError: a copy does not fit."""
    left = free(folder)
    if left < needed:
        raise RefusedError(
            f"{needed / _GIB:.1f} GiB are needed beside the data directory in {folder}, and {left / _GIB:.1f} GiB are free.", hint="Make room there."
        )


def summary(result: DataResult) -> dict[str, t.Any]:
    """For Ansible."""
    return {"changed": result.changed, "actions": list(result.actions), "aside": result.aside}
