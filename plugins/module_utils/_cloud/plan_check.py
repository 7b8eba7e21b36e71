# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check declared resources of a cloud against each other, the servers and what exists, before anything is changed. No I/O."""

from __future__ import annotations

import ipaddress
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._cloud.model_addresses import Subnet
from ansible_collections.reduced.footprint.plugins.module_utils._cloud.model_resources import FLAT, VLAN, Declared, Flavor, Image, Net, Project, Router
from ansible_collections.reduced.footprint.plugins.module_utils._cloud.model_state import Server, Site, State
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_fields import did_you_mean
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import GIB, MIB, size_text
from ansible_collections.reduced.footprint.plugins.module_utils._topology.model_networks import overlap

#: The named network of the footprint that provider networks may use.
PUBLIC = "public"


def check(declared: Declared, site: Site, state: State | None = None) -> None:
    """Check all resources.

    :arg site: the servers and networks of the footprint.
    :arg state: what exists; ``None`` before it is known, then names that are not declared are not checked.
    """
    _check_names(declared, state)
    for flavor in declared.flavors:
        check_flavor(flavor, site.servers)
    for image in declared.images:
        check_image(image, site.servers)
    for net in declared.networks:
        _check_network(net, declared, site, state)
    for router in declared.routers:
        _check_router(router, declared, state)
    for kind in declared.volume_types:
        if kind.backend and kind.backend not in site.backends:
            hint = did_you_mean(kind.backend, site.backends, f"Use one of {', '.join(site.backends) or 'none'}, or declare it in cinder_volume_backends.")
            raise InputError(f"unknown backend {kind.backend!r}.", f"{kind.path}.backend", hint)
    if state:
        for project in declared.projects:
            _check_quota(project, declared, state)


def check_flavor(flavor: Flavor, servers: t.Sequence[Server]) -> None:
    """Refuse a flavor that is larger than every compute server."""
    if not servers:
        return
    for name, wanted, unit, have in (
        ("vcpus", flavor.vcpus, 1, [(server.cores, server.name) for server in servers]),
        ("ram", flavor.ram_mib, MIB, [(server.memory_mib, server.name) for server in servers]),
        ("disk", flavor.disk_gib, GIB, [(server.disk_gib, server.name) for server in servers]),
    ):
        most, host = max(have)
        if wanted > most:
            words = [str(one) if name == "vcpus" else size_text(one * unit) for one in (wanted, most)]
            hint = "Reduce it, or add a larger server." if most else f"Check the facts of {host}."
            raise InputError(f"{words[0]} is more than every compute server has; the largest is {host} with {words[1]}.", f"{flavor.path}.{name}", hint)
    if not any(_fits(flavor, server) for server in servers):
        raise InputError("no single compute server has the CPUs, the memory and the disk.", flavor.path, "Reduce one of them.")


def _fits(flavor: Flavor, server: Server) -> bool:
    return flavor.vcpus <= server.cores and flavor.ram_mib <= server.memory_mib and flavor.disk_gib <= server.disk_gib


def check_image(image: Image, servers: t.Sequence[Server]) -> None:
    """Refuse an image that no compute server can run."""
    if not servers:
        return
    able = [server for server in servers if server.architecture == image.architecture]
    if not able:
        have = ", ".join(sorted({server.architecture for server in servers}))
        raise InputError(f"no compute server is {image.architecture}, only {have}.", f"{image.path}.architecture", "Use an image for these servers.")
    able = [server for server in able if image.firmware in server.firmware]
    if not able:
        raise InputError(
            f"no {image.architecture} compute server can boot with {image.firmware}.",
            f"{image.path}.firmware",
            "Install the package ovmf on them, or use an image that boots with bios." if image.firmware == "uefi" else "Use an image for uefi.",
        )
    most = max(able, key=lambda server: server.memory_mib)
    if image.min_ram_mib > most.memory_mib:
        words = f"{size_text(image.min_ram_mib * MIB)} is more than {most.name}, the largest suitable server, has: {size_text(most.memory_mib * MIB)}."
        raise InputError(words, f"{image.path}.min_ram", "Reduce it, or add a larger server.")


def _known(name: str, path: str, declared: t.Iterable[str], existing: t.Collection[str] | None, what: str) -> None:
    """Refuse a name that is neither declared nor exists."""
    here = list(declared)
    if not name or name in here or existing is None or name in existing:
        return
    names = sorted({*here, *existing})
    raise InputError(f"unknown {what} {name!r}.", path, did_you_mean(name, names, f"Declare it, or use one of {', '.join(names) or 'none'}."))


def _check_names(declared: Declared, state: State | None) -> None:
    projects = [project.name for project in declared.projects]
    existing = state.names("projects") if state else None
    for kind in ("networks", "routers", "security_groups"):
        for entry in getattr(declared, kind):
            _known(entry.project, f"{entry.path}.project", projects, existing, "project")
    for user in declared.users:
        _known(user.project, f"{user.path}.project", projects, existing, "project")
        for index, role in enumerate(user.roles):
            _known(role, f"{user.path}.roles[{index}]", declared.roles, state.names("roles") if state else None, "role")
    for key in declared.key_pairs:
        # its password is required, so the user must be declared
        _known(key.user, f"{key.path}.user", [user.name for user in declared.users], (), "user")
    for group in declared.security_groups:
        mine = [one.name for one in declared.security_groups if one.project == group.project]
        found = state.in_project("security_groups", group.project) if state else None
        for rule in group.rules:
            _known(rule.group, f"{rule.path}.group", mine, found, "security group")
    images = [image.name for image in declared.images]
    for image in declared.images:
        for key, name in (("kernel", image.kernel), ("ramdisk", image.ramdisk)):
            _known(name, f"{image.path}.{key}", images, state.names("images") if state else None, "image")


