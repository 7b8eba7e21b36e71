# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The servers and VMs of a placement, from the user's input or the result of ``virt_node``."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_fields import check_known, did_you_mean, mapping, sequence
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_node import (
    PROVABLE,
    ROLE_VIRT,
    ROLE_WITNESS,
    CapacityPolicy,
    HostCapacity,
    HostFacts,
    PoolCapacity,
)
from ansible_collections.reduced.footprint.plugins.module_utils._placement.request.model_placement import (
    MOST_CPUS,
    PlacementPolicy,
    PlacementQuestion,
    PlanServer,
    PlanVm,
    WantedServer,
    as_list,
    one_of,
    parse_bytes,
    parse_count,
    parse_mib,
    parse_names,
    parse_ratio,
    refuse_duplicates,
)
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_size import MIB, parse_size
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_parts import parse_bool, parse_name
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_standby import servers_error
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_vm import VmDetails, parse_vms

_SERVER_KEYS = (
    "name", "roles", "memory", "ram", "cpus", "cpu", "arch", "disk", "pools", "hypervisors", "bridges", "networks", "memory_reserve",
    "vcpu_ratio", "others_memory", "others_vcpus", "capacity", "vms", "runs", "runs_memory", "runs_vcpus", "copies",
)  # fmt: skip
_POOL_KEYS = (
    "capacity", "available", "capacity_bytes", "available_bytes", "path", "volumes", "reserve_bytes",
    # also returned by virt_node, not used here
    "type", "source", "allocation_bytes", "promised_bytes", "overcommit", "mount",
)  # fmt: skip
_HINT_SERVER = "Write each server as a mapping, e.g. {name: metal1, memory: 64, cpus: 16}."
_HINT_CPUS = "Write the number of logical CPUs, e.g. 16."
_HINT_VCPUS = "Write a number of vCPUs."
_MOST_VCPUS = 10**6


@dataclasses.dataclass(frozen=True)
class _Entry:
    """One server as given by the user, and its capacity as measured by ``virt_node``."""

    given: t.Mapping[str, t.Any]
    measured: t.Mapping[str, t.Any]
    path: str

    def first(self, keys: t.Sequence[str], measured_key: str, convert: t.Callable[[t.Any, str], t.Any], unit: str = "") -> t.Any:
        """Return the given value, else the measured one (with ``unit`` appended), else ``None``."""
        value = one_of(self.given, keys, self.path, convert)
        if value is None and self.measured.get(measured_key) is not None:
            measured = self.measured[measured_key]
            return convert(f"{measured} {unit}" if unit else measured, f"{self.path}.capacity.{measured_key}")
        return value


def parse_question(
    cluster: t.Any, servers: t.Any, vms: t.Any, wanted: tuple[WantedServer, ...], policy: PlacementPolicy, current: t.Any = None
) -> PlacementQuestion:
    """Parse servers and VMs, also checking for duplicates.

    :arg servers: list of mappings, mapping by name, or JSON text.
    :arg vms: VM details that are in no server's list yet.
    :arg current: VM id → name of its current server; overrides the servers.
    """
    cluster = parse_name(cluster, "cluster")
    found: list[PlanServer] = []
    placed: dict[str, str] = {}
    exists: dict[str, bool | None] = {}
    details: list[VmDetails] = []
    for index, entry in enumerate(as_list(servers, "servers")):
        server, listed = _parse_server(entry, f"servers[{index}]", cluster, policy)
        found.append(server)
        details += listed
        placed.update((vm.id, server.name) for vm in listed)
        exists.update((vm.id, None if entry.get("runs") is None else False) for vm in listed)
    refuse_duplicates(((server.name, f"{server.path}.name") for server in found), "Give every server a unique name.")
    names = {server.name for server in found}
    details += parse_vms(vms, "vms", cluster=cluster)
    for kind in ("id", "name"):
        refuse_duplicates(((getattr(vm, kind), f"{vm.path}.{kind}") for vm in details), f"Give every VM a unique {kind}, and list it once.")
    now = {vm_id: server.name for server in found for vm_id in server.runs}
    now.update(_parse_current(current, names, {vm.id for vm in details}))
    placed.update(now)
    exists.update((vm_id, True) for vm_id in now)
    _check_standbys(details, found, now)
    ids = {vm.id for vm in details}
    found = [_with_unlisted(server, ids) for server in found]
    return PlacementQuestion(cluster, tuple(found), tuple(_plan_vm(vm, placed.get(vm.id), exists.get(vm.id), names) for vm in details), wanted, policy)


