# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compare declared resources of a cloud with what exists, and return what has to be created and changed. No I/O.

Nothing is ever removed: resources, rules and properties that are not declared are kept.
"""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._cloud import model_addresses, model_resources
from ansible_collections.reduced.footprint.plugins.module_utils._cloud.model_resources import Declared
from ansible_collections.reduced.footprint.plugins.module_utils._cloud.model_state import Resource, State
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import RefusedError

#: In the order in which they are applied.
ORDER = ("roles", "projects", "users", "grants", "quotas", "flavors", "images", "networks", "subnets", "routers", "security_groups", "rules", "key_pairs",
         "volume_types")  # fmt: skip
Action = dict[str, t.Any]
Change = dict[str, tuple[t.Any, t.Any]]


def plan(declared: Declared, state: State, checksums: t.Mapping[str, str] | None = None) -> dict[str, list[Action]]:
    """Return the actions by kind, see :data:`ORDER`. An action has ``name``, ``change`` (created or changed values) and the values of its resource.

    :arg checksums: SHA-512 of image files by their path, as far as they are known.
    """
    found: dict[str, list[Action]] = {kind: [] for kind in ORDER}
    found["roles"] = [_action(name, {"name": (None, name)}) for name in declared.roles if name not in state.names("roles")]
    for project in declared.projects:
        mine = state.by_name("projects", project.name)
        wanted = {"description": project.description} if project.description or not mine else {}
        _add(found["projects"], project.name, _compare(mine, wanted), description=project.description, quota=dict(project.quota))
        if project.quota:
            # quotas have no list in the API: the module compares them
            found["quotas"].append(_action(project.name, {}, quota=dict(project.quota), new=mine is None))
    for user in declared.users:
        _users(found, user, state)
    for flavor in declared.flavors:
        _flavor(found, flavor, state)
    for image in declared.images:
        _image(found, image, state, checksums or {})
    for net in declared.networks:
        _network(found, net, state)
    for router in declared.routers:
        _router(found, router, state)
    for group in declared.security_groups:
        _security_group(found, group, state)
    for key in declared.key_pairs:
        _key_pair(found, key, state)
    for kind in declared.volume_types:
        _volume_type(found, kind, state)
    return found


def lines(actions: t.Mapping[str, t.Sequence[Action]]) -> list[str]:
    """Return a line for each change."""
    found = []
    for kind in ORDER:
        for action in actions[kind]:
            if action["change"]:
                what = "; ".join(f"{key}: {before!r} -> {after!r}" for key, (before, after) in action["change"].items() if before is not None)
                where = f" of {action['project']}" if action.get("project") else ""
                found.append(f"{kind}: {'change' if what else 'create'} {action['name']}{where}{f' ({what})' if what else ''}")
    return found


def _action(name: str, change: Change, **values: t.Any) -> Action:
    return {"name": name, "change": {key: list(pair) for key, pair in change.items()}, **values}


def _add(actions: list[Action], name: str, change: Change, **values: t.Any) -> None:
    if change:
        actions.append(_action(name, change, **values))


def _compare(mine: Resource | None, wanted: t.Mapping[str, t.Any]) -> Change:
    """Return the differences; of a new resource its name is one, so that it is never empty."""
    if mine is None:
        return {"state": (None, "present"), **{key: (None, value) for key, value in wanted.items()}}
    return {key: (_seen(mine.get(key)), value) for key, value in wanted.items() if mine.get(key) != value}


def _seen(value: t.Any) -> t.Any:
    return "" if value is None else value


def _refuse(mine: Resource | None, change: Change, fixed: t.Mapping[str, str], path: str) -> None:
    """Refuse changes of values that are fixed once the resource exists.

    :arg fixed: name in the API → key of the list.
    """
    for key, word in fixed.items():
        if mine and key in change:
            before, after = change[key]
            raise RefusedError(
                f"{mine['name']} exists with {before}, not {after}, and this cannot be changed.", f"{path}.{word}", "Use another name, or remove it yourself."
            )


def _users(found: dict[str, list[Action]], user: model_resources.User, state: State) -> None:
    mine = state.by_name("users", user.name)
    project = state.project_id(user.project)
    wanted = {"email": user.email} if user.email else {}
    _add(found["users"], user.name, _compare(mine, wanted), project=user.project, email=user.email)
    roles = {str(role["name"]): role["id"] for role in state.all("roles")}
    granted = {
        one["role"]["id"]
        for one in state.all("role_assignments")
        if mine and (one.get("user") or {}).get("id") == mine["id"] and ((one.get("scope") or {}).get("project") or {}).get("id") == project
    }
    for role in user.roles:
        if roles.get(role) not in granted or role not in roles:
            found["grants"].append(_action(role, {"user": (None, user.name)}, project=user.project, user=user.name))


def _flavor(found: dict[str, list[Action]], flavor: model_resources.Flavor, state: State) -> None:
    mine = state.by_name("flavors", flavor.name)
    wanted = {"vcpus": flavor.vcpus, "ram": flavor.ram_mib, "disk": flavor.disk_gib, "is_public": flavor.public}
    change = _compare(mine, wanted)
    _refuse(mine, change, {"vcpus": "vcpus", "ram": "ram", "disk": "disk", "is_public": "public"}, flavor.path)
    specs = (mine or {}).get("extra_specs") or {}
    change.update({key: (specs.get(key, ""), value) for key, value in flavor.properties.items() if mine and specs.get(key) != value})
    _add(found["flavors"], flavor.name, change, **wanted, properties={**specs, **flavor.properties})


def image_properties(image: model_resources.Image) -> dict[str, str]:
    """Return the properties of an image by which Nova selects a server and builds the domain."""
    found = {"architecture": image.architecture, "hw_architecture": image.architecture, "hw_firmware_type": image.firmware}
    return {**found, **image.properties}


def _image(found: dict[str, list[Action]], image: model_resources.Image, state: State, checksums: t.Mapping[str, str]) -> None:
    mine = state.by_name("images", image.name)
    # the parts of a direct kernel boot are no disks
    properties = image.properties if image.disk_format in ("aki", "ari") else image_properties(image)
    wanted = {"min_ram": image.min_ram_mib, "min_disk": image.min_disk_gib, "visibility": "public" if image.public else "private"}
    change = _compare(mine, wanted)
    if mine:
        # an upload that was killed leaves an image without content, which another run may still be writing
        if mine.get("status") not in (None, "active", "deactivated"):
            raise RefusedError(
                f"{image.name} has no complete content, its status is {mine['status']}: an upload is in progress, or was interrupted.", f"{image.path}.name",
                f"If no upload is in progress, remove it (openstack image delete {mine.get('id') or image.name}), then run again.",
            )  # fmt: skip
        have = _image_properties(mine)
        change.update({key: (have.get(key, ""), value) for key, value in properties.items() if have.get(key) != value})
        known = checksums.get(image.file)
        if known and mine.get("hash_value") and known != mine["hash_value"]:
            raise RefusedError(f"{image.name} exists with another content.", f"{image.path}.file", "Use another name, for example with a date.")
    _add(
        found["images"], image.name, change, **wanted, file=image.file, disk_format=image.disk_format, properties=dict(properties), kernel=image.kernel,
        ramdisk=image.ramdisk,
    )  # fmt: skip


def _image_properties(mine: Resource) -> dict[str, str]:
    """Return the properties of an image; openstacksdk has attributes for some of them and a mapping for the others."""
    plain = {key: value for key, value in mine.items() if isinstance(value, str)}
    return {**plain, **{str(key): str(value) for key, value in (mine.get("properties") or {}).items()}}


def _network(found: dict[str, list[Action]], net: model_resources.Net, state: State) -> None:
    mine = state.find("networks", net.name, net.project)
    wanted: dict[str, t.Any] = {"is_router_external": net.external, "is_shared": net.shared}
    provider = {"provider_network_type": net.type, "provider_physical_network": net.physical_network} if net.type else {}
    if net.vlan:
        provider["provider_segmentation_id"] = net.vlan  # type: ignore[assignment]
    if net.mtu:
        wanted["mtu"] = net.mtu
    change = _compare(mine, {**wanted, **provider})
    fixed = {"provider_network_type": "type", "provider_physical_network": "physical_network", "provider_segmentation_id": "vlan"}
    _refuse(mine, change, fixed, net.path)
    _add(found["networks"], net.name, change, project=net.project, mtu=net.mtu, **provider, is_router_external=net.external, is_shared=net.shared)
    for subnet in net.subnets:
        _subnet(found, net, subnet, mine, state)


def _subnet(found: dict[str, list[Action]], net: model_resources.Net, subnet: model_addresses.Subnet, network: Resource | None, state: State) -> None:
    here = [one for one in state.of_project("subnets", net.project) if network and one.get("network_id") == network["id"]]
    mine = next((one for one in here if one.get("name") == subnet.name), None)
    wanted: dict[str, t.Any] = {"cidr": str(subnet.cidr), "is_dhcp_enabled": subnet.dhcp, "dns_nameservers": list(subnet.dns)}
    wanted["gateway_ip"] = str(subnet.gateway) if subnet.gateway else None
    if subnet.pool:
        wanted["allocation_pools"] = [{"start": str(subnet.pool[0]), "end": str(subnet.pool[1])}]
    change = _compare(mine, wanted)
    _refuse(mine, change, {"cidr": "cidr"}, subnet.path)
    values = {**wanted, "version": subnet.cidr.version, "pool": [str(one) for one in subnet.pool or ()]}
    _add(found["subnets"], subnet.name, change, project=net.project, network=net.name, **values)


def _router(found: dict[str, list[Action]], router: model_resources.Router, state: State) -> None:
    mine = state.find("routers", router.name, router.project)
    networks = {one["id"]: one["name"] for one in state.all("networks")}
    change = _compare(mine, {})
    outside = networks.get(((mine or {}).get("external_gateway_info") or {}).get("network_id"), "")
    if router.external and router.external != outside:
        change["external"] = (outside if mine else None, router.external)
    subnets = {one["id"]: one["name"] for one in state.all("subnets")}
    connected = [
        subnets.get(address.get("subnet_id"), "")
        for port in state.all("ports")
        if mine and port.get("device_id") == mine["id"] and str(port.get("device_owner")).startswith("network:router_interface")
        for address in port.get("fixed_ips") or ()
    ]
    missing = [name for name in router.subnets if name not in connected]
    if missing:
        change["subnets"] = (connected if mine else None, list(router.subnets))
    # the module disconnects subnets that are not listed
    interfaces = list(dict.fromkeys([*filter(None, connected), *router.subnets]))
    _add(found["routers"], router.name, change, project=router.project, external=router.external or outside, subnets=interfaces)


def _security_group(found: dict[str, list[Action]], group: model_resources.SecurityGroup, state: State) -> None:
    mine = state.find("security_groups", group.name, group.project)
    wanted = {"description": group.description} if group.description or not mine else {}
    _add(found["security_groups"], group.name, _compare(mine, wanted), project=group.project, description=group.description)
    groups = {one["id"]: one["name"] for one in state.of_project("security_groups", group.project)}
    have = {_rule_key(one, groups) for one in (mine or {}).get("security_group_rules") or ()}
    for rule in group.rules:
        if _declared_key(rule) not in have:
            values = {"direction": rule.direction, "version": rule.version, "protocol": "" if rule.protocol == "any" else rule.protocol}
            values.update(first=rule.ports[0] if rule.ports else 0, last=rule.ports[1] if rule.ports else 0, remote=rule.remote, group=rule.group)
            found["rules"].append(_action(group.name, {"rule": (None, _words(rule))}, project=group.project, **values))


def _words(rule: model_addresses.Rule) -> str:
    ports = f" {rule.ports[0]}-{rule.ports[1]}" if rule.ports else ""
    return f"{rule.direction} {rule.protocol}{ports} {rule.remote or rule.group or 'any'}"


def _declared_key(rule: model_addresses.Rule) -> tuple[t.Any, ...]:
    remote = "" if rule.remote in ("0.0.0.0/0", "::/0") else rule.remote
    return rule.direction, f"IPv{rule.version}", "" if rule.protocol == "any" else rule.protocol, rule.ports or (), remote, rule.group


def _rule_key(rule: Resource, groups: t.Mapping[str, str]) -> tuple[t.Any, ...]:
    first, last = rule.get("port_range_min"), rule.get("port_range_max")
    remote = rule.get("remote_ip_prefix") or ""
    ports = () if first is None else (first, last)
    group = groups.get(rule.get("remote_group_id") or "", "")
    kind = rule.get("ether_type") or rule.get("ethertype")
    return rule.get("direction"), kind, rule.get("protocol") or "", ports, "" if remote in ("0.0.0.0/0", "::/0") else remote, group


def _key_pair(found: dict[str, list[Action]], key: model_resources.KeyPair, state: State) -> None:
    mine = next((one for user, one in state.key_pairs() if one.get("name") == key.name and user == key.user), None)
    # the comment at the end does not matter
    if mine and str(mine.get("public_key")).split()[:2] != key.public_key.split()[:2]:
        raise RefusedError(f"{key.name} exists with another key.", f"{key.path}.public_key", "Use another name, or remove the old key pair yourself.")
    _add(found["key_pairs"], key.name, _compare(mine, {}), user=key.user, public_key=key.public_key)


def _volume_type(found: dict[str, list[Action]], kind: model_resources.VolumeType, state: State) -> None:
    mine = state.by_name("volume_types", kind.name)
    wanted: dict[str, t.Any] = {"is_public": kind.public, **({"description": kind.description} if kind.description else {})}
    change = _compare(mine, wanted)
    _refuse(mine, change, {"is_public": "public"}, kind.path)
    have = (mine or {}).get("extra_specs") or {}
    specs = {**({"volume_backend_name": kind.backend} if kind.backend else {}), **kind.properties}
    change.update({key: (have.get(key, ""), value) for key, value in specs.items() if mine and have.get(key) != value})
    _add(found["volume_types"], kind.name, change, **wanted, properties={**have, **specs})
