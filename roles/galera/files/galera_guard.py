#!/usr/bin/python3
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Form the Galera cluster anew when all its members met again without a Primary Component.

``galera_guard.py SOCKET MEMBERS SECONDS``, run by a timer on every member. Galera itself needs nobody for that as
long as every member remembers the last Primary Component. This is for the case that one has lost that memory. When it
is allowed and why it cannot split the cluster is told at ``may_reform`` in ``galera_plan``.
"""

from __future__ import annotations

import pathlib
import sys
import time

import pymysql

import galera_plan

# removed by every look that finds no need, so its age is how long the need has lasted
SINCE = pathlib.Path("/run/footprint-galera-guard/since")


def needed(cursor: pymysql.cursors.Cursor, members: int) -> bool:
    """Whether the cluster has to and may be formed anew right now."""
    cursor.execute("SHOW GLOBAL STATUS LIKE 'wsrep\\_%'")
    status = dict(cursor.fetchall())
    cursor.execute("SHOW GLOBAL VARIABLES LIKE 'wsrep\\_cluster\\_address'")
    address = dict(cursor.fetchall()).get("wsrep_cluster_address", "")
    peers = [peer for peer in address.partition("://")[2].partition("?")[0].split(",") if peer]
    return galera_plan.may_reform(status, members, len(peers))


def main() -> None:
    """Look once, act if the need has lasted."""
    path, members, hold = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    try:
        connection = pymysql.connect(unix_socket=path, user="root", connect_timeout=2, read_timeout=5, write_timeout=5)
    except (pymysql.MySQLError, OSError):
        # stopped or still starting: systemd's business
        SINCE.unlink(missing_ok=True)
        return
    with connection, connection.cursor() as cursor:
        if not needed(cursor, members):
            SINCE.unlink(missing_ok=True)
            return
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        try:
            since = float(SINCE.read_text(encoding="ascii"))
        except (FileNotFoundError, ValueError):
            SINCE.write_text(str(now), encoding="ascii")
            return
        if now - since < hold:
            return
        print(f"<4>all {members} members are here, and there is no Primary Component since {now - since:.0f} s: forming one", flush=True)
        cursor.execute("SET GLOBAL wsrep_provider_options = 'pc.bootstrap=true'")
        SINCE.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
