# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a migration of the master is told: the request, checked, with the path of every bad value (F13, F16)."""

from __future__ import annotations

import dataclasses
import ipaddress
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._model.errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._model.size import MIB, parse_size
from ansible_collections.reduced.footprint.plugins.module_utils._model.vm_parts import parse_name

FILESYSTEMS = ("ext4", "xfs", "vfat", "swap")
SOURCE_AFTER = ("temp_address", "shutdown")
CHECK_TYPES = ("tcp", "http", "ssh")

_UNIT = re.compile(r"\A[A-Za-z0-9][A-Za-z0-9:_.@\\-]{0,250}\Z")
_HOST = re.compile(r"\A[A-Za-z0-9][A-Za-z0-9.:-]{0,252}\Z")
_INTERFACE = re.compile(r"\A[A-Za-z0-9][A-Za-z0-9._:-]{0,14}\Z")
_HOST_KEY = re.compile(r"\A(ssh-|ecdsa-)[a-z0-9-]+ [A-Za-z0-9+/=]+\Z")


@dataclasses.dataclass(frozen=True)
class Source:
    """The machine that is moved. ``host_keys`` are ``type base64`` texts without a comment."""

    address: str
    port: int
    machine_id: str | None
    host_keys: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Admin:
    """The address that moves. ``prefix`` and ``interface`` are ``None`` until the source was asked."""

    address: str
    prefix: int | None
    interface: str | None
    temporary_address: str


@dataclasses.dataclass(frozen=True)
class Partition:
    """One partition of the new disk. ``size`` in bytes, ``None`` takes the rest. ``mount`` is ``None`` for swap."""

    mount: str | None
    fs: str
    size: int | None


@dataclasses.dataclass(frozen=True)
class HealthCheck:
    """One question put to the new master through the admin address; all must be answered before the commit."""

    type: str
    port: int
    url: str | None
    status: int


@dataclasses.dataclass(frozen=True)
class MigrationSpec:
    """The whole request. Times in seconds."""

    name: str
    cluster: str
    uri: str
    template: str | None
    pool: str
    vm: t.Mapping[str, t.Any]
    source: Source
    admin: Admin
    services: tuple[str, ...]
    partitions: tuple[Partition, ...]
    excludes: tuple[str, ...]
    health_checks: tuple[HealthCheck, ...]
    max_passes: int
    max_downtime: float
    boot_timeout: int
    return_after: int
    source_after: str
    stop_after: str | None


def parse_spec(params: t.Mapping[str, t.Any]) -> MigrationSpec:
    """The request from a module's parameters (or the job file, which holds the same).

    :raises InputError: with the path of the bad value.
    """
    vm = params.get("vm") or {}
    if not isinstance(vm, t.Mapping):
        raise InputError("is not a mapping.", "vm", "Write the master's VM details, e.g. {id: master, cpu: 2, ram: 2}.")
    name = parse_name(params.get("name") or vm.get("name") or vm.get("id"), "name")
    admin = _parse_admin(params.get("admin") or {})
    return MigrationSpec(
        name=name,
        cluster=parse_name(params.get("cluster") or "footprint", "cluster"),
        uri=params.get("uri") or "qemu:///system",
        template=params.get("template"),
        pool=parse_name(params.get("pool") or "default", "pool"),
        vm=dict(vm),
        source=_parse_source(params.get("source") or {}, admin),
        admin=admin,
        services=_parse_services(params.get("services") or []),
        partitions=_parse_partitions(params.get("partitions") or []),
        excludes=_parse_excludes(params.get("excludes") or []),
        health_checks=_parse_checks(params.get("health_checks") or []),
        max_passes=_number(params.get("max_passes"), 6, 1, 100, "max_passes"),
        max_downtime=float(_number(params.get("max_downtime"), 5, 1, 86400, "max_downtime")),
        boot_timeout=_number(params.get("boot_timeout"), 300, 10, 86400, "boot_timeout"),
        return_after=_number(params.get("return_after"), 120, 20, 86400, "return_after"),
        source_after=_choice(params.get("source_after") or "temp_address", SOURCE_AFTER, "source_after"),
        stop_after=params.get("stop_after"),
    )


