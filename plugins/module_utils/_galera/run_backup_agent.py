# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The agent on a member: the only program that the key of the daily backups may run, beside rsync.

``python3 -m …run_backup_agent COMMAND backup-CLUSTER`` with a JSON mapping on standard input; the answer is a JSON mapping on standard output.
"""

from __future__ import annotations

import os
import pathlib
import sys
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._galera import run_backup, run_galera
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_key_session
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_one_time_key import BACKUP_FOLDERS, BACKUP_SPOOL, parse_backup_key

_IMAGES = "SELECT id FROM glance.images WHERE status = 'active' AND deleted = 0;"


def answer(command: str, cluster: str, given: t.Mapping[str, t.Any], spool: str = BACKUP_SPOOL) -> dict[str, t.Any]:
    """Execute one command of the host that stores the backups.

    :raises FootprintError: it failed.
    """
    database = run_galera.local_database("mariadb.service")
    if command == "look":
        return {"facts": run_galera.look(database, recover=False), "folders": [name for name, path in BACKUP_FOLDERS.items() if os.path.isdir(path)]}
    if command == "make":
        request = run_backup.BackupRequest(spool, cluster, str(given.get("member")))
        _changed, backup = run_backup.make(request, database, run_backup.local_tool(), check_mode=False)
        if backup is None:
            raise InputError("no backup was created.")
        images = [row[0] for row in database.query(_IMAGES)] if "glance" in backup.databases else []
        return {"backup": backup.as_dict(), "images": images}
    backup = run_backup.parse_backup(given.get("backup"), "backup")
    if command == "drop":
        for name in (backup.file, f"{backup.file}.json"):
            pathlib.Path(spool, name).unlink(missing_ok=True)
        return {}
    if command == "stored":
        write_atomic(pathlib.Path(spool, run_backup.STORED), backup.note())
        return {}
    raise InputError(f"{command!r} is not a valid command of the backup's agent.")


def main(argv: t.Sequence[str]) -> int:
    """Entry point; exit code 0 with ``{"ok": …}``, or 1 with ``{"error": …}``."""
    cluster = parse_backup_key(argv[1]) if len(argv) == 2 else None
    if cluster is None:
        sys.stderr.write("usage: run_backup_agent COMMAND backup-CLUSTER\n")
        return 2
    return io_key_session.serve(lambda given: answer(argv[0], cluster, given), argv[0])


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
