# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clients of a database that run transactions as services do, and record what was acknowledged.

Each client writes to tables that it shares with the others of its group: it inserts and deletes rows, appends to lists, transfers amounts between
accounts (``SELECT ... FOR UPDATE``), and swaps the value of registers if it is still the one that it has read. ``history`` checks the result.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import random
import threading
import time
import typing as t

import pymysql

from .history import ACCOUNTS, FAILED, LISTS, OK, REGISTERS, START, UNKNOWN, Operation, Tables

ERRORS = (pymysql.MySQLError, OSError)
#: Errors with which a transaction is rolled back for certain, also at COMMIT: deadlock or failed certification, lock wait, changed
#: since it was read, member not ready. Any other error at COMMIT, such as 1180, leaves it undecided.
ROLLED_BACK = (1213, 1205, 1020, 1047)
#: Kind of transaction → how often.
MIXED: t.Mapping[str, int] = {"insert": 3, "delete": 1, "append": 3, "transfer": 3, "swap": 2}


@dataclasses.dataclass
class Account:
    """How the clients log in."""

    user: str
    password: str
    database: str

    def connect(self, host: str, timeout: float = 3) -> pymysql.Connection:
        """Return a connection; pymysql takes whole seconds only."""
        limits = {"connect_timeout": max(1, int(timeout / 3)), "read_timeout": int(timeout), "write_timeout": int(timeout)}
        return pymysql.connect(host=host, user=self.user, password=self.password, database=self.database, autocommit=True, **limits)


