# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read the answers of the hosts for the status, and decide which hosts are asked for what."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import model_probe, plan_clock, plan_controlplane
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_status_cloud import CHASSIS, COMPUTE

_CLOUD = {COMPUTE: ("compute", "nova", "galera"), CHASSIS: ("chassis", "neutron", "ovn_database")}
_PARTS = ("migrations", "standbys", "clock")
Answers = t.Mapping[str, t.Mapping[str, t.Any]]


def asked_in(variables: t.Mapping[str, t.Any], services: t.Any) -> tuple[plan_controlplane.Members, dict[str, dict[str, t.Any]]]:
    """Return the members of the control plane, and host → the options of ``status_info``.

    :arg variables: of a host of the play, with ``hostvars`` and ``groups``.
    :arg services: those that the operator declares.
    """
    groups = variables["groups"]
    members = plan_controlplane.members_of(groups, variables["hostvars"], variables["ansible_play_hosts_all"])
    found = asked(members, groups.get("virt") or (), model_probe.probes_by_host(services, groups))
    return members, with_monitoring(found, groups.get(str(variables.get("monitoring_group") or "monitoring")) or ())


def with_monitoring(ask: dict[str, dict[str, t.Any]], monitors: t.Sequence[str]) -> dict[str, dict[str, t.Any]]:
    """Return the options with probes of the units that monitor, if hosts monitor all others.

    :arg ask: as :func:`asked` returns it.
    """
    found = {host: dict(ask.get(host) or {"server": False, "services": [], "probes": {}, "cloud": False}) for host in dict.fromkeys([*ask, *monitors])}
    for host, one in found.items() if monitors else ():
        units = {"metrics": "prometheus-node-exporter.service"}
        if host in monitors:
            units.update(monitoring="prometheus.service", notifications="prometheus-alertmanager.service")
        one["probes"] = {**units, **one["probes"]}
    return found


def asked(members: plan_controlplane.Members, servers: t.Sequence[str], probes: t.Mapping[str, t.Mapping[str, str]]) -> dict[str, dict[str, t.Any]]:
    """Return host → the options of ``status_info``: ``server``, ``services``, ``probes`` and ``cloud``."""
    hosts = dict.fromkeys([*servers, *(host for names in members.values() for host in names), *probes])
    return {
        host: {
            "server": host in servers,
            "services": [name for name, names in members.items() if host in names],
            "probes": dict(probes.get(host) or {}),
            "cloud": bool(members.get("nova") or members.get("neutron")),
        }
        for host in hosts
    }


def read_answers(
    ask: Answers, answers: Answers, members: plan_controlplane.Members, vm_hosts: t.Mapping[str, str], clock_limit: float = plan_clock.LIMIT
) -> dict[str, t.Any]:
    """Return the answers in the format of :func:`plan_status.build_status`.

    :arg ask: as :func:`asked` returns it.
    :arg answers: host → ``host`` as returned by ``status_info``; a host that was not asked is missing.
    :arg vm_hosts: host → its server in the inventory, empty for a host that is a server itself.
    """
    servers = [host for host, one in ask.items() if one["server"]]
    migrations = [one for host in servers for one in _part(answers, host, "migrations").get("value") or ()]
    # the VM of a migration that is not done is off until then: its source serves
    off = {(one.get("vm") or {}).get("uuid") for one in migrations if one.get("state") not in ("done", "retired")} - {None}
    vms = {host: [vm for vm in _part(answers, host, "vms").get("value") or () if vm["state"] == "running" or vm.get("uuid") not in off] for host in servers}
    # the inventory may list a moved VM under its old server
    places = {vm["name"]: host for host, here in vms.items() for vm in here if not vm.get("moved")}
    where = {host: (places.get(host) or vm_hosts[host]) if vm_hosts.get(host) else host for host in ask}
    return {
        "servers": {
            host: {**_known(answers, host, "vms"), "vms": vms[host], **{part: _part(answers, host, part).get("value") for part in ("memory", "pools")}}
            for host in servers
        },
        "controllers": {
            host: {**_known(answers, host, "controlplane"), "place": where[host], "look": _part(answers, host, "controlplane").get("value")}
            for host, one in ask.items()
            if one["services"]
        },
        "members": members,
        "migrations": migrations,
        "standbys": {host: _part(answers, host, "standbys").get("value") or [] for host in servers},
        "clocks": plan_clock.compare_clocks({host: _part(answers, host, "clock").get("value") for host in ask}, clock_limit),
        "cloud": {topic: _first(answers, members, *where) for topic, where in _CLOUD.items()},
        "probes": [_probe(answers, host, name) for host, one in ask.items() for name in one["probes"]],
        "unanswered": [
            {"host": host, "part": part, "error": str(_part(answers, host, part)["error"])}
            for host in ask
            for part in _PARTS
            if "error" in _part(answers, host, part)
        ],
    }


def _part(answers: Answers, host: str, part: str) -> t.Mapping[str, t.Any]:
    return (answers.get(host) or {}).get("parts", {}).get(part) or {}


def _known(answers: Answers, host: str, part: str) -> dict[str, t.Any]:
    """Return whether a host answers, and why a part is unknown."""
    seen, found = answers.get(host) or {}, _part(answers, host, part)
    reason = str(seen.get("reason") or "")
    if not seen.get("reachable"):
        return {"reachable": False, "error": "", "why": reason}
    return {"reachable": True, "error": "" if "value" in found else str(found.get("error") or reason or "no answer"), "why": ""}


def _first(answers: Answers, members: plan_controlplane.Members, part: str, service: str, holder: str) -> t.Any:
    """Return the entries that one of the holders reports, or why they are unknown; nothing without the service."""
    if not members.get(service):
        return None
    found = [_part(answers, host, part) for host in members.get(holder) or ()]
    values = [one["value"] for one in found if one.get("value") is not None]
    if values:
        return max(values, key=len)
    why = [str(one["error"]) for one in found if "error" in one]
    return f": {why[0]}" if why else ""


def _probe(answers: Answers, host: str, name: str) -> dict[str, t.Any]:
    value = (_part(answers, host, "probes").get("value") or {}).get(name)
    silent = not (answers.get(host) or {}).get("reachable") or value is None
    return {"name": name, "host": host, "silent": silent, "problem": "does not answer" if silent else value}
