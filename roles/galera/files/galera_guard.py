# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Form the Primary Component again when all Galera members are connected without one.

``galera_guard.py SOCKET MEMBERS WITNESSES SECONDS``, a service on every member. Galera does this itself while every member has a saved view of
the last Primary Component. The guard is for the case that one member has lost it. ``may_reform`` in ``galera_plan`` describes when
this is allowed and why it cannot split the cluster.
"""

from __future__ import annotations

import sys
import time
import typing as t

import pymysql

import galera_plan

PAUSE = 10


def needed(cursor: t.Any, members: int, witnesses: int) -> bool:
    """Return whether the Primary Component must and may be formed again now."""
    cursor.execute("SHOW GLOBAL STATUS LIKE 'wsrep\\_%'")
    status = dict(cursor.fetchall())
    cursor.execute("SHOW GLOBAL VARIABLES LIKE 'wsrep\\_cluster\\_address'")
    address = dict(cursor.fetchall()).get("wsrep_cluster_address", "")
    peers = [peer for peer in address.partition("://")[2].partition("?")[0].split(",") if peer]
    return galera_plan.may_reform(status, members, len(peers), witnesses)


def look(path: str, members: int, witnesses: int, since: float | None, hold: float) -> float | None:
    """Check once, and act if the condition has lasted for ``hold`` seconds.

    :returns: time since when the condition holds, ``None`` if it does not hold.
    """
    try:
        connection = pymysql.connect(unix_socket=path, user="root", connect_timeout=2, read_timeout=5, write_timeout=5)
        with connection, connection.cursor() as cursor:
            if not needed(cursor, members, witnesses):
                return None
            now = time.monotonic()
            if since is None or now - since < hold:
                return now if since is None else since
            print(f"<4>all {members} members have been connected without a Primary Component for {now - since:.0f} s: forming one", flush=True)
            cursor.execute("SET GLOBAL wsrep_provider_options = 'pc.bootstrap=true'")
    except (pymysql.MySQLError, OSError):
        # stopped or still starting: systemd handles this
        pass
    return None


def main() -> None:
    """Check periodically."""
    path, members, witnesses, hold = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
    since = None
    while True:
        since = look(path, members, witnesses, since, hold)
        time.sleep(PAUSE)


if __name__ == "__main__":
    main()
