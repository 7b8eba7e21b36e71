# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The topology of a control plane as written by the operator: the roles of nodes and the services of roles."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, kind_of
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_fields import SLIP, check_known, did_you_mean, mapping, near_miss, number
from ansible_collections.reduced.footprint.plugins.module_utils._topology import model_networks, model_services
from ansible_collections.reduced.footprint.plugins.module_utils._topology.model_services import CONTROLLER, WITNESS, Service, names_of

#: Roles that are valid without a list of services.
ROLES_WITHOUT_SERVICES = ("virt", "compute", "master", "monitoring", CONTROLLER, WITNESS)
#: The options of a topology, in the order of the guide.
KEYS = ("nodes", "roles", "replicas", "services", "configs", "global_configs", "networks")


@dataclasses.dataclass(frozen=True)
class NodeRule:
    """A key of ``nodes``: a regular expression for host names, and the roles and settings of matching hosts."""

    key: str
    pattern: re.Pattern[str]
    roles: tuple[str, ...]
    configs: t.Mapping[str, t.Any]
    path: str

    def matches(self, host: str) -> bool:
        """Whether the expression matches the beginning of the host name."""
        return self.pattern.match(host) is not None


@dataclasses.dataclass(frozen=True)
class Topology:
    """A validated topology, independent of the hosts."""

    nodes: tuple[NodeRule, ...] = ()
    roles: t.Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    replicas: t.Mapping[str, int] = dataclasses.field(default_factory=dict)
    services: t.Mapping[str, Service] = dataclasses.field(default_factory=dict)
    configs: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    global_configs: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    declared: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    networks: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)

    @property
    def empty(self) -> bool:
        """Whether all options are empty."""
        return not (self.nodes or self.roles or self.replicas or self.configs or self.global_configs or self.declared)


def parse_topology(value: t.Mapping[str, t.Any]) -> Topology:
    """Parse a topology from its options.

    :arg value: the options by name; missing ones are empty.
    """
    services = model_services.parse_services(value.get("services"))
    roles = _roles(value.get("roles"), services)
    _check_networks(value.get("networks"), services)
    return Topology(
        nodes=tuple(_nodes(value.get("nodes"), roles)),
        roles=roles,
        replicas=dict(_replicas(value.get("replicas"), services)),
        services=services,
        configs=mapping(value.get("configs"), "configs", "Write settings as a mapping."),
        global_configs=mapping(value.get("global_configs"), "global_configs", "Write settings as a mapping."),
        declared=mapping(value.get("services"), "services", ""),
        networks=mapping(value.get("networks"), "networks", ""),
    )


def _check_networks(value: t.Any, services: t.Mapping[str, Service]) -> None:
    """Check the networks, and the names of services in them: one that is not found uses the network management."""
    for network in model_networks.parse_networks(value, "networks").values():
        for index, name in enumerate(network.services):
            path, service = f"networks.{network.name}.services[{index}]", services.get(name)
            near = near_miss(name, {*(one.name for one in services.values() if one.role), *model_networks.USUAL}, SLIP)
            if service is None and near:
                raise InputError(f"unknown service {name!r}.", path, f"Did you mean {near}?")
            if service is not None and service.service_def:
                raise InputError(f"{name} stands for the service {service.service_def}.", path, f"List {service.service_def} instead.")


def _roles(value: t.Any, services: t.Mapping[str, Service]) -> dict[str, tuple[str, ...]]:
    found = {}
    for role, entry in mapping(value, "roles", "Write each role as NAME: [services].").items():
        path = f"roles.{role}"
        if entry is not None and not isinstance(entry, (list, tuple)):
            raise InputError(f"expected a list, got {kind_of(entry)}.", path, "Write the services of the role as a list.")
        found[role] = names_of(entry, path)
        for index, service in enumerate(entry or ()):
            if service not in services:
                raise InputError(
                    f"unknown service {service!r}.",
                    f"{path}[{index}]",
                    did_you_mean(service, services, f"Use one of {model_services.known(services)}, or declare it below services."),
                )
    return found


def _nodes(value: t.Any, roles: t.Mapping[str, tuple[str, ...]]) -> t.Iterator[NodeRule]:
    known = sorted({*roles, *ROLES_WITHOUT_SERVICES})
    for key, entry in mapping(value, "nodes", "Write each key as a regular expression for host names: node[2-3]: {roles: [...]}.").items():
        path = f"nodes.{key}"
        try:
            pattern = re.compile(key)
        except re.error as error:
            raise InputError(f"invalid regular expression: {error}.", path, "Correct the expression, e.g. node[1-3].") from error
        rule = mapping(entry, path, "Write {roles: [...], configs: {...}}.")
        check_known(rule, ("roles", "configs"), path, "")
        named = names_of(rule.get("roles"), f"{path}.roles")
        for index, role in enumerate(named):
            if role not in known:
                hint = did_you_mean(role, known, f"Use one of {', '.join(known)}, or declare it below roles.")
                raise InputError(f"unknown role {role!r}.", f"{path}.roles[{index}]", hint)
        yield NodeRule(key, pattern, named, mapping(rule.get("configs"), f"{path}.configs", "Write settings as a mapping."), path)


def _replicas(value: t.Any, services: t.Mapping[str, Service]) -> t.Iterator[tuple[str, int]]:
    for service, count in mapping(value, "replicas", "Write SERVICE: NUMBER.").items():
        path = f"replicas.{service}"
        if service not in services:
            raise InputError(f"unknown service {service!r}.", path, did_you_mean(service, services, f"Use one of {model_services.known(services)}."))
        if count is None:
            raise InputError("a number is required.", path, "Set the number of nodes on which the service runs.")
        yield service, number(count, 1, 1, 10000, path)
