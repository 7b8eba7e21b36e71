# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""mariabackup of this host: stream a running server's data into one compressed file, unpack and prepare it."""

from __future__ import annotations

import hashlib
import os
import pathlib
import re
import shutil
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import read_text
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_pipeline import pipeline
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError

_PROGRAMS = ("mariadb-backup", "mariabackup")
_INSTALL = "Install the packages mariadb-backup and zstd, or run the role reduced.footprint.galera, which installs them."
#: Metadata files next to the data; the names changed in MariaDB 11.
_NOTES = {"galera": ("mariadb_backup_galera_info", "xtrabackup_galera_info"), "info": ("mariadb_backup_info", "xtrabackup_info"),
          "checkpoints": ("mariadb_backup_checkpoints", "xtrabackup_checkpoints")}  # fmt: skip
_PREPARED = re.compile(r"^backup_type = (full-prepared|log-applied)$", re.MULTILINE)
#: Files that mariabackup leaves next to the data and the server does not need.
_OWN = re.compile(r"(xtrabackup|mariadb_backup)_\w+|donor_galera_info|backup-my\.cnf")
_CHUNK = 1 << 20


class Mariabackup:
    """mariabackup, which logs in as root through the local socket.

    :arg datadir: data directory of the server.
    """

    def __init__(self, datadir: str = "/var/lib/mysql") -> None:
        self.datadir = datadir

    def program(self) -> str:
        """Return the name of the installed program.

        :raises BackendError: mariabackup or mbstream is not installed.
        """
        found = next((name for name in _PROGRAMS if shutil.which(name)), None)
        if not found or not shutil.which("mbstream"):
            raise BackendError("mariabackup is not installed.", hint=_INSTALL)
        return found

    def server_version(self) -> str:
        """Return the version of the installed server, empty if there is none."""
        for name in ("mariadbd", "mysqld"):
            path = shutil.which(name, path="/usr/sbin:/usr/libexec:/usr/bin")
            if path:
                found = re.search(r"Ver (\S+)", run([path, "--version"], timeout=60).stdout)
                return found.group(1) if found else ""
        return ""

    def compressor(self, names: t.Iterable[str]) -> str:
        """Return the first installed compressor.

        :raises BackendError: none is installed.
        """
        found = next((name for name in names if shutil.which(name)), None)
        if not found:
            raise BackendError(f"no compressor is installed, expected one of {', '.join(names)}.", hint=_INSTALL)
        return found

    def stream(self, target: pathlib.Path, scratch: pathlib.Path, compressor: str) -> None:
        """Stream the running server's data into a file, consistent at one position of the cluster.

        :arg scratch: empty folder for temporary files.
        """
        argv = [self.program(), "--backup", "--stream=mbstream", "--galera-info", "--user=root", f"--datadir={self.datadir}", f"--target-dir={scratch}"]
        pipeline([argv, [compressor, "-c"]], target=target, hint="Check the output of mariabackup and the server's journal on the member.")

    def unpack(self, file: pathlib.Path, folder: pathlib.Path, compressor: str) -> None:
        """Unpack the file into an empty folder."""
        pipeline([[compressor, "-d", "-c"], ["mbstream", "-x", "-C", str(folder)]], source=file, hint="The file is damaged. Take another backup.")

    def prepare(self, folder: pathlib.Path) -> None:
        """Prepare the data, so that a server can start from it.

        :raises BackendError: the data cannot be prepared, so the backup is not usable.
        """
        run([self.program(), "--prepare", f"--target-dir={folder}"], hint="The backup is not usable. Take another one.")
        if not _PREPARED.search(self._note(folder, "checkpoints") or ""):
            raise BackendError(f"mariabackup did not prepare {folder}.", hint="The backup is not usable. Take another one.")

    def position(self, folder: pathlib.Path) -> tuple[str, int]:
        """Return the cluster uuid and position of prepared data.

        :raises BackendError: the position is missing, so the data is not from a Galera member.
        """
        found = re.match(r"([0-9a-f-]{36}):(-?[0-9]+)", self._note(folder, "galera") or "")
        if not found:
            raise BackendError("the backup does not contain the cluster position.", hint="Take the backup from a member of a cluster.")
        return found.group(1), int(found.group(2))

    def gtid(self, folder: pathlib.Path) -> str:
        """Return the GTID of the last change in the binary log, empty without one."""
        found = re.search(r"GTID of the last change '([^']*)'", self._note(folder, "info") or "")
        return found.group(1) if found else ""

    def tidy(self, folder: pathlib.Path) -> None:
        """Remove the files of mariabackup from prepared data."""
        for path in folder.iterdir():
            if path.is_file() and _OWN.fullmatch(path.name):
                path.unlink()

    def _note(self, folder: pathlib.Path, what: str) -> str | None:
        return next((text for text in (read_text(folder / name) for name in _NOTES[what]) if text is not None), None)


def digest(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file's content."""
    whole = hashlib.sha256()
    with open(path, "rb") as stream:
        for chunk in iter(lambda: stream.read(_CHUNK), b""):
            whole.update(chunk)
    return whole.hexdigest()


def taken(folder: str | os.PathLike[str]) -> int:
    """Return the disk usage of a folder in bytes."""
    total = 0
    for root, unused, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(root, name)).st_blocks * 512
            except OSError:
                continue  # a temporary table that was removed meanwhile
    return total


def free(folder: str | os.PathLike[str]) -> int:
    """Return the free bytes on the file system of a folder."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize
