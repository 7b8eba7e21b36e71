# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which parts of the state of a host are gathered how often, and the units that do it."""

from __future__ import annotations

import typing as t

#: The gatherers; what an alert must not wait for is in the first one.
SERVICES, MACHINE = "services", "machine"
#: Services whose questions cost too much for the first one: a virtual machine of Erlang, a write to the databases of OVN.
COSTLY = ("rabbitmq", "ovn_database")
#: Seconds until a question counts as not answered.
_TIMEOUTS = {SERVICES: 10, MACHINE: 40}
#: The program of the units.
MODULE = "ansible_collections.reduced.footprint.plugins.module_utils._monitoring.run_gather_metrics"


def unit_name(gatherer: str, kind: str = "service") -> str:
    """Return the name of a unit of a gatherer."""
    return f"reduced-footprint-state-{gatherer}.{kind}"


def questions(request: t.Mapping[str, t.Any], gatherer: str) -> dict[str, t.Any]:
    """Return the options of ``status_info`` for a gatherer.

    :arg request: ``server``, ``services``, ``cloud``, ``probes``, ``cluster`` and ``environment``, as in ``status_info``.
    """
    services = [name for name in request["services"] if (name in COSTLY) == (gatherer == MACHINE)]
    found = {key: request[key] for key in ("cluster", "environment")}
    found.update(query_timeout=_TIMEOUTS[gatherer], services=services, probes={}, server=False, cloud=False, checks=False)
    if gatherer == SERVICES:
        return {**found, "probes": request["probes"]}
    # a member of the database reads the compute services of the cloud
    database = ["galera"] if request["cloud"] and "galera" in request["services"] else []
    return {**found, "services": [*services, *database], "server": request["server"], "cloud": request["cloud"], "checks": True}


def own_parts(parts: t.Mapping[str, t.Any], gatherer: str) -> dict[str, t.Any]:
    """Return the parts without services that the other gatherer reports: a metric in two files would make both unreadable."""
    found = dict(parts)
    look = found.get("controlplane", {}).get("value")
    if look:
        services = {name: seen for name, seen in look["services"].items() if (name in COSTLY) == (gatherer == MACHINE)}
        found["controlplane"] = {"value": {**look, "services": services}}
    return found


def units(intervals: t.Mapping[str, int], code: str, python: str, memory: str) -> dict[str, str]:
    """Return unit → content.

    :arg intervals: gatherer → seconds.
    :arg code: path of the code that the units run.
    :arg memory: unit with the limit of memory of all that monitors, empty for none.
    """
    found = {}
    for gatherer, seconds in intervals.items():
        found[unit_name(gatherer)] = (
            f"[Unit]\nDescription=State of the {gatherer} of this host as metrics (reduced.footprint)\n\n"
            # a question that hangs must not end the others; Python itself starts late on a busy host
            f"[Service]\nType=oneshot\nUMask=0022\nWorkingDirectory=/\nNice=5\nTimeoutStartSec={_TIMEOUTS[gatherer] + 60}\n"
            # errors of the program, not each of its starts
            "SyslogLevel=err\nLogLevelMax=warning\n"
            + (f"Slice={memory}\n" if memory else "")
            + f"Environment=PYTHONPATH={code} PYTHONDONTWRITEBYTECODE=1\nExecStart={python} -m {MODULE} {gatherer}\n"
        )
        found[unit_name(gatherer, "timer")] = (
            f"[Unit]\nDescription=State of the {gatherer} of this host as metrics (reduced.footprint)\n\n"
            f"[Timer]\nOnActiveSec=1\nOnUnitActiveSec={seconds}\nAccuracySec=1\n\n[Install]\nWantedBy=timers.target\n"
        )
    return found
