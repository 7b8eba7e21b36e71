# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: copy, set aside or replace the data directory of a member, never delete it.

Each step ends with renaming a directory, and the names record the progress. So the next run completes one that was killed, and changes
nothing after a completed one:

* ``DATADIR.LABEL``: the previous data;
* ``DATADIR.LABEL.prepared``: the backup's data, ready for the server;
* ``DATADIR.LABEL.restored``: a file; the data was that of the backup when no member had any other data, so all later data began with it;
* ``*.partial``: incomplete, created again.

Until then, a member that was restarted may have received the data of the previous cluster from one that still had it. So the position decides
whether data is that of the backup, and other data is set aside again, as ``DATADIR.LABEL.2`` and so on.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import pathlib
import pwd
import shutil
import stat
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import rename, write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_lock import host_lock
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._galera.io_mariabackup import Mariabackup, digest, free, taken
from ansible_collections.reduced.footprint.plugins.module_utils._galera.io_mariadb import MariaDb
from ansible_collections.reduced.footprint.plugins.module_utils._galera.plan_backup import Backup, check_name, check_server

_GIB = 1 << 30


@dataclasses.dataclass(frozen=True)
class DataRequest:
    """The requested state of the data directory.

    :arg state: ``copied``, ``set_aside``, ``prepared``, ``replaced`` or ``verified``.
    :arg label: suffix of the directory with the copy or the previous data; the same label identifies the same operation.
    :arg file: backup file, for ``prepared``.
    :arg backup: metadata of the backup, for all states of its restore.
    """

    state: str
    label: str
    file: str | None = None
    backup: Backup | None = None
    lock_timeout: float = 900


@dataclasses.dataclass(frozen=True)
class DataResult:
    """Actions that were taken, or in check mode would be; ``aside`` is the directory with the previous data or the copy."""

    changed: bool
    actions: tuple[str, ...]
    aside: str


class Directory:
    """The data directory and the directories next to it."""

    def __init__(self, database: MariaDb, label: str) -> None:
        self.database = database
        self.data = pathlib.Path(os.path.realpath(database.datadir))
        self.aside = self.data.with_name(f"{self.data.name}.{check_name(label, 'label')}")
        self.prepared = self.aside.with_name(f"{self.aside.name}.prepared")
        self.restored = self.aside.with_name(f"{self.aside.name}.restored")

    def owner(self) -> tuple[int, int, int]:
        """Return uid, gid and mode of the data directory, else of the one set aside, else the defaults of the packages."""
        for path in (self.data, self.aside):
            if path.exists():
                found = path.stat()
                if found.st_uid:
                    return found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)
        entry = pwd.getpwnam("mysql")
        return entry.pw_uid, entry.pw_gid, 0o755

    def complete(self) -> bool:
        """Return whether the previous data is set aside, and a server has data again: not yet one that was emptied to join."""
        return self.aside.exists() and (self.data / "mysql").is_dir()

    def holds(self, backup: Backup | None) -> bool:
        """Return whether the server is stopped and has the data of the backup and nothing else; a position that cannot be read is another one."""
        return backup is not None and self.complete() and self.stopped() and self.database.recover_position() == (backup.uuid, backup.seqno)

    def stopped(self) -> bool:
        """Return whether the server is stopped."""
        return self.database.unit_state().get("ActiveState") in ("inactive", "failed")


def ensure_data(request: DataRequest, database: MariaDb, tool: Mariabackup, *, check_mode: bool) -> DataResult:
    """Bring the data directory into the requested state.

    :raises InputError: invalid label or file.
    :raises RefusedError: there is not enough space, or the data directory is a mount point, which cannot be renamed.
    """
    place = Directory(database, request.label)
    work = {"copied": _copied, "set_aside": _set_aside, "prepared": _prepared, "replaced": _replaced, "verified": _verified}[request.state]
    with host_lock("galera-data", request.lock_timeout):
        actions = work(request, place, tool, check_mode)
    return DataResult(bool(actions), tuple(actions), str(place.aside))


def _copied(request: DataRequest, place: Directory, tool: Mariabackup, check_mode: bool) -> list[str]:
    if place.aside.exists():
        return []
    if not place.data.is_dir():
        raise RefusedError(f"the data directory {place.data} does not exist.", hint="Restore a backup instead: reduced.footprint.restore_database.")
    _require_room(place.data.parent, taken(place.data))
    _require_not_serving(place)
    actions = ([] if place.stopped() else ["stop"]) + ["copy"]
    if not check_mode:
        _stop(place)
        with _partial(place.aside) as partial:
            run(["cp", "--archive", "--reflink=auto", "--", str(place.data), str(partial)], hint="Free space there and run again.")
            run(["sync", "--file-system", "--", str(place.data.parent)])
            rename(partial, place.aside, new=True)
    return actions


def _require_not_serving(place: Directory) -> None:
    """The caller decided before, and the guards may have formed a component with this member since."""
    status = place.database.status() or {}
    if status.get("wsrep_on") == "ON" and status.get("wsrep_cluster_status") == "Primary":
        raise RefusedError("this member is in a Primary Component and may serve clients.", hint="Run the same command again: it decides again.")


def _set_aside(request: DataRequest, place: Directory, tool: Mariabackup, check_mode: bool) -> list[str]:
    # in a restore, what a member has received since is data of the previous cluster
    again = request.backup is not None and place.complete()
    if place.aside.exists() and place.data.is_dir() and not again:
        return []
    if request.backup is None:
        _require_not_serving(place)
    _require_renaming(place)
    actions = ([] if place.stopped() or (place.aside.exists() and not again) else ["stop"]) + ["set aside"]
    if not check_mode:
        _stop(place)
        owner = place.owner()
        _move_away(place)
        partial = _empty_partial(place.data)
        partial.mkdir(mode=0o700)
        _hand_over(partial, owner)
        rename(partial, place.data, new=True)
        _relabel(place.data)
    return actions