def _choice(value: t.Any, choices: t.Sequence[str], path: str) -> str:
    if value not in choices:
        raise InputError(f"{value!r} is not supported.", path, f"Use one of {', '.join(choices)}.")
    return str(value)


def _number(value: t.Any, default: int, least: int, most: int, path: str) -> int:
    if value is None:
        return default
    try:
        number = int(value)
    except (TypeError, ValueError) as error:
        raise InputError(f"{value!r} is not a whole number.", path, f"Use a number from {least} to {most}.") from error
    if not least <= number <= most:
        raise InputError(f"{number} is not between {least} and {most}.", path, f"Use a number from {least} to {most}.")
    return number


def _ipv4(value: t.Any, path: str) -> str:
    try:
        return str(ipaddress.IPv4Address(str(value)))
    except ValueError as error:
        raise InputError(f"{value!r} is not an IPv4 address.", path, "Write an address such as 192.0.2.10.") from error


def _parse_admin(entry: t.Mapping[str, t.Any]) -> Admin:
    if not entry.get("address"):
        raise InputError("is missing.", "admin.address", "Name the address that moves from the source to the VM.")
    if not entry.get("temporary_address"):
        raise InputError("is missing.", "admin.temporary_address", "Name a free address of the same network for the source after the move.")
    address, _slash, prefix = str(entry["address"]).partition("/")
    temporary = str(entry["temporary_address"]).partition("/")[0]
    admin = Admin(
        address=_ipv4(address, "admin.address"),
        prefix=_number(prefix, 24, 1, 32, "admin.address") if prefix else None,
        interface=_match(entry.get("interface"), _INTERFACE, "admin.interface", "Name the source's interface."),
        temporary_address=_ipv4(temporary, "admin.temporary_address"),
    )
    if admin.address == admin.temporary_address:
        raise InputError("is the admin address itself.", "admin.temporary_address", "Name another, free address.")
    return admin


def _match(value: t.Any, pattern: re.Pattern[str], path: str, mend: str) -> str | None:
    if value is None or value == "":
        return None
    if not pattern.match(str(value)):
        raise InputError(f"{value!r} is not legal here.", path, mend)
    return str(value)


def _parse_source(entry: t.Mapping[str, t.Any], admin: Admin) -> Source:
    keys = []
    for index, key in enumerate(entry.get("host_keys") or []):
        text = " ".join(str(key).split()[:2])
        if not _HOST_KEY.match(text):
            raise InputError("is not a public host key.", f"source.host_keys[{index}]", "Write it as in /etc/ssh/ssh_host_*_key.pub.")
        keys.append(text)
    return Source(
        address=_match(entry.get("address"), _HOST, "source.address", "Write a name or an address.") or admin.address,
        port=_number(entry.get("port"), 22, 1, 65535, "source.port"),
        machine_id=_match(entry.get("machine_id"), re.compile(r"\A[0-9a-f]{32}\Z"), "source.machine_id", "Copy /etc/machine-id."),
        host_keys=tuple(keys),
    )


def _parse_services(value: t.Sequence[t.Any]) -> tuple[str, ...]:
    units = []
    for index, unit in enumerate(value):
        name = _match(unit, _UNIT, f"services[{index}]", "Write a systemd unit's name.")
        if name is None:
            raise InputError("is empty.", f"services[{index}]", "Write a systemd unit's name.")
        units.append(name if "." in name.rpartition("@")[2] and name.rsplit(".", 1)[1] in _UNIT_TYPES else f"{name}.service")
    if len(set(units)) != len(units):
        raise InputError("names a unit twice.", "services", "Name every unit once, in the order they are to stop.")
    for index, unit in enumerate(units):
        if unit.split(".")[0] in ("ssh", "sshd", "dbus", "systemd-networkd", "NetworkManager", "networking"):
            raise InputError(f"{unit} carries the migration itself.", f"services[{index}]", "Leave it out; it keeps running until the end.")
    return tuple(units)


_UNIT_TYPES = ("service", "socket", "timer", "target", "path", "mount", "slice", "scope", "automount", "swap")


