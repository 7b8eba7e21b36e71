# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Prepare a member's data directory before its server starts.

``galera_before_start.py DATADIR``, run by systemd as root. It exits with 1 if the server must not start.
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import time

#: See ``galera_report.INCOMPLETE``.
MARK = pathlib.Path("/var/lib/footprint-galera/incomplete")
ASIDE = ".incomplete-"


def synchronise(folder: pathlib.Path) -> None:
    """Write the names in a folder to the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def keep_view(data: pathlib.Path) -> None:
    """Rename the saved view of the last component.

    From it alone, Galera would form a component again without regard to members with newer data. The guard decides instead, and reads it. A graceful
    stop removes the view and saves a position: an older view does not count then.
    """
    view, last, state = data / "gvwstate.dat", data / "gvwstate.dat.last", data / "grastate.dat"
    if view.exists() and view.stat().st_size:
        os.replace(view, last)
        synchronise(data)
        return
    view.unlink(missing_ok=True)
    if not state.exists() or not re.search(r"(?m)^seqno: *-1", state.read_text(encoding="utf-8", errors="replace")):
        last.unlink(missing_ok=True)


def set_aside(data: pathlib.Path) -> None:
    """Move data whose position is not theirs into a folder, so that the server receives a copy of all, which also removes that folder."""
    folder = data / f"{ASIDE}{time.time_ns()}"
    folder.mkdir(mode=0o700)
    owner = data.stat()
    os.chown(folder, owner.st_uid, owner.st_gid)
    for path in sorted(data.iterdir()):
        if not path.name.startswith(ASIDE) and path.name != "lost+found":
            os.rename(path, folder / path.name)
    synchronise(folder)
    synchronise(data)
    # the position that the distribution's unit has read from them
    subprocess.run(["systemctl", "unset-environment", "_WSREP_START_POSITION"], check=True)


def main() -> int:
    data = pathlib.Path(sys.argv[1])
    if not data.is_dir():
        return 0
    keep_view(data)
    # a person who starts the cluster with this member's data has decided, but not for an empty database
    if not os.environ.get("_WSREP_NEW_CLUSTER"):
        if MARK.exists():
            set_aside(data)
    elif aside := next(data.glob(f"{ASIDE}*"), None):
        print(
            f"The data of this member were set aside in {aside}, because changes are missing. To start the cluster with them, move its content to {data} and"
            " remove that folder.",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
