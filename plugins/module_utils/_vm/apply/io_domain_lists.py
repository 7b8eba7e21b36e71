# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Bulk queries for all domains of a driver: one libvirt call whatever their number."""

from __future__ import annotations

import dataclasses
import os
import stat
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import io_domains
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import xml_domain


@dataclasses.dataclass(frozen=True)
class Kept:
    """UUIDs of the domains with snapshots, and of those with a managed save image."""

    snapshots: frozenset[str]
    managed_saves: frozenset[str]


def kept(host: io_domains.DomainHost) -> Kept:
    """The domains that have snapshots or a managed save image; two calls for all of them."""
    with io_domains.libvirt_errors("cannot list the domains"):
        flags = (io_domains.libvirt.VIR_CONNECT_LIST_DOMAINS_HAS_SNAPSHOT, io_domains.libvirt.VIR_CONNECT_LIST_DOMAINS_MANAGEDSAVE)
        return Kept(*(frozenset(domain.UUIDString() for domain in host.connection.listAllDomains(flag)) for flag in flags))


def capacities(host: io_domains.DomainHost) -> dict[str, dict[str, int]]:
    """UUID → target → capacity in bytes; empty where the driver does not support it (containers).

    Guests whose monitor is busy are skipped; their disks are missing in the result.
    """
    with io_domains.libvirt_errors("cannot read the sizes of the disks"):
        try:
            stats = host.connection.getAllDomainStats(io_domains.libvirt.VIR_DOMAIN_STATS_BLOCK, io_domains.libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT)
        except io_domains.libvirt.libvirtError as error:
            if error.get_error_code() in (io_domains.libvirt.VIR_ERR_NO_SUPPORT, io_domains.libvirt.VIR_ERR_INVALID_ARG):
                return {}
            raise
    found = {}
    for domain, facts in stats:
        disks = {}
        for index in range(facts.get("block.count", 0)):
            capacity = facts.get(f"block.{index}.capacity")
            # the backing files of a disk follow it with the same name and their own index
            if capacity is not None:
                disks.setdefault(facts.get(f"block.{index}.name"), int(capacity))
        found[domain.UUIDString()] = disks
    return found


def pool_folders(host: io_domains.DomainHost, inactive: bool = False) -> dict[str, str]:
    """Folder of each active pool → its name; with ``inactive`` also of the inactive pools."""
    folders = {}
    with io_domains.libvirt_errors("cannot list the storage pools"):
        try:
            pools = host.connection.listAllStoragePools(0 if inactive else io_domains.libvirt.VIR_CONNECT_LIST_STORAGE_POOLS_ACTIVE)
        except io_domains.libvirt.libvirtError as error:
            if error.get_error_code() == io_domains.libvirt.VIR_ERR_NO_SUPPORT:
                return {}
            raise
        for pool in pools:
            folder = xml_domain.parse(pool.XMLDesc(0)).findtext("target/path")
            if folder:
                folders[folder.rstrip("/")] = pool.name()
    return folders


def allocation(path: str, capacity: int | None) -> int | None:
    """Allocated bytes of a volume on this host; ``None`` for a folder, or where the path is not accessible.

    libvirt's own value means the highest written offset for a running guest, and something else for one that is off.
    """
    try:
        status = os.stat(path)
    except OSError:
        return None
    if stat.S_ISREG(status.st_mode):
        return status.st_blocks * 512
    return capacity if stat.S_ISBLK(status.st_mode) else None


def drivers(
    uris: t.Collection[str] = (), *, needed: str = "", connect: t.Callable[[str], io_domains.DomainHost] | None = None
) -> t.Iterator[io_domains.DomainHost]:
    """Connect to drivers of this host, by default to each that it has; the caller closes the connections.

    :arg needed: the URI of a VM, whose driver must be there. What a driver does not answer is unknown, never nothing.
    :raises BackendError: one of them cannot be connected to, although it is there, or none is there.
    """
    missing: list[io_domains.DriverMissing] = []
    wanted = sorted(uris or {*io_domains.DRIVER_URIS.values(), *([needed] if needed else [])})
    for uri in wanted:
        try:
            host = (connect or io_domains.DomainHost)(uri)
        except io_domains.DriverMissing as error:
            missing.append(error)
            if uri == needed or len(missing) == len(wanted):
                raise missing[0] from error
            continue
        yield host
