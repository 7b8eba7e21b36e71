# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write numbered rows into the master's database, and report gaps and losses.

Every acknowledged row is logged before the next one is sent, so the log contains the rows that the database must have.
"""

from __future__ import annotations

import datetime
import json
import os
import pathlib
import signal
import sys
import time
import typing as t

from . import procs
from .say import LabError
from .settings import Lab, current

PERIOD = 0.2
GAP = 1.0


def _connect(lab: Lab, address: str):
    import pymysql  # installed on the lab host by prepare

    password = (lab.state / "writer-password").read_text().strip()
    return pymysql.connect(host=address, user="writer", password=password, database="footprint", autocommit=True,
                           connect_timeout=1, read_timeout=2, write_timeout=2)


def _last(path: pathlib.Path) -> int:
    """Return the highest logged number."""
    last = 0
    if path.exists():
        for line in path.read_text().splitlines():
            try:
                last = max(last, json.loads(line)["n"])
            except ValueError:
                pass
    return last


def write(lab: Lab, address: str) -> None:
    """Insert a row five times a second, without end; reconnect as needed."""
    import pymysql

    log = lab.state / "writer.jsonl"
    # A number is never used twice: a row that was not acknowledged may have been written.
    number = _last(log) + 1000 if log.exists() else 0
    connection = None
    with open(log, "a", encoding="ascii", buffering=1) as stream:
        while True:
            begin = time.monotonic()
            number += 1
            try:
                if connection is None:
                    connection = _connect(lab, address)
                with connection.cursor() as cursor:
                    cursor.execute("INSERT INTO events (n, at) VALUES (%s, NOW(6))", (number,))
                stream.write(json.dumps({"n": number, "t": round(time.time(), 3)}) + "\n")
            except (pymysql.MySQLError, OSError):
                try:
                    if connection is not None:
                        connection.close()
                except (pymysql.MySQLError, OSError):
                    pass
                connection = None
            time.sleep(max(0.0, PERIOD - (time.monotonic() - begin)))


def report(lab: Lab, address: str | None = None) -> dict[str, t.Any]:
    """Return the number of acknowledged rows, gaps, and rows that the database at ``address`` lost.

    Seconds and UTC times; ``rows_lost`` is null when no address is given.
    """
    log = lab.state / "writer.jsonl"
    if not log.exists():
        raise LabError("the writer has not run", "start it: lab/lab writer start")
    rows = []
    for line in log.read_text().splitlines():
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue  # the line being written right now
    gaps = []
    for before, after in zip(rows, rows[1:]):
        pause = after["t"] - before["t"]
        if pause > GAP:
            gaps.append({"seconds": round(pause, 3), "at": _utc(before["t"]), "until": _utc(after["t"])})
    largest = max(gaps, key=lambda gap: gap["seconds"], default=None)
    result: dict[str, t.Any] = {
        "running": procs.alive(lab, "writer") is not None,
        "rows_acked": len(rows),
        "first": _utc(rows[0]["t"]) if rows else None,
        "last": _utc(rows[-1]["t"]) if rows else None,
        "gaps": gaps,
        "largest_gap_seconds": largest["seconds"] if largest else 0.0,
        "largest_gap_at": largest["at"] if largest else None,
        "rows_before_largest_gap": sum(1 for row in rows if not largest or _utc(row["t"]) <= largest["at"]),
        "rows_after_largest_gap": sum(1 for row in rows if largest and _utc(row["t"]) > largest["at"]),
        "checked_address": address,
        "rows_in_database": None,
        "rows_lost": None,
        "lost": [],
    }
    if address:
        import pymysql

        try:
            connection = _connect(lab, address)
            with connection.cursor() as cursor:
                cursor.execute("SELECT n FROM events")
                there = {row[0] for row in cursor.fetchall()}
            connection.close()
        except (pymysql.MySQLError, OSError) as exc:
            raise LabError(f"the database at {address} does not answer: {exc}", "give the address that is serving now") from exc
        lost = [row["n"] for row in rows if row["n"] not in there]
        result.update(rows_in_database=len(there), rows_lost=len(lost), lost=lost[:20])
    return result


def _utc(stamp: float) -> str:
    return datetime.datetime.fromtimestamp(stamp, datetime.timezone.utc).isoformat(timespec="milliseconds")


def main() -> int:
    lab = current()
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    procs.note(lab, "writer")
    write(lab, sys.argv[1] if len(sys.argv) > 1 else f"{lab.net}.2")
    return 0


if __name__ == "__main__":
    sys.exit(main())
