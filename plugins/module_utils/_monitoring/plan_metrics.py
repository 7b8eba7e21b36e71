# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a host answers for the status, as metrics in the text format of Prometheus. What is unknown is a metric of its own, never a value."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_time
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import waits_until

#: Metric → its help. All are gauges.
HELP: t.Mapping[str, str] = {
    "gathered_timestamp_seconds": "When the metrics of this file were gathered.",
    "part_known": "Whether a part of the state could be read. Without it the metrics of this part are missing, which does not mean that it is healthy.",
    "service_known": "Whether a service of the control plane answered in time.",
    "service_healthy": "Whether a member of a service is healthy.",
    "certificate_expiry_days": "Days until the certificate of a service expires.",
    "votes": "Votes in the cluster of a service, as this member counts them.",
    "votes_expected": "Votes in the cluster of a service according to the inventory.",
    "database_lost_rows": "Whether the journal of a member says that acknowledged rows may be lost.",
    "backup_stored": "Whether another host has stored a daily backup of the database of this member.",
    "backup_timestamp_seconds": "When the last stored daily backup was made. It was unpacked and prepared before it was stored.",
    "virtual_address_held": "Whether the host holds a virtual address.",
    "witness_round_trip_seconds": "Longest round trip between a witness and the members of the database.",
    "compute_up": "Whether nova hears from a compute service that is not disabled.",
    "chassis_up": "Whether a chassis of OVN answers.",
    "probe_healthy": "Whether a service that is probed answers.",
    "vm_running": "Whether a VM of this server runs.",
    "vm_autostart": "Whether a VM starts with this server.",
    "vm_drift": "Number of differences between a VM and the details that were applied.",
    "copy_age_seconds": "How old the last verified copy of a VM is.",
    "copy_healthy": "Whether a VM has a recent copy from which its standby can start it, by itself if that is configured.",
    "unfinished_job": "A migration, a move or a run that has begun and not ended.",
    "one_time_key_left_seconds": "Seconds until a one-time key expires, negative if it has.",
    "unit_failed": "A unit of systemd that has failed, or a timer of the collection that is enabled but does not run.",
    "disk_known": "Whether a disk reports its health.",
    "disk_healthy": "Whether a disk reports no problem, or a software RAID no missing member.",
    "restart_required": "Whether the machine must be restarted.",
}
_PREFIX = "footprint_"
_DONE = ("done", "retired", "rolled_back", "stopped")


class Sample(t.NamedTuple):
    """A value of a metric, whose name is without prefix."""

    name: str
    value: float
    labels: t.Mapping[str, str] = {}


def exposition(parts: t.Mapping[str, t.Any], now: float, votes: t.Mapping[str, int], instance: str) -> str:
    """Return the text of the metrics.

    :arg parts: each with its ``value``, or the ``error`` that says why it is unknown, as ``status_info`` returns them.
    :arg votes: service → the number of votes that its cluster should have.
    :arg instance: which of the files this is; the metrics of two files differ by this label where both have them.
    """
    samples = [Sample("gathered_timestamp_seconds", round(now), {"gatherer": instance})]
    for part, answer in sorted(parts.items()):
        known = "value" in answer
        samples.append(Sample("part_known", known, {"part": part, "gatherer": instance}))
        if known and part in _PARTS:
            samples += _PARTS[part](answer["value"])
    seen = {sample.labels.get("service") for sample in samples if sample.name == "service_known"}
    samples += [Sample("votes_expected", count, {"service": name}) for name, count in sorted(votes.items()) if name in seen]
    return text(samples)


def text(samples: t.Iterable[Sample]) -> str:
    """Return samples as text, grouped by metric, each series once."""
    groups: dict[str, dict[str, float]] = {}
    for sample in samples:
        labels = ",".join(f'{name}="{_escaped(value)}"' for name, value in sorted(sample.labels.items()))
        groups.setdefault(sample.name, {})[f"{{{labels}}}" if labels else ""] = sample.value
    lines = []
    for name, series in groups.items():
        lines += [f"# HELP {_PREFIX}{name} {HELP[name]}", f"# TYPE {_PREFIX}{name} gauge"]
        lines += [f"{_PREFIX}{name}{labels} {float(value):.15g}" for labels, value in series.items()]
    return "\n".join(lines) + "\n"


def _escaped(value: str) -> str:
    # a lone surrogate, from a name that is not UTF-8, would make the whole file unreadable
    return value.encode("utf-8", "replace").decode("utf-8").replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


Samples = t.Iterator[Sample]


def _controlplane(look: t.Mapping[str, t.Any]) -> Samples:
    for name, seen in look["services"].items():
        label = {"service": name}
        yield Sample("service_known", not seen.get("unknown"), label)
        if seen.get("unknown"):
            continue
        yield Sample("service_healthy", not seen["problems"], label)
        days = (seen.get("certificate") or {}).get("days")
        if days is not None:
            yield Sample("certificate_expiry_days", days, label)
        facts = seen.get("facts") or {}
        if name in _SERVICES:
            yield from _SERVICES[name](seen, facts)


