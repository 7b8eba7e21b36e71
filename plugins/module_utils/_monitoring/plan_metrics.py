# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a host answers for the status, as metrics in the text format of Prometheus. What is unknown is a metric of its own, never a value."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core import model_time

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
    "backup_known": "Whether it could be read which backup of the database was stored.",
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
    "copy_known": "Whether a VM has a verified copy on its standby.",
    "copy_timestamp_seconds": "When the last verified copy of a VM was made.",
    "copy_interval_seconds": "Seconds between two copies of a VM.",
    "copy_healthy": "Whether nothing prevents that a VM is started on its standby, by itself if that is configured.",
    "unfinished_job": "A migration, a move or a run that has begun and not ended.",
    "one_time_key_left_seconds": "Seconds until a one-time key expires, negative if it has.",
    "unit_failed": "A unit of systemd that has failed.",
    "timer_stopped": "A timer of the collection that is enabled but does not run.",
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
            samples += _PARTS[part](answer["value"], now)
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


def _controlplane(look: t.Mapping[str, t.Any], now: float) -> Samples:
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
            yield from _SERVICES[name](seen, facts, now)


def _galera(seen: t.Mapping[str, t.Any], facts: t.Mapping[str, t.Any], unused_now: float) -> Samples:
    if facts:
        # one without a majority counts those that it sees
        yield Sample("votes", facts["size"] or 0 if facts["primary"] else 0, {"service": "galera"})
    if seen.get("reversed") != "unknown":
        yield Sample("database_lost_rows", bool(seen.get("reversed")))
    backup = seen["backup"]
    yield Sample("backup_known", backup != "unknown")
    if backup != "unknown":
        yield Sample("backup_stored", backup is not None)
        if backup:
            yield Sample("backup_timestamp_seconds", model_time.seconds(backup["made"]))


def _rabbitmq(unused_seen: t.Mapping[str, t.Any], facts: t.Mapping[str, t.Any], unused_now: float) -> Samples:
    if facts:
        yield Sample("votes", len(facts["running"]), {"service": "rabbitmq"})


def _load_balancer(unused_seen: t.Mapping[str, t.Any], facts: t.Mapping[str, t.Any], unused_now: float) -> Samples:
    for address in facts.get("virtual_addresses") or ():
        yield Sample("virtual_address_held", address in facts["held"], {"address": address})


def _witness(unused_seen: t.Mapping[str, t.Any], facts: t.Mapping[str, t.Any], unused_now: float) -> Samples:
    if facts.get("round_trip_seconds") is not None:
        yield Sample("witness_round_trip_seconds", facts["round_trip_seconds"])


def _compute(services: t.Sequence[t.Mapping[str, t.Any]], unused_now: float) -> Samples:
    yield from (Sample("compute_up", one["up"], {"compute": one["host"]}) for one in services if not one["disabled"])


def _chassis(chassis: t.Sequence[t.Mapping[str, t.Any]] | None, unused_now: float) -> Samples:
    # only the leader of the databases asks
    yield from (Sample("chassis_up", one["up"], {"chassis": one["host"]}) for one in chassis or ())


def _probes(problems: t.Mapping[str, str], unused_now: float) -> Samples:
    yield from (Sample("probe_healthy", not problem, {"probe": name}) for name, problem in problems.items())


def _vms(vms: t.Sequence[t.Mapping[str, t.Any]], unused_now: float) -> Samples:
    for vm in vms:
        if vm["moved"]:
            # it belongs to another server
            continue
        label = {"vm": vm["name"], "uuid": vm["uuid"]}
        yield Sample("vm_running", vm["state"] == "running", label)
        yield Sample("vm_autostart", bool(vm["autostart"]), label)
        if vm.get("drift") is not None:
            yield Sample("vm_drift", len(vm["drift"]), label)


def _standbys(entries: t.Sequence[t.Mapping[str, t.Any]], now: float) -> Samples:
    for entry in entries:
        if entry["part"] != "source" or entry["state"] == "moved":
            # the server of a VM reports its copies
            continue
        label = {"vm": entry["id"], "standby": str(entry["standby"])}
        age = entry["age_seconds"]
        yield Sample("copy_known", age is not None, label)
        if age is not None:
            yield Sample("copy_timestamp_seconds", round(now - age), label)
        yield Sample("copy_interval_seconds", entry["interval_seconds"], label)
        yield Sample("copy_healthy", not (entry["problem"] or entry["automatic_problem"]), label)


def _migrations(migrations: t.Sequence[t.Mapping[str, t.Any]], unused_now: float) -> Samples:
    for one in migrations:
        if one["state"] not in _DONE:
            yield Sample("unfinished_job", 1, {"kind": "migration", "job": one["name"], "state": one["state"]})


def _moves(moves: t.Sequence[t.Mapping[str, t.Any]], unused_now: float) -> Samples:
    yield from (Sample("unfinished_job", 1, {"kind": "move", "job": one["name"], "state": one["state"]}) for one in moves)


def _run(run: t.Mapping[str, str], unused_now: float) -> Samples:
    if run:
        yield Sample("unfinished_job", 1, {"kind": "run", "job": str(run.get("playbook") or "unknown"), "state": "running"})


def _keys(keys: t.Sequence[t.Mapping[str, t.Any]], unused_now: float) -> Samples:
    yield from (Sample("one_time_key_left_seconds", key["left_seconds"], {"key": key["name"]}) for key in keys if key["left_seconds"] is not None)


def _units(units: t.Mapping[str, t.Any], unused_now: float) -> Samples:
    yield from (Sample("unit_failed", 1, {"unit": unit}) for unit in units["failed"])
    yield from (Sample("timer_stopped", 1, {"unit": unit}) for unit in units["stopped"])


def _disks(disks: t.Mapping[str, t.Any], unused_now: float) -> Samples:
    # one whose SMART status is not readable is neither healthy nor broken
    yield from (Sample("disk_healthy", not disk["problems"], {"disk": disk["name"]}) for disk in disks["disks"] if disk["known"] or disk["problems"])
    yield from (Sample("disk_healthy", not array["missing"], {"disk": array["name"]}) for array in disks["arrays"])


def _restart(reason: str, unused_now: float) -> Samples:
    yield Sample("restart_required", bool(reason))


_SERVICES = {"galera": _galera, "rabbitmq": _rabbitmq, "load_balancer": _load_balancer, "witness": _witness}
_PARTS: t.Mapping[str, t.Callable[[t.Any, float], Samples]] = {
    "controlplane": _controlplane, "compute": _compute, "chassis": _chassis, "probes": _probes, "vms": _vms, "standbys": _standbys,
    "migrations": _migrations, "moves": _moves, "run": _run, "keys": _keys, "units": _units, "disks": _disks, "restart": _restart,
}  # fmt: skip
