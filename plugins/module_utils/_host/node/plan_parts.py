# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which storage pools and networks of libvirt a node still needs, and which of them go with it."""

from __future__ import annotations

import dataclasses
import os
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError, InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_node import PoolCapacity
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_parts import DIR, LOGICAL, FoundNetwork, WantedNetwork, WantedPool
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_vm import VmDetails

# a pool with whether it is active and whether it starts with the host
FoundPool = t.Tuple[PoolCapacity, bool, bool]


@dataclasses.dataclass(frozen=True)
class Step:
    """One pool or network that is to be made or started; ``wanted`` is what to make it from."""

    action: str
    wanted: WantedPool | WantedNetwork
    header: str
    before: str
    after: str

    @property
    def diff(self) -> dict[str, str]:
        """The change as Ansible shows it."""
        return {"before_header": self.header, "after_header": self.header, "before": self.before, "after": self.after}


def pool_step(wanted: WantedPool, found: FoundPool | None) -> Step | None:
    """What a pool needs; nothing for one that is used as it is.

    :raises RefusedError: a pool of that name is there and is another one.
    """
    pool = found[0] if found else None
    if wanted.type is None:
        return None
    if pool is not None:
        _refuse_other(wanted, pool)
    active, autostart = (found[1], found[2]) if found else (False, False)
    if active and autostart:
        return None
    header = f"pool {wanted.name}"
    before = "" if pool is None else pool_text(wanted.type, wanted.path, wanted.source, active, autostart)
    action = f"{'define' if pool is None else 'start'} pool {wanted.name}"
    return Step(action, wanted, header, before, pool_text(wanted.type, wanted.path, wanted.source, True, True))


def _refuse_other(wanted: WantedPool, pool: PoolCapacity) -> None:
    key = f"{wanted.where}.{{}}" if wanted.where.startswith("pools") else "pool_path"
    if pool.type != wanted.type:
        raise RefusedError(
            f"the pool {wanted.name} is of the type {pool.type}, not {wanted.type}.",
            key.format("type"),
            "Name it without type, path and source to use the pool as it is, or give the new pool another name.",
        )
    if wanted.type == DIR and pool.path and os.path.normpath(pool.path) != os.path.normpath(wanted.path or ""):
        raise RefusedError(
            f"the pool {wanted.name} is at {pool.path}, not at {wanted.path}.",
            key.format("path"),
            f"Leave {'path' if 'pools' in key else 'pool_path'} out to use the pool as it is, or give the new pool another name.",
        )
    if wanted.type == LOGICAL and pool.source != wanted.source:
        raise RefusedError(
            f"the pool {wanted.name} is the volume group {pool.source}, not {wanted.source}.",
            key.format("source"),
            "Name it without type and source to use the pool as it is, or give the new pool another name.",
        )


def missing_pool(wanted: WantedPool) -> InputError:
    """The refusal of a pool that is used as it is and is not there."""
    if wanted.where == "pool":
        return InputError(f"libvirt has no storage pool {wanted.name}.", "pool", "Set pool_path to have it made, or name an existing pool.")
    hint = "Give it a path or a source to have it made, or name an existing pool."
    return InputError(f"libvirt has no storage pool {wanted.name}.", f"{wanted.where}.name", hint)


def network_step(wanted: WantedNetwork, found: FoundNetwork | None) -> Step | None:
    """What a network needs.

    :raises RefusedError: a network of that name is there and leads somewhere else.
    """
    if found is not None and (found.mode, found.bridge) != ("bridge", wanted.bridge):
        leads = f"leads to {found.bridge or 'no bridge'} in mode {found.mode}"
        raise RefusedError(
            f"libvirt has a network {wanted.name} already, which {leads}, not to the bridge {wanted.bridge} of the host.",
            f"{wanted.where}.name",
            "Give the new network another name.",
        )
    if found is not None and found.active and found.autostart:
        return None
    before = "" if found is None else network_text(wanted.bridge, found.active, found.autostart)
    action = f"{'define' if found is None else 'start'} network {wanted.name}"
    return Step(action, wanted, f"network {wanted.name}", before, network_text(wanted.bridge, True, True))


def pool_text(kind: str, path: str | None, source: str | None, active: bool, autostart: bool) -> str:
    """A pool as the diff shows it."""
    place = f"path: {path}\n" if path else f"source: {source}\n" if source else ""
    return f"type: {kind}\n{place}active: {str(active).lower()}\nautostart: {str(autostart).lower()}\n"


def network_text(bridge: str | None, active: bool, autostart: bool) -> str:
    """A network as the diff shows it."""
    return f"bridge: {bridge}\nactive: {str(active).lower()}\nautostart: {str(autostart).lower()}\n"


def missing_bridges(
    name: str, vms: t.Sequence[VmDetails], bridges: t.Sequence[str], networks: t.Sequence[WantedNetwork], have: set[str]
) -> FootprintError | None:
    """The refusal of the first bridge that is asked for and not among those that are or will be there."""
    asked = [(bridge, f"bridges[{index}]") for index, bridge in enumerate(bridges)]
    asked += [(network.bridge, f"{network.where}.bridge") for network in networks]
    asked += [(nic.bridge, f"{vm.path}.nics[{index}].bridge") for vm in vms for index, nic in enumerate(vm.nics) if nic.bridge]
    for bridge, path in asked:
        if bridge not in have:
            hint = "Make it with virt_host_bridges of the role reduced.footprint.virt_host, or name another bridge."
            return RefusedError(f"host {name} has no bridge {bridge} (it has: {', '.join(sorted(have)) or 'none'}).", path, hint)
    return None
