# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The compute servers and networks of a footprint from variables and facts of its hosts. No I/O."""

from __future__ import annotations

import ipaddress
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._cloud.model_state import Server, Site
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import GIB
from ansible_collections.reduced.footprint.plugins.module_utils._topology import model_networks

#: Where nova-compute keeps the disks of servers.
INSTANCES = "/var/lib/nova/instances"
MAPPINGS = "ovn_chassis_bridge_mappings"
BACKENDS = "cinder_volume_backends"
#: Fact: whether firmware for UEFI is installed.
UEFI = "__cloud_uefi"
_DEFAULT = ("provider",)


def site(hostvars: t.Mapping[str, t.Mapping[str, t.Any]], computes: t.Sequence[str]) -> Site:
    """Return the footprint.

    :arg hostvars: variables of all hosts; those of ``computes`` contain facts, a host without them is left out.
    """
    servers = tuple(found for found in (_server(name, hostvars[name]) for name in computes if name in hostvars) if found)
    networks: dict[str, model_networks.Network] = {}
    addresses: dict[str, str] = {}
    physical: list[str] = []
    backends: dict[str, None] = {}
    for name in hostvars:
        own = hostvars[name]
        networks = networks or model_networks.parse_networks(own.get(model_networks.NETWORKS))
        for address in (own.get("ansible_host"), *(own.get(model_networks.ADDRESSES) or {}).values()):
            _take(addresses, address, name)
        _take(addresses, own.get("load_balancer_virtual_address"), "the load balancer")
        if name in computes:
            physical += [one for one in own.get(MAPPINGS) or {} if one not in physical]
            backends.update(dict.fromkeys(own.get(BACKENDS) or {}))
    return Site(servers, networks, tuple(physical) or _DEFAULT, addresses, tuple(backends))


def _take(addresses: dict[str, str], address: t.Any, host: str) -> None:
    try:
        addresses.setdefault(str(ipaddress.ip_address(str(address))), host)
    except ValueError:
        pass  # a name, or nothing


def _server(name: str, own: t.Mapping[str, t.Any]) -> Server | None:
    facts = own.get("ansible_facts") or {}
    if "architecture" not in facts or "memtotal_mb" not in facts:
        return None
    cores = int(facts.get("processor_nproc") or facts.get("processor_vcpus") or 1)
    firmware = ("bios", "uefi") if own.get(UEFI) else ("bios",)
    if facts["architecture"] == "aarch64":
        firmware = ("uefi",)
    return Server(name, str(facts["architecture"]), cores, int(facts["memtotal_mb"]), _disk(facts.get("mounts") or ()), firmware)


def _disk(mounts: t.Sequence[t.Mapping[str, t.Any]]) -> int:
    """Return the size in GiB of the file system of the servers' disks."""
    best = max((one for one in mounts if _holds(str(one.get("mount")))), key=lambda one: len(str(one.get("mount"))), default={})
    size = int(best.get("size_total") or 0)
    # a container does not know its file system
    return size // GIB if size else 2**20


def _holds(mount: str) -> bool:
    return INSTANCES == mount or INSTANCES.startswith(mount.rstrip("/") + "/")
