# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The request for a migration of the master, validated; errors name the path of the invalid value."""

from __future__ import annotations

import datetime
import re
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError, shown
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_fields import choice, ipv4, matched, number
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import KIB, parse_rate
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.disks.model_disk import Partition, parse_schema
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.model_health_check import HealthCheck, parse_checks
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.model_hooks import Hook, parse_hooks
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.source import model_source
from ansible_collections.reduced.footprint.plugins.module_utils._remote.model_journal import PHASES
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_parts import parse_name

BOOT = ("image", "pxe")
SYNC = ("rsync", "rsync_dd")
SOURCE_AFTER = ("temp_address", "shutdown")
# a migration may stop only before the pause
STOP_AFTER = PHASES[: PHASES.index("quiesce")]

_HOST = re.compile(r"\A[A-Za-z0-9][A-Za-z0-9.:-]{0,252}\Z")
_INTERFACE = re.compile(r"\A[A-Za-z0-9][A-Za-z0-9._:-]{0,14}\Z")
_HOST_KEY = re.compile(r"\A(ssh-|ecdsa-)[a-z0-9-]+ [A-Za-z0-9+/=]+\Z")


class Source(t.NamedTuple):
    """The machine to migrate. ``host_keys`` have the form ``type base64`` without a comment."""

    address: str
    port: int
    machine_id: str | None
    host_keys: tuple[str, ...]


class Admin(t.NamedTuple):
    """The address that moves. ``prefix`` and ``interface`` are ``None`` until the source has reported them."""

    address: str
    prefix: int | None
    interface: str | None
    temporary_address: str


class MigrationSpec(t.NamedTuple):
    """The whole request. Times in seconds, ``cutover_at`` since the epoch, ``bandwidth_limit`` in KiB per second (0: none).

    An empty ``disk_schema`` means the source's schema.
    """

    name: str
    cluster: str
    uri: str
    template: str | None
    pool: str
    vm: t.Mapping[str, t.Any]
    source: Source
    admin: Admin
    boot: str
    pxe_from_source: bool
    quiesce: str
    services: tuple[str, ...]
    containers: tuple[model_source.Container, ...]
    sync: str
    disk_schema: tuple[Partition, ...]
    bandwidth_limit: int
    excludes: tuple[str, ...]
    rehearse: bool
    rehearse_timeout: int
    health_checks: tuple[HealthCheck, ...]
    hooks: tuple[Hook, ...]
    preparation_timeout: int
    cutover_at: float | None
    cutover_window: int
    max_pause: int
    max_passes: int
    max_downtime: float
    boot_timeout: int
    lease_timeout: int
    source_after: str
    stop_after: str | None


