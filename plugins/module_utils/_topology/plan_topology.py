# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Apply a topology to the known hosts: groups, and the settings of each host. No I/O."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_node import ROLE_COMPUTE
from ansible_collections.reduced.footprint.plugins.module_utils._topology import plan_layers
from ansible_collections.reduced.footprint.plugins.module_utils._topology.model_services import real
from ansible_collections.reduced.footprint.plugins.module_utils._topology.model_topology import NodeRule, Topology


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A host to which the topology may apply, server or VM.

    :arg roles: its roles without the topology.
    """

    name: str
    roles: tuple[str, ...] = ()
    vm: bool = False
    nested: bool = False
    path: str = ""


@dataclasses.dataclass(frozen=True)
class Placed:
    """A host with the topology applied.

    :arg services: its real services.
    :arg names: its services as listed by the roles, including logical ones.
    :arg layers: its settings, the layer with the lowest precedence first.
    :arg variables: the resulting variables of the roles.
    """

    name: str
    roles: tuple[str, ...]
    services: tuple[str, ...]
    names: tuple[str, ...]
    layers: tuple[tuple[str, t.Mapping[str, t.Any]], ...]
    variables: t.Mapping[str, t.Any]


@dataclasses.dataclass(frozen=True)
class Resolved:
    """All hosts, their groups, and warnings for the operator."""

    hosts: t.Mapping[str, Placed]
    groups: t.Mapping[str, tuple[str, ...]]
    warnings: tuple[str, ...] = ()


def roles_of(topology: Topology, name: str, roles: t.Sequence[str] = ()) -> tuple[str, ...]:
    """Return the roles of a host: its own, then those of every key that matches it."""
    given = [role for rule in topology.nodes if rule.matches(name) for role in rule.roles]
    return tuple(dict.fromkeys((*roles, *given)))


def resolve(
    topology: Topology, hosts: t.Sequence[Candidate], components: t.Mapping[str, t.Mapping[str, t.Any]] | None = None
) -> Resolved:
    """Return the roles, services and settings of each host.

    :arg hosts: in the order in which replicas are assigned.
    :arg components: defaults of the services' roles, without their prefix; those of declared services are in the topology.
    """
    roles = {host.name: roles_of(topology, host.name, host.roles) for host in hosts}
    for host in hosts:
        _refuse_compute(topology, host, roles[host.name])
    members = _members(topology, roles)
    groups = _groups(topology, roles, members)
    rules = sorted(topology.nodes, key=lambda rule: rule.key)
    base = _component_layer(topology, components or {})
    placed = {host.name: _place(topology, host.name, roles[host.name], members, base, rules) for host in hosts}
    matched = {rule.key: [host.name for host in hosts if rule.matches(host.name)] for rule in rules}
    warnings = [f"{rule.path}: matches no host." for rule in topology.nodes if not matched[rule.key]]
    warnings += _overridden(rules, matched)
    return Resolved(placed, groups, tuple(warnings))


def _refuse_compute(topology: Topology, host: Candidate, roles: t.Sequence[str]) -> None:
    if not host.vm or host.nested or ROLE_COMPUTE not in roles:
        return
    rule = next((rule for rule in topology.nodes if ROLE_COMPUTE in rule.roles and rule.matches(host.name)), None)
    path = f"{rule.path}.roles" if rule and ROLE_COMPUTE not in host.roles else host.path
    raise RefusedError(
        f"VM {host.name} has the role {ROLE_COMPUTE}, which requires a physical server.",
        path,
        "Assign the role to a physical server, or set nested: true in the VM details to use nested virtualisation.",
    )


def _members(topology: Topology, roles: t.Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Return the hosts of each service, by the name the roles list."""
    members: dict[str, tuple[str, ...]] = {}
    listed = dict.fromkeys(service for services in topology.roles.values() for service in services)
    for service in listed:
        members[service] = tuple(host for host, own in roles.items() if any(service in topology.roles.get(role, ()) for role in own))
    for service, count in topology.replicas.items():
        path, hosts = f"replicas.{service}", members.get(service, ())
        if service not in listed:
            raise InputError(f"no role lists {service}.", path, "Use the name listed by the roles, or add the service to a role.")
        if count > len(hosts):
            names = f" ({', '.join(hosts)})" if hosts else ""
            raise InputError(
                f"{count} replicas are requested, but {len(hosts)} nodes have the service{names}.",
                path,
                "Assign the role of the service to more nodes, or reduce the number of replicas.",
            )
        members[service] = hosts[:count]
    return members


