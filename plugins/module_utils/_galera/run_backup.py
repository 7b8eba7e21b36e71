# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: create, verify and store backups of a Galera member."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import os
import pathlib
import shutil
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import read_text, rename, write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_lock import host_lock
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_time import utc
from ansible_collections.reduced.footprint.plugins.module_utils._galera.io_mariabackup import Mariabackup, digest, free, taken
from ansible_collections.reduced.footprint.plugins.module_utils._galera.io_mariadb import MariaDb
from ansible_collections.reduced.footprint.plugins.module_utils._galera.plan_member import problems
from ansible_collections.reduced.footprint.plugins.module_utils._galera.plan_backup import (
    COMPRESSORS,
    Backup,
    backup_name,
    parse_backup,
    parse_note,
    superfluous,
)
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_one_time_key import BACKUP_SPOOL

__all__ = ["Backup", "BackupRequest", "inspect", "keep", "last_stored", "local_tool", "make", "parse_backup"]

#: The metadata of the last backup that another host has stored, in the spool of each member.
STORED = "stored"
#: Subdirectory of the backup directory for incoming files.
INCOMING = ".incoming"
_GIB = 1 << 30
_PARTIAL = ".partial"
_NOTE = ".json"
_LOCK = "galera-backup"
_DATABASES = "SELECT schema_name FROM information_schema.schemata WHERE schema_name NOT IN ('information_schema','mysql','performance_schema','sys');"


@dataclasses.dataclass(frozen=True)
class BackupRequest:
    """A backup to create.

    :arg folder: directory on this host where the file is created and verified.
    :arg cluster: first part of the file name.
    :arg member: name of this host, for the metadata file.
    :arg lock_timeout: seconds to wait for another backup on this host to finish.
    """

    folder: str
    cluster: str
    member: str
    lock_timeout: float = 900


def local_tool(datadir: str = "/var/lib/mysql") -> Mariabackup:
    """Return the mariabackup program of this host."""
    return Mariabackup(datadir)


def make(
    request: BackupRequest, database: MariaDb, tool: Mariabackup, *, check_mode: bool, now: datetime.datetime | None = None
) -> tuple[bool, Backup | None]:
    """Back up this member into one compressed file, verify it by preparing its content, and write its metadata file.

    :returns: whether a backup was created, or in check mode would be, and the backup.
    :raises RefusedError: the member is not ready, or there is not enough space.
    """
    folder = pathlib.Path(request.folder)
    if not folder.is_absolute():
        raise InputError(f"{request.folder!r} is not an absolute path.", path="directory", hint="Start the path with '/'.")
    made = (now or datetime.datetime.now(datetime.timezone.utc)).strftime("%Y%m%dT%H%M%SZ")
    name = backup_name(request.cluster, made)
    status = database.status()
    why = problems(status, serves=True) if status and status.get("wsrep_on") == "ON" else ("its server is not running as a cluster member",)
    if why:
        raise RefusedError(f"this member is not ready: {'; '.join(why)}.", hint="Take the backup from another member, or recover the cluster first.")
    compressor = tool.compressor(COMPRESSORS)
    tool.program()
    _require_room(folder, taken(database.datadir))
    if check_mode:
        return True, None
    with host_lock(_LOCK, request.lock_timeout):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _clear(folder)
        try:
            backup = _make(name, made, folder, request, database, tool, compressor)
        except BaseException:
            # on a full disk, it would stop the server that is backed up
            _clear(folder)
            raise
    return True, backup


def _make(name: str, made: str, folder: pathlib.Path, request: BackupRequest, database: MariaDb, tool: Mariabackup, compressor: str) -> Backup:
    file = f"{name}.mbs.{COMPRESSORS[compressor]}"
    partial = folder / f".{file}{_PARTIAL}"
    with _scratch(folder / f".{name}.scratch{_PARTIAL}") as scratch:
        tool.stream(partial, scratch, compressor)
    with _scratch(folder / f".{name}.proof{_PARTIAL}") as proof:
        # verify what can be read back from the file, not what was streamed
        tool.unpack(partial, proof, compressor)
        tool.prepare(proof)
        uuid, seqno = tool.position(proof)
        gtid = tool.gtid(proof)
        unpacked = taken(proof)
    backup = Backup(
        name=name,
        file=file,
        cluster=request.cluster,
        member=request.member,
        made=made,
        server=tool.server_version(),
        compression=compressor,
        sha256=digest(partial),
        bytes=partial.stat().st_size,
        uuid=uuid,
        seqno=seqno,
        gtid=gtid,
        databases=tuple(row[0] for row in database.query(_DATABASES)),
        unpacked_bytes=unpacked,
    )
    _publish(partial, folder, backup)
    return backup


@contextlib.contextmanager
def _scratch(path: pathlib.Path) -> t.Iterator[pathlib.Path]:
    """Create a temporary empty folder."""
    path.mkdir(mode=0o700)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _publish(partial: pathlib.Path, folder: pathlib.Path, backup: Backup) -> None:
    """Rename a complete file to its final name. The metadata is written first, so that no file with that name lacks it."""
    os.chmod(partial, 0o600)
    write_atomic(folder / f"{backup.file}{_NOTE}", backup.note(), 0o600)
    # flushed: after a transfer its content may be in memory only, and older backups are removed next
    rename(partial, folder / backup.file, new=False)