def _with_unlisted(server: PlanServer, ids: set[str]) -> PlanServer:
    """Take what VMs of the cluster that are not in the plan use from a server: they stay there."""
    sizes = [size for vm_id, size in server.held.items() if vm_id not in ids]
    if server.capacity is None or not sizes:
        return server
    memory, vcpus = (sum(size[part] for size in sizes) for part in (0, 1))
    capacity = dataclasses.replace(server.capacity, others_mib=server.capacity.others_mib + memory, others_vcpus=server.capacity.others_vcpus + vcpus)
    return dataclasses.replace(server, capacity=capacity)


def _check_standbys(details: t.Iterable[VmDetails], servers: t.Iterable[PlanServer], now: t.Mapping[str, str]) -> None:
    """Refuse a standby that is not another server with the role virt."""
    roles = {server.name: server.roles for server in servers}
    listed = {server.path: server.name for server in servers}
    for vm in details:
        if vm.standby is not None:
            # a VM that was started on its standby is there now, and returns
            here = vm.free.get("host") or listed.get(vm.path.rpartition(".vms[")[0]) or (None if now.get(vm.id) == vm.standby.server else now.get(vm.id))
            error = servers_error(vm.standby, here, roles, f"{vm.path}.standby")
            if error is not None:
                raise error


def _parse_current(value: t.Any, servers: set[str], ids: set[str]) -> dict[str, str]:
    found = {}
    for key, server in mapping(value, "current", "Write ID: SERVER for each VM that is on a server.").items():
        if str(key) not in ids:
            raise InputError(f"no VM of this plan has the id {key}.", f"current.{key}", "Use the id of a VM.")
        if server not in servers:
            raise InputError(f"{server!r} is not a server of this plan.", f"current.{key}", did_you_mean(server, servers, f"Use one of {_some(servers)}."))
        found[str(key)] = server
    return found


def _plan_vm(vm: VmDetails, current: str | None, exists: bool | None, servers: set[str]) -> PlanVm:
    host = vm.free.get("host")
    if host is not None and host != "":
        host = parse_name(host, f"{vm.path}.host")
        if host not in servers:
            hint = did_you_mean(host, servers, f"Use one of {_some(servers)}, or remove host.")
            raise InputError(f"{host!r} is not a server of this plan.", f"{vm.path}.host", hint)
    groups = parse_names(vm.free.get("anti_affinity"), f"{vm.path}.anti_affinity")
    nested = vm.free.get("nested")
    return PlanVm(vm, host or None, current, groups, nested not in (None, "") and parse_bool(nested, f"{vm.path}.nested"), exists)


def _some(names: t.Iterable[str]) -> str:
    listed = sorted(names)
    return ", ".join(listed[:8]) + (f" and {len(listed) - 8} more" if len(listed) > 8 else "") if listed else "none, there are no servers"


