# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read the state of libvirt on a node, and plan the pools and networks to create."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._host.node import plan_parts
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_node import (
    CapacityPolicy,
    HostCapacity,
    HostFacts,
    NodeAttributes,
    PoolCapacity,
)
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_parts import LOGICAL, WantedNetwork, WantedPool
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.plan_parts import Step
from ansible_collections.reduced.footprint.plugins.module_utils._vm.storage.model_storage import FILE_POOLS


class Wanted(t.NamedTuple):
    """The requested pools and networks; the default pool comes first."""

    pools: tuple[WantedPool, ...]
    networks: tuple[WantedNetwork, ...]


class HostState(t.NamedTuple):
    """The state of libvirt, and the steps to create pools and networks."""

    capacity: HostCapacity
    steps: tuple[Step, ...] = ()
    warnings: tuple[str, ...] = ()
    prepared: bool = True
    forgotten: tuple[str, ...] = ()
    mounted: t.Mapping[str, bool | None] = {}

    def note_mounts(self, mounts: t.Any) -> None:
        """Record the mount points of the pools of files; ``mounted`` maps their paths to the option of the same name."""
        for path, needed in self.mounted.items():
            if needed is None:
                mounts.remember(path)
            else:
                mounts.declare(path, needed)

    def make(self, host: t.Any) -> None:
        """Create or start what is missing, pools first."""
        for step in self.steps:
            if isinstance(step.wanted, WantedPool):
                host.make_pool(step.wanted.name, step.wanted.path, step.wanted.source)
            else:
                host.make_network(step.wanted.name, step.wanted.bridge)


def read_state(
    uris: tuple[str, str], wanted: Wanted, node: NodeAttributes, facts: HostFacts, policy: CapacityPolicy, backend: t.Any, check_mode: bool
) -> HostState:
    """Read pools, networks and the load of guests that are not in the VM details.

    :arg uris: connection URIs of QEMU guests, pools and networks, and of containers.
    """
    known = {vm.uuid for vm in node.vms}
    warnings: tuple[str, ...] = ()
    prepared = True
    pools = (*wanted.pools, *_pools_of_disks(wanted.pools, node))
    try:
        with backend.libvirt(uris[0]) as host:
            found = {pool.name: host.pool(pool.name) for pool in pools}
            networks = {network.name: network for network in host.networks()} if wanted.networks else {}
            memory, vcpus = host.load_of_others(known)
    except BackendError as error:
        if not check_mode:
            raise
        prepared, found, networks, memory, vcpus = False, {}, {}, 0, 0
        warnings = (f"{error.message} Check mode assumes a prepared host without other guests, and skips the proofs.",)
    else:
        try:
            with backend.libvirt(uris[1]) as host:
                more = host.load_of_others(known)
                memory, vcpus = memory + more[0], vcpus + more[1]
        except BackendError:
            pass  # no driver for containers, so none are running
    needed = {disk.pool or wanted.pools[0].name for vm in node.vms for disk in vm.disks}
    steps: list[Step] = []
    have: dict[str, PoolCapacity] = {}
    mounted: dict[str, bool | None] = {}
    forgotten: list[str] = []
    for pool in pools:
        step = plan_parts.pool_step(pool, found.get(pool.name))
        if step is not None:
            steps.append(step)
        elif found.get(pool.name) is None:
            # the default pool may be missing as long as no disk uses it
            if prepared and (pool.where.startswith("pools") or pool.name in needed):
                raise plan_parts.missing_pool(pool)
            continue
        capacity = _capacity(pool, found.get(pool.name), backend, prepared)
        if capacity is not None:
            point = None
            if capacity.path is not None and capacity.type in FILE_POOLS:
                point = _check_mount(pool, capacity.path, backend.mounts)
                mounted[capacity.path] = pool.mounted
                if pool.mounted is False and backend.mounts.recorded(capacity.path) is not None:
                    forgotten.append(pool.name)
            have[pool.name] = capacity._replace(reserve=pool.reserve, mount=point)
    for network in wanted.networks:
        step = plan_parts.network_step(network, networks.get(network.name))
        if step is not None:
            steps.append(step)
    return HostState(HostCapacity(facts, policy, memory, vcpus, have), tuple(steps), warnings, prepared, tuple(forgotten), mounted)


def _check_mount(pool: WantedPool, path: str, mounts: t.Any) -> str | None:
    """Return the mount point of a pool's file system; creating the folder while it is not mounted would fill the root file system."""
    point = mounts.point(path)
    if pool.mounted is None:
        mounts.check(pool.name, path, f"{pool.where}.name" if pool.where.startswith("pools") else "pool")
    elif pool.mounted and (point is None or mounts.missing(path) is not None):
        raise RefusedError(
            f"the pool {pool.name} at {path} must be on a separate file system, but "
            + (f"{mounts.missing(path)} is not mounted." if mounts.missing(path) else "it is on the root file system."),
            f"{pool.where}.mounted",
            "Mount the file system, then run again.",
        )
    return point


def _pools_of_disks(pools: t.Sequence[WantedPool], node: NodeAttributes) -> tuple[WantedPool, ...]:
    """Return the pools that are only named by disks."""
    listed = {pool.name for pool in pools}
    named = {disk.pool for vm in node.vms for disk in vm.disks if disk.pool and disk.pool not in listed}
    return tuple(WantedPool(name, None) for name in sorted(named))


def _capacity(pool: WantedPool, found: plan_parts.FoundPool | None, backend: t.Any, prepared: bool) -> PoolCapacity | None:
    """Return the sizes of a pool; if it is not active, those of its file system or volume group."""
    if found is not None and found[1]:
        return found[0]
    if pool.type == LOGICAL or (found is not None and found[0].type == LOGICAL):
        source = pool.source or (found[0].source if found else None) or pool.name
        if not prepared:
            # LVM may not be installed yet
            return None
        sizes = backend.volume_group(source)
        if sizes is None:
            raise InputError(
                f"the volume group {source} does not exist.",
                f"{pool.where}.source" if pool.where.startswith("pools") else "pool",
                f"Create it first (vgcreate {source} DEVICE...); disks are never formatted automatically.",
            )
        return PoolCapacity(pool.name, f"/dev/{source}", sizes[0], sizes[1], {}, LOGICAL, source, sizes[0] - sizes[1])
    place = pool.path or (found[0].path if found else None)
    if place is None:
        return found[0] if found else None
    total, free = backend.free_bytes(place)
    return PoolCapacity(pool.name, place, total, free, {}, found[0].type if found else "dir", allocation=total - free)
