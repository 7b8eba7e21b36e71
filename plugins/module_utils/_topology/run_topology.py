# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: apply the topology of an inventory file to the known hosts."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, Problems, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_fields import SLIP, check_known, mapping, near_miss
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_node import ROLE_COMPUTE, ROLE_VIRT
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.plan_roles import wants_nested
from ansible_collections.reduced.footprint.plugins.module_utils._inventory import plan_names
from ansible_collections.reduced.footprint.plugins.module_utils._inventory.run_inventory import Host, Inventory, Server
from ansible_collections.reduced.footprint.plugins.module_utils._topology import model_topology, plan_layers, plan_topology
from ansible_collections.reduced.footprint.plugins.module_utils._topology.model_networks import NETWORKS
from ansible_collections.reduced.footprint.plugins.module_utils._topology.model_services import BUILT_IN, names_of, real
from ansible_collections.reduced.footprint.plugins.module_utils._topology.model_topology import KEYS, Topology

#: Services of the collection; the defaults of their roles are the component layer.
COMPONENTS = tuple(service.name for service in BUILT_IN.values() if service.role)
#: Host variable: environment → its exclusive services on this host. It is read when later files are parsed.
ENVIRONMENTS = "footprint_environments"
TOPOLOGY = "footprint_topology"

_ENVIRONMENT = re.compile(r"[A-Za-z][\w.-]*\Z", re.ASCII)


@dataclasses.dataclass(frozen=True)
class Known:
    """A host of an earlier inventory source."""

    name: str
    roles: tuple[str, ...]
    groups: tuple[str, ...]
    vm: bool
    nested: bool
    environments: t.Mapping[str, t.Sequence[str]]


@dataclasses.dataclass(frozen=True)
class Laid:
    """The additions of the topology: groups, variables of hosts, variables of all hosts, warnings.

    :arg prefixed: the roles that have groups with the name of the environment only, unless they are a host's own.
    """

    groups: t.Mapping[str, tuple[str, ...]]
    variables: t.Mapping[str, t.Mapping[str, t.Any]]
    common: t.Mapping[str, t.Any]
    warnings: tuple[str, ...]
    prefixed: frozenset[str] = frozenset()


def parse(own: t.Mapping[str, t.Any], included: t.Sequence[tuple[str, t.Any]] = ()) -> Topology:
    """Parse the topology of a file merged over the files it includes.

    :arg included: name and content of each included file; later ones win, the file itself wins over all.
    """
    contents = []
    for name, content in included:
        entry = mapping(content, name, f"Write some of {', '.join(KEYS)} into it.")
        check_known(entry, KEYS, name, "")
        contents.append({key: value for key, value in entry.items() if value is not None})
    return model_topology.parse_topology(plan_layers.merge(*contents, {key: value for key, value in own.items() if value}))


def give_roles(servers: t.Iterable[Server], topology: Topology) -> tuple[Server, ...]:
    """Return the servers with the roles assigned by the topology, including ``virt``, before their VM details are read."""
    return tuple(dataclasses.replace(item, roles=plan_topology.roles_of(topology, item.name, item.roles)) for item in servers)


def check_names(
    topology: Topology, servers: t.Sequence[Server], variables: t.Mapping[str, t.Collection[str]], problems: Problems
) -> None:
    """Check the names that the operator wrote: keys and roles of servers, and settings.

    :arg servers: those of the file itself; hosts of other sources may have any variables and roles.
    :arg variables: the variables of the collection's roles, by their prefix.
    :arg problems: collects an error for each unknown name, with the most similar known one, and for each invalid address.
    """
    services = topology.services
    # a declared service may have the name of one of the collection, and a role of its own
    own = [service.variable_prefix for service in services.values() if service.role and not service.role.startswith("reduced.footprint.")]
    known = {prefix: names for prefix, names in variables.items() if prefix not in own}

    def implemented(name: str) -> str:
        return real(services, name).name if name in services else name

    for item in servers:
        for key, value in item.variables.items():
            problems.call(plan_names.check_server, [key], item.path, known)
            if key == "ansible_host" or key.startswith(tuple(known)):
                problems.found += plan_names.invalid_addresses(value, f"{item.path}.{key}")
        for index, role in enumerate(item.roles):
            problems.call(plan_names.check_role, role, f"{item.path}.roles[{index}]", known_roles(topology), bool(topology.roles))
    for path, settings in (("configs", topology.configs), ("global_configs", topology.global_configs)):
        problems.call(plan_names.check_settings, settings, path, known, implemented)
    for rule in topology.nodes:
        problems.call(plan_names.check_settings, rule.configs, f"{rule.path}.configs", known, implemented)
    for name, service in services.items():
        prefix = f"{implemented(name)}_"
        problems.call(plan_names.check_variables, [(f"{prefix}{key}", f"services.{name}.configs.{key}") for key in service.configs], known, prefix)


