# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The remaining capacity of a node, and what it leaves to the VMs of tenants if it also carries VMs of the footprint.

Memory of tenants: all but the reserve of the host, the memory of every VM in its VM details, running or not, and what their processes need in
addition. CPUs: the first ones are reserved for the host and the footprint's VMs, which may use all CPUs; tenants have the others only. At
most half of the CPUs are reserved, because the footprint's VMs share them.
"""

from __future__ import annotations

import math
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_node import HostFacts
from ansible_collections.reduced.footprint.plugins.module_utils._host.removal.model_removal import Guest

#: MiB that the process of a VM needs in addition to the memory of the VM.
OVERHEAD_MIB = 128


def left(facts: HostFacts, recorded: t.Mapping[str, t.Any], guests: t.Sequence[Guest]) -> dict[str, t.Any]:
    """Return total, reserved and remaining memory and vCPUs of the node.

    A paused or suspended guest keeps its memory, so it counts as active. The
    remaining values are negative if the guests exceed the capacity.

    :arg recorded: the recorded capacity, for its reserve and ratio.
    """
    reserve, ratio = recorded.get("memory_reserve_mib", 0), recorded.get("vcpu_ratio", 1)
    memory, vcpus = facts.memory_mib - reserve, math.floor(facts.cpus * ratio)
    active = [guest for guest in guests if guest.active]
    return {
        "memory_mib": facts.memory_mib,
        "memory_reserve_mib": reserve,
        "cpus": facts.cpus,
        "vcpu_ratio": ratio,
        "arch": facts.arch,
        "kernel": facts.kernel,
        "cpu_model": facts.cpu_model,
        "qemu_version": facts.qemu_version,
        "active_mib": sum(guest.memory_mib for guest in active),
        "active_vcpus": sum(guest.cpu for guest in active),
        "defined_mib": sum(guest.memory_mib for guest in guests),
        "defined_vcpus": sum(guest.cpu for guest in guests),
        "memory_left_mib": memory - sum(guest.memory_mib for guest in active),
        "vcpus_left": vcpus - sum(guest.cpu for guest in active),
        "memory_left_all_running_mib": memory - sum(guest.memory_mib for guest in guests),
    }


class Share(t.NamedTuple):
    """What is reserved and what tenants may use.

    :arg reserved_mib: memory of the host and the footprint's VMs.
    :arg tenant_mib: memory for the VMs of tenants.
    :arg reserved_cpus: number of the first CPUs, which tenants may not use.
    :arg tenant_cpus: CPUs for the VMs of tenants, e.g. ``2-7``; empty if there is only one CPU, which all share.
    """

    reserved_mib: int
    tenant_mib: int
    reserved_cpus: int
    tenant_cpus: str


def share(memory_mib: int, cpus: int, memory_reserve_mib: int, vcpu_ratio: float, vms: t.Iterable[tuple[int, int]]) -> Share:
    """Return the share of a server that tenants may use.

    :arg vms: MiB and vCPUs of each VM in its VM details.
    """
    guests = list(vms)
    reserved = memory_reserve_mib + sum(memory + OVERHEAD_MIB for memory, unused in guests)
    wanted = 1 + math.ceil(sum(cpu for unused, cpu in guests) / vcpu_ratio)
    first = min(wanted, max(1, cpus // 2)) if cpus > 1 else 0
    text = "" if first == 0 else str(first) if first == cpus - 1 else f"{first}-{cpus - 1}"
    return Share(min(reserved, memory_mib), max(0, memory_mib - reserved), first, text)
