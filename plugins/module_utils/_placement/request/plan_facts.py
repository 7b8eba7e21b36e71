# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Build the servers of a plan from the inventory, facts and the results of ``vm_info`` and ``virt_node_info``."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import InputError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_schema import HOST_FACTS
from ansible_collections.reduced.footprint.plugins.module_utils._placement.request.model_placement import as_list

# Variable of a server with its capacity as set by the operator.
GIVEN = "node_capacity"
# states of a guest that occupies memory
_HOLDS = ("running", "paused", "suspended", "crashed")


def servers_from_variables(
    hostvars: t.Mapping[str, t.Any],
    names: t.Sequence[str],
    vms: t.Mapping[str, t.Sequence[t.Mapping[str, t.Any]]],
    nodes: t.Mapping[str, t.Mapping[str, t.Any]],
    copies: t.Mapping[str, t.Sequence[t.Mapping[str, t.Any]]] | None = None,
) -> list[dict[str, t.Any]]:
    """Return the entries of ``servers`` for the module ``footprint_plan``.

    :arg hostvars: host name → variables, with ``node_roles``, ``vms``, ``footprint_cluster``, facts, and ``node_capacity`` (overrides
        the facts); missing ones are left out.
    :arg names: the hosts that are servers.
    :arg vms: server → its VMs as returned by ``vm_info``; other values mean that it was not measured.
    :arg nodes: server → ``node`` as returned by ``virt_node_info``.
    :arg copies: server → ``standbys`` as returned by ``vm_standby_info``.
    """
    found = [_server(name, hostvars, vms.get(name), nodes.get(name) or {}) for name in names]
    for entry in found:
        held = {each["id"]: each["used_bytes"] for each in (copies or {}).get(entry["name"]) or [] if each["part"] == "standby"}
        if held:
            entry.setdefault("copies", held)
    return found


def master_vm(
    hostvars: t.Mapping[str, t.Any], names: t.Sequence[str], vms: t.Mapping[str, t.Any], destination: str | None = None
) -> list[dict[str, t.Any]]:
    """Return the VM details of the master's VM, as the role ``master_migrate`` defines it.

    The list is empty if the VM details of a server list that VM, and if it does not exist and ``master_migrate_temporary_address``, which a
    migration requires, is not set.

    :arg destination: the server to which the master will be migrated, if known; a pattern for hosts is ignored.
    """
    variables = hostvars[names[0]] if names else {}

    def option(name: str, default: t.Any) -> t.Any:
        value = variables.get(f"master_migrate_{name}")
        return value if value not in (None, "") else default

    extra = dict(option("vm_extra", {}))
    vm_id = str(extra.get("id", option("name", "master")))
    found = [str(vm["id"]) for name in names if _measured(vms.get(name)) for vm in vms[name] if _is_managed(vm, variables)]
    listed = [entry for name in names for entry in as_list(hostvars[name].get("vms"), f"vms of {name}") if isinstance(entry, t.Mapping)]
    if vm_id in [str(entry.get("id")) for entry in listed] or not (option("temporary_address", None) or vm_id in found):
        return []
    pool = option("pool", variables.get("virt_host_pool"))
    details = {
        "id": vm_id,
        "cpu": option("cpu", 2),
        "ram": option("ram", 2),
        "hypervisor": option("hypervisor", "auto"),
        "roles": ["master"],
        "nics": [{"bridge": option("bridge", "br-admin")}],
        "disks": [{"size": option("disk_size", "40GiB"), **({"pool": pool} if pool else {})}],
    }
    return [{**details, **({"host": destination} if destination in names else {}), **extra}]


def _measured(found: t.Any) -> bool:
    return isinstance(found, (list, tuple))


