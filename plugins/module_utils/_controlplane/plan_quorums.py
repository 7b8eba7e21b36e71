# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The members of each quorum and the servers they run on, for the removal of a server."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import plan_controlplane, plan_health


def quorums_of(
    looks: plan_controlplane.Looks,
    groups: t.Mapping[str, t.Sequence[str]],
    names: t.Sequence[str],
    environments: t.Mapping[str, plan_controlplane.Members],
    places: t.Mapping[str, str],
) -> dict[str, list[dict[str, t.Any]]]:
    """Return the members of each quorum of each environment, see :func:`quorums`; names begin with that of the environment if there are several.

    :arg names: groups whose hosts form a quorum, each of the environment that has a member in it.
    """
    if len(environments) == 1:
        return quorums(looks, groups, names, *environments.values(), places)
    found = {}
    for environment, members in environments.items():
        hosts = {host for every in members.values() for host in every}
        own = [name for name in names if hosts & set(groups.get(name) or ())]
        more = quorums({host: looks.get(host) for host in hosts}, groups, own, members, places)
        found.update({f"{environment}: {name}": entries for name, entries in more.items()})
    return found


def quorums(
    looks: plan_controlplane.Looks,
    groups: t.Mapping[str, t.Sequence[str]],
    names: t.Sequence[str],
    members: plan_controlplane.Members,
    places: t.Mapping[str, str],
) -> dict[str, list[dict[str, t.Any]]]:
    """Return the members of each quorum for the option ``quorums`` of ``virt_node``.

    A member is alive if it answers and is healthy in each service with a majority of which it is a member.

    :arg looks: host → ``controlplane`` as returned by ``controlplane_info``, empty for a host that does not answer.
    :arg names: groups whose hosts form a quorum; witnesses vote in each. One that is not in the inventory is ignored.
    :arg members: service → its hosts. A service with other voters than the groups is a quorum of its own.
    :arg places: host → its server, empty for a server.
    """
    reports = {name: report for name, report in plan_controlplane.evaluate(members, looks).items() if plan_health.SERVICES[name].majority}
    voters = {name: (*report.members, *report.witnesses) for name, report in reports.items()}
    unhealthy = {one.host for every in voters.values() for one in every if one.state != plan_controlplane.OK}

    def entries(hosts: t.Iterable[str]) -> list[dict[str, t.Any]]:
        return [{"name": host, "server": str(places.get(host) or host), "alive": bool(looks.get(host)) and host not in unhealthy} for host in hosts]

    witnesses = members.get(plan_health.WITNESS) or ()
    found = {name: entries(dict.fromkeys((*groups[name], *witnesses))) for name in names if groups.get(name)}
    listed = [{entry["name"] for entry in every} for every in found.values()]
    for name, every in voters.items():
        hosts = dict.fromkeys(one.host for one in every)
        if set(hosts) not in listed:
            found[name] = entries(hosts)
    return found
