# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Record in a joiner's data directory that its system tables need no upgrade.

``galera_upgraded.py DATADIR``, run by systemd before the distribution's upgrade check. A member that copied all data from
another one lacks the file with the upgraded version, and the check would rebuild its system tables outside replication while
changes of the cluster are being applied. When a database or an account is created then, both wait for each other forever, and
all members with them. After a package upgrade the file exists with the older version, and the check works as usual.
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys

# program → name of its version file
PROGRAMS = {"mariadb-upgrade": "mariadb_upgrade_info", "mysql_upgrade": "mysql_upgrade_info"}
VERSION = re.compile(r"Distrib ([0-9.]+-MariaDB)|from ([0-9.]+-MariaDB)")


def names(program: str) -> list[str]:
    """Return the version file names that this program uses."""
    content = pathlib.Path(program).read_bytes()
    return [name for name in PROGRAMS.values() if name.encode("ascii") in content]


def main() -> None:
    """Write the version file if missing, unless the server starts a new cluster from its own data."""
    datadir = pathlib.Path(sys.argv[1])
    program = next((found for found in map(shutil.which, PROGRAMS) if found), None)
    if program is None or os.environ.get("_WSREP_NEW_CLUSTER"):
        return
    output = subprocess.run([program, "--version"], capture_output=True, encoding="utf-8", check=False).stdout
    version = VERSION.search(output)
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