def check_vms(topology: Topology, inventory: Inventory, servers: t.Collection[str], hosts: t.Collection[str], problems: Problems) -> None:
    """Check the roles of the VMs of some servers, and the servers that their details name.

    :arg hosts: names of the servers of all sources that were read.
    :arg problems: collects an error for each unknown name, with the most similar known one.
    """
    for machine in inventory.machines:
        vm = machine.vm
        for index, role in enumerate(vm.roles if machine.server.name in servers else ()):
            problems.call(plan_names.check_role, role, f"{vm.path}.roles[{index}]", known_roles(topology), bool(topology.roles))
        near = near_miss(vm.free.get("host") or "", hosts, SLIP)
        if near:
            problems.found.append(InputError(f"no server is named {vm.free['host']}.", f"{vm.path}.host", f"Did you mean {near}?"))


def known_roles(topology: Topology) -> set[str]:
    """Return the roles of the collection and of a topology."""
    return {*topology.roles, *model_topology.ROLES_WITHOUT_SERVICES}


def component_defaults(name: str, content: t.Any) -> dict[str, t.Any]:
    """Return the defaults of a role of the collection without their prefix; templates cannot be merged and are omitted."""
    prefix = f"{name}_"
    values = content if isinstance(content, t.Mapping) else {}
    return {str(key)[len(prefix) :]: value for key, value in values.items() if str(key).startswith(prefix) and "{{" not in repr(value)}


def lay(
    topology: Topology,
    inventory: Inventory,
    others: t.Sequence[Known],
    environment: str = "",
    own_groups: bool = False,
    components: t.Mapping[str, t.Mapping[str, t.Any]] | None = None,
) -> Laid:
    """Return the groups and variables of the topology.

    :arg others: hosts of earlier inventory sources.
    :arg environment: name of the environment, by default that of the cluster.
    :arg own_groups: prefix the names of groups with the name of the environment.
    """
    if environment and not _ENVIRONMENT.match(environment):
        raise InputError(f"{environment!r} is not a valid environment name.", "environment", "Use letters, digits, dots, hyphens and underscores.")
    candidates = [plan_topology.Candidate(item.name, item.roles) for item in inventory.servers]
    candidates += [plan_topology.Candidate(one.vm.name, one.vm.roles, True, wants_nested(one.vm), f"{one.vm.path}.roles") for one in inventory.machines]
    meant = {*topology.roles, *model_topology.ROLES_WITHOUT_SERVICES}
    for one in others:
        roles = dict.fromkeys((*one.roles, *(group for group in one.groups if group in meant)))
        candidates.append(plan_topology.Candidate(one.name, tuple(roles), one.vm, one.nested, f"node_roles of {one.name}"))
    resolved = plan_topology.resolve(topology, candidates, components)
    common: dict[str, t.Any] = {"footprint_environment": environment} if environment and not own_groups else {}
    if topology.networks and not own_groups:
        common[NETWORKS] = dict(topology.networks)
    if topology.empty:
        return Laid({}, {}, common, ())
    name = environment or inventory.cluster
    _check_environments(name, own_groups, topology, resolved, others)
    if topology.declared and not own_groups:
        common["footprint_services"] = dict(topology.declared)
    prefix = _prefix(name) if own_groups else ""
    groups = {f"{prefix}{group}": hosts for group, hosts in resolved.groups.items()}
    if own_groups:
        groups[prefix[:-1]] = tuple(placed.name for placed in resolved.hosts.values() if placed.names)
    theirs = {one.name: one.roles for one in others}
    variables = {}
    for placed in resolved.hosts.values():
        found = dict(placed.variables)
        found[TOPOLOGY] = {
            "environment": name,
            "roles": list(placed.roles),
            "own_roles": list(theirs.get(placed.name, [role for role in placed.roles if role not in plan_topology.roles_of(topology, placed.name, ())])),
            "services": list(placed.services),
            "names": list(placed.names),
            "origins": {path: layer for path, layer in plan_layers.origins(placed.layers).items() if layer != "component"},
        }
        if placed.names:
            found.setdefault("footprint_cluster", inventory.cluster)
        if placed.roles:
            found["node_roles"] = list(placed.roles)
        mine = [service for service in placed.services if topology.services[service].exclusive]
        if mine:
            found[ENVIRONMENTS] = {name: mine}
        if own_groups and mine:
            found["footprint_environment"] = name
            found["footprint_services"] = dict(topology.declared)
            if topology.networks:
                found[NETWORKS] = dict(topology.networks)
            for service in topology.services.values():
                if service.role and service.group_name in resolved.groups:
                    found.setdefault(f"{service.variable_prefix}_group", f"{prefix}{service.group_name}")
        variables[placed.name] = found
    # what a server is for all environments keeps its group
    prefixed = frozenset(topology.roles) - {ROLE_VIRT, ROLE_COMPUTE} if own_groups else frozenset()
    return Laid(groups, variables, common, resolved.warnings, prefixed)


