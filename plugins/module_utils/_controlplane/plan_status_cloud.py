# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the status reports beyond servers and the control plane: the cloud's services, those that the operator declares, and questions without an answer."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_controlplane import DEGRADED, DOWN, OK, UNKNOWN
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_status_line import Line

COMPUTE, CHASSIS = "compute services", "chassis"
_ASKED = {COMPUTE: "no member of the database", CHASSIS: "no leader of the Northbound database"}
#: Reported only where this service is installed.
_OF = {COMPUTE: "nova", CHASSIS: "neutron"}
Entry = t.Mapping[str, t.Any]


def lines_of(found: Entry, installed: t.Container[str]) -> t.Iterator[Line]:
    """Yield the lines.

    :arg found: ``cloud`` (part → its entries as :mod:`io_cloud` returns them, or a text, why they are unknown), ``probes`` (list of ``name``,
        ``host``, ``problem``, and ``silent`` if the host did not answer), ``unanswered`` (list of ``host``, ``part`` and ``error``).
    :arg installed: names of the services of the control plane.
    """
    cloud = found.get("cloud") or {}
    for topic, judge in ((COMPUTE, _compute), (CHASSIS, _chassis)):
        entries = cloud.get(topic) if _OF[topic] in installed else None
        if isinstance(entries, str):
            yield Line(topic, False, f"{_ASKED[topic]} reports them{entries}", state=UNKNOWN)
        elif entries:
            yield from judge(entries)
    probes: dict[str, list[Entry]] = {}
    for probe in found.get("probes") or ():
        probes.setdefault(probe["name"], []).append(probe)
    yield from (_declared(name, here) for name, here in sorted(probes.items()))
    for one in found.get("unanswered") or ():
        yield Line(f"{one['part']} of {one['host']}", False, f"cannot be read: {one['error']}", state=UNKNOWN)


def _compute(entries: t.Sequence[Entry]) -> t.Iterator[Line]:
    why = [f"{one['host']} has not reported for {one['seconds']} s" for one in entries if not one["up"]]
    yield _line(COMPUTE, len(entries), "up", why)
    for one in entries:
        if one["disabled"]:
            yield Line(f"compute service {one['host']}", True, f"is disabled: {one['reason'] or 'without a reason'}", note=True)


def _chassis(entries: t.Sequence[Entry]) -> t.Iterator[Line]:
    yield _line(CHASSIS, len(entries), "answer", [f"{one['host']} does not answer" for one in entries if not one["up"]])
    for topic, some in (
        ("gateways", [(one["host"], one["up"]) for one in entries if one["gateway"]]),
        ("agents for metadata", [(one["host"], one["agent"]) for one in entries if one["agent"] is not None]),
    ):
        if some:
            yield _line(topic, len(some), "answer", [f"{host} does not answer" for host, up in some if not up])


def _line(topic: str, count: int, word: str, why: t.Sequence[str]) -> Line:
    text = f"{count - len(why)} of {count} {word}"
    return Line(topic, not why, f"{text} ({'; '.join(why)})" if why else text, state=OK if not why else DOWN if len(why) == count else DEGRADED)


def _declared(name: str, here: t.Sequence[Entry]) -> Line:
    bad = [one for one in here if one["problem"]]
    text = f"healthy on {len(here) - len(bad)} of {len(here)} hosts"
    if not bad:
        return Line(f"service {name}", True, text)
    state = DEGRADED if len(bad) < len(here) else UNKNOWN if all(one["silent"] for one in bad) else DOWN
    why = [f"{one['host']}: {one['problem']}" for one in bad]
    return Line(f"service {name}", False, f"{text} ({'; '.join(why)})", state=state)
