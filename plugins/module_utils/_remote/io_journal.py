# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files of a migration or a move on the host that runs it: request, journal, log, key, lock."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import pathlib
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import read_text, write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_schema import REQUEST
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_time import utc
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import Journal

HOME = pathlib.Path("/var/lib/reduced.footprint/migrations")
#: The corresponding folder on the source.
SOURCE_HOME = pathlib.Path("/var/lib/reduced.footprint/source")
# several times the size of a journal, including file system metadata
_RESERVE = 4 << 20
_FULL = (errno.ENOSPC, errno.EDQUOT)


class JournalStore:
    """The folder of one migration; 0700, its files 0600."""

    kind: type[Journal] = Journal
    hint = "Wait until it finishes; master_migrate_info shows its progress."

    def __init__(self, name: str, home: pathlib.Path = HOME) -> None:
        self.name = name
        self.directory = home / name

    def read_job(self) -> dict[str, t.Any] | None:
        """Return the request of the worker, ``None`` when there is none."""
        path = self.directory / "job.json"
        text = read_text(path)
        return REQUEST.load(text, path) if text else None

    def write_job(self, params: t.Mapping[str, t.Any]) -> None:
        """Store the request."""
        self._make()
        write_atomic(self.directory / "job.json", json.dumps(REQUEST.mark(params), indent=1, sort_keys=True) + "\n")

    def read(self) -> Journal | None:
        """Return the journal, ``None`` when the migration never started."""
        path = self.directory / "journal.json"
        text = read_text(path)
        return self.kind.parse(text, path) if text else None

    def journal(self) -> t.Any:
        """Return the journal, a new one if none exists."""
        return self.read() or self.kind(name=self.name)

    def write(self, journal: Journal) -> None:
        """Store the journal, safe against a power loss; on a full disk in the space allocated by :meth:`reserve`.

        :raises OSError: no space is left, not even the reserve.
        """
        try:
            self._make()
            write_atomic(self.directory / "journal.json", journal.to_json())
        except OSError as error:
            if error.errno not in _FULL or not self.release():
                raise
            # some file systems free the space only after a sync; only this file system, others may take long
            with contextlib.suppress(BackendError):
                run(["sync", "-f", str(self.directory)], timeout=30)
            write_atomic(self.directory / "journal.json", journal.to_json())

    def reserve(self) -> None:
        """Allocate the space that the journal needs on a full disk."""
        file = self.directory / "reserve"
        if file.exists() and file.stat().st_size == _RESERVE:
            return
        try:
            self._make()
            # no zeros: a compressing file system would allocate no space for them
            write_atomic(file, os.urandom(_RESERVE))
        except OSError as error:
            raise BackendError(
                f"No space for the journal in {self.directory}: {error.strerror}.", hint=f"Free {_RESERVE >> 20} MiB there, then run again."
            ) from error

    def release(self) -> bool:
        """Free the reserve; returns whether there was one."""
        try:
            (self.directory / "reserve").unlink()
        except OSError:
            return False
        return True

    def log(self, message: str) -> None:
        """Write a line to the migration's log, with the time in UTC; a full disk is ignored."""
        with contextlib.suppress(OSError):
            self._make()
            with open(self.directory / "log", "a", encoding="utf-8") as stream:
                stream.write(f"{utc()} {message}\n")

    def tail(self, lines: int = 20) -> list[str]:
        """Return the last lines of the log."""
        return (read_text(self.directory / "log") or "").splitlines()[-lines:]

    @contextlib.contextmanager
    def locked(self) -> t.Iterator[None]:
        """Hold the worker's lock; the kernel releases it when the process ends."""
        self._make()
        with open(self.directory / "lock", "w", encoding="ascii") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise RefusedError(f"The {self.kind.WHAT} {self.name} is already in progress.", hint=self.hint) from error
            yield

    def archive(self) -> pathlib.Path:
        """Copy journal and log to the archive, where no later run of the same name writes; idempotent."""
        journal = self.read()
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(journal.ended if journal and journal.ended else 0))
        archived = self.directory.parent.parent / "archive" / f"{self.name}-{stamp}"
        archived.mkdir(parents=True, exist_ok=True, mode=0o700)
        for name in ("journal.json", "log"):
            text = read_text(self.directory / name)
            if text is not None:
                write_atomic(archived / name, text)
        return archived

    def _make(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)


def names(home: pathlib.Path = HOME) -> list[str]:
    """The names of all migrations on this host."""
    return sorted(each.name for each in home.iterdir() if (each / "journal.json").exists()) if home.is_dir() else []
