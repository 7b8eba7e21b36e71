# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: a backup of a Galera member, made, proved and kept."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import os
import pathlib
import shutil
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import read_text, write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_lock import host_lock
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._galera.io_mariabackup import Mariabackup, digest, free, taken
from ansible_collections.reduced.footprint.plugins.module_utils._galera.io_mariadb import MariaDb
from ansible_collections.reduced.footprint.plugins.module_utils._galera.plan_galera import problems
from ansible_collections.reduced.footprint.plugins.module_utils._galera.plan_backup import (
    COMPRESSORS,
    Backup,
    backup_name,
    parse_backup,
    parse_note,
    superfluous,
)

__all__ = ["BackupRequest", "inspect", "keep", "local_tool", "make", "parse_backup"]

#: The folder in the folder of backups where files arrive.
INCOMING = ".incoming"
_GIB = 1 << 30
_PARTIAL = ".partial"
_NOTE = ".json"
_LOCK = "galera-backup"
_DATABASES = "SELECT schema_name FROM information_schema.schemata WHERE schema_name NOT IN ('information_schema','mysql','performance_schema','sys');"


@dataclasses.dataclass(frozen=True)
class BackupRequest:
    """What is to be backed up, and whereto.

    :arg folder: where the file is made and proved, on this host.
    :arg cluster: the first part of its name.
    :arg member: this host's name, for the note.
    :arg lock_timeout: seconds to wait for another backup of this host to end.
    """

    folder: str
    cluster: str
    member: str
    lock_timeout: float = 900


def local_tool(datadir: str = "/var/lib/mysql") -> Mariabackup:
    """mariabackup of this host."""
    return Mariabackup(datadir)


def make(
    request: BackupRequest, database: MariaDb, tool: Mariabackup, *, check_mode: bool, now: datetime.datetime | None = None
) -> tuple[bool, Backup | None]:
    """A backup of this member: one compressed file, proved by preparing what is in it, and the note beside it.

    :returns: whether one was made, or in check mode would be, and which.
    :raises RefusedError: the member is not ready, or there is no room.
    """
    folder = pathlib.Path(request.folder)
    if not folder.is_absolute():
        raise InputError(f"{request.folder!r} is no absolute path.", path="directory", hint="Write it with a '/' in front.")
    made = (now or datetime.datetime.now(datetime.timezone.utc)).strftime("%Y%m%dT%H%M%SZ")
    name = backup_name(request.cluster, made)
    status = database.status()
    why = problems(status, serves=True) if status and status.get("wsrep_on") == "ON" else ("its server is not up as a member",)
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
        backup = _make(name, made, folder, request, database, tool, compressor)
    return True, backup


def _make(name: str, made: str, folder: pathlib.Path, request: BackupRequest, database: MariaDb, tool: Mariabackup, compressor: str) -> Backup:
    file = f"{name}.mbs.{COMPRESSORS[compressor]}"
    partial = folder / f".{file}{_PARTIAL}"
    with _scratch(folder / f".{name}.scratch{_PARTIAL}") as scratch:
        tool.stream(partial, scratch, compressor)
    with _scratch(folder / f".{name}.proof{_PARTIAL}") as proof:
        # not the data that were read but those that can be read back are proved
        tool.unpack(partial, proof, compressor)
        tool.prepare(proof)
        uuid, seqno = tool.position(proof)
        gtid = tool.gtid(proof)
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
    )
    _publish(partial, folder, backup)
    return backup


@contextlib.contextmanager
def _scratch(path: pathlib.Path) -> t.Iterator[pathlib.Path]:
    """An empty folder for a while."""
    path.mkdir(mode=0o700)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _publish(partial: pathlib.Path, folder: pathlib.Path, backup: Backup) -> None:
    """Give a whole file its name. The note comes first, so that no file with this name is without one."""
    os.chmod(partial, 0o600)
    write_atomic(folder / f"{backup.file}{_NOTE}", backup.note(), 0o600)
    os.replace(partial, folder / backup.file)
    handle = os.open(str(folder), os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _clear(folder: pathlib.Path) -> None:
    """What a killed run has left; the caller holds the lock, so nobody works on it."""
    for path in folder.glob(f".*{_PARTIAL}"):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()
    for note in folder.glob(f"*{_NOTE}"):
        if not (folder / note.name[: -len(_NOTE)]).exists():
            note.unlink()


def _clear_arrivals(folder: pathlib.Path) -> None:
    """What runs that were killed have left where files arrive; another run may be bringing one right now, but not for a day."""
    yesterday = time.time() - 86400
    for path in folder.iterdir() if folder.name == INCOMING else ():
        if path.is_file() and path.stat().st_mtime < yesterday:
            path.unlink()


def _require_room(folder: pathlib.Path, size: int) -> None:
    """The file and what proves it must fit beside one another.

    :raises RefusedError: they do not.
    """
    there = next(path for path in (folder, *folder.parents) if path.exists())
    needed, left = 2 * size, free(there)
    if left < needed:
        raise RefusedError(
            f"a backup and its proof need up to {needed / _GIB:.1f} GiB in {folder}, and {left / _GIB:.1f} GiB are free.",
            path="directory",
            hint="Make room, or name a directory elsewhere.",
        )


def backups(folder: pathlib.Path) -> list[Backup]:
    """The whole backups of a folder, by their notes."""
    found = []
    for note in sorted(folder.glob(f"*{_NOTE}")):
        file = folder / note.name[: -len(_NOTE)]
        text = read_text(note)
        if file.exists() and text is not None:
            with contextlib.suppress(InputError):  # somebody else's file
                found.append(parse_note(text, str(note)))
    return found


def inspect(path: str, prove: bool) -> Backup:
    """The backup in a file, proved against its checksum.

    :raises InputError: there is none, or it is not what its note says.
    """
    file = pathlib.Path(path)
    if not file.is_file():
        raise InputError(f"there is no file {file}.", path="file", hint="Name the file of a backup, as backup_database told it.")
    text = read_text(f"{file}{_NOTE}")
    if text is None:
        raise InputError(f"there is no note {file}{_NOTE}.", path="file", hint="Keep both files of a backup together.")
    backup = parse_note(text, f"{file}{_NOTE}")
    size = file.stat().st_size
    if size != backup.bytes or (prove and digest(file) != backup.sha256):
        raise InputError(f"{file} is not the file its note tells of ({size} bytes here, {backup.bytes} there).", path="file", hint="Take another backup.")
    return backup


def keep(folder: str, incoming: str, backup: Backup, retain: int, *, check_mode: bool) -> tuple[bool, tuple[str, ...]]:
    """Take a file that was brought here into a folder of backups, and remove those that are too many.

    :arg incoming: the file as it arrived, in the same file system as the folder.
    :arg retain: how many of the cluster are kept, 0 for all.
    :returns: whether anything changed, and the names of the files that were removed.
    :raises BackendError: what arrived is not what was sent.
    """
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
                    raise BackendError(f"{incoming} is not what {backup.member} sent.", hint="Look for room on this machine, then run the play again.")
                _publish(arrived, home, backup)
                _clear_arrivals(arrived.parent)
        doomed = superfluous(there, backup.cluster, retain)
        for old in doomed if not check_mode else ():
            # the data first: a note alone is no backup, and is cleared by the next run
            (home / old.file).unlink()
            (home / f"{old.file}{_NOTE}").unlink()
        if not check_mode and home.is_dir():
            for note in home.glob(f"*.mbs.*{_NOTE}"):
                if not (home / note.name[: -len(_NOTE)]).exists():
                    note.unlink()
    return changed or bool(doomed), tuple(old.file for old in doomed)
