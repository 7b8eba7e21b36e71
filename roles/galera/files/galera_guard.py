# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Do what Galera does not do by itself: form the Primary Component again, and rejoin after a full disk.

``galera_guard.py SOCKET MEMBERS WITNESSES SECONDS``, a service on every member.

While every member has a saved view of the last Primary Component, Galera forms it again itself. The guard is for the case that one member has lost
it. ``may_reform`` in ``galera_plan`` describes when this is allowed and why it cannot split the cluster.

A member that cannot apply a change because its disk is full is outvoted by the others and leaves the cluster. Its server continues to run and never
connects again. The guard restarts it when its disk has space again; it then copies all data from another member.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import typing as t

import pymysql

import galera_plan

PAUSE = 10
UNIT = "mariadb.service"
#: Free part of the file system below which it counts as full, and from which a member may receive the data of another one.
FULL, ENOUGH = 0.01, 0.05


def after_full_disk(status: t.Mapping[str, str], free: float, was_full: bool) -> tuple[bool, bool]:
    """Return whether the disk is full, or was when the member left the cluster, and whether the member can rejoin now.

    A member that differs from the others for another reason is left to the operator, who may want to compare its data.

    :arg status: ``SHOW GLOBAL STATUS`` as a mapping.
    :arg free: free part of the file system with its data, 0 to 1.
    :arg was_full: the first result of the look before.
    """
    left = status.get("wsrep_local_state_comment") == "Inconsistent"
    full = free < FULL or (was_full and left)
    return full, full and left and free >= ENOUGH


def free_part(folder: str) -> float:
    """Return the free part of a file system for users other than root, 0 to 1."""
    found = os.statvfs(folder)
    return found.f_bavail / found.f_blocks if found.f_blocks else 1.0


def read(cursor: t.Any, what: str) -> dict[str, str]:
    """Return global variables or status variables."""
    cursor.execute(f"SHOW GLOBAL {what}")
    return dict(cursor.fetchall())


class Guard:
    """Looks at the member of this host, and remembers what it saw.

    :arg path: socket of the server.
    :arg members: number of members that the role configured, without witnesses.
    :arg hold: seconds for which a condition must last before a Primary Component is formed.
    """

    def __init__(self, path: str, members: int, witnesses: int, hold: float) -> None:
        self.path, self.members, self.witnesses, self.hold = path, members, witnesses, hold
        #: Time since when a Primary Component is missing, and may be formed.
        self.since: float | None = None
        self.full = False

    def look(self) -> None:
        """Look once, and act if necessary."""
        try:
            connection = pymysql.connect(unix_socket=self.path, user="root", connect_timeout=2, read_timeout=5, write_timeout=5)
        except (pymysql.MySQLError, OSError):
            # stopped or still starting: systemd handles this
            self.since = None
            return
        try:
            with connection, connection.cursor() as cursor:
                status = read(cursor, "STATUS LIKE 'wsrep\\_%'")
                variables = read(cursor, "VARIABLES WHERE variable_name IN ('datadir', 'wsrep_cluster_address')")
                self._rejoin(status, variables["datadir"])
                self._form(cursor, status, variables.get("wsrep_cluster_address", ""))
        except (pymysql.MySQLError, OSError) as error:
            self.since = None
            print(f"<3>the server refused or did not answer a request: {error}", flush=True)

    def _rejoin(self, status: t.Mapping[str, str], folder: str) -> None:
        self.full, now = after_full_disk(status, free_part(folder), self.full)
        if now:
            print("<4>this member left the cluster because its disk was full; it has space again: restarting MariaDB to copy all data again", flush=True)
            # a state transfer may take hours
            done = subprocess.run(["systemctl", "--no-block", "restart", UNIT], check=False)
            self.full = done.returncode != 0

    def _form(self, cursor: t.Any, status: t.Mapping[str, str], address: str) -> None:
        peers = [peer for peer in address.partition("://")[2].partition("?")[0].split(",") if peer]
        now = time.monotonic()
        if not galera_plan.may_reform(status, self.members, len(peers), self.witnesses):
            self.since = None
        elif self.since is None:
            self.since = now
        elif now - self.since >= self.hold:
            print(f"<4>all {self.members} members have been connected without a Primary Component for {now - self.since:.0f} s: forming one", flush=True)
            self.since = None
            cursor.execute("SET GLOBAL wsrep_provider_options = 'pc.bootstrap=true'")


def main() -> None:
    """Look periodically."""
    guard = Guard(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
    while True:
        guard.look()
        time.sleep(PAUSE)


if __name__ == "__main__":
    main()
