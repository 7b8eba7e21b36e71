# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read the compute services and the chassis of a cloud from its databases, on a member of these."""

from __future__ import annotations

import json
import signal
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._galera.io_mariadb import MariaDb

#: Seconds without a report after which nova and neutron consider a service as down; nova's services report each 10 s.
SILENT_SECONDS = 75
#: After the last answer of a chassis, the others have this many seconds, or so many times as long as it took: a busy machine answers late.
QUIET_SECONDS, QUIET_TIMES = 3.0, 3.0
_PAUSE = 0.3
GATEWAY = "enable-chassis-as-gw"
_TABLES = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = 'nova' AND table_name = 'services';"
# a reason is a free text, in which tabulators and line feeds would separate columns and rows
_SERVICES = """SELECT HEX(host), disabled, forced_down, TIMESTAMPDIFF(SECOND, COALESCE(last_seen_up, created_at), UTC_TIMESTAMP()),
HEX(COALESCE(disabled_reason, '')) FROM nova.services WHERE deleted = 0 AND `binary` = 'nova-compute' ORDER BY host;"""


def compute_services(timeout: float, database: MariaDb | None = None) -> list[dict[str, t.Any]]:
    """Return the compute services that nova knows: ``host``, ``up``, ``seconds`` since their last report, ``disabled``, ``reason``."""
    database = database or MariaDb()
    if database.query(_TABLES, timeout) != [["1"]]:
        return []
    found = []
    for host, disabled, forced, seconds, reason in ([*row, ""][:5] for row in database.query(_SERVICES, timeout)):
        up = forced != "1" and abs(int(seconds)) <= SILENT_SECONDS
        found.append({"host": _text(host), "up": up, "seconds": int(seconds), "disabled": disabled == "1", "reason": _text(reason)})
    return found


def _text(hexadecimal: str) -> str:
    return bytes.fromhex(hexadecimal).decode("utf-8", "replace")


def chassis(timeout: float) -> list[dict[str, t.Any]]:
    """Ask all chassis of OVN for a sign of life, as neutron does when its agents are listed, and return those of which OVN knows.

    The request increments the counter ``nb_cfg``, which each chassis copies. Agents for metadata copy it within 40 seconds, so they are compared
    with the earlier value if that is old enough, else with a lag that only one that is stopped has.

    :returns: ``host``, ``up``, ``gateway`` and ``agent``, whether its agent for metadata is up, ``None`` without one.
    """
    (before,) = rows("ovn-nbctl", "NB_Global", "nb_cfg,nb_cfg_timestamp", timeout)
    asked = int(before["nb_cfg"])
    seconds = max(1, int(timeout) - 3)
    # without waiting for the chassis, of which one may be lost; it is ended by its own alarm
    run(["ovn-nbctl", "--no-leader-only", f"--timeout={seconds}", "--wait=sb", "sync"], timeout=timeout, ok=(0, -signal.SIGALRM))
    private = _answers(asked, seconds, timeout)
    old = time.time() - int(before["nb_cfg_timestamp"]) / 1000 > SILENT_SECONDS
    names = {row["name"]: row for row in rows("ovn-sbctl", "Chassis", "name,hostname,other_config", timeout)}
    found = []
    for row in private:
        known = names.get(row["name"]) or {}
        options = str((known.get("other_config") or {}).get("ovn-cms-options", "")).split(",")
        seen = row["external_ids"].get("neutron:ovn-metadata-sb-cfg")
        agent = None if seen is None else int(seen) >= asked - (0 if old else 5)
        up = bool(known) and int(row["nb_cfg"]) > asked
        found.append({"host": str(known.get("hostname") or row["name"]), "up": up, "gateway": GATEWAY in options, "agent": agent})
    return sorted(found, key=lambda one: str(one["host"]))


def _answers(asked: int, seconds: float, timeout: float) -> list[dict[str, t.Any]]:
    """Return the rows of all chassis, as soon as each has answered, or none has for some time."""
    began, count, last = time.monotonic(), 0, 0.0
    while True:
        found = rows("ovn-sbctl", "Chassis_Private", "name,nb_cfg,external_ids", timeout)
        answered, after = sum(int(row["nb_cfg"]) > asked for row in found), time.monotonic() - began
        if answered > count:
            count, last = answered, after
        if answered == len(found) or after >= seconds or (count and after - last >= max(QUIET_SECONDS, QUIET_TIMES * last)):
            return found
        time.sleep(_PAUSE)


def rows(program: str, table: str, columns: str, timeout: float) -> list[dict[str, t.Any]]:
    """Return rows of a table of the local member of the databases of OVN; sets are lists, maps are mappings."""
    argv = [program, "--no-leader-only", f"--timeout={max(1, int(timeout))}", "--format=json", f"--columns={columns}", "list", table]
    found = json.loads(run(argv, timeout=timeout + 1).stdout)
    return [{name: _plain(value) for name, value in zip(found["headings"], row)} for row in found["data"]]


def _plain(value: t.Any) -> t.Any:
    if not isinstance(value, list):
        return value
    kind, content = value
    return dict(content) if kind == "map" else content