def _prepared(request: DataRequest, place: Directory, tool: Mariabackup, check_mode: bool) -> list[str]:
    if place.prepared.exists() or place.restored.exists() or place.holds(request.backup):
        return []
    if not request.file or not request.backup:
        raise InputError("a backup is required.", path="file", hint="Set file, and set backup to the result of galera_backup_info.")
    backup = request.backup
    version = tool.server_version()
    # in check mode on a new host, the play has not installed the server
    if version or not check_mode:
        check_server(backup, version)
    _require_renaming(place)
    file = pathlib.Path(request.file)
    if check_mode and not file.exists():
        return ["prepare"]
    if not file.is_file() or digest(file) != backup.sha256:
        raise InputError(f"{file} does not match the backup {backup.name}.", path="file", hint="Copy the backup file to this host again.")
    tool.program()
    tool.compressor([backup.compression])
    if not check_mode:
        with _partial(place.prepared) as partial:
            partial.mkdir(mode=0o700)
            _require_room(partial, backup.room)
            tool.unpack(file, partial, backup.compression)
            tool.prepare(partial)
            found = tool.position(partial)
            if found != (backup.uuid, backup.seqno):
                raise InputError(
                    f"the file has position {found[0]}:{found[1]}, its metadata says {backup.uuid}:{backup.seqno}.", path="file", hint="Use another backup."
                )
            tool.tidy(partial)
            _hand_over(partial, place.owner())
            run(["sync", "--file-system", "--", str(partial)])
            rename(partial, place.prepared, new=True)
    return ["prepare"]


def _replaced(request: DataRequest, place: Directory, tool: Mariabackup, check_mode: bool) -> list[str]:
    if place.restored.exists() or (not place.prepared.exists() and place.holds(request.backup)):
        return []
    if not place.prepared.exists():
        if check_mode:
            return ["replace"]
        raise RefusedError(f"{place.prepared} does not exist.", hint="Prepare the backup's data first, with the same label.")
    _require_renaming(place)
    actions = ([] if place.stopped() else ["stop"]) + ["replace"]
    if not check_mode:
        _stop(place)
        _move_away(place)
        # it may be the empty one that a start of the server needed
        rename(place.prepared, place.data, new=False)
        _relabel(place.data)
    return actions


def _verified(request: DataRequest, place: Directory, tool: Mariabackup, check_mode: bool) -> list[str]:
    if place.restored.exists() or check_mode:
        return []
    actions = [] if place.stopped() else ["stop"]
    _stop(place)
    if not place.holds(request.backup):
        raise RefusedError(
            f"{place.data} does not have the position of the backup: the member was started, and has received other data.",
            hint="Run again, which sets this data aside and restores the backup.",
        )
    write_atomic(place.restored, "")
    return actions


def _stop(place: Directory) -> None:
    if not place.stopped():
        place.database.stop()


def _move_away(place: Directory) -> None:
    """Rename the data directory, unless it is empty again; if there is none, create an empty directory to record that this step is done."""
    if place.aside.exists():
        if place.data.is_dir() and any(place.data.iterdir()):
            free_names = (place.aside.with_name(f"{place.aside.name}.{number}") for number in itertools.count(2))
            rename(place.data, next(path for path in free_names if not path.exists()), new=True)
    elif place.data.exists():
        rename(place.data, place.aside, new=True)
    else:
        place.aside.mkdir(mode=0o700)


@contextlib.contextmanager
def _partial(target: pathlib.Path) -> t.Iterator[pathlib.Path]:
    """Like :func:`_empty_partial`, and remove the folder after a failure: on a full disk, it would stop the server, which may be running."""
    partial = _empty_partial(target)
    try:
        yield partial
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def _empty_partial(target: pathlib.Path) -> pathlib.Path:
    """Return the ``.partial`` name of a folder after removing leftovers of a killed run."""
    partial = target.with_name(f"{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    return partial


def _hand_over(folder: pathlib.Path, owner: tuple[int, int, int]) -> None:
    """Make the server's user the owner of a folder and everything in it."""
    user, group, mode = owner
    for root, folders, files in os.walk(folder):
        for name in (*folders, *files):
            os.lchown(os.path.join(root, name), user, group)
    os.chown(folder, user, group)
    os.chmod(folder, mode)


def _relabel(folder: pathlib.Path) -> None:
    """Restore the SELinux contexts, if SELinux is installed."""
    if shutil.which("restorecon"):
        run(["restorecon", "-R", "--", str(folder)], ok=(0, 1))


def _require_renaming(place: Directory) -> None:
    """Require that the data directory can be renamed.

    :raises RefusedError: it is a mount point.
    """
    if place.data.is_dir() and os.path.ismount(place.data):
        raise RefusedError(
            f"{place.data} is a mount point, so it cannot be renamed to set its data aside.",
            path="datadir",
            hint=f"Mount the file system above {place.data.name}, move the data into a directory of it, and set that directory as the server's datadir.",
        )


def _require_room(folder: pathlib.Path, needed: int) -> None:
    """Require free space.

    :raises RefusedError: there is not enough space.
    """
    left = free(folder)
    if left < needed:
        raise RefusedError(
            f"{needed / _GIB:.1f} GiB are required next to the data directory in {folder}, but only {left / _GIB:.1f} GiB are free.",
            hint="Free space there.",
        )


def summary(result: DataResult) -> dict[str, t.Any]:
    """Return the result for Ansible."""
    return {"changed": result.changed, "actions": list(result.actions), "aside": result.aside}