def _clear(folder: pathlib.Path) -> None:
    """Remove leftovers of a killed run; the caller holds the lock, so no other process uses them."""
    for path in folder.glob(f".*{_PARTIAL}"):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()
    for note in folder.glob(f"*{_NOTE}"):
        if not (folder / note.name[: -len(_NOTE)]).exists():
            note.unlink()


def _clear_arrivals(folder: pathlib.Path) -> None:
    """Remove incoming files older than a day, which killed runs have left; a newer file may be in transfer by another run."""
    yesterday = time.time() - 86400
    for path in folder.iterdir() if folder.name == INCOMING else ():
        if path.is_file() and path.stat().st_mtime < yesterday:
            path.unlink()


def _require_room(folder: pathlib.Path, size: int) -> None:
    """Require space for the file and its unpacked copy.

    :raises RefusedError: there is not enough space.
    """
    there = next(path for path in (folder, *folder.parents) if path.exists())
    needed, left = 2 * size, free(there)
    if left < needed:
        raise RefusedError(
            f"a backup and its verification need up to {needed / _GIB:.1f} GiB in {folder}, but only {left / _GIB:.1f} GiB are free.",
            path="directory",
            hint="Free space there, or use another directory.",
        )


def last_stored(spool: str = BACKUP_SPOOL) -> dict[str, t.Any] | None:
    """Return ``name`` and start time (``made``, UTC) of the last backup of the daily ones that another host has stored, ``None`` without one.

    :raises InputError: the record cannot be read.
    """
    text = read_text(pathlib.Path(spool, STORED))
    if text is None:
        return None
    backup = parse_note(text, f"{spool}/{STORED}")
    when = datetime.datetime.strptime(backup.made, "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.timezone.utc)
    return {"name": backup.name, "made": utc(when.timestamp())}


def backups(folder: pathlib.Path) -> list[Backup]:
    """Return the complete backups in a folder, by their metadata files."""
    found = []
    for note in sorted(folder.glob(f"*{_NOTE}")):
        file = folder / note.name[: -len(_NOTE)]
        text = read_text(note)
        if file.exists() and text is not None:
            with contextlib.suppress(InputError):  # not written by this module
                backup = parse_note(text, str(note))
                # otherwise an interrupted copy, which must not take the place of a usable backup, or one that the operator renamed to keep it
                if file.stat().st_size == backup.bytes and file.name == backup.file:
                    found.append(backup)
    return found


def inspect(path: str, prove: bool) -> Backup:
    """Read a backup's metadata and compare the file with it.

    :arg prove: compare the checksum, not the size alone.
    :raises InputError: a file is missing, or the backup differs from its metadata.
    """
    file = pathlib.Path(path)
    if not file.is_file():
        raise InputError(f"{file} does not exist.", path="file", hint="Name the backup file that backup_database reported.")
    text = read_text(f"{file}{_NOTE}")
    if text is None:
        raise InputError(f"the metadata file {file}{_NOTE} does not exist.", path="file", hint="Keep both files of a backup together.")
    backup = parse_note(text, f"{file}{_NOTE}")
    size = file.stat().st_size
    if size != backup.bytes or (prove and digest(file) != backup.sha256):
        raise InputError(
            f"{file} does not match its metadata file: it has {size} bytes, expected {backup.bytes}, or its checksum differs.",
            path="file",
            hint="Use another backup.",
        )
    return backup


def keep(folder: str, incoming: str, backup: Backup, retain: int, *, check_mode: bool) -> tuple[bool, tuple[str, ...]]:
    """Store a transferred backup in a folder, and remove the oldest backups beyond the limit.

    :arg incoming: the transferred file, on the same file system as the folder.
    :arg retain: number of backups of the cluster to keep, 0 for all.
    :returns: whether anything changed, and the names of the removed files.
    :raises InputError: a negative limit.
    :raises BackendError: the checksum of the transferred file differs.
    """
    if retain < 0:
        raise InputError(f"{retain} is less than 0.", path="retain", hint="Set the number of backups to keep, 0 for all.")
    home = pathlib.Path(folder)
    changed = False
    with host_lock(_LOCK + "-store", 60):
        there = backups(home)
        if backup.name not in [one.name for one in there]:
            changed = True
            there.append(backup)
            if not check_mode:
                arrived = pathlib.Path(incoming)
                if not arrived.is_file() or digest(arrived) != backup.sha256:
                    raise BackendError(
                        f"{incoming} does not match the backup that {backup.member} sent.",
                        hint="Check the free space on this machine, then run the play again.",
                    )
                _publish(arrived, home, backup)
                _clear_arrivals(arrived.parent)
        doomed = superfluous(there, backup, retain)
        for old in doomed if not check_mode else ():
            # the data first: the next run removes metadata without a backup file
            (home / old.file).unlink()
            (home / f"{old.file}{_NOTE}").unlink()
        if not check_mode and home.is_dir():
            for note in home.glob(f"*.mbs.*{_NOTE}"):
                if not (home / note.name[: -len(_NOTE)]).exists():
                    note.unlink()
    return changed or bool(doomed), tuple(old.file for old in doomed)