def _parse_partitions(value: t.Sequence[t.Any]) -> tuple[Partition, ...]:
    partitions = []
    for index, entry in enumerate(value):
        path = f"partitions[{index}]"
        if not isinstance(entry, t.Mapping):
            raise InputError("is not a mapping.", path, "Write e.g. {mount: /, fs: ext4, size: 4GiB}.")
        unknown = set(entry) - {"mount", "fs", "size"}
        if unknown:
            raise InputError(f"has the unknown key {sorted(unknown)[0]!r}.", path, "Use mount, fs and size.")
        fs = _choice(entry.get("fs") or "ext4", FILESYSTEMS, f"{path}.fs")
        size = entry.get("size")
        size = None if size in (None, "", "rest") else parse_size(size, "GiB", f"{path}.size")
        if size is not None and size < 16 * MIB:
            raise InputError("is smaller than 16 MiB.", f"{path}.size", "A bare number counts in GiB; add a unit to mean another.")
        partitions.append(Partition(mount=_parse_mount(entry.get("mount"), fs, path), fs=fs, size=size))
    _check_partitions(partitions)
    return tuple(partitions)


def _parse_mount(mount: t.Any, fs: str, path: str) -> str | None:
    if fs == "swap":
        if mount:
            raise InputError("is given for swap.", f"{path}.mount", "Leave it out.")
        return None
    if not isinstance(mount, str) or not mount.startswith("/") or ".." in mount.split("/") or re.search(r"\s", mount):
        raise InputError(f"{mount!r} is not an absolute path.", f"{path}.mount", "Write where the master mounts it, e.g. /srv.")
    if mount == "/" and fs not in ("ext4", "xfs"):
        raise InputError(f"{fs} cannot carry /.", f"{path}.fs", "Use ext4 or xfs.")
    return "/" if mount == "/" else mount.rstrip("/")


def _check_partitions(partitions: t.Sequence[Partition]) -> None:
    if not partitions:
        return
    mounts = [partition.mount for partition in partitions if partition.mount]
    if "/" not in mounts:
        raise InputError("names no partition for /.", "partitions", "Add {mount: /, fs: ext4, size: rest}.")
    if len(set(mounts)) != len(mounts):
        raise InputError("names a mount point twice.", "partitions", "Name every mount point once.")
    if sum(partition.size is None for partition in partitions) > 1:
        raise InputError("gives the rest of the disk to two partitions.", "partitions", "Give all but one a size.")


def _parse_excludes(value: t.Sequence[t.Any]) -> tuple[str, ...]:
    for index, exclude in enumerate(value):
        if not isinstance(exclude, str) or not exclude.startswith("/") or exclude in ("/", "/*", "/**") or "\n" in exclude:
            raise InputError(f"{exclude!r} is not a path to leave out.", f"excludes[{index}]", "Write an absolute path or rsync pattern, e.g. /var/cache/x/*.")
    return tuple(value)


def _parse_checks(value: t.Sequence[t.Any]) -> tuple[HealthCheck, ...]:
    checks = []
    for index, entry in enumerate(value):
        path = f"health_checks[{index}]"
        if not isinstance(entry, t.Mapping):
            raise InputError("is not a mapping.", path, "Write e.g. {type: tcp, port: 3306}.")
        kind = _choice(entry.get("type") or "tcp", CHECK_TYPES, f"{path}.type")
        url = entry.get("url")
        if kind == "tcp" and not entry.get("port"):
            raise InputError("is missing.", f"{path}.port", "Name the port that must answer.")
        if kind == "http" and not re.match(r"\Ahttps?://[^\s/]+\S*\Z", str(url or "")):
            raise InputError(f"{url!r} is not a http(s) address.", f"{path}.url", "Write e.g. http://192.0.2.10:8080/health.")
        checks.append(
            HealthCheck(
                type=kind,
                port=_number(entry.get("port"), 22, 1, 65535, f"{path}.port"),
                url=str(url) if kind == "http" else None,
                status=_number(entry.get("status"), 200, 100, 599, f"{path}.status"),
            )
        )
    return tuple(checks)
