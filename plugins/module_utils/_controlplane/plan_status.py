# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Build the status report of a footprint from the results of its hosts."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import plan_clock, plan_controlplane, plan_health, plan_status_cloud
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_status_line import Line
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import size_text
from ansible_collections.reduced.footprint.plugins.module_utils._placement.report.plan_availability import Availability, grade_availability
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import waits_until

_STARTED = "started"
_RUNS = 3
#: Services that stop without a majority.
_VOTING = ("galera", "rabbitmq")
#: The roles renew certificates 30 days before they expire, that of the virtual address 60 days.
_RENEWED_DAYS = 30
_WORST_FIRST = ("none", "restart", "quorum")


def build_status(found: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Build the report.

    :arg found: ``servers`` (name → ``reachable``, ``error`` or empty, ``vms``: list of ``name``, ``state``,
        ``drift`` and ``pending`` as returned by vm_info, ``memory`` and ``pools`` as returned by status_info or ``None``),
        ``controllers`` (name → ``reachable``, ``place``: the server on which it runs, ``error`` or empty, ``look``: the result
        of controlplane_info), ``members`` (service → its hosts) and
        ``migrations`` (list of ``name``, ``phase``, ``state``, ``downtime_seconds``, ``reason``, ``host``),
        ``standbys`` (server → entries as returned by vm_standby_info) and ``clocks`` (a :class:`plan_clock.Skew`, or ``None``);
        ``cloud``, ``probes`` and ``unanswered`` as :func:`plan_status_cloud.lines_of` reads them.
    :returns: ``ok`` (nothing is degraded, down or unknown), ``state``, ``lines`` (text), ``findings`` (the same as mappings), ``table`` (text),
        ``services``, ``links``,
        ``ha_grade`` (as configured), ``ha_grade_now`` (with the votes that are there),
        ``ha`` (sentences), ``virtual_address_holder``, ``writer``, ``database_members`` (the ready ones),
        ``vms`` and ``servers`` counts, ``standbys`` (one entry for each copied VM), ``clocks``, ``placement`` (each server with its VMs,
        services and the effect of its loss).
    """
    servers = found.get("servers") or {}
    controllers = found.get("controllers") or {}
    looks = {name: seen.get("look") if seen.get("reachable") and not seen.get("error") else None for name, seen in controllers.items()}
    reports = plan_controlplane.evaluate(found.get("members") or {}, looks)
    lines: list[Line] = []
    lines.extend(_servers(servers))
    witnesses = set((found.get("members") or {}).get(plan_health.WITNESS) or ())
    lines.extend(_controllers(controllers, witnesses))
    lines.extend(Line(name, report.state == plan_controlplane.OK, report.text, state=report.state) for name, report in reports.items())
    lines.extend(_certificates(looks))
    lines.extend(_reversed(looks))
    lines.extend(_distant(looks))
    lines.extend(_addresses(reports))
    lines.extend(Line("writer", True, f"clients of {name} are sent to {member}") for name, member in sorted(plan_controlplane.writers_of(looks).items()))
    lines.extend(_migration(migration) for migration in found.get("migrations") or [])
    standbys = _standby_entries(found.get("standbys") or {})
    lines.extend(_standby(entry) for entry in standbys)
    clocks: plan_clock.Skew | None = found.get("clocks")
    lines.extend(_clocks(clocks) if clocks else ())
    lines.extend(plan_status_cloud.lines_of(found, reports))
    availability, now, missing = _availability(controllers, reports)
    state = plan_controlplane.worst(line.grade for line in lines)
    hosts = [*servers.values(), *controllers.values()]
    if hosts and not any(seen.get("reachable") for seen in hosts):
        # the fault may be that of the network of the control node
        state = plan_controlplane.UNKNOWN
    holders = [names for report in reports.values() for names in report.holders.values()]
    return {
        "ok": state in (plan_controlplane.OK, plan_controlplane.WIP),
        "state": state,
        "lines": [str(line) for line in lines],
        "findings": [{**dataclasses.asdict(line), "state": line.grade} for line in lines],
        "table": plan_controlplane.table(reports),
        "services": {name: report.as_dict() for name, report in reports.items()},
        "links": sorted({link for report in reports.values() for link in report.links}),
        "ha_grade": availability.grade,
        "ha_grade_now": now.grade,
        "ha": _ha_sentences(availability, now, missing) if controllers else [],
        "virtual_address_holder": holders[0][0] if holders and len(holders[0]) == 1 else None,
        "writer": plan_controlplane.writers_of(looks).get("mysql"),
        "database_members": sorted(member.host for member in reports["galera"].members if member.state == plan_controlplane.OK) if "galera" in reports else [],
        "servers": {"reachable": sum(1 for seen in servers.values() if seen.get("reachable")), "all": len(servers)},
        "vms": {
            "running": sum(1 for seen in servers.values() for vm in _current_vms(seen) if vm["state"] == "running"),
            "all": sum(len(_current_vms(seen)) for seen in servers.values()),
        },
        "standbys": standbys,
        "clocks": clocks.as_dict() if clocks else {},
        "placement": _placement(servers, controllers, reports, {loss.server: loss.sentence() for loss in (*availability.losses, *now.losses)}),
    }


def _availability(controllers: t.Mapping[str, t.Any], reports: t.Mapping[str, plan_controlplane.Report]) -> tuple[Availability, Availability, list[str]]:
    """Return the availability as configured, the one with the votes that are there now, and the hosts whose votes are missing."""

    def grade(names: t.Iterable[str], absent: int = 0) -> Availability:
        return grade_availability({name: str((controllers.get(name) or {}).get("place") or name) for name in names}, absent)

    voting = [(*report.members, *report.witnesses) for name, report in reports.items() if name in _VOTING]
    if not voting:
        configured = grade(controllers)
        return configured, configured, []
    current = [
        grade([one.host for one in votes if one.state == plan_controlplane.OK], sum(1 for one in votes if one.state != plan_controlplane.OK))
        for votes in voting
    ]
    missing = sorted({one.host for votes in voting for one in votes if one.state != plan_controlplane.OK})
    galera = reports.get("galera")
    configured = grade([one.host for one in (*galera.members, *galera.witnesses)] if galera else controllers)
    return configured, min(current, key=lambda one: _WORST_FIRST.index(one.grade)), missing


def _ha_sentences(configured: Availability, now: Availability, missing: t.Sequence[str]) -> list[str]:
    losses = [loss.sentence() for loss in now.losses]
    if not missing:
        return [configured.words, *losses]
    return [f"{now.words} (now, without the votes of {', '.join(missing)}; with them: {configured.grade})", *losses]


def _placement(
    servers: t.Mapping[str, t.Any], controllers: t.Mapping[str, t.Any], reports: t.Mapping[str, plan_controlplane.Report], losses: t.Mapping[str, str]
) -> list[dict[str, t.Any]]:
    """Return each server with its VMs, also physical servers that only run services."""
    services: dict[str, list[str]] = {}
    for report in reports.values():
        for member in report.members:
            services.setdefault(member.host, []).append(report.name)
    places = {name: str(seen.get("place") or name) for name, seen in controllers.items()}
    found = []
    for name in sorted({*servers, *places.values()}):
        seen = servers.get(name) or controllers.get(name) or {}
        vms = list(seen.get("vms") or [])
        # VMs of a server that does not answer are known from the inventory only
        vms += [{"name": host, "state": "unknown"} for host, place in places.items() if place == name != host and host not in {vm["name"] for vm in vms}]
        found.append(
            {
                "name": name,
                "error": str(seen.get("error") or "") or ("" if seen.get("reachable") else "does not answer"),
                "services": services.get(name, []),
                "loss": losses.get(name, ""),
                # None if unknown; a machine without VMs is not asked
                "memory": seen.get("memory") if name in servers else {},
                "pools": seen.get("pools") if name in servers else [],
                "vms": [_place(vm, services) for vm in vms],
            }
        )
    return found


def _place(vm: t.Mapping[str, t.Any], services: t.Mapping[str, t.Sequence[str]]) -> dict[str, t.Any]:
    return {
        "name": vm["name"],
        "state": vm["state"],
        "memory_mib": int(vm.get("memory_mib") or 0),
        "cpu": int(vm.get("cpu") or 0),
        "hypervisor": str(vm.get("hypervisor") or ""),
        "services": list(services.get(vm["name"], [])),
        "drift": [drift["path"] for drift in vm.get("drift") or []],
        "pending": list(vm.get("pending") or []),
        "moved": str(vm.get("moved") or ""),
    }


def _current_vms(seen: t.Mapping[str, t.Any]) -> list[t.Mapping[str, t.Any]]:
    """Return the VMs of a server without the old copies of moved VMs, which are intentionally shut off."""
    return [vm for vm in seen.get("vms") or [] if not vm.get("moved")]


def _servers(servers: t.Mapping[str, t.Any]) -> t.Iterator[Line]:
    for name, seen in sorted(servers.items()):
        if not seen.get("reachable"):
            yield Line(f"server {name}", False, _silence(seen), silent=True)
            continue
        if seen.get("error"):
            yield Line(f"server {name}", False, f"failed to list its VMs: {seen['error']}", state=plan_controlplane.UNKNOWN)
            continue
        vms = _current_vms(seen)
        down = [f"{vm['name']} is {vm['state']}" for vm in vms if vm["state"] != "running"]
        running = f"{len(vms) - len(down)} of {len(vms)} VMs running"
        yield Line(f"server {name}", not down, f"{running} ({'; '.join(down)})" if down else running)
        for vm in seen.get("vms") or []:
            if vm.get("moved"):
                yield Line(f"VM {vm['name']}", True, f"moved to {vm['moved']}; the old copy is kept until the move is confirmed", note=True)
        for vm in vms:
            if vm.get("drift"):
                paths = ", ".join(drift["path"] for drift in vm["drift"])
                yield Line(f"VM {vm['name']}", True, f"changed outside of this collection ({paths}); spawn_vms restores it", note=True)
            if vm.get("pending"):
                yield Line(f"VM {vm['name']}", True, f"requires a restart ({', '.join(vm['pending'])})", note=True)


def _silence(seen: t.Mapping[str, t.Any]) -> str:
    return f"does not answer: {seen['why']}" if seen.get("why") else "does not answer"


def _controllers(controllers: t.Mapping[str, t.Any], witnesses: t.Container[str]) -> t.Iterator[Line]:
    for name, seen in sorted(controllers.items()):
        kind, lost = ("witness", plan_controlplane.DEGRADED) if name in witnesses else ("controller", plan_controlplane.DOWN)
        place = seen.get("place") or name
        if not seen.get("reachable"):
            yield Line(f"{kind} {name}", False, f"{_silence(seen)} (on {place})", state=lost, silent=True)
            continue
        if seen.get("error"):
            yield Line(f"{kind} {name}", False, f"failed to list its services: {seen['error']} (on {place})", state=plan_controlplane.UNKNOWN)
            continue
        services = {service: part for service, part in ((seen.get("look") or {}).get("services") or {}).items() if part.get("units")}
        bad = {service: why for service, part in services.items() if (why := plan_health.problems(service, part))}
        wip = bad and all(plan_health.on_its_way(service, services[service]) for service in bad)
        text = f"{len(services) - len(bad)} of {len(services)} services healthy"
        if bad:
            text += f" ({'; '.join(f'{service}: ' + ', '.join(why) for service, why in sorted(bad.items()))})"
        yield Line(f"{kind} {name}", not bad, text, state=plan_controlplane.WIP if wip else plan_controlplane.DEGRADED if bad else plan_controlplane.OK)


def _certificates(looks: plan_controlplane.Looks) -> t.Iterator[Line]:
    """Yield one line for each service with certificates that expire soon: nothing works without them, and only a deployment renews them."""
    soon: dict[str, dict[int, list[str]]] = {}
    for host, look in sorted(looks.items()):
        for name, part in ((look or {}).get("services") or {}).items():
            days = (part.get("certificate") or {}).get("days")
            if days is not None and days < _RENEWED_DAYS:
                soon.setdefault(name, {}).setdefault(int(days), []).append(host)
    for name, found in sorted(soon.items()):
        texts = [f"{'expired' if days < 0 else f'expires in {days} days'} on {', '.join(hosts)}" for days, hosts in sorted(found.items())]
        state = plan_controlplane.DOWN if min(found) < 0 else plan_controlplane.DEGRADED
        yield Line(f"certificate of {name}", False, f"{'; '.join(texts)}. Run deploy_controllers, which renews it; replace one that you gave", state=state)


def _addresses(reports: t.Mapping[str, plan_controlplane.Report]) -> t.Iterator[Line]:
    for report in reports.values():
        for address, names in report.holders.items():
            yield Line("virtual address", len(names) == 1, f"{address} is on {' and '.join(names) or 'no controller'}")


def _clocks(skew: plan_clock.Skew) -> t.Iterator[Line]:
    yield Line("clocks", skew.ok, skew.text, state=plan_controlplane.OK if skew.ok else plan_controlplane.DEGRADED)
    if skew.free:
        yield Line("clocks", True, f"no time service synchronizes {', '.join(skew.free)}", note=True)


def _migration(seen: t.Mapping[str, t.Any]) -> Line:
    topic = f"migration {seen['name']}"
    if seen.get("state") in ("done", "retired"):
        end = "; the source is retired" if seen["state"] == "retired" else ""
        return Line(topic, True, f"done, on {seen['host']}, {float(seen.get('downtime_seconds') or 0):.1f} s of downtime{end}")
    if seen.get("state") == "stopped":
        return Line(topic, True, f"stopped by stop_after in phase {seen.get('phase')} on {seen['host']}: the source serves", note=True)
    if seen.get("state") == "rolled_back":
        return Line(topic, True, f"rolled back: the source serves ({seen.get('reason') or 'on request'})")
    until = waits_until(seen)
    if until and seen["progress"].get("problem"):
        text = f"the copy on {seen['host']}, which waits until {until}, cannot be updated: {seen['progress']['problem']}"
        return Line(topic, False, text, state=plan_controlplane.DEGRADED)
    if until:
        return Line(topic, True, f"the copy is kept up to date on {seen['host']}; the source serves until {until}", note=True)
    text = f"{seen.get('state')} in phase {seen.get('phase')} on {seen['host']}"
    if seen.get("state") == "running":
        return Line(topic, True, text, state=plan_controlplane.WIP)
    if seen.get("state") == "interrupted":
        return Line(topic, False, f"{text}. Run migrate_master again to continue it, or rollback_master", state=plan_controlplane.DEGRADED)
    return Line(topic, False, text)


def _standby_entries(standbys: t.Mapping[str, t.Sequence[t.Mapping[str, t.Any]]]) -> list[dict[str, t.Any]]:
    """Return one entry for each copied VM: of its server if that answers, and of its standby otherwise or after its start there."""
    found: dict[str, list[dict[str, t.Any]]] = {}
    for server, entries in sorted(standbys.items()):
        for entry in entries:
            if entry["state"] in ("moved", "ended"):
                # its new server reports it; only the key of its copies is left
                continue
            found.setdefault(entry["id"], []).append({**entry, "server": server})
    return [_entry(found[name]) for name in sorted(found)]


def _entry(entries: t.Sequence[dict[str, t.Any]]) -> dict[str, t.Any]:
    best = max(entries, key=_weight)
    first = ((best.get("copies") or [{}])[-1]).get("source") if _weight(best) == _RUNS else None
    # from its standby it was moved to a third server, which copies it again
    return next((entry for entry in entries if first and entry["part"] == "source" and entry["server"] != first), best)


def _weight(entry: t.Mapping[str, t.Any]) -> int:
    """Return how much an entry says: where the VM runs, what its server reports, which copies exist, or that a witness was asked."""
    if entry["state"] == _STARTED:
        return _RUNS if entry.get("phase") else 0
    return 2 if entry["part"] == "source" else 1 if entry.get("age_seconds") is not None else 0


def _reversed(looks: t.Mapping[str, t.Mapping[str, t.Any] | None]) -> t.Iterator[Line]:
    """Report members that were asked to replace newer data by older."""
    for name, look in sorted(looks.items()):
        at = (((look or {}).get("services") or {}).get("galera") or {}).get("reversed")
        if at == "unknown":
            yield Line(f"database {name}", True, "its journal cannot be searched for lost rows ('Reversing history')", note=True)
        elif at:
            text = f"its log has 'Reversing history' at {at}: acknowledged rows may be lost (see docs/database.md)"
            yield Line(f"database {name}", False, text, state=plan_controlplane.DEGRADED)


def _distant(looks: plan_controlplane.Looks) -> t.Iterator[Line]:
    """Report witnesses that slow commits down."""
    for name, look in sorted(looks.items()):
        text = ((((look or {}).get("services") or {}).get(plan_health.WITNESS) or {}).get("facts") or {}).get("distance")
        if text:
            yield Line(f"witness {name}", True, text, note=True)


def _standby(entry: t.Mapping[str, t.Any]) -> Line:
    topic = f"standby {entry['id']}"
    if entry["state"] == _STARTED and not entry.get("phase"):
        return Line(topic, True, f"was started on its standby, as {entry['server']} has recorded as a witness", note=True)
    if entry["state"] == _STARTED:
        itself = f" by itself at {entry['taken_over']}" if entry.get("taken_over") else ""
        text = f"was started on {entry['server']}{itself} from its copy of {entry.get('copied')}, without a standby; the way back is move_vm"
        return Line(topic, True, text, note=True)
    if entry.get("age_seconds") is None:
        text = "has no verified copy"
    else:
        there = entry.get("standby") or entry["server"]
        size = size_text(int(entry.get("used_bytes") or 0) or 1)
        text = f"copy on {there}, {entry['age_seconds']:.0f} s old, made in {entry.get('duration_seconds') or 0:.1f} s, {size} there"
    problem = entry.get("problem")
    if entry.get("automatic") and entry["part"] == "source":
        idle = entry.get("automatic_problem")
        text = text if idle else f"{text}, is started there by itself"
        problem = problem or (f"would not be started by itself: {idle}" if idle else None)
    if entry["part"] == "standby":
        problem = "its server does not report it"
    if problem:
        text = problem if entry.get("age_seconds") is None else f"{problem.rstrip('.')}; {text}"
        return Line(topic, False, text, state=plan_controlplane.DEGRADED)
    return Line(topic, True, text)