def _check_network(net: Net, declared: Declared, site: Site, state: State | None) -> None:
    if net.type:
        _check_provider(net, declared, site, state)
    for index, subnet in enumerate(net.subnets):
        for other in net.subnets[:index]:
            if overlap(subnet.cidr, other.cidr):
                raise InputError(f"{subnet.cidr} overlaps with {other.cidr} of {other.name}.", f"{subnet.path}.cidr", "Use another network.")
            if subnet.name == other.name:
                raise InputError(f"{subnet.name} is the name of another subnet.", f"{subnet.path}.name", "Set a name of its own.")
        if net.type:
            _check_provider_subnet(net, subnet, declared, site, state)


def _check_provider(net: Net, declared: Declared, site: Site, state: State | None) -> None:
    if net.physical_network not in site.physical_networks:
        hint = did_you_mean(net.physical_network, site.physical_networks, f"Use one of {', '.join(site.physical_networks) or 'none'}.")
        raise InputError(f"unknown physical network {net.physical_network!r}.", f"{net.path}.physical_network", hint)
    for network in site.networks.values():
        if net.vlan and net.vlan == network.vlan and network.name != PUBLIC:
            raise InputError(
                f"VLAN {net.vlan} is that of the network {network.name} of the servers.", f"{net.path}.vlan", "Use a VLAN that only tenants use."
            )
    others = [(one.name, one.type, one.physical_network, one.vlan, one.path) for one in declared.networks if one.path < net.path]
    if state:
        others += [(*each, "the cloud") for each in state.provider_networks() if each[0] not in [one.name for one in declared.networks]]
    for name, kind, physical, vlan, where in others:
        if (kind, physical) != (net.type, net.physical_network):
            continue
        if net.type == FLAT:
            raise InputError(
                f"the flat network {name} ({where}) already uses {physical}.", f"{net.path}.physical_network", "Use type: vlan, or another physical network."
            )
        if net.type == VLAN and vlan == net.vlan:
            raise InputError(f"{name} ({where}) already uses VLAN {vlan} of {physical}.", f"{net.path}.vlan", "Use another VLAN.")


def _check_provider_subnet(net: Net, subnet: Subnet, declared: Declared, site: Site, state: State | None) -> None:
    for network in site.networks.values():
        if network.name != PUBLIC and overlap(subnet.cidr, network.cidr):
            raise InputError(
                f"{subnet.cidr} overlaps with {network.cidr}, the network {network.name} of the servers.", f"{subnet.path}.cidr", "Use another network."
            )
    first, last = subnet.assignable
    for address, host in site.addresses.items():
        found = ipaddress.ip_address(address)
        if found.version == subnet.cidr.version and first <= found <= last:  # type: ignore[operator]
            raise InputError(
                f"{first} to {last} would be assigned to servers, but {address} is the address of {host}.",
                f"{subnet.path}.pool",
                "Set pool: [FIRST, LAST] to a range that nothing else uses.",
            )
    for other in declared.networks:
        if other.type and other.path < net.path:
            for one in other.subnets:
                _refuse_overlap(subnet, one.cidr, one.path)
    for cidr, name in state.provider_subnets([one.name for one in declared.networks]) if state else ():
        _refuse_overlap(subnet, cidr, f"{name} in the cloud")


def _refuse_overlap(subnet: Subnet, other: t.Any, where: str) -> None:
    if overlap(subnet.cidr, other):
        raise InputError(f"{subnet.cidr} overlaps with {other} ({where}).", f"{subnet.path}.cidr", "Use another network.")


def _check_router(router: Router, declared: Declared, state: State | None) -> None:
    outside = [net.name for net in declared.networks if net.external]
    _known(router.external, f"{router.path}.external", outside, state.external_networks() if state else None, "external network")
    inside: list[tuple[str, t.Any]] = []
    for net in declared.networks:
        if net.external and net.name == router.external:
            inside += [(subnet.name, subnet.cidr) for subnet in net.subnets]
    mine = {subnet.name: subnet for net in declared.networks if net.project == router.project for subnet in net.subnets}
    existing = state.in_project("subnets", router.project) if state else None
    for index, name in enumerate(router.subnets):
        path = f"{router.path}.subnets[{index}]"
        _known(name, path, mine, existing, f"subnet of the project {router.project or 'of the administrator'}")
        if name in mine:
            for other, cidr in inside:
                if overlap(mine[name].cidr, cidr):
                    raise InputError(f"{mine[name].cidr} overlaps with {cidr} of {other} at the same router.", path, "Use another network.")
            inside.append((name, mine[name].cidr))


def _check_quota(project: Project, declared: Declared, state: State) -> None:
    """Refuse a quota below what exists or what the lists themselves need."""
    used = state.usage(project.name)
    listed = {
        "networks": {net.name for net in declared.networks if net.project == project.name},
        "subnets": {subnet.name for net in declared.networks if net.project == project.name for subnet in net.subnets},
        "routers": {router.name for router in declared.routers if router.project == project.name},
        "security_groups": {group.name for group in declared.security_groups if group.project == project.name},
    }
    for key, limit in project.quota.items():
        here = f"{project.path}.quota.{key}"
        if 0 <= limit < used.get(key, 0):
            unit = " MiB" if key == "ram" else ""
            raise InputError(f"{limit}{unit} is less than what {project.name} uses: {used[key]}{unit}.", here, f"Use {used[key]} or more.")
        if key in listed:
            needed = len({*listed[key], *state.in_project(key, project.name)})
            if 0 <= limit < needed:
                raise InputError(f"{limit} is less than the {needed} {key} of {project.name}, existing and declared.", here, f"Use {needed} or more.")