def _server(name: str, hostvars: t.Mapping[str, t.Any], given: t.Any, node: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    variables = hostvars[name]
    found = given if _measured(given) else []
    facts = variables.get("ansible_facts") or {}
    record = (facts.get("ansible_local") or variables.get("ansible_local") or {}).get("reduced_footprint") or {}
    record = record if isinstance(record, t.Mapping) else {}
    HOST_FACTS.check(record.get(HOST_FACTS.key), f"the facts of {name}")
    entry: dict[str, t.Any] = {"name": name}
    if variables.get("node_roles") is not None:
        entry["roles"] = variables["node_roles"]
    capacity = record.get("capacity")
    if isinstance(capacity, t.Mapping):
        entry["capacity"] = capacity
    if facts.get("memtotal_mb"):
        # current facts override the record
        entry["memory"] = f"{facts['memtotal_mb']} MiB"
        entry["cpus"] = facts.get("processor_nproc") or facts.get("processor_vcpus")
        entry["arch"] = facts.get("architecture")
    if record.get("hypervisors"):
        entry["hypervisors"] = record["hypervisors"]
    bridges = _bridges(variables, facts)
    if bridges is not None:
        entry["bridges"] = bridges
    if node.get("libvirt"):
        wanted = {one.get("name") or one["bridge"] for one in variables.get("virt_host_networks") or []}
        entry["networks"] = sorted(wanted.union(network["name"] for network in node["networks"] if network["active"]))
    pools = _pools(capacity or {}, record.get("measured") or {}, node.get("pools") or {}, facts, found, variables)
    if pools:
        entry["pools"] = pools
    if _measured(given):
        entry.update(_guests(found, variables))
    if variables.get("vms"):
        entry["vms"] = _with_roles(variables["vms"], hostvars) if variables.get("footprint_topology") else variables["vms"]
    entry.update(variables.get(GIVEN) or {})
    return {key: value for key, value in entry.items() if value is not None}


def _with_roles(vms: t.Any, hostvars: t.Mapping[str, t.Any]) -> t.Any:
    """Return VM details with the roles that a topology gives the VMs as hosts, in addition to those in the details."""
    try:
        entries = as_list(vms, "vms")
    except InputError:
        # the module reports it
        return vms
    found = []
    for entry in entries:
        host = str(entry.get("name") or entry.get("id")) if isinstance(entry, t.Mapping) else ""
        roles = hostvars[host].get("node_roles") if host in hostvars else None
        found.append({**entry, "roles": roles} if roles else entry)
    return found


def _bridges(variables: t.Mapping[str, t.Any], facts: t.Mapping[str, t.Any]) -> list[str] | None:
    """Return existing bridges and those the operator configured; ``None`` if unknown."""
    wanted = [entry["name"] for entry in variables.get("virt_host_bridges") or [] if isinstance(entry, t.Mapping) and entry.get("name")]
    if not facts.get("interfaces"):
        return None
    # the keys of facts contain underscores instead of - and : in names of interfaces
    there = (facts.get(name.replace("-", "_").replace(":", "_")) for name in facts["interfaces"])
    have = [link["device"] for link in there if isinstance(link, t.Mapping) and link.get("type") == "bridge" and link.get("device")]
    return sorted({*wanted, *have})


def _pools(
    capacity: t.Mapping[str, t.Any],
    measured: t.Mapping[str, t.Any],
    live: t.Mapping[str, t.Any],
    facts: t.Mapping[str, t.Any],
    found: t.Sequence[t.Mapping[str, t.Any]],
    variables: t.Mapping[str, t.Any],
) -> dict[str, dict[str, t.Any]]:
    """Return the recorded pools with their size: from libvirt now, else from their file system, else as recorded."""
    pools: dict[str, dict[str, t.Any]] = {}
    for name, pool in (capacity.get("pools") or {}).items():
        path = pool.get("path")
        entry: dict[str, t.Any] = {"path": path}
        if pool.get("reserve_bytes") is not None:
            entry["reserve_bytes"] = pool["reserve_bytes"]
        mount = _mount(facts.get("mounts") or [], path) if pool.get("type", "dir") == "dir" else None
        now = live.get(name) or {}
        then = (measured.get("pools") or {}).get(name) or {}
        reported = now if now.get("capacity_bytes") else {} if mount else then
        if reported.get("capacity_bytes"):
            entry.update(capacity_bytes=reported["capacity_bytes"], available_bytes=reported["available_bytes"])
        elif mount:
            entry.update(capacity=f"{mount['size_total']} B", available=f"{mount['size_available']} B")
        managed = [vm for vm in found if _is_managed(vm, variables)]
        volumes = [volume for vm in managed for volume in vm.get("volumes") or [] if volume.get("pool") == name and volume.get("name")]
        if volumes:
            entry["volumes"] = [{key: volume.get(key) for key in ("name", "capacity_bytes", "allocation_bytes")} for volume in volumes]
        pools[name] = entry
    return pools


def _mount(mounts: t.Sequence[t.Mapping[str, t.Any]], path: str | None) -> t.Mapping[str, t.Any] | None:
    """Return the file system that contains a path."""
    over = [mount for mount in mounts if path and mount.get("size_total") and f"{path}/".startswith(f"{str(mount['mount']).rstrip('/')}/")]
    return max(over, key=lambda mount: len(mount["mount"]), default=None)


def _is_managed(vm: t.Mapping[str, t.Any], variables: t.Mapping[str, t.Any]) -> bool:
    """Whether a VM belongs to the cluster."""
    return vm.get("id") is not None and vm.get("cluster") == variables.get("footprint_cluster", vm.get("cluster"))


def _guests(found: t.Sequence[t.Mapping[str, t.Any]], variables: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the cluster's VMs on a server, with memory and vCPUs of those that run, and the memory and vCPUs of other running domains."""
    # the old copy of a moved VM is not counted: the VM is on another server
    managed = [vm for vm in found if _is_managed(vm, variables) and not vm.get("moved")]
    holding = [vm for vm in managed if vm.get("state") in _HOLDS]
    others = [vm for vm in found if not _is_managed(vm, variables) and vm.get("state") in _HOLDS]
    guests: dict[str, t.Any] = {"runs": [vm["id"] for vm in managed]}
    if holding:
        # they count if the plan does not contain the VM
        guests["runs_memory"] = {vm["id"]: f"{vm.get('memory_mib') or 0} MiB" for vm in holding}
        guests["runs_vcpus"] = {vm["id"]: vm.get("cpu") or 0 for vm in holding}
    if others:
        guests["others_memory"] = f"{sum(vm.get('memory_mib') or 0 for vm in others)} MiB"
        guests["others_vcpus"] = sum(vm.get("cpu") or 0 for vm in others)
    return guests