def _prefix(environment: str) -> str:
    """Return the prefix of the groups of an environment."""
    return f"{re.sub(r'[^A-Za-z0-9_]', '_', environment)}_"


def _check_environments(name: str, own_groups: bool, topology: Topology, resolved: plan_topology.Resolved, others: t.Sequence[Known]) -> None:
    environments: dict[str, dict[str, t.Sequence[str]]] = {}
    for known in others:
        for environment, services in known.environments.items():
            environments.setdefault(environment, {})[known.name] = services
    environments.pop(name, None)
    twin = next((one for one in environments if own_groups and _prefix(one) == _prefix(name)), None)
    if twin is not None:
        raise RefusedError(
            f"the groups of {name} would be mixed with those of {twin}, because both begin with {_prefix(name)}.",
            "environment",
            "Rename one of the two environments.",
        )
    if environments and not own_groups and any(placed.names for placed in resolved.hosts.values()):
        raise RefusedError(
            f"{', '.join(environments)} already has services in this inventory, and the groups of {name} would be mixed with its groups.",
            "own_groups",
            "Use the file of one environment at a time, or set own_groups: true in each.",
        )
    mine = {one.name: [service for service in one.services if topology.services[service].exclusive] for one in resolved.hosts.values()}
    plan_topology.check_environments({**environments, name: mine})


def known(name: str, variables: t.Mapping[str, t.Any], groups: t.Sequence[str]) -> Known:
    """Return a host of an earlier inventory source from its variables and groups."""
    details = variables.get("vm_details")
    nested = details.get("nested") if isinstance(details, t.Mapping) else variables.get("nested")
    before = variables.get(TOPOLOGY)
    # roles assigned by another topology apply to its environment only
    roles = names_of(before["own_roles"] if before else variables.get("node_roles"), f"node_roles of {name}")
    found = variables.get(ENVIRONMENTS)
    return Known(
        name,
        roles,
        tuple(groups),
        "vm_host" in variables,
        nested in (True, "true", "yes", "on", 1, "True"),
        found if isinstance(found, t.Mapping) else {},
    )


def over(hosts: t.Sequence[Host], laid: Laid) -> tuple[Host, ...]:
    """Return the hosts with the additions of the topology; variables that the operator set for a host win."""
    result = []
    for host in hosts:
        variables = {**laid.variables.get(host.name, {}), **host.variables}
        variables["node_roles"] = laid.variables.get(host.name, {}).get("node_roles", host.variables.get("node_roles", []))
        added = tuple(group for group, members in laid.groups.items() if host.name in members)
        own = variables.get(TOPOLOGY, {}).get("own_roles", ())
        groups = [group for group in host.groups if group not in laid.prefixed or group in own]
        result.append(Host(host.name, tuple(dict.fromkeys((*groups, *added))), variables))
    return tuple(result)
