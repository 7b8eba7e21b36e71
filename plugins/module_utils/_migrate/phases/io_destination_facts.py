# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Facts of the destination host that a migration needs."""

from __future__ import annotations

import glob
import os
import pathlib
import platform
import shutil
import typing as t
from xml.etree import ElementTree

from ansible_collections.reduced.footprint.plugins.module_utils._core.io_command import run
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_files import meminfo
from ansible_collections.reduced.footprint.plugins.module_utils._core.io_tree import Tree
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.io_libvirt_host import LibvirtHost
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.phases import io_arp
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.model_migration import MigrationSpec
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply import io_firmware
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.io_domains import DomainHost
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_vm import VmDetails

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def gather(spec: MigrationSpec, vm: VmDetails, tools: t.Sequence[str], own_addresses: t.Container[str] = ()) -> dict[str, t.Any]:
    """Return the facts of this host as the destination of a migration.

    :arg own_addresses: MACs of the source's network cards. If one of them answers for the temporary
        address, it is the source itself, parked by an earlier run.
    :raises BackendError: libvirt does not answer, or the kernel cannot keep paths of the copy inside of it.
    """
    Tree("/").status("/")
    bridges = sorted(os.path.basename(os.path.dirname(each)) for each in glob.glob("/sys/class/net/*/bridge"))
    facts: dict[str, t.Any] = {
        "arch": platform.machine(),
        "tools": {tool: shutil.which(tool, path=_PATH) for tool in tools},
        "bridges": bridges,
        "uefi": io_firmware.fitting(platform.machine(), {}),
        "unmountable": [each for each in ("ext4", "xfs", "btrfs", "vfat") if not _mountable(each)],
        "memory_available": meminfo().get("MemAvailable", 0),
        "temporary_taken": None,
    }
    with DomainHost(spec.uri) as host:
        for each in host.domains():
            if each.uuid == vm.uuid:
                facts["domain_exists"] = True
                facts["volume_exists"] = all(map(os.path.exists, disk_paths(each.config_xml)))
            elif each.name == vm.name:
                facts.update(domain_exists=True, domain_foreign=True)
    with LibvirtHost(spec.uri) as host_of_pools:
        pool = host_of_pools.pool(spec.pool)
        facts["pool_available"] = pool[0].available if pool else None
    bridge = vm.nics[0].bridge if vm.nics else None
    if bridge in bridges:
        taken = io_arp.probe(t.cast(str, bridge), spec.admin.temporary_address)
        facts["temporary_taken"] = None if taken in own_addresses else taken
    return facts


def _mountable(fs: str) -> bool:
    """Whether this kernel supports a file system, built in or as a module."""
    known = [line.split()[-1] for line in pathlib.Path("/proc/filesystems").read_text(encoding="ascii").splitlines()]
    if fs in known:
        return True
    return shutil.which("modprobe", path=_PATH) is not None and run(["modprobe", "--dry-run", "--quiet", fs], ok=range(256)).rc == 0


def disk_paths(xml: str) -> list[str]:
    """The files or block devices of a domain's disks, in the order of the definition."""
    found = []
    for disk in ElementTree.fromstring(xml).findall("./devices/disk"):
        source = disk.find("source")
        path = (source.get("file") or source.get("dev")) if source is not None else None
        if disk.get("device", "disk") == "disk" and path:
            found.append(path)
    return found