def _galera(seen: t.Mapping[str, t.Any], facts: t.Mapping[str, t.Any]) -> Samples:
    # one without a majority counts those that it sees
    yield _votes("galera", seen, facts.get("primary") and facts["size"] or 0)
    yield Sample("part_known", seen["backup"] != "unknown", {"part": "backup"})
    yield Sample("part_known", seen["reversed"] != "unknown", {"part": "lost rows"})
    if seen["reversed"] != "unknown":
        yield Sample("database_lost_rows", bool(seen["reversed"]))
    if seen["backup"] != "unknown":
        yield Sample("backup_stored", seen["backup"] is not None)
        if seen["backup"]:
            yield Sample("backup_timestamp_seconds", model_time.seconds(seen["backup"]["made"]))


def _rabbitmq(seen: t.Mapping[str, t.Any], facts: t.Mapping[str, t.Any]) -> Samples:
    yield _votes("rabbitmq", seen, len(facts.get("running") or ()))


def _votes(name: str, seen: t.Mapping[str, t.Any], votes: int) -> Sample:
    # a unit that runs and does not answer does not know them, which status reports as a problem
    known = seen["facts"] is not None or all(unit["state"] != "active" for unit in seen["units"].values())
    return Sample("votes", votes, {"service": name}) if known else Sample("part_known", False, {"part": f"votes of {name}"})


def _load_balancer(unused_seen: t.Mapping[str, t.Any], facts: t.Mapping[str, t.Any]) -> Samples:
    for address in facts.get("virtual_addresses") or ():
        yield Sample("virtual_address_held", address in facts["held"], {"address": address})


def _witness(unused_seen: t.Mapping[str, t.Any], facts: t.Mapping[str, t.Any]) -> Samples:
    if facts.get("round_trip_seconds") is not None:
        yield Sample("witness_round_trip_seconds", facts["round_trip_seconds"])


def _vms(vms: t.Sequence[t.Mapping[str, t.Any]]) -> Samples:
    for vm in vms:
        if vm["moved"]:
            # it belongs to another server
            continue
        label = {"vm": vm["name"], "uuid": vm["uuid"]}
        yield Sample("vm_running", vm["state"] == "running", label)
        yield Sample("vm_autostart", bool(vm["autostart"]), label)
        if vm.get("drift") is not None:
            yield Sample("vm_drift", len(vm["drift"]), label)


def _standbys(entries: t.Sequence[t.Mapping[str, t.Any]]) -> Samples:
    for entry in entries:
        if entry["part"] != "source" or entry["state"] == "moved":
            # the server of a VM reports its copies
            continue
        label = {"vm": entry["id"], "standby": str(entry["standby"])}
        if entry["age_seconds"] is not None:
            yield Sample("copy_age_seconds", entry["age_seconds"], label)
        yield Sample("copy_healthy", not (entry["problem"] or entry["automatic_problem"]), label)


def _disks(disks: t.Mapping[str, t.Any]) -> Samples:
    yield from (Sample("disk_known", disk["known"], {"disk": disk["name"]}) for disk in disks["disks"])
    yield from (Sample("disk_healthy", not disk["problems"], {"disk": disk["name"]}) for disk in disks["disks"] if disk["known"] or disk["problems"])
    yield from (Sample("disk_healthy", not array["missing"], {"disk": array["name"]}) for array in disks["arrays"])


def _job(kind: str, name: str, state: str) -> Sample:
    return Sample("unfinished_job", 1, {"kind": kind, "job": name, "state": state})


def _ends_by_itself(migration: t.Mapping[str, t.Any]) -> bool:
    """Return whether a migration has ended, or waits for the time that the operator has chosen, with a copy that can be updated."""
    return migration["state"] in _DONE or bool(waits_until(migration) and not migration["progress"].get("problem"))


_SERVICES = {"galera": _galera, "rabbitmq": _rabbitmq, "load_balancer": _load_balancer, "witness": _witness}
_PARTS: t.Mapping[str, t.Callable[[t.Any], t.Iterable[Sample]]] = {
    "controlplane": _controlplane,
    "compute": lambda services: [Sample("compute_up", one["up"], {"compute": one["host"]}) for one in services if not one["disabled"]],
    # only the leader of the databases asks
    "chassis": lambda chassis: [Sample("chassis_up", one["up"], {"chassis": one["host"]}) for one in chassis or ()],
    "probes": lambda problems: [Sample("probe_healthy", not problem, {"probe": name}) for name, problem in problems.items()],
    "vms": _vms,
    "standbys": _standbys,
    "migrations": lambda jobs: [_job("migration", one["name"], one["state"]) for one in jobs if not _ends_by_itself(one)],
    "moves": lambda jobs: [_job("move", one["name"], one["state"]) for one in jobs],
    "run": lambda run: [_job("run", str(run.get("playbook") or "unknown"), "running")] if run else [],
    "keys": lambda keys: [Sample("one_time_key_left_seconds", key["left_seconds"], {"key": key["name"]}) for key in keys if key["left_seconds"] is not None],
    "units": lambda units: [Sample("unit_failed", 1, {"unit": unit}) for unit in (*units["failed"], *units["stopped"])],
    "disks": _disks,
    "restart": lambda reason: [Sample("restart_required", bool(reason))],
}
