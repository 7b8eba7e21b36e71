# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A physical server: its attributes, capacity and hypervisor proofs."""

from __future__ import annotations

import dataclasses
import math
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_redaction import masked
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import MIB, parse_size
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_parts import parse_name
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_vm import VmDetails, parse_vms

ROLE_VIRT = "virt"
ROLE_COMPUTE = "compute"
ROLE_WITNESS = "witness"

# The types that can be proven; ``auto`` in the VM details stands for several of them.
PROVABLE = ("kvm", "qemu", "lxc")


class NodeAttributes(t.NamedTuple):
    """The attributes of a server, validated."""

    name: str
    cluster: str
    roles: tuple[str, ...]
    vms: tuple[VmDetails, ...]

    def as_dict(self) -> dict[str, t.Any]:
        """Return the attributes for facts and results, as given by the user and without secrets."""
        return {
            "name": self.name,
            "cluster": self.cluster,
            "roles": list(self.roles),
            "vms": [dict(masked(vm.given), id=vm.id, name=vm.name, uuid=vm.uuid, macs=list(vm.macs)) for vm in self.vms],
        }


class HostFacts(t.NamedTuple):
    """Facts of the machine that do not change at run time.

    ``memory_mib`` is the memory managed by the kernel, ``cpus`` the number of usable logical CPUs.
    """

    memory_mib: int
    cpus: int
    arch: str
    kernel: str
    cpu_model: str
    microcode: str
    qemu_version: str | None


class PoolCapacity(t.NamedTuple):
    """A storage pool: all sizes in bytes.

    ``volumes`` maps each volume to (capacity, allocation); a thin volume may still grow by the
    difference. ``source`` is the volume group of a ``logical`` pool, ``reserve`` the reserve
    of this pool, ``None`` for that of all pools. ``mount`` is the mount point of its file system,
    ``None`` for the root file system.
    """

    name: str
    path: str | None
    capacity: int
    available: int
    volumes: t.Mapping[str, tuple[int, int]]
    type: str = "dir"
    source: str | None = None
    allocation: int = 0
    reserve: int | None = None
    uuid: str | None = None
    mount: str | None = None

    @property
    def promised(self) -> int:
        """The size to which its volumes may grow."""
        return sum(max(capacity, allocation) for capacity, allocation in self.volumes.values())

    @property
    def overcommit(self) -> float | None:
        """The promised bytes divided by the capacity; above 1 the volumes cannot all be filled."""
        return round(self.promised / self.capacity, 2) if self.capacity else None

    def lasting(self) -> dict[str, t.Any]:
        """Return the values that do not change when volumes are written."""
        values: dict[str, t.Any] = {"path": self.path, "type": self.type}
        if self.source is not None:
            values["source"] = self.source
        if self.reserve is not None:
            values["reserve_bytes"] = self.reserve
        if self.mount is not None:
            values["mount"] = self.mount
        return values

    def measured(self) -> dict[str, t.Any]:
        """Return the current usage."""
        return {
            "capacity_bytes": self.capacity,
            "allocation_bytes": self.allocation,
            "available_bytes": self.available,
            "promised_bytes": self.promised,
            "overcommit": self.overcommit,
        }


class CapacityPolicy(t.NamedTuple):
    """The share of a host that guests may use: MiB reserved for the host, vCPUs per CPU, bytes kept free in a pool."""

    memory_reserve_mib: int
    vcpu_ratio: float
    pool_reserve: int = 0