def _parse_server(entry: t.Any, path: str, cluster: str, policy: PlacementPolicy) -> tuple[PlanServer, tuple[VmDetails, ...]]:
    check_known(entry, _SERVER_KEYS, path, _HINT_SERVER)
    measured = mapping(entry.get("capacity"), f"{path}.capacity", "Use the capacity that virt_node returns.")
    both = _Entry(entry, measured, path)
    name = parse_name(entry.get("name"), f"{path}.name")
    roles = parse_names(entry.get("roles"), f"{path}.roles") if entry.get("roles") is not None else (ROLE_VIRT,)
    if ROLE_WITNESS in roles and ROLE_VIRT in roles:
        raise InputError(
            f"server {name} has the roles {ROLE_VIRT} and {ROLE_WITNESS}: its vote would be lost together with its VMs.",
            f"{path}.roles",
            f"Give the role {ROLE_WITNESS} to a third machine.",
        )
    vms = parse_vms(entry.get("vms"), f"{path}.vms", cluster=cluster)
    if vms and ROLE_VIRT not in roles:
        raise InputError(f"server {name} has VM details but not the role {ROLE_VIRT}.", f"{path}.vms", f"Add {ROLE_VIRT} to its roles, or list the VMs in vms.")
    usable, reasons = _parse_hypervisors(entry.get("hypervisors"), f"{path}.hypervisors")
    pools = _parse_pools(entry.get("pools"), both.measured.get("pools"), path)
    arch = entry.get("arch") or both.measured.get("arch")
    server = PlanServer(
        name=name,
        roles=roles,
        capacity=_parse_capacity(both, policy.capacity, {pool: one for pool, (one, unused, sized) in pools.items() if sized}),
        arch=parse_name(arch, f"{path}.arch") if arch else None,
        disk=parse_size(entry["disk"], "GiB", f"{path}.disk") if entry.get("disk") is not None else None,
        pools=frozenset(pools) if entry.get("pools") is not None or both.measured.get("pools") else None,
        sized=frozenset(pool for pool, (unused, momentary, sized) in pools.items() if sized),
        credits=frozenset(pool for pool, (unused, momentary, sized) in pools.items() if sized and momentary),
        hypervisors=usable,
        hypervisor_reasons=reasons,
        bridges=_set_or_nothing(entry.get("bridges"), f"{path}.bridges"),
        networks=_set_or_nothing(entry.get("networks"), f"{path}.networks"),
        runs=parse_names(entry.get("runs"), f"{path}.runs"),
        path=path,
        copies=_by_id(entry, "copies", path, lambda value, where: parse_bytes(value, where, "B")),
        held=_parse_held(entry, path),
    )
    return server, vms


