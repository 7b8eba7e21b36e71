# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check whether a member of the control plane may be changed now."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import plan_controlplane, plan_health

#: Clients need this service in addition to any other.
WAY_IN = "load_balancer"


@dataclasses.dataclass(frozen=True)
class Gate:
    """The state of the control plane before or after a member is changed.

    :arg why: the reasons against changing a member.
    :arg sizes: service → number of its members, those of the database with witnesses.
    :arg writers: frontend → the only member to which its clients are sent.
    :arg holders: virtual address → its holder, if exactly one host holds it.
    :arg ports: virtual address → the ports served there, by name.
    :arg cluster_uuid: UUID of the Galera cluster, empty if there is none or several.
    :arg position: the highest position of its members, -1 without any.
    """

    why: tuple[str, ...]
    sizes: t.Mapping[str, int]
    writers: t.Mapping[str, str]
    holders: t.Mapping[str, str]
    ports: t.Mapping[str, t.Mapping[str, int]]
    cluster_uuid: str
    position: int

    def as_dict(self) -> dict[str, t.Any]:
        """Return plain values for Ansible."""
        return {"ok": not self.why, **dataclasses.asdict(self), "why": list(self.why)}


def check_gate(
    members: plan_controlplane.Members,
    looks: plan_controlplane.Looks,
    services: t.Sequence[str] = (),
    skipped: t.Sequence[str] = (),
    wanted: plan_health.Wanted = plan_health.ANY,
    spare: bool = False,
) -> Gate:
    """Check whether a member may be changed: all members must be healthy, and those of the load balancer as well.

    :arg members: service → its hosts.
    :arg looks: host → ``controlplane`` as returned by ``controlplane_info``, empty or ``None`` for a host that does not answer.
    :arg services: the services that matter; empty means all.
    :arg skipped: hosts on which these services may be unhealthy.
    :arg spare: whether each of these services must keep serving without one more member.
    """
    reports = plan_controlplane.evaluate(members, looks, wanted)
    chosen = [name for name in plan_health.with_voted(services or reports) if name in reports]
    why = [] if any(looks.values()) else ["no host of the control plane answers"]
    for name in dict.fromkeys([*chosen, *(name for name in (WAY_IN,) if name in reports)]):
        report = reports[name]
        why += [f"{name}: {text}" for text in report.why]
        why += [f"{name} on {member.text}" for member in report.unhealthy if name not in chosen or member.host not in skipped]
        left, needed = report.healthy_votes - 1, report.needed
        if spare and name in chosen and left < needed:
            why.append(f"{name} would have {left} of {report.votes} members left and needs {needed}")
    why += [f"{name} on {host}: {text}" for host, look in looks.items() if look for name, text in plan_health.host_problems(look, wanted)]
    holders = reports[WAY_IN].holders if WAY_IN in reports else {}
    databases = [facts for facts in map(_database, looks.values()) if facts]
    uuids = {str(facts["cluster_uuid"]) for facts in databases if facts.get("ready")}
    return Gate(
        tuple(why),
        {name: report.votes for name, report in reports.items()},
        plan_controlplane.writers_of(looks),
        {address: names[0] for address, names in holders.items() if len(names) == 1},
        _ports(looks),
        uuids.pop() if len(uuids) == 1 else "",
        max((int(facts.get("seqno") or 0) for facts in databases), default=-1),
    )


def _database(look: t.Mapping[str, t.Any] | None) -> t.Mapping[str, t.Any]:
    return (((look or {}).get("services") or {}).get("galera") or {}).get("facts") or {}


def _ports(looks: plan_controlplane.Looks) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for look in looks.values():
        for front in plan_health.balancer(look).get("fronts") or ():
            name = "mysql" if front.get("scheme") == "mysql" else f"port {front['port']}"
            found.setdefault(str(front["address"]), {})[name] = int(front["port"])
    return found
