# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The resources of a cloud as declared by the operator: projects, users, flavors, images, networks and so on, by list."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._cloud import model_addresses
from ansible_collections.reduced.footprint.plugins.module_utils._core import model_fields, model_size
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, kind_of, shown
from ansible_collections.reduced.footprint.plugins.module_utils._topology.model_networks import VLAN_IDS

#: Variables of the playbook, each a list.
KINDS = ("projects", "roles", "users", "flavors", "images", "networks", "routers", "security_groups", "key_pairs", "volume_types")
PREFIX = "cloud_bootstrap_"
ARCHITECTURES = ("x86_64", "aarch64", "ppc64le", "s390x")
FIRMWARE = ("bios", "uefi")
#: Types of networks on a physical network; any other is a tenant network.
FLAT, VLAN = "flat", "vlan"
COMPUTE_QUOTAS = ("instances", "cores", "ram", "server_groups", "server_group_members", "metadata_items", "key_pairs")
NETWORK_QUOTAS = ("networks", "subnets", "ports", "routers", "floating_ips", "security_groups", "security_group_rules")
_MOST = 2**31 - 1
_NAME = re.compile(r"[^\s/](?:[^/\n]{0,253}[^\s/])?\Z")
_FORMATS = ("qcow2", "raw", "vmdk", "vdi", "vhdx", "iso", "aki", "ari")


class Project(t.NamedTuple):
    """A project; ``quota`` has only the values that are set, memory in MiB, -1 for no limit."""

    path: str
    name: str
    description: str
    quota: t.Mapping[str, int]


class User(t.NamedTuple):
    """A user with roles in one project. Its password is not part of the record."""

    path: str
    name: str
    project: str
    roles: tuple[str, ...]
    email: str


class Flavor(t.NamedTuple):
    """The size of a server."""

    path: str
    name: str
    vcpus: int
    ram_mib: int
    disk_gib: int
    public: bool
    properties: t.Mapping[str, str]


class Image(t.NamedTuple):
    """An image; ``kernel`` and ``ramdisk`` are images of the list that it boots with."""

    path: str
    name: str
    file: str
    disk_format: str
    architecture: str
    firmware: str
    min_ram_mib: int
    min_disk_gib: int
    public: bool
    kernel: str
    ramdisk: str
    properties: t.Mapping[str, str]


class Net(t.NamedTuple):
    """A network; ``type`` is empty for a tenant network."""

    path: str
    name: str
    project: str
    type: str
    physical_network: str
    vlan: int
    external: bool
    shared: bool
    mtu: int
    subnets: tuple[model_addresses.Subnet, ...]


class Router(t.NamedTuple):
    """A router between subnets of one project and an external network."""

    path: str
    name: str
    project: str
    external: str
    subnets: tuple[str, ...]


class SecurityGroup(t.NamedTuple):
    """A security group and the rules that it has at least."""

    path: str
    name: str
    project: str
    description: str
    rules: tuple[model_addresses.Rule, ...]


class KeyPair(t.NamedTuple):
    """The public key of a user; an empty user is the administrator."""

    path: str
    name: str
    user: str
    public_key: str


class VolumeType(t.NamedTuple):
    """A choice of volumes; an empty backend leaves it to the scheduler."""

    path: str
    name: str
    description: str
    public: bool
    backend: str
    properties: t.Mapping[str, str]


class Declared(t.NamedTuple):
    """All lists."""

    projects: tuple[Project, ...]
    roles: tuple[str, ...]
    users: tuple[User, ...]
    flavors: tuple[Flavor, ...]
    images: tuple[Image, ...]
    networks: tuple[Net, ...]
    routers: tuple[Router, ...]
    security_groups: tuple[SecurityGroup, ...]
    key_pairs: tuple[KeyPair, ...]
    volume_types: tuple[VolumeType, ...]


def parse(lists: t.Mapping[str, t.Any]) -> Declared:
    """Return the declared resources.

    :arg lists: the lists by :data:`KINDS`; missing ones are empty.
    """
    model_fields.check_known(lists, KINDS, "", "")
    found: dict[str, t.Any] = {}
    for kind in KINDS:
        path = f"{PREFIX}{kind}"
        value = model_fields.sequence(lists.get(kind), path, "Write a list, also for one entry.")
        found[kind] = tuple(_PARSERS[kind](entry, f"{path}[{index}]") for index, entry in enumerate(value))
        _unique(found[kind])
    return Declared(**found)


