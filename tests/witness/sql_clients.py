# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Clients that write numbered rows, one at the virtual address and one at each member with data, and what became of their rows.

A client at the virtual address shows how long the cluster does not serve. The clients of the members try to write on both sides of a partition:
a row that was acknowledged by one member and is not on the other one after the repair is a split write.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
import typing as t

import pymysql

PERIOD = 0.1
ERRORS = (pymysql.MySQLError, OSError)


@dataclasses.dataclass
class Account:
    """How the clients log in."""

    user: str
    password: str
    database: str

    def connect(self, host: str, timeout: float = 3) -> pymysql.Connection:
        """Return a connection; pymysql takes whole seconds only."""
        limits = {"connect_timeout": 1, "read_timeout": int(timeout), "write_timeout": int(timeout)}
        return pymysql.connect(host=host, user=self.user, password=self.password, database=self.database, autocommit=True, **limits)


class Client(threading.Thread):
    """Writes to one address until it is stopped.

    :arg period: seconds from one row to the next.
    :arg timeout: seconds until a statement without an answer is given up.

    :ivar acknowledged: number of the row → time of the acknowledgement, seconds since the epoch.
    """

    def __init__(self, account: Account, host: str, table: str, period: float = PERIOD, timeout: float = 3) -> None:
        super().__init__(daemon=True)
        self.account, self.host, self.table, self.period, self.timeout = account, host, table, period, timeout
        self.acknowledged: dict[int, float] = {}
        self._end = threading.Event()

    def prepare(self) -> None:
        """Create an empty table."""
        with contextlib.closing(self.account.connect(self.host, 20)) as connection, connection.cursor() as cursor:
            cursor.execute(f"DROP TABLE IF EXISTS {self.table}")
            cursor.execute(f"CREATE TABLE {self.table} (n BIGINT PRIMARY KEY, at DATETIME(6) NOT NULL) ENGINE=InnoDB")

    def run(self) -> None:
        """Insert one row after the other; a number whose acknowledgement was lost is not used again."""
        number, connection = 0, None
        while not self._end.is_set():
            began = time.monotonic()
            number += 1
            try:
                connection = connection or self.account.connect(self.host, self.timeout)
                with connection.cursor() as cursor:
                    cursor.execute(f"INSERT INTO {self.table} (n, at) VALUES ({number}, NOW(6))")
                self.acknowledged[number] = time.time()
            except ERRORS:
                if connection:
                    with contextlib.suppress(*ERRORS):
                        connection.close()
                connection = None
            self._end.wait(max(0.0, self.period - (time.monotonic() - began)))

    def stop(self) -> None:
        """End the thread."""
        self._end.set()
        self.join(timeout=15)

    def rows(self, host: str) -> set[int]:
        """Return the rows that one member has."""
        with contextlib.closing(self.account.connect(host, 20)) as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT n FROM {self.table}")
            return {row[0] for row in cursor.fetchall()}

    def pause(self, since: float, until: float) -> float:
        """Return the longest time without an acknowledged row in a period."""
        times = sorted(at for at in self.acknowledged.values() if since - 2 <= at <= until)
        marks = [max([since, *(at for at in times if at <= since)]) if not times else times[0], *times, until]
        return max(later - earlier for earlier, later in zip(marks, marks[1:]))


def status(account: Account, host: str) -> dict[str, str]:
    """Return the replication status of a member, empty if it does not answer."""
    try:
        with contextlib.closing(account.connect(host)) as connection, connection.cursor() as cursor:
            cursor.execute("SHOW GLOBAL STATUS LIKE 'wsrep\\_%'")
            return dict(cursor.fetchall())
    except ERRORS:
        return {}


def whole(found: t.Mapping[str, str], votes: int) -> bool:
    """Whether a member is synchronised, in a Primary Component of all votes."""
    wanted = {"wsrep_cluster_status": "Primary", "wsrep_cluster_size": str(votes), "wsrep_local_state_comment": "Synced"}
    return all(found.get(name) == value for name, value in wanted.items())