def _parse_held(entry: t.Mapping[str, t.Any], path: str) -> dict[str, tuple[int, int]]:
    """Return the MiB and vCPUs of existing VMs by id."""
    memory = _by_id(entry, "runs_memory", path, parse_bytes)
    vcpus = _by_id(entry, "runs_vcpus", path, lambda value, where: parse_count(value, where, _MOST_VCPUS, _HINT_VCPUS, 0))
    return {vm_id: (-(-memory.get(vm_id, 0) // MIB), vcpus.get(vm_id, 0)) for vm_id in {**memory, **vcpus}}


def _by_id(entry: t.Mapping[str, t.Any], key: str, path: str, convert: t.Callable[[t.Any, str], int]) -> dict[str, int]:
    where = f"{path}.{key}"
    return {vm_id: convert(one, f"{where}.{vm_id}") for vm_id, one in mapping(entry.get(key), where, "Write ID: VALUE for each VM.").items()}


def _set_or_nothing(value: t.Any, path: str) -> frozenset[str] | None:
    return None if value is None else frozenset(parse_names(value, path))


def _parse_capacity(both: _Entry, policy: CapacityPolicy, pools: t.Mapping[str, PoolCapacity]) -> HostCapacity | None:
    memory = both.first(("memory", "ram"), "memory_mib", parse_mib, "MiB")
    cpus = both.first(("cpus", "cpu"), "cpus", lambda value, path: parse_count(value, path, MOST_CPUS, _HINT_CPUS))
    reserve = both.first(("memory_reserve",), "memory_reserve_mib", parse_bytes, "MiB")
    ratio = both.first(("vcpu_ratio",), "vcpu_ratio", lambda value, path: parse_ratio(value, path, "Write how many vCPUs one CPU may carry, e.g. 4."))
    others = both.first(("others_memory",), "others_mib", parse_bytes, "MiB") or 0
    vcpus = both.first(("others_vcpus",), "others_vcpus", lambda value, path: parse_count(value, path, _MOST_VCPUS, _HINT_VCPUS, 0)) or 0
    if memory is None and cpus is None:
        return None
    for value, key in ((memory, "memory"), (cpus, "cpus")):
        if value is None:
            raise InputError("is missing.", f"{both.path}.{key}", "Give both memory and cpus, or neither if the server was not measured.")
    arch = str(both.given.get("arch") or both.measured.get("arch") or "")
    own = CapacityPolicy(
        memory_reserve_mib=policy.memory_reserve_mib if reserve is None else -(-reserve // MIB),
        vcpu_ratio=policy.vcpu_ratio if ratio is None else ratio,
        pool_reserve=policy.pool_reserve,
    )
    return HostCapacity(HostFacts(memory, cpus, arch, "", "", "", None), own, -(-others // MIB), vcpus, dict(pools))


def _parse_pools(given: t.Any, measured: t.Any, path: str) -> dict[str, tuple[PoolCapacity, bool, bool]]:
    """Parse pools: name → capacity, whether the free bytes are a current measurement, and whether the size is known."""
    found = {}
    for value, where in ((measured, f"{path}.capacity.pools"), (given, f"{path}.pools")):
        for name, entry in mapping(value, where, "Write NAME: SIZE, e.g. {default: 500 GiB}.").items():
            found[parse_name(name, f"{where}.{name}")] = _parse_pool(name, entry, f"{where}.{name}")
    return found


def _parse_pool(name: str, entry: t.Any, path: str) -> tuple[PoolCapacity, bool, bool]:
    if not isinstance(entry, t.Mapping):
        size = 0 if entry is None else parse_bytes(entry, path)
        return PoolCapacity(name, None, size, size, {}), False, entry is not None
    check_known(entry, _POOL_KEYS, path, "Write NAME: SIZE, or NAME: {capacity: SIZE, available: SIZE}.")
    capacity, available = (_first_size(entry, key, path) for key in ("capacity", "available"))
    momentary, sized = available is not None, not (capacity is None and available is None)
    # some file systems do not report a total size
    capacity = available if not capacity else capacity
    available = capacity if available is None else available
    if sized and available > capacity:
        raise InputError("exceeds the capacity of the pool.", f"{path}.available", "Give the space that is free now, or only the capacity.")
    volumes = _parse_volumes(entry.get("volumes"), f"{path}.volumes")
    reserve = None if entry.get("reserve_bytes") is None else parse_bytes(entry["reserve_bytes"], f"{path}.reserve_bytes", "B")
    return PoolCapacity(name, entry.get("path"), capacity or 0, available or 0, volumes, reserve=reserve), momentary, sized


def _first_size(entry: t.Mapping[str, t.Any], key: str, path: str) -> int | None:
    """Return a size given by the user, or in bytes by ``virt_node``."""
    if entry.get(key) is not None:
        return parse_bytes(entry[key], f"{path}.{key}")
    measured = entry.get(f"{key}_bytes")
    return None if measured is None else parse_bytes(measured, f"{path}.{key}_bytes", "B")


def _parse_volumes(value: t.Any, path: str) -> dict[str, tuple[int, int]]:
    """Parse volumes as ``vm_info`` returns them: name → (capacity, allocation)."""
    found = {}
    for index, entry in enumerate(sequence(value, path, "Give the volumes as vm_info returns them.")):
        where = f"{path}[{index}]"
        check_known(entry, ("name", "capacity_bytes", "allocation_bytes", "target", "path", "pool"), where, "Give the volumes as vm_info returns them.")
        capacity = parse_bytes(entry.get("capacity_bytes") or 0, f"{where}.capacity_bytes", "B")
        # libvirt allows longer names of volumes than parse_name
        found[str(entry.get("name"))] = (capacity, parse_bytes(entry.get("allocation_bytes") or 0, f"{where}.allocation_bytes", "B"))
    return found


def _parse_hypervisors(value: t.Any, path: str) -> tuple[frozenset[str] | None, dict[str, str]]:
    """Return the usable hypervisor types, and the reason for each other type, from a list of types or the proofs of ``virt_node``."""
    if value is None:
        return None, {}
    reasons = {}
    if isinstance(value, t.Mapping):
        usable = []
        for kind, proof in value.items():
            if not isinstance(proof, (t.Mapping, bool)):
                hint = "Write a list of types, e.g. [kvm, lxc], or use the result of virt_node."
                raise InputError(f"expected a mapping, got {proof!r}.", f"{path}.{kind}", hint)
            if proof is True or (isinstance(proof, t.Mapping) and parse_bool(proof.get("usable", False), f"{path}.{kind}.usable")):
                usable.append(kind)
            else:
                reasons[str(kind)] = str(proof.get("reason") or "") if isinstance(proof, t.Mapping) else ""
        kinds: t.Sequence[str] = [*usable, *reasons]
    else:
        kinds = usable = list(parse_names(value, path))
    for kind in kinds:
        if kind not in PROVABLE:
            raise InputError(f"{kind!r} is not a valid hypervisor type.", path, f"Use one of {', '.join(PROVABLE)}.")
    return frozenset(usable), reasons
