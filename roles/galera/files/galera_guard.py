# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Form the Galera cluster anew when all its members met again without a Primary Component.

``galera_guard.py SOCKET MEMBERS SECONDS``, a service on every member. Galera itself needs nobody for that as long as
every member remembers the last Primary Component. This is for the case that one has lost that memory. When it is
allowed and why it cannot split the cluster is told at ``may_reform`` in ``galera_plan``.
"""

from __future__ import annotations

import sys
import time
import typing as t

import pymysql

import galera_plan

PAUSE = 10


def needed(cursor: t.Any, members: int) -> bool:
    """Whether the cluster has to and may be formed anew right now."""
    cursor.execute("SHOW GLOBAL STATUS LIKE 'wsrep\\_%'")
    status = dict(cursor.fetchall())
    cursor.execute("SHOW GLOBAL VARIABLES LIKE 'wsrep\\_cluster\\_address'")
    address = dict(cursor.fetchall()).get("wsrep_cluster_address", "")
    peers = [peer for peer in address.partition("://")[2].partition("?")[0].split(",") if peer]
    return galera_plan.may_reform(status, members, len(peers))


def look(path: str, members: int, since: float | None, hold: float) -> float | None:
    """Look once and act if the need has lasted.

    :returns: since when there is the need, ``None`` when there is none.
    """
    try:
        connection = pymysql.connect(unix_socket=path, user="root", connect_timeout=2, read_timeout=5, write_timeout=5)
        with connection, connection.cursor() as cursor:
            if not needed(cursor, members):
                return None
            now = time.monotonic()
            if since is None or now - since < hold:
                return now if since is None else since
            print(f"<4>all {members} members are here without a Primary Component since {now - since:.0f} s: forming one", flush=True)
            cursor.execute("SET GLOBAL wsrep_provider_options = 'pc.bootstrap=true'")
    except (pymysql.MySQLError, OSError):
        # stopped or still starting: systemd's business
        pass
    return None


def main() -> None:
    """Look for ever."""
    path, members, hold = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    since = None
    while True:
        since = look(path, members, since, hold)
        time.sleep(PAUSE)


if __name__ == "__main__":
    main()