def _groups(topology: Topology, roles: t.Mapping[str, tuple[str, ...]], members: t.Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    groups: dict[str, tuple[str, ...]] = {}
    for role in dict.fromkeys(role for own in roles.values() for role in own):
        groups[role] = tuple(host for host, own in roles.items() if role in own)
    for name, hosts in members.items():
        service = topology.services[name]
        _add(groups, service.group_name, hosts, f"{name}", topology, fresh=True)
    for name, hosts in members.items():
        found = real(topology.services, name)
        if found.name == name:
            continue
        own = members.get(found.name, ())
        everyone = {host for other, named in members.items() if real(topology.services, other) is found for host in named}
        _add(groups, found.group_name, tuple(host for host in roles if host in everyone), found.name, topology, fresh=not own)
    return groups


def _add(groups: dict[str, tuple[str, ...]], group: str, hosts: tuple[str, ...], service: str, topology: Topology, fresh: bool) -> None:
    """Add the group of a service; a role with the same name must have the same hosts, because both use one group."""
    if fresh and group in topology.roles and set(groups.get(group, ())) != set(hosts):
        raise InputError(
            f"the name is used by a role with {', '.join(groups.get(group, ())) or 'no host'} and by a service with {', '.join(hosts) or 'no host'}.",
            f"roles.{group}",
            f"Rename the role, for example to {group}_nodes.",
        )
    groups[group] = hosts


def _component_layer(topology: Topology, components: t.Mapping[str, t.Mapping[str, t.Any]]) -> dict[str, t.Any]:
    declared = {name: service.defaults for name, service in topology.services.items() if service.defaults}
    return plan_layers.merge({name: dict(values) for name, values in components.items()}, declared)


def _place(
    topology: Topology,
    name: str,
    roles: tuple[str, ...],
    members: t.Mapping[str, tuple[str, ...]],
    base: t.Mapping[str, t.Any],
    rules: t.Sequence[NodeRule],
) -> Placed:
    services = topology.services
    names = tuple(service for service, hosts in members.items() if name in hosts)
    written: list[tuple[str, t.Mapping[str, t.Any]]] = [("global", topology.global_configs), ("user", topology.configs)]
    written += [(rule.path, rule.configs) for rule in rules if rule.matches(name)]
    written = [(layer, plan_layers.sections(settings, services)) for layer, settings in written]
    written += plan_layers.service_layers(names, services)
    paths = {"global": "global_configs", "user": "configs"}
    for layer, settings in written:
        # validate each layer separately, so that an error contains the path of the value
        plan_layers.variables(settings, settings, services, paths.get(layer, f"{layer}.configs"))
    ordered = [written[0], ("component", base), *written[1:]]
    merged = plan_layers.merge(*(settings for unused, settings in ordered))
    touched = plan_layers.merge(*(settings for unused, settings in written))
    variables = plan_layers.variables(merged, touched, services)
    return Placed(name, roles, tuple(dict.fromkeys(real(services, one).name for one in names)), names, tuple(ordered), variables)


def _overridden(rules: t.Sequence[NodeRule], matched: t.Mapping[str, t.Sequence[str]]) -> list[str]:
    """A key for one host that a key for many overrides, because keys count in lexicographic order, is rarely meant."""
    warnings = []
    for index, rule in enumerate(rules):
        if len(matched[rule.key]) != 1:
            continue
        host = matched[rule.key][0]
        for later in rules[index + 1 :]:
            if host not in matched[later.key] or len(matched[later.key]) < 2:
                continue
            after = dict(plan_layers.leaves(plan_layers.merge(rule.configs, later.configs)))
            for path, value in plan_layers.leaves(rule.configs):
                if value != {} and after.get(path, rule) != value:
                    warnings.append(
                        f"{rule.path}.configs.{'.'.join(path)}: is overridden on {host} by {later.path}, because keys count in lexicographic "
                        f"order.{_stronger(rule.key, later.key)}"
                    )
    return warnings


def _stronger(key: str, other: str) -> str:
    """How a key for one host may be written so that it comes after the other."""
    better = f"{key[:-1]}[{key[-1]}]"
    if key[-1:].isalnum() and better > other:
        return f" Write the key as {better}."
    return f" Take the value out of {other}, or write the key so that it comes last."


def check_environments(environments: t.Mapping[str, t.Mapping[str, t.Sequence[str]]]) -> None:
    """Reject two environments with exclusive services on the same host.

    Such a service uses ports, files and variables of the host, so even two different ones would get each other's settings.

    :arg environments: environment → host → its exclusive services on this host.
    """
    owners: dict[str, tuple[str, str]] = {}
    for environment, hosts in environments.items():
        for host, services in hosts.items():
            if not services:
                continue
            there, service = owners.setdefault(host, (environment, services[0]))
            if there != environment:
                both = [one for one in environments[there][host] if one in services]
                mine, theirs = (both[0], both[0]) if both else (services[0], service)
                raise RefusedError(
                    f"{theirs} of {there} and {mine} of {environment} cannot share the host {host}.",
                    f"nodes of {environment}",
                    "Assign them to different hosts or VMs, or set exclusive: false below services if the service can run twice on a host.",
                )
