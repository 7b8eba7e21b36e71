# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan the storage pools and libvirt networks to create on a node."""

from __future__ import annotations

import os
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError, InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_node import PoolCapacity
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_parts import DIR, LOGICAL, FoundNetwork, WantedNetwork, WantedPool
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_vm import VmDetails

# a pool, whether it is active, and whether autostart is enabled
FoundPool = t.Tuple[PoolCapacity, bool, bool]


class Step(t.NamedTuple):
    """Create or start one pool or network; ``wanted`` is its definition."""

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
    """Return the step that a pool needs; ``None`` for one that is used unchanged."""
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
            f"the pool {wanted.name} has the type {pool.type}, not {wanted.type}.",
            key.format("type"),
            "Omit type, path and source to use the pool unchanged, or use another name.",
        )
    if wanted.type == DIR and pool.path and os.path.normpath(pool.path) != os.path.normpath(wanted.path or ""):
        raise RefusedError(
            f"the pool {wanted.name} is at {pool.path}, not at {wanted.path}.",
            key.format("path"),
            f"Omit {'path' if 'pools' in key else 'pool_path'} to use the pool unchanged, or use another name.",
        )
    if wanted.type == LOGICAL and pool.source != wanted.source:
        raise RefusedError(
            f"the pool {wanted.name} uses the volume group {pool.source}, not {wanted.source}.",
            key.format("source"),
            "Omit type and source to use the pool unchanged, or use another name.",
        )


def missing_pool(wanted: WantedPool) -> InputError:
    """The refusal of a pool that is used as it is and is not there."""
    if wanted.where == "pool":
        return InputError(f"libvirt has no storage pool {wanted.name}.", "pool", "Set pool_path to create it, or use an existing pool.")
    hint = "Set path or source to create it, or use an existing pool."
    return InputError(f"libvirt has no storage pool {wanted.name}.", f"{wanted.where}.name", hint)


def network_step(wanted: WantedNetwork, found: FoundNetwork | None) -> Step | None:
    """Return the step that a network needs, ``None`` without a change."""
    if found is not None and (found.mode, found.bridge) != ("bridge", wanted.bridge):
        forward = f"has the bridge {found.bridge or 'none'} and the mode {found.mode}"
        raise RefusedError(
            f"the existing network {wanted.name} {forward}, expected the bridge {wanted.bridge} of the host.",
            f"{wanted.where}.name",
            "Use another name for the new network.",
        )
    if found is not None and found.active and found.autostart:
        return None
    before = "" if found is None else network_text(wanted.bridge, found.active, found.autostart)
    action = f"{'define' if found is None else 'start'} network {wanted.name}"
    return Step(action, wanted, f"network {wanted.name}", before, network_text(wanted.bridge, True, True))


def pool_text(kind: str, path: str | None, source: str | None, active: bool, autostart: bool) -> str:
    """Return a pool for the diff."""
    place = f"path: {path}\n" if path else f"source: {source}\n" if source else ""
    return f"type: {kind}\n{place}active: {str(active).lower()}\nautostart: {str(autostart).lower()}\n"


def network_text(bridge: str | None, active: bool, autostart: bool) -> str:
    """Return a network for the diff."""
    return f"bridge: {bridge}\nactive: {str(active).lower()}\nautostart: {str(autostart).lower()}\n"


def missing_bridges(
    name: str, vms: t.Sequence[VmDetails], bridges: t.Sequence[str], networks: t.Sequence[WantedNetwork], have: set[str]
) -> FootprintError | None:
    """Return the error for the first requested bridge that neither exists nor will be created."""
    asked = [(bridge, f"bridges[{index}]") for index, bridge in enumerate(bridges)]
    asked += [(network.bridge, f"{network.where}.bridge") for network in networks]
    asked += [(nic.kernel_bridge, f"{vm.path}.nics[{index}].bridge") for vm in vms for index, nic in enumerate(vm.nics) if nic.kernel_bridge]
    for bridge, path in asked:
        if bridge not in have:
            hint = "Create it with virt_host_bridges of the role reduced.footprint.virt_host, or use another bridge."
            return RefusedError(f"host {name} has no bridge {bridge} (existing bridges: {', '.join(sorted(have)) or 'none'}).", path, hint)
    return None