class Clients:
    """A group of clients that write to one address.

    :arg name: prefix of their tables.
    :arg number: how many; each second one waits five times as long for an answer.
    :arg seed: of what each client does.
    :arg timeout: seconds until a statement without an answer is given up.
    :arg mix: kind of transaction → how often.

    :ivar pause: mean seconds from one transaction of a client to the next, can be changed at any time.
    """

    def __init__(
        self, account: Account, host: str, name: str, number: int = 10, seed: int = 0, pause: float = 0.05, timeout: float = 3,
        mix: t.Mapping[str, int] = MIXED,
    ) -> None:  # fmt: skip
        self.account, self.host, self.name, self.pause, self.mix = account, host, name, pause, mix
        self.numbers = itertools.count(1)
        self.end = threading.Event()
        self._clients = [_Client(self, seed * 1000 + each, timeout * (5 if each % 2 else 1)) for each in range(number)]
        self._threads = [threading.Thread(target=client.run, daemon=True) for client in self._clients]

    def prepare(self) -> None:
        """Create the tables, with nothing of an earlier run."""
        create = {
            "rows": "n BIGINT PRIMARY KEY", "lists": "k INT PRIMARY KEY, v LONGTEXT NOT NULL", "registers": "k INT PRIMARY KEY, v BIGINT NOT NULL",
            "accounts": "k INT PRIMARY KEY, v BIGINT NOT NULL", "transfers": "n BIGINT PRIMARY KEY, a INT, b INT, amount INT",
        }  # fmt: skip
        first = {"lists": (LISTS, ""), "registers": (REGISTERS, 0), "accounts": (ACCOUNTS, START)}
        with contextlib.closing(self.account.connect(self.host, 30)) as connection, connection.cursor() as cursor:
            for table, columns in create.items():
                cursor.execute(f"DROP TABLE IF EXISTS {self.name}_{table}")
                cursor.execute(f"CREATE TABLE {self.name}_{table} ({columns}) ENGINE=InnoDB")
            for table, (number, value) in first.items():
                cursor.executemany(f"INSERT INTO {self.name}_{table} VALUES (%s, %s)", [(key, value) for key in range(number)])

    def start(self) -> None:
        """Write from now on."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> list[Operation]:
        """End all clients, and return the history."""
        self.end.set()
        for thread in self._threads:
            thread.join(timeout=60)
        return self.history

    @property
    def history(self) -> list[Operation]:
        """What was done until now, by client."""
        return [operation for client in self._clients for operation in list(client.operations)]

    def acknowledged(self) -> list[float]:
        """Return the times of all acknowledgements until now, sorted, of the monotonic clock."""
        return sorted(each.end for each in self.history if each.outcome == OK)

    def gap(self, since: float, until: float) -> float:
        """Return the longest time without an acknowledged transaction in a period."""
        times = [at for at in self.acknowledged() if since <= at <= until]
        marks = [since, *times, until]
        return max(later - earlier for earlier, later in zip(marks, marks[1:]))

    def tables(self, host: str) -> Tables:
        """Return what one member has, once it has applied all that it received."""
        with contextlib.closing(self.account.connect(host, 60)) as connection, connection.cursor() as cursor:
            cursor.execute("SET SESSION wsrep_sync_wait = 15")

            def read(table: str) -> t.Any:
                cursor.execute(f"SELECT * FROM {self.name}_{table}")
                return cursor.fetchall()

            return Tables(
                rows={number for (number,) in read("rows")},
                lists={key: [int(each) for each in value.split(",") if each] for key, value in read("lists")},
                registers=dict(read("registers")),
                accounts=dict(read("accounts")),
                transfers={number: (a, b, amount) for number, a, b, amount in read("transfers")},
            )


class _Client:
    """One client of a group, with a connection of its own that it opens again after each error."""

    def __init__(self, group: Clients, seed: int, timeout: float) -> None:
        self.group, self.timeout = group, timeout
        self.operations: list[Operation] = []
        self._random = random.Random(seed)
        self._own: list[int] = []
        self._connection: pymysql.Connection | None = None
        self._committing = False

    def run(self) -> None:
        """Run one transaction after the other until the group ends."""
        while not self.group.end.is_set():
            began = time.monotonic()
            try:
                self._connection = self._connection or self.group.account.connect(self.group.host, self.timeout)
            except ERRORS:
                self.group.end.wait(0.1)
                continue
            self._transaction(self._connection)
            self.group.end.wait(max(0.0, self.group.pause * (0.5 + self._random.random()) - (time.monotonic() - began)))
        self._drop()

    def _drop(self) -> None:
        if self._connection:
            with contextlib.suppress(*ERRORS):
                self._connection.close()
        self._connection = None

    def _transaction(self, connection: pymysql.Connection) -> None:
        kind = self._random.choices(list(self.group.mix), list(self.group.mix.values()))[0]
        if kind == "delete" and not self._own:
            kind = "insert"
        operation = Operation(kind, next(self.group.numbers), time.monotonic())
        self.operations.append(operation)
        self._committing = False
        try:
            with connection.cursor() as cursor:
                done = getattr(self, f"_{kind}")(cursor, operation)
            outcome = OK if done else FAILED
        except ERRORS as error:
            code = error.args[0] if error.args else 0
            outcome = FAILED if not self._committing or code in ROLLED_BACK else UNKNOWN
            operation.error = str(code)
            self._drop()
        operation.end, operation.outcome = time.monotonic(), outcome
        if kind == "insert" and outcome == OK:
            self._own.append(operation.number)

    def _execute(self, cursor: t.Any, statement: str, *values: t.Any, commits: bool = False) -> int:
        """Run one statement; ``commits`` says that it decides the transaction, so that without an answer it is undecided."""
        self._committing = commits
        return int(cursor.execute(statement, values))

    def _insert(self, cursor: t.Any, operation: Operation) -> bool:
        self._execute(cursor, f"INSERT INTO {self.group.name}_rows VALUES (%s)", operation.number, commits=True)
        return True

    def _delete(self, cursor: t.Any, operation: Operation) -> bool:
        """Delete a row that this client has inserted; without one that is there, it has failed."""
        operation.key = self._own.pop(self._random.randrange(len(self._own)))
        return self._execute(cursor, f"DELETE FROM {self.group.name}_rows WHERE n = %s", operation.key, commits=True) == 1

    def _append(self, cursor: t.Any, operation: Operation) -> bool:
        operation.key = self._random.randrange(LISTS)
        update = f"UPDATE {self.group.name}_lists SET v = CONCAT(v, %s) WHERE k = %s"
        return self._execute(cursor, update, f",{operation.number}", operation.key, commits=True) == 1

    def _swap(self, cursor: t.Any, operation: Operation) -> bool:
        operation.key = self._random.randrange(REGISTERS)
        self._execute(cursor, f"SELECT v FROM {self.group.name}_registers WHERE k = %s", operation.key)
        (operation.read,) = cursor.fetchone() or (-1,)
        update = f"UPDATE {self.group.name}_registers SET v = %s WHERE k = %s AND v = %s"
        return self._execute(cursor, update, operation.number, operation.key, operation.read, commits=True) == 1

    def _transfer(self, cursor: t.Any, operation: Operation) -> bool:
        one, other = operation.accounts = tuple(self._random.sample(range(ACCOUNTS), 2))
        operation.amount = self._random.randint(1, 9)
        self._execute(cursor, "BEGIN")
        self._execute(cursor, f"SELECT k, v FROM {self.group.name}_accounts WHERE k IN (%s, %s) ORDER BY k FOR UPDATE", one, other)
        balance = dict(cursor.fetchall())
        if len(balance) < 2:
            self._execute(cursor, "ROLLBACK")
            return False
        for key, change in ((one, -operation.amount), (other, operation.amount)):
            self._execute(cursor, f"UPDATE {self.group.name}_accounts SET v = %s WHERE k = %s", balance[key] + change, key)
        self._execute(cursor, f"INSERT INTO {self.group.name}_transfers VALUES (%s, %s, %s, %s)", operation.number, one, other, operation.amount)
        self._execute(cursor, "COMMIT", commits=True)
        return True


def status(account: Account, host: str) -> dict[str, str]:
    """Return the replication status of a member, empty if it does not answer."""
    try:
        with contextlib.closing(account.connect(host)) as connection, connection.cursor() as cursor:
            cursor.execute("SHOW GLOBAL STATUS LIKE 'wsrep\\_%'")
            return dict(cursor.fetchall())
    except ERRORS:
        return {}


def whole(found: t.Mapping[str, str], votes: int | None = None) -> bool:
    """Whether a member is synchronised, in a Primary Component, of this number of votes."""
    wanted = {"wsrep_cluster_status": "Primary", "wsrep_local_state_comment": "Synced", **({"wsrep_cluster_size": str(votes)} if votes else {})}
    return all(found.get(name) == value for name, value in wanted.items())
