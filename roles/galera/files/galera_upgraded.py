# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Note beside a joiner's data that its system tables need no upgrade.

``galera_upgraded.py DATADIR``, run by systemd before the distribution's own upgrade check. A member that took all its
data from another one has lost that note, and the check would rebuild its system tables, outside the cluster and while
the cluster's changes are being applied. The two wait for each other for ever as soon as somebody creates a database or
an account, and all members with them. After an upgrade of the packages the note is there and names the older version:
then the check does its work.
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys

# each program has its own name for the note
PROGRAMS = {"mariadb-upgrade": "mariadb_upgrade_info", "mysql_upgrade": "mysql_upgrade_info"}
VERSION = re.compile(r"Distrib ([0-9.]+-MariaDB)|from ([0-9.]+-MariaDB)")


def names(program: str) -> list[str]:
    """The names of the note that this program knows."""
    content = pathlib.Path(program).read_bytes()
    return [name for name in PROGRAMS.values() if name.encode("ascii") in content]


def main() -> None:
    """Write the note where there is none, unless the server starts a new cluster from its own data."""
    datadir = pathlib.Path(sys.argv[1])
    program = next((found for found in map(shutil.which, PROGRAMS) if found), None)
    if program is None or os.environ.get("_WSREP_NEW_CLUSTER"):
        return
    said = subprocess.run([program, "--version"], capture_output=True, encoding="utf-8", check=False).stdout
    version = VERSION.search(said)
    for name in names(program) if version else ():
        note = datadir / name
        if note.exists():
            continue
        partial = note.with_name(f".{name}.partial")
        partial.write_text(version.group(1) or version.group(2), encoding="ascii")
        owner = datadir.stat()
        os.chown(partial, owner.st_uid, owner.st_gid)
        os.chmod(partial, 0o660)
        os.replace(partial, note)


if __name__ == "__main__":
    main()