def parse_spec(params: t.Mapping[str, t.Any]) -> MigrationSpec:
    """Parse the request from a module's parameters (or the job file, which contains the same)."""
    vm = params.get("vm") or {}
    if not isinstance(vm, t.Mapping):
        raise InputError("is not a mapping.", "vm", "Write the master's VM details, e.g. {id: master, cpu: 2, ram: 2}.")
    name = parse_name(params.get("name") or vm.get("name") or vm.get("id"), "name")
    admin = _parse_admin(params.get("admin") or {})
    boot_timeout = number(params.get("boot_timeout"), 300, 10, 86400, "boot_timeout")
    sync = choice(params.get("sync") or "rsync", SYNC, "sync")
    return MigrationSpec(
        name=name,
        cluster=parse_name(params.get("cluster") or "footprint", "cluster"),
        uri=params.get("uri") or "qemu:///system",
        template=params.get("template"),
        pool=parse_name(params.get("pool") or "default", "pool"),
        vm=dict(vm),
        source=_parse_source(params.get("source") or {}, admin),
        admin=admin,
        boot=choice(params.get("boot") or "image", BOOT, "boot"),
        pxe_from_source=bool(params.get("pxe_from_source")),
        quiesce=model_source.parse_quiesce(params.get("quiesce")),
        services=model_source.parse_services(params.get("services") or []),
        containers=model_source.parse_containers(params.get("containers") or []),
        sync=sync,
        disk_schema=_parse_disk_schema(params.get("disk_schema"), sync),
        bandwidth_limit=-(-parse_rate(params.get("bandwidth_limit"), "bandwidth_limit") // KIB),
        excludes=model_source.parse_excludes(params.get("excludes") or []),
        rehearse=params.get("rehearse") is not False,
        rehearse_timeout=number(params.get("rehearse_timeout"), boot_timeout, 10, 86400, "rehearse_timeout"),
        health_checks=parse_checks(params.get("health_checks") or []),
        hooks=parse_hooks(params.get("hooks") or []),
        preparation_timeout=number(params.get("preparation_timeout"), 0, 0, 31536000, "preparation_timeout"),
        cutover_at=parse_cutover_at(params.get("cutover_at")),
        cutover_window=number(params.get("cutover_window"), 3600, 60, 31536000, "cutover_window"),
        max_pause=number(params.get("max_pause"), 0, 0, 31536000, "max_pause"),
        max_passes=number(params.get("max_passes"), 6, 1, 100, "max_passes"),
        max_downtime=float(number(params.get("max_downtime"), 5, 1, 86400, "max_downtime")),
        boot_timeout=boot_timeout,
        lease_timeout=number(params.get("lease_timeout"), 120, 20, 86400, "lease_timeout"),
        source_after=choice(params.get("source_after") or "temp_address", SOURCE_AFTER, "source_after"),
        stop_after=_parse_stop_after(params.get("stop_after")),
    )


def _parse_disk_schema(value: t.Any, sync: str) -> tuple[Partition, ...]:
    schema = parse_schema(value)
    for index, each in enumerate(schema):
        if each.raw and sync != "rsync_dd":
            raise InputError("is not supported with sync: rsync, which copies files only.", f"disk_schema[{index}].raw", "Set sync: rsync_dd.")
    return schema


def _parse_stop_after(value: t.Any) -> str | None:
    if value is None or value == "":
        return None
    if value in PHASES and value not in STOP_AFTER:
        raise InputError(
            f"{value} is not supported: it is in the pause or after it, and the source would not serve until the next run.",
            "stop_after",
            f"Stop after {STOP_AFTER[-1]} at the latest, and run again without stop_after.",
        )
    return choice(value, STOP_AFTER, "stop_after")


def parse_cutover_at(value: t.Any, path: str = "cutover_at") -> float | None:
    """Parse the time at which a pause begins, in Unix seconds; ``None`` for as soon as possible."""
    if value is None or value == "":
        return None
    try:
        # a YAML parser may have converted it; the letter is accepted by newer Pythons only
        at = datetime.datetime.fromisoformat(re.sub("[Zz]\\Z", "+00:00", str(value).strip()))
        if at.tzinfo:
            return at.timestamp()
    except (ValueError, OverflowError):
        pass
    raise InputError(f"{shown(value)} is not a time with time zone.", path, "Write for example '2026-12-24T02:00:00+01:00', or Z for UTC.")


def _parse_admin(entry: t.Mapping[str, t.Any]) -> Admin:
    if not entry.get("address"):
        raise InputError("is required.", "admin.address", "Set the address that moves from the source to the VM.")
    if not entry.get("temporary_address"):
        raise InputError("is required.", "admin.temporary_address", "Set a free address of the same network for the source after the move.")
    address, _slash, prefix = str(entry["address"]).partition("/")
    temporary = str(entry["temporary_address"]).partition("/")[0]
    admin = Admin(
        address=ipv4(address, "admin.address"),
        prefix=number(prefix, 24, 1, 32, "admin.address") if prefix else None,
        interface=matched(entry.get("interface"), _INTERFACE, "admin.interface", "Name the source's interface."),
        temporary_address=ipv4(temporary, "admin.temporary_address"),
    )
    if admin.address == admin.temporary_address:
        raise InputError("is the same as admin.address.", "admin.temporary_address", "Use a different, free address of the same network.")
    return admin


def _parse_source(entry: t.Mapping[str, t.Any], admin: Admin) -> Source:
    keys = []
    for index, key in enumerate(entry.get("host_keys") or []):
        text = " ".join(str(key).split()[:2])
        if not _HOST_KEY.match(text):
            raise InputError("is not a valid public host key.", f"source.host_keys[{index}]", "Copy it from /etc/ssh/ssh_host_*_key.pub.")
        keys.append(text)
    return Source(
        address=matched(entry.get("address"), _HOST, "source.address", "Write a name or an address.") or admin.address,
        port=number(entry.get("port"), 22, 1, 65535, "source.port"),
        machine_id=matched(entry.get("machine_id"), re.compile(r"\A[0-9a-f]{32}\Z"), "source.machine_id", "Copy /etc/machine-id."),
        host_keys=tuple(keys),
    )
