# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: rows written through the virtual address all through a growth, so that it can be told what clients felt.

The worker is a unit of its own on a physical server: it goes on when the play is killed, and the next run finds it.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import secrets
import shutil
import sys
import time
import typing as t

try:
    import pymysql
except ImportError:  # prepare says so; what only looks needs none
    pymysql = None

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_write_gaps import parse_acknowledged, tell
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import read_text, write_atomic
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, InputError
from ansible_collections.reduced.footprint.plugins.module_utils._galera.io_mariadb import MariaDb
from ansible_collections.reduced.footprint.plugins.module_utils._remote import io_units

HOME = pathlib.Path("/var/lib/reduced.footprint/write-probe")
UNIT = "reduced-footprint-write-probe.service"
MODULE = __name__
DATABASE, USER = "reduced_footprint_probe", "footprint-writer"
PERIOD = 0.2
# The unit is for life unless somebody stops it; an operator who never comes back shall not be written to for ever.
MOST_SECONDS = 7 * 86400


@dataclasses.dataclass(frozen=True)
class ProbeResult:
    """What was done; ``password`` for the account, ``report`` of the rows."""

    changed: bool
    password: str | None = None
    report: dict[str, t.Any] | None = None


def prepare(check_mode: bool, home: pathlib.Path = HOME) -> ProbeResult:
    """A password, the same for as long as the probe lives."""
    if pymysql is None and not check_mode:
        raise BackendError("PyMySQL is not installed.", hint="Install the package python3-pymysql (python3-PyMySQL on RHEL) on this server.")
    known = read_text(home / "password")
    if known or check_mode:
        return ProbeResult(not known, known)
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    password = secrets.token_hex(20)
    write_atomic(home / "password", password)
    return ProbeResult(True, password)


def open_account(password: str | None, check_mode: bool, database: MariaDb) -> ProbeResult:
    """A table, and a user who may write to it and nowhere else."""
    if not password or not password.isalnum():
        raise InputError("is missing or no password of this module.", "password", "Give what state=prepared returned.")
    there = bool(database.query(f"SELECT 1 FROM mysql.global_priv WHERE user = '{USER}';"))
    if not check_mode:
        database.query(
            f"CREATE DATABASE IF NOT EXISTS {DATABASE};"
            f"CREATE TABLE IF NOT EXISTS {DATABASE}.probe (n BIGINT UNSIGNED PRIMARY KEY) ENGINE=InnoDB;"
            f"CREATE USER IF NOT EXISTS '{USER}'@'%' IDENTIFIED BY '{password}';"
            f"ALTER USER '{USER}'@'%' IDENTIFIED BY '{password}';"
            f"GRANT SELECT, INSERT ON {DATABASE}.probe TO '{USER}'@'%';"
        )
    return ProbeResult(not there)


def close_account(check_mode: bool, database: MariaDb) -> ProbeResult:
    """Table and user are gone again."""
    there = database.query(
        f"SELECT 1 FROM mysql.global_priv WHERE user = '{USER}' UNION SELECT 1 FROM information_schema.schemata WHERE schema_name = '{DATABASE}';"
    )
    if there and not check_mode:
        database.query(f"DROP DATABASE IF EXISTS {DATABASE}; DROP USER IF EXISTS '{USER}'@'%';")
    return ProbeResult(bool(there))


def start(address: str, port: int, check_mode: bool, patience: float = 15, home: pathlib.Path = HOME) -> ProbeResult:
    """Have rows written from now on; the report tells whether any was acknowledged so far."""
    if io_units.unit_active(UNIT):
        return ProbeResult(False, report=_report(home, None))
    if check_mode:
        return ProbeResult(True)
    write_atomic(home / "target", json.dumps({"address": address, "port": port}))
    io_units.start_unit("growth", io_units.keep_code(), MODULE, [str(home)], home / "output", unit=UNIT, description="Write probe of the")
    began = time.monotonic()
    while time.monotonic() - began < patience and not _rows(home):
        time.sleep(PERIOD)
    return ProbeResult(True, report=_report(home, None))


def stop(check_mode: bool, home: pathlib.Path = HOME) -> ProbeResult:
    """End it, and see whether every row that was acknowledged is there."""
    if not home.exists():
        return ProbeResult(False)
    if check_mode:
        return ProbeResult(True, report=_report(home, None))
    if io_units.unit_active(UNIT):
        run(["systemctl", "stop", "--", UNIT], timeout=60)
    report = _report(home, _there(home))
    shutil.rmtree(home)
    return ProbeResult(True, report=report)


def _there(home: pathlib.Path) -> set[int] | None:
    for _attempt in range(20) if pymysql else ():
        try:
            with _connect(home, 30) as connection, connection.cursor() as cursor:
                cursor.execute("SELECT n FROM probe")
                return {int(row[0]) for row in cursor.fetchall()}
        except (pymysql.MySQLError, OSError):
            time.sleep(1)
    return None


def _rows(home: pathlib.Path) -> list[tuple[int, float]]:
    return parse_acknowledged(read_text(home / "acknowledged") or "")


def _report(home: pathlib.Path, there: set[int] | None) -> dict[str, t.Any]:
    return tell(_rows(home), there)


def _connect(home: pathlib.Path, timeout: float) -> t.Any:
    """A connection through the virtual address; ``timeout`` in seconds for each answer."""
    password, target = read_text(home / "password"), read_text(home / "target")
    if not password or not target:
        raise BackendError("the probe was never started.")
    where = json.loads(target)
    times = dict.fromkeys(("connect_timeout", "read_timeout", "write_timeout"), timeout)
    return pymysql.connect(host=where["address"], port=where["port"], user=USER, password=password, database=DATABASE, autocommit=True, **times)


def write(home: pathlib.Path, seconds: float = MOST_SECONDS) -> None:
    """The worker: a row each fifth of a second; what was acknowledged is noted before the next is tried."""
    connection = None
    end = time.monotonic() + seconds
    with open(home / "acknowledged", "a", encoding="ascii", buffering=1) as log:
        while time.monotonic() < end:
            began = time.monotonic()
            # a number is never used twice: a row of unknown fate may have arrived
            number = time.time_ns()
            try:
                connection = connection or _connect(home, 2)
                connection.query(f"INSERT INTO probe VALUES ({number})")
                log.write(json.dumps({"n": number, "t": round(time.time(), 3)}) + "\n")
            except (pymysql.MySQLError, OSError):
                # not closed in form, which might wait for an answer
                connection = None
            time.sleep(max(0.0, PERIOD - (time.monotonic() - began)))


if __name__ == "__main__":
    write(pathlib.Path(sys.argv[1]))
