# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The state of a footprint in one look, from what was found on its hosts (C9, F9)."""

from __future__ import annotations

import dataclasses
import json
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._plan.availability import grade_availability


@dataclasses.dataclass(frozen=True)
class Line:
    """One line of the report: what it is about, ``ok`` or ``down``, and the finding in words.

    A ``note`` is worth reading and no fault.
    """

    topic: str
    ok: bool
    text: str
    note: bool = False

    def __str__(self) -> str:
        return f"{'NOTE' if self.note else 'ok  ' if self.ok else 'DOWN'} {self.topic}: {self.text}"


def build_status(found: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Judge what was found.

    :arg found: ``servers`` (name → ``reachable``, ``error`` or nothing, ``vms``: list of ``name``, ``state``,
        ``drift`` and ``pending`` as vm_info tells them),
        ``controllers`` (name → ``reachable``, ``place``: the server it stands on, ``services``: unit → systemd's
        word, ``database``: wsrep variables or nothing, ``addresses``), ``virtual_address`` or nothing, and
        ``migrations`` (list of ``name``, ``phase``, ``state``, ``downtime``, ``host``).
    :returns: ``ok``, ``lines`` (text), ``ha_grade``, ``ha`` (sentences), ``virtual_address_holder``,
        ``database_members`` (those Synced in the Primary component), ``vms`` and ``servers`` counts.
    """
    servers = found.get("servers") or {}
    controllers = found.get("controllers") or {}
    lines: list[Line] = []
    lines.extend(_servers(servers))
    lines.extend(_controllers(controllers))
    synced = sorted(name for name, seen in controllers.items() if _synced(seen.get("database") or {}))
    if controllers:
        lines.append(Line("database", len(synced) == len(controllers), f"{len(synced)} of {len(controllers)} members synced ({', '.join(synced) or 'none'})"))
    holder = _holder(controllers, found.get("virtual_address"))
    if found.get("virtual_address"):
        lines.append(Line("virtual address", len(holder) == 1, f"{found['virtual_address']} is on {' and '.join(holder) or 'no controller'}"))
    for migration in found.get("migrations") or []:
        lines.append(_migration(migration))
    availability = grade_availability({name: str(seen.get("place") or name) for name, seen in controllers.items()})
    return {
        "ok": all(line.ok for line in lines),
        "lines": [str(line) for line in lines],
        "ha_grade": availability.grade,
        "ha": [availability.words, *(loss.sentence() for loss in availability.losses)] if controllers else [],
        "virtual_address_holder": holder[0] if len(holder) == 1 else None,
        "database_members": synced,
        "servers": {"reachable": sum(1 for seen in servers.values() if seen.get("reachable")), "all": len(servers)},
        "vms": {
            "running": sum(1 for seen in servers.values() for vm in _standing(seen) if vm["state"] == "running"),
            "all": sum(len(_standing(seen)) for seen in servers.values()),
        },
    }


def _standing(seen: t.Mapping[str, t.Any]) -> list[t.Mapping[str, t.Any]]:
    """The VMs of a server, without old copies of those that were moved, which are off on purpose."""
    return [vm for vm in seen.get("vms") or [] if not vm.get("moved")]


def _servers(servers: t.Mapping[str, t.Any]) -> t.Iterator[Line]:
    for name, seen in sorted(servers.items()):
        if not seen.get("reachable"):
            yield Line(f"server {name}", False, "does not answer")
            continue
        if seen.get("error"):
            yield Line(f"server {name}", False, f"cannot tell its VMs: {seen['error']}")
            continue
        vms = _standing(seen)
        down = [f"{vm['name']} is {vm['state']}" for vm in vms if vm["state"] != "running"]
        running = f"{len(vms) - len(down)} of {len(vms)} VMs running"
        yield Line(f"server {name}", not down, f"{running} ({'; '.join(down)})" if down else running)
        for vm in seen.get("vms") or []:
            if vm.get("moved"):
                yield Line(f"VM {vm['name']}", True, f"moved to {vm['moved']}; the old copy waits to be confirmed", note=True)
        for vm in vms:
            if vm.get("drift"):
                paths = ", ".join(drift["path"] for drift in vm["drift"])
                yield Line(f"VM {vm['name']}", True, f"changed by somebody else ({paths}); spawn_vms puts it right", note=True)
            if vm.get("pending"):
                yield Line(f"VM {vm['name']}", True, f"waits for a restart ({', '.join(vm['pending'])})", note=True)


def _controllers(controllers: t.Mapping[str, t.Any]) -> t.Iterator[Line]:
    for name, seen in sorted(controllers.items()):
        if not seen.get("reachable"):
            yield Line(f"controller {name}", False, f"does not answer (on {seen.get('place') or name})")
            continue
        services = seen.get("services") or {}
        down = [f"{unit} is {word}" for unit, word in sorted(services.items()) if word != "active"]
        active = f"{len(services) - len(down)} of {len(services)} services active"
        yield Line(f"controller {name}", not down, f"{active} ({'; '.join(down)})" if down else active)


def _synced(database: t.Mapping[str, t.Any]) -> bool:
    """Readiness of C6, without the cluster uuid, which only its own members can compare."""
    return (
        database.get("wsrep_local_state_comment") == "Synced"
        and database.get("wsrep_cluster_status") == "Primary"
        and database.get("wsrep_ready") == "ON"
        and database.get("wsrep_connected") == "ON"
    )


def _holder(controllers: t.Mapping[str, t.Any], address: str | None) -> list[str]:
    if not address:
        return []
    return sorted(name for name, seen in controllers.items() if address in (seen.get("addresses") or []))


def _migration(seen: t.Mapping[str, t.Any]) -> Line:
    topic = f"migration {seen['name']}"
    if seen.get("state") == "done":
        return Line(topic, True, f"done, on {seen['host']}, {float(seen.get('downtime') or 0):.1f} s of downtime")
    if seen.get("state") == "rolled_back":
        return Line(topic, True, f"rolled back: the source serves ({seen.get('error') or 'on request'})")
    return Line(topic, False, f"{seen.get('state')} in phase {seen.get('phase')} on {seen['host']}")


def read_results(hostvars: t.Mapping[str, t.Any], servers: t.Sequence[str], controllers: t.Sequence[str]) -> dict[str, t.Any]:
    """What the status playbook registered, in the shape :func:`build_status` takes.

    :arg hostvars: host name → variables, with ``status_vms``, ``status_migrations``, ``status_services``,
        ``status_database`` and ``status_addresses`` where the play reached the host.
    """
    read = {name: _read_server(hostvars[name]) for name in servers}
    # the servers know better than the inventory where a VM stands that was moved
    places = {vm["name"]: name for name, seen in read.items() for vm in _standing(seen)}
    return {
        "servers": read,
        "controllers": {name: _read_controller(name, hostvars[name], places) for name in controllers},
        "virtual_address": next(
            (str(hostvars[name]["load_balancer_virtual_address"]) for name in controllers if "load_balancer_virtual_address" in hostvars[name]), None
        ),
        "migrations": [migration for name in servers for migration in (hostvars[name].get("status_migrations") or {}).get("migrations") or []],
    }


def _read_server(variables: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    result = variables.get("status_vms") or {"unreachable": True}
    reachable = not result.get("unreachable")
    error = "" if "vms" in result or not reachable else str(result.get("msg") or "no answer")
    return {"reachable": reachable, "error": error, "vms": result.get("vms") or []}


def _read_controller(name: str, variables: t.Mapping[str, t.Any], places: t.Mapping[str, str]) -> dict[str, t.Any]:
    services = variables.get("status_services") or {"unreachable": True}
    units = services.get("cmd") or []
    units = units[units.index("--") + 1 :] if "--" in units else []
    rows = [line.split("\t", 1) for line in (variables.get("status_database") or {}).get("stdout_lines") or []]
    interfaces = json.loads((variables.get("status_addresses") or {}).get("stdout") or "[]")
    return {
        "reachable": not services.get("unreachable"),
        "place": (places.get(name) if variables.get("vm_host") else None) or variables.get("vm_host") or name,
        "services": dict(zip(units, services.get("stdout_lines") or [])),
        "database": {row[0]: row[1] for row in rows if len(row) == 2},
        "addresses": [info.get("local") for interface in interfaces for info in interface.get("addr_info") or []],
    }