@dataclasses.dataclass(frozen=True)
class HostCapacity:
    """The capacity of a host and the load of other guests.

    ``others_mib`` and ``others_vcpus`` belong to running guests that are not in the VM details.
    """

    facts: HostFacts
    policy: CapacityPolicy
    others_mib: int = 0
    others_vcpus: int = 0
    pools: t.Mapping[str, PoolCapacity] = dataclasses.field(default_factory=dict)

    @property
    def memory_for_vms_mib(self) -> int:
        """The MiB available for the VM details."""
        return max(0, self.facts.memory_mib - self.policy.memory_reserve_mib - self.others_mib)

    @property
    def vcpus_for_vms(self) -> int:
        """The vCPUs available for the VM details."""
        return max(0, math.floor(self.facts.cpus * self.policy.vcpu_ratio) - self.others_vcpus)

    def lasting(self) -> dict[str, t.Any]:
        """Return the values to record, which only change with the machine or the policy."""
        return {
            "memory_mib": self.facts.memory_mib,
            "memory_reserve_mib": self.policy.memory_reserve_mib,
            "cpus": self.facts.cpus,
            "vcpu_ratio": self.policy.vcpu_ratio,
            "arch": self.facts.arch,
            "cpu_model": self.facts.cpu_model,
            "kernel": self.facts.kernel,
            "qemu_version": self.facts.qemu_version,
            "pools": {name: pool.lasting() for name, pool in sorted(self.pools.items())},
        }

    def as_dict(self) -> dict[str, t.Any]:
        """Return all values, including the current usage."""
        result = self.lasting()
        result.update(
            others_mib=self.others_mib,
            others_vcpus=self.others_vcpus,
            memory_for_vms_mib=self.memory_for_vms_mib,
            vcpus_for_vms=self.vcpus_for_vms,
        )
        for name, pool in self.pools.items():
            # the total size of some file systems changes
            result["pools"][name].update(pool.measured())
        return result


class HypervisorProof(t.NamedTuple):
    """The result of running a test guest under one hypervisor type.

    ``reason`` is the error of the hypervisor, or what was proven.
    ``seconds`` is the duration of the proof, ``cpu_models`` the result for each CPU model that was
    tried. ``key`` identifies the kernel, QEMU and CPU for which the proof is valid.
    """

    type: str
    usable: bool
    reason: str
    seconds: float
    key: str = ""
    cpu_models: t.Mapping[str, str] = {}

    def as_dict(self) -> dict[str, t.Any]:
        """Return the proof for facts and results."""
        return {key: value for key, value in self._asdict().items() if key != "type"}

    @classmethod
    def from_dict(cls, kind: str, value: t.Any) -> HypervisorProof | None:
        """Return the recorded proof, ``None`` if the value is not valid."""
        try:
            return cls(
                type=kind,
                usable=bool(value["usable"]),
                reason=str(value["reason"]),
                seconds=float(value["seconds"]),
                key=str(value["key"]),
                cpu_models={str(model): str(outcome) for model, outcome in value.get("cpu_models", {}).items()},
            )
        except (AttributeError, KeyError, TypeError, ValueError):
            return None


def parse_node(name: t.Any, cluster: t.Any, roles: t.Any, vms: t.Any) -> NodeAttributes:
    """Parse the attributes of a server.

    :arg vms: VM details, a list or JSON text.
    """
    names = tuple(dict.fromkeys(parse_name(role, f"roles[{index}]") for index, role in enumerate(roles or ())))
    return NodeAttributes(
        name=parse_name(name, "name"),
        cluster=parse_name(cluster, "cluster"),
        roles=names,
        vms=parse_vms(vms, "vms", cluster=cluster),
    )


def parse_policy(memory_reserve: t.Any, vcpu_ratio: t.Any, pool_reserve: t.Any = None) -> CapacityPolicy:
    """Parse the capacity policy.

    :arg memory_reserve: numbers without a unit are in GiB; ``0`` reserves nothing.
    :arg vcpu_ratio: vCPUs per logical CPU, above 0.
    :arg pool_reserve: numbers without a unit are in GiB.
    """
    try:
        ratio = float(vcpu_ratio)
    except (TypeError, ValueError) as error:
        raise InputError(f"{vcpu_ratio!r} is not a number.", "vcpu_ratio", "Use the number of vCPUs per CPU, e.g. 4.") from error
    if not 0 < ratio <= 1000:
        raise InputError(f"{vcpu_ratio} is not between 0 and 1000.", "vcpu_ratio", "Use the number of vCPUs per CPU, e.g. 4.")
    return CapacityPolicy(
        memory_reserve_mib=-(-_size_or_nothing(memory_reserve, "memory_reserve") // MIB),
        vcpu_ratio=ratio,
        pool_reserve=_size_or_nothing(pool_reserve, "pool_reserve"),
    )


def _size_or_nothing(value: t.Any, path: str) -> int:
    if value is None or (not isinstance(value, bool) and str(value).strip() in ("0", "0.0", "")):
        return 0
    return parse_size(value, "GiB", path)
