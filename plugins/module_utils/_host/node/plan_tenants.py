# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide what a server that also carries VMs of the footprint leaves to the VMs of tenants. No I/O.

Memory: all but the reserve of the host, the memory of every VM in its VM details, running or not, and what their processes need in
addition. CPUs: the first ones are reserved for the host and the footprint's VMs, which may use all CPUs; tenants have the others only. At
most half of the CPUs are reserved, because the footprint's VMs share them.
"""

from __future__ import annotations

import math
import typing as t

#: MiB that the process of a VM needs in addition to the memory of the VM.
OVERHEAD_MIB = 128


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

    :arg memory_mib: memory of the server.
    :arg cpus: its logical CPUs.
    :arg memory_reserve_mib: reserved for the host.
    :arg vcpu_ratio: vCPUs of the footprint's VMs per CPU.
    :arg vms: MiB and vCPUs of each VM in its VM details.
    """
    guests = list(vms)
    reserved = memory_reserve_mib + sum(memory + OVERHEAD_MIB for memory, unused in guests)
    wanted = 1 + math.ceil(sum(cpu for unused, cpu in guests) / vcpu_ratio)
    first = min(wanted, max(1, cpus // 2)) if cpus > 1 else 0
    text = "" if first == 0 else str(first) if first == cpus - 1 else f"{first}-{cpus - 1}"
    return Share(min(reserved, memory_mib), max(0, memory_mib - reserved), first, text)