def _unique(entries: t.Sequence[t.Any]) -> None:
    """Refuse two entries of the same name, in the same project or of the same user where there is one."""
    seen: dict[tuple[str, str], str] = {}
    for entry in entries:
        if not isinstance(entry, str):
            owner = getattr(entry, "user", "") if isinstance(entry, KeyPair) else "" if isinstance(entry, User) else getattr(entry, "project", "")
            first = seen.setdefault((owner, entry.name), entry.path)
            if first != entry.path:
                raise InputError(f"{entry.name} is already declared at {first}.", f"{entry.path}.name", "Use each name once.")


def name_of(value: t.Any, path: str) -> str:
    """Return a name of OpenStack."""
    text = str(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else ""
    if not _NAME.match(text):
        raise InputError("is missing." if value is None else f"{shown(value)} is not a valid name.", path, "Use 1 to 255 characters without slashes.")
    return text


def _opened(value: t.Any, keys: t.Sequence[str], path: str) -> tuple[t.Mapping[str, t.Any], str]:
    model_fields.check_known(value, ("name", *keys), path, f"Write a mapping with {', '.join(('name', *keys))}.")
    return value, name_of(value.get("name"), f"{path}.name")


def text(entry: t.Mapping[str, t.Any], key: str, path: str) -> str:
    """Return an optional text."""
    value = entry.get(key)
    if value is None:
        return ""
    if not isinstance(value, (str, int)) or isinstance(value, bool):
        raise InputError(f"expected text, got {kind_of(value)}.", f"{path}.{key}", "Write text.")
    return str(value)


def flag(entry: t.Mapping[str, t.Any], key: str, path: str, default: bool = False) -> bool:
    """Return an optional boolean."""
    value = entry.get(key, default)
    if not isinstance(value, bool):
        raise InputError(f"expected a boolean, got {shown(value)}.", f"{path}.{key}", "Use true or false.")
    return value


def names(entry: t.Mapping[str, t.Any], key: str, path: str) -> tuple[str, ...]:
    """Return an optional list of names."""
    value = model_fields.sequence(entry.get(key), f"{path}.{key}", "Write a list of names.")
    return tuple(name_of(one, f"{path}.{key}[{index}]") for index, one in enumerate(value))


def _properties(entry: t.Mapping[str, t.Any], path: str) -> dict[str, str]:
    value = model_fields.mapping(entry.get("properties"), f"{path}.properties", "Write NAME: VALUE.")
    return {key: str(one).lower() if isinstance(one, bool) else str(one) for key, one in value.items()}


def _size(entry: t.Mapping[str, t.Any], key: str, unit: int, path: str, required: bool = False) -> int:
    """Return a size in whole units, rounded up; a number without a unit is in GiB."""
    value = entry.get(key)
    if value in (0, "0") and not required:
        return 0
    if value is None:
        if required:
            raise InputError("is missing.", f"{path}.{key}", "Write a size, e.g. 2 (GiB) or 512 MiB.")
        return 0
    return -(-model_size.parse_size(value, "GiB", f"{path}.{key}") // unit)


def _project(value: t.Any, path: str) -> Project:
    entry, name = _opened(value, ("description", "quota"), path)
    quota = entry.get("quota") or {}
    model_fields.check_known(quota, (*COMPUTE_QUOTAS, *NETWORK_QUOTAS), f"{path}.quota", "Write RESOURCE: NUMBER.")
    found = {}
    for key, limit in quota.items():
        here = f"{path}.quota"
        if key == "ram" and limit not in (-1, "-1"):
            found[key] = _size(quota, "ram", model_size.MIB, here)
        else:
            found[key] = model_fields.number(limit, -1, -1, _MOST, f"{here}.{key}")
    return Project(path, name, text(entry, "description", path), found)


def _user(value: t.Any, path: str) -> User:
    entry, name = _opened(value, ("project", "roles", "email", "password"), path)
    project = text(entry, "project", path)
    if not project:
        raise InputError("is missing.", f"{path}.project", "Set the project in which the user has its roles.")
    text(entry, "password", path)
    return User(path, name, project, names(entry, "roles", path) or ("member",), text(entry, "email", path))


def _flavor(value: t.Any, path: str) -> Flavor:
    entry, name = _opened(value, ("vcpus", "ram", "disk", "public", "properties"), path)
    vcpus = model_fields.number(entry.get("vcpus"), 1, 1, 1024, f"{path}.vcpus")
    ram = _size(entry, "ram", model_size.MIB, path, required=True)
    disk = _size(entry, "disk", model_size.GIB, path)
    return Flavor(path, name, vcpus, ram, disk, flag(entry, "public", path, True), _properties(entry, path))


def _image(value: t.Any, path: str) -> Image:
    keys = ("file", "disk_format", "architecture", "firmware", "min_ram", "min_disk", "public", "kernel", "ramdisk", "properties")
    entry, name = _opened(value, keys, path)
    if not text(entry, "file", path):
        raise InputError("is missing.", f"{path}.file", "Set the path of the image on the control node.")
    return Image(
        path,
        name,
        text(entry, "file", path),
        model_fields.choice(entry.get("disk_format", "qcow2"), _FORMATS, f"{path}.disk_format"),
        model_fields.choice(entry.get("architecture", "x86_64"), ARCHITECTURES, f"{path}.architecture"),
        model_fields.choice(entry.get("firmware", "bios"), FIRMWARE, f"{path}.firmware"),
        _size(entry, "min_ram", model_size.MIB, path),
        _size(entry, "min_disk", model_size.GIB, path),
        flag(entry, "public", path, True),
        text(entry, "kernel", path),
        text(entry, "ramdisk", path),
        _properties(entry, path),
    )


def _network(value: t.Any, path: str) -> Net:
    keys = ("project", "type", "physical_network", "vlan", "external", "shared", "mtu", "subnets")
    entry, name = _opened(value, keys, path)
    kind = model_fields.choice(entry["type"], (FLAT, VLAN), f"{path}.type") if entry.get("type") else ""
    vlan = model_fields.number(entry.get("vlan"), 0, *VLAN_IDS, f"{path}.vlan")
    if vlan and kind != VLAN:
        raise InputError(f"requires type: vlan, not {kind or 'a tenant network'}.", f"{path}.vlan", "Set type: vlan, or remove vlan.")
    if kind == VLAN and not vlan:
        raise InputError("is missing.", f"{path}.vlan", f"Set the VLAN ID, {VLAN_IDS[0]} to {VLAN_IDS[1]}.")
    physical = text(entry, "physical_network", path)
    if physical and not kind:
        raise InputError("requires a type.", f"{path}.physical_network", "Set type: flat or type: vlan, or remove physical_network.")
    if kind and not physical:
        physical = "provider"
    external = flag(entry, "external", path)
    if external and not kind:
        raise InputError("requires a provider network.", f"{path}.external", "Set type: flat or type: vlan.")
    given = model_fields.sequence(entry.get("subnets"), f"{path}.subnets", "Write a list, also for one subnet.")
    subnets = tuple(model_addresses.parse_subnet(one, name, external, f"{path}.subnets[{index}]") for index, one in enumerate(given))
    mtu = model_fields.number(entry.get("mtu"), 0, 68, 65535, f"{path}.mtu")
    return Net(path, name, text(entry, "project", path), kind, physical, vlan, external, flag(entry, "shared", path), mtu, subnets)


def _router(value: t.Any, path: str) -> Router:
    entry, name = _opened(value, ("project", "external", "subnets"), path)
    return Router(path, name, text(entry, "project", path), text(entry, "external", path), names(entry, "subnets", path))


def _security_group(value: t.Any, path: str) -> SecurityGroup:
    entry, name = _opened(value, ("project", "description", "rules"), path)
    given = model_fields.sequence(entry.get("rules"), f"{path}.rules", "Write a list, also for one rule.")
    rules = tuple(model_addresses.parse_rule(one, f"{path}.rules[{index}]") for index, one in enumerate(given))
    return SecurityGroup(path, name, text(entry, "project", path), text(entry, "description", path), rules)


def _key_pair(value: t.Any, path: str) -> KeyPair:
    entry, name = _opened(value, ("user", "public_key"), path)
    key = text(entry, "public_key", path).strip()
    if "PRIVATE KEY" in key:
        raise InputError("is a private key.", f"{path}.public_key", "Write the content of the file that ends in .pub, and replace the private key.")
    if not re.match(r"(ssh|ecdsa|sk)-[\w@.-]+ [A-Za-z0-9+/]+=* ?[^\n]*\Z", key):
        raise InputError("is not a public key of OpenSSH.", f"{path}.public_key", "Write the content of a file such as id_ed25519.pub, one line.")
    return KeyPair(path, name, text(entry, "user", path), key)


def _volume_type(value: t.Any, path: str) -> VolumeType:
    entry, name = _opened(value, ("description", "public", "backend", "properties"), path)
    properties = _properties(entry, path)
    if "volume_backend_name" in properties:
        raise InputError("is set by backend.", f"{path}.properties.volume_backend_name", "Set backend instead.")
    return VolumeType(path, name, text(entry, "description", path), flag(entry, "public", path, True), text(entry, "backend", path), properties)


_PARSERS: t.Mapping[str, t.Callable[[t.Any, str], t.Any]] = {
    "projects": _project,
    "roles": name_of,
    "users": _user,
    "flavors": _flavor,
    "images": _image,
    "networks": _network,
    "routers": _router,
    "security_groups": _security_group,
    "key_pairs": _key_pair,
    "volume_types": _volume_type,
}
