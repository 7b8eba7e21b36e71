# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check the capacity of a host for its VMs: memory minus the reserve, vCPU ratio, pool bytes."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import CapacityError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import MIB, size_text
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_node import HostCapacity, PoolCapacity
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_vm import VmDetails


class Shortage(t.NamedTuple):
    """One resource that is not sufficient; numbers in ``unit`` (``bytes`` or ``vCPUs``)."""

    what: str
    asked: int
    available: int
    total: int
    reserve: int
    unit: str
    detail: str

    @property
    def short(self) -> int:
        """The missing amount."""
        return self.asked - self.available

    def as_dict(self) -> dict[str, t.Any]:
        """Return the numbers for results."""
        return {**self._asdict(), "short": self.short}

    def __str__(self) -> str:
        def text(number: int) -> str:
            return size_text(number) if self.unit == "bytes" else f"{number} {self.unit}"

        return f"{self.what}: requested {text(self.asked)}, available {text(self.available)} ({self.detail}), missing {text(self.short)}"


def shortages(vms: t.Sequence[VmDetails], capacity: HostCapacity, default_pool: str) -> tuple[Shortage, ...]:
    """Return all insufficient resources; empty if the capacity is sufficient for all VMs.

    :arg vms: the VM details of this host, counted with their requested resources whether or not
        they are running.
    """
    found = []
    facts, policy = capacity.facts, capacity.policy
    memory = sum(vm.memory_mib for vm in vms)
    if memory > capacity.memory_for_vms_mib:
        detail = f"{size_text(facts.memory_mib * MIB)} minus {size_text(policy.memory_reserve_mib * MIB)} reserve of the host"
        if capacity.others_mib:
            detail += f" and {size_text(capacity.others_mib * MIB)} of guests that are not in the VM details"
        found.append(
            Shortage(
                "memory",
                memory * MIB,
                capacity.memory_for_vms_mib * MIB,
                facts.memory_mib * MIB,
                policy.memory_reserve_mib * MIB,
                "bytes",
                detail,
            )
        )
    vcpus = sum(vm.cpu for vm in vms)
    if vcpus > capacity.vcpus_for_vms:
        detail = f"{facts.cpus} CPUs times ratio {policy.vcpu_ratio:g}"
        if capacity.others_vcpus:
            detail += f" minus {capacity.others_vcpus} of guests that are not in the VM details"
        found.append(Shortage("vCPUs", vcpus, capacity.vcpus_for_vms, facts.cpus, 0, "vCPUs", detail))
    for name, asked in sorted(pool_demand(vms, capacity.pools, default_pool).items()):
        pool = capacity.pools.get(name)
        if pool is None:
            continue
        reserve = policy.pool_reserve if pool.reserve is None else pool.reserve
        available = max(0, pool.available - reserve)
        if asked > available:
            detail = f"{size_text(pool.available)} free of {size_text(pool.capacity)}, {size_text(reserve)} reserve"
            found.append(Shortage(f"pool {name}", asked, available, pool.capacity, reserve, "bytes", detail))
    return tuple(found)


def pool_demand(vms: t.Sequence[VmDetails], pools: t.Mapping[str, PoolCapacity], default_pool: str) -> dict[str, int]:
    """Return the bytes that each pool must still provide: the full size of new disks, the rest of existing thin ones."""
    demand: dict[str, int] = {}
    for vm in vms:
        for disk in vm.disks:
            name = disk.pool or default_pool
            pool = pools.get(name)
            capacity, allocation = pool.volumes.get(disk.name, (0, 0)) if pool else (0, 0)
            # the root of a container is a folder without a size of its own, which grows over time
            grown = max(disk.size or 0, capacity) - allocation
            demand[name] = demand.get(name, 0) + max(0, grown)
    return demand


def refuse_shortage(name: str, found: t.Sequence[Shortage]) -> None:
    """Refuse a host whose capacity is not sufficient."""
    if found:
        raise CapacityError(
            f"the capacity of host {name} is not sufficient for its VM details. {'; '.join(str(one) for one in found)}.",
            "vms",
            "Reduce the VMs, move some to another host, or lower memory_reserve or raise vcpu_ratio.",
        )
