# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report of the status for a person at night: worst first, few lines, and what to do first."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_controlplane import DEGRADED, DOWN, OK, STATES, UNKNOWN, WIP

Report = t.Mapping[str, t.Any]
_MOST, _NOTES, _WIDE = 12, 3, 180
#: First words of a topic → what to do, and where it is described; earlier entries come first, because others depend on them.
_ACTIONS: t.Sequence[tuple[str, str, str]] = (
    ("galera", "repair its members, then run recover_database if it does not return by itself", "docs/database.md#recovery"),
    ("database", "check which rows are lost", "docs/database.md#lost-updates"),
    ("rabbitmq", "read the journal of rabbitmq-server on its members", "docs/messaging.md#failures"),
    ("witness", "start the witness again, or remove it", "docs/two-servers.md#failures"),
    ("certificate", "run deploy_controllers, which renews certificates", "docs/operation.md#certificates"),
    ("clocks", "synchronize the clocks", "docs/operation.md#clocks"),
    ("migration", "run migrate_master again", "docs/migration.md#troubleshooting"),
    ("compute services", "read the journal of nova-compute on these servers", "docs/cloud.md#failures"),
    ("chassis", "read the journal of ovn-controller on these servers", "docs/cloud-networks.md#what-survives-which-loss"),
    ("gateways", "read the journal of ovn-controller on these servers", "docs/cloud-networks.md#failover-of-gateways"),
    ("agents for metadata", "read the journal of neutron-ovn-metadata-agent on these servers", "docs/cloud.md#failures"),
    ("standby", "read why the copy is not made", "docs/standby.md#what-happens-when"),
    ("service", "repair the service, which is yours", "docs/operation.md#your-services"),
    ("server", "start these VMs with spawn_vms, or read why they stopped", "docs/troubleshooting.md#by-event"),
)
_SILENT = ("restore their power or network; replace a server that does not return", "docs/troubleshooting.md#by-event")
_ALL_SILENT = ("check the network of this control node", "docs/troubleshooting.md#first-steps")
_OTHER = ("read the journals of its units, then run deploy_controllers", "docs/controllers.md#commands-by-task")
PAGES = tuple(dict.fromkeys(page for page in (*(page for _topic, _action, page in _ACTIONS), _SILENT[1], _ALL_SILENT[1], _OTHER[1])))


def summary(report: Report) -> list[str]:
    """Return the report of :func:`plan_status.build_status` for a terminal, without its last line."""
    notes = [f"NOTE {one['topic']}: {one['text']}" for one in report["findings"] if one["note"]]
    if report["ok"]:
        waits = [f"wip  {one['topic']}: {one['text']}" for one in report["findings"] if one["state"] == WIP]
        return [_cut(line) for line in (*report["table"], *waits, *notes, *report["ha"])]
    rows = sorted(_rows(report), key=lambda row: -STATES.index(row[0]))
    lines = [f"{state.upper():8} {topic}: {text}" for state, topic, text in rows[:_MOST]]
    lines += [f"         and {len(rows) - _MOST} more (status_report_file)"] if len(rows) > _MOST else []
    lines += notes[:_NOTES] + ([f"NOTE and {len(notes) - _NOTES} more notes (status_report_file)"] if len(notes) > _NOTES else [])
    healthy = [f"{name} {one['up']}/{one['all']}" for name, one in report["services"].items() if one["state"] in (OK, WIP)]
    lines += [f"ok       {', '.join(healthy)}"] if healthy else []
    # what else may be lost matters while it serves
    return [_cut(line) for line in (*lines, *(report["ha"][:1] if report["state"] == DEGRADED else []))]


def verdict(report: Report) -> str:
    """Return the last line: the state, what is not healthy, and what to do first."""
    if report["ok"]:
        return f"{report['state']}: nothing is degraded, down or unknown"
    rows = _rows(report)
    bad = [row for row in rows if row[0] == report["state"]] or rows
    topics = list(dict.fromkeys(name for _state, topic, _text in bad for name in topic.split(", ")))
    named = ", ".join(topics[:6]) + (f" and {len(topics) - 6} more" if len(topics) > 6 else "")
    action, page = _first(report, [topic for _state, topic, _text in rows])
    return f"{report['state']}: {named}. First {action}: {page}"


def action_of(topic: str) -> str:
    """Return what to do about a topic that is not healthy, as a sentence without its full stop."""
    action = _action([topic])[0]
    return f"{action[:1].upper()}{action[1:]}"


def _silent(report: Report) -> dict[str, tuple[str, str]]:
    """Return the hosts that do not answer, servers first, each with its state and the reason, if one is known."""
    found: dict[str, tuple[str, str]] = {}
    for one in sorted((one for one in report["findings"] if one["silent"]), key=lambda one: not one["topic"].startswith("server ")):
        state = UNKNOWN if report["state"] == UNKNOWN else one["state"]
        found.setdefault(one["topic"].partition(" ")[2], (state, one["text"].partition(": ")[2].rpartition(" (on ")[0] or one["text"].partition(": ")[2]))
    return found


def _rows(report: Report) -> list[tuple[str, str, str]]:
    """Return state, topic and text of all that is not healthy; what has the same cause is one row."""
    alike: dict[tuple[str, str], list[str]] = {}
    for host, reason in _silent(report).items():
        alike.setdefault(reason, []).append(host)
    rows = [(state, ", ".join(hosts), f"no answer: {why}" if why else "no answer") for (state, why), hosts in alike.items()]
    return rows + _services(report) + [
        (one["state"], one["topic"], one["text"])
        for one in report["findings"]
        if one["state"] in (DEGRADED, UNKNOWN, DOWN) and not one["silent"] and one["topic"] not in (*report["services"], "virtual address")
        # its services are named
        and not (one["topic"].startswith(("controller ", "witness ")) and one["state"] == DEGRADED)
    ]


def _services(report: Report) -> list[tuple[str, str, str]]:
    """Return the rows of services; those that only lack hosts that do not answer are one row for each count."""
    alike: dict[tuple[str, str], list[str]] = {}
    for name, one in report["services"].items():
        if one["state"] in (DEGRADED, UNKNOWN, DOWN):
            own = [f"{host}: {', '.join(member['why'])}" for host, member in one["members"].items() if member["why"] not in ([], ["does not answer"])]
            alike.setdefault((one["state"], "; ".join([f"{one['up']} of {one['all']} members", *one["why"], *own])), []).append(name)
    return [(state, ", ".join(names), text) for (state, text), names in alike.items()]


def _first(report: Report, topics: t.Sequence[str]) -> tuple[str, str]:
    silent = _silent(report).values()
    if silent:
        # with a reason, at least one of them is on
        return _ALL_SILENT if all(state == UNKNOWN and not why for state, why in silent) else _SILENT
    return _action([word for topic in topics for word in topic.split(", ")])


def _action(words: t.Sequence[str]) -> tuple[str, str]:
    return next(((action, page) for start, action, page in _ACTIONS if any((f"{word} ").startswith(f"{start} ") for word in words)), _OTHER)


def _cut(line: str) -> str:
    return line if len(line) <= _WIDE else f"{line[: _WIDE - 1]}…"
