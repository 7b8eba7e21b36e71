# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What libvirt tells of all domains of a driver at once, so that fifty of them cost what one does."""

from __future__ import annotations

import dataclasses
import os
import stat

from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import io_domains
from ansible_collections.reduced.footprint.plugins.module_utils._vm.compare import xml_domain


@dataclasses.dataclass(frozen=True)
class Kept:
    """UUIDs of the domains for which libvirt keeps snapshots, or the memory of a suspended run."""

    snapshots: frozenset[str]
    managed_saves: frozenset[str]


def kept(host: io_domains.DomainHost) -> Kept:
    """Which domains have snapshots or a managed save; two questions for all of them."""
    with io_domains.libvirt_errors("cannot list the domains"):
        flags = (io_domains.libvirt.VIR_CONNECT_LIST_DOMAINS_HAS_SNAPSHOT, io_domains.libvirt.VIR_CONNECT_LIST_DOMAINS_MANAGEDSAVE)
        return Kept(*(frozenset(domain.UUIDString() for domain in host.connection.listAllDomains(flag)) for flag in flags))


def capacities(host: io_domains.DomainHost) -> dict[str, dict[str, int]]:
    """UUID → target → bytes the guest sees; empty where the driver knows of no such thing (containers).

    A guest whose monitor is busy is not waited for; its disks are not in the answer.
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
            # the layers below a disk carry its name too, and an index of their own after it
            if capacity is not None:
                disks.setdefault(facts.get(f"block.{index}.name"), int(capacity))
        found[domain.UUIDString()] = disks
    return found


def pool_folders(host: io_domains.DomainHost, inactive: bool = False) -> dict[str, str]:
    """Folder of each active pool → its name; with ``inactive`` those of the others too."""
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
    """Bytes a volume takes on this host; ``None`` for a folder, or where it is not to be seen from here.

    libvirt's own word means the highest written byte of a running guest and something else of one that is off.
    """
    try:
        status = os.stat(path)
    except OSError:
        return None
    if stat.S_ISREG(status.st_mode):
        return status.st_blocks * 512
    return capacity if stat.S_ISBLK(status.st_mode) else None
