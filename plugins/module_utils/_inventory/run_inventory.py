# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: servers and their VM details → hosts, groups, variables and addresses."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import os
import pathlib
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_json_text import parse_json
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_secret import DIRECTORY, environment_name
from ansible_collections.reduced.footprint.plugins.module_utils._inventory import io_addresses, plan_addresses
from ansible_collections.reduced.footprint.plugins.module_utils._inventory.plan_addresses import Found, Table
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_vm import VmDetails, parse_vms
from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot import io_known_hosts

SERVERS_GROUP = "servers"
VMS_GROUP = "footprint_vms"
VIRT_ROLE = "virt"

# Several servers are asked at once; more would only queue in ssh.
_MOST_AT_ONCE = 8


@dataclasses.dataclass(frozen=True)
class Server:
    """A physical server as the inventory knows it.

    :arg variables: what becomes its host variables, ``vms`` and roles taken out.
    :arg path: where it stands in the user's input, for messages.
    """

    name: str
    roles: tuple[str, ...]
    vms: t.Any
    variables: t.Mapping[str, t.Any]
    path: str


@dataclasses.dataclass(frozen=True)
class Lookup:
    """Where and how addresses are looked for."""

    sources: tuple[str, ...] = plan_addresses.SOURCES
    leases: tuple[str, ...] = ()
    libvirt_uri: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    discover_network: str | None = None
    exclude: tuple[str, ...] = ()
    timeout: float = 10.0


@dataclasses.dataclass(frozen=True)
class Host:
    """One host of the resulting inventory; the same shape for metal and VM."""

    name: str
    groups: tuple[str, ...]
    variables: t.Mapping[str, t.Any]


@dataclasses.dataclass(frozen=True)
class HostKeys:
    """The public ssh host keys of VMs by their names, and the file they are kept in."""

    path: pathlib.Path
    public: t.Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class Machine:
    """A VM and the server it lives on."""

    vm: VmDetails
    server: Server


@dataclasses.dataclass(frozen=True)
class Inventory:
    """The servers and machines of a cluster, checked against each other."""

    cluster: str
    servers: tuple[Server, ...]
    machines: tuple[Machine, ...]


def parse_servers(value: t.Any, path: str = "servers") -> tuple[Server, ...]:
    """The ``servers`` mapping of the inventory file.

    :raises InputError: with the path of the bad value.
    """
    if value is None:
        return ()
    if not isinstance(value, t.Mapping):
        raise InputError(f"is {type(value).__name__}, not a mapping.", path, "Write each server as NAME: {ansible_host: …, roles: [virt]}.")
    return tuple(server(str(name), entry, f"{path}.{name}") for name, entry in value.items())


def server(name: str, entry: t.Any, path: str, more_roles: t.Sequence[str] = ()) -> Server:
    """One server from its variables.

    :arg entry: its variables, with ``roles`` or ``node_roles`` and ``vms``; ``None`` means none.
    :raises InputError: roles that are no list of names.
    """
    entry = {} if entry is None else entry
    if not isinstance(entry, t.Mapping):
        raise InputError(f"is {type(entry).__name__}, not a mapping.", path, "Write the server's variables as a mapping.")
    variables = {str(key): value for key, value in entry.items() if key not in ("roles", "node_roles", "vms")}
    key = "roles" if "roles" in entry else "node_roles"
    roles = entry.get(key) or ()
    roles = (roles,) if isinstance(roles, str) else roles
    if not isinstance(roles, (list, tuple)) or not all(isinstance(role, str) and role for role in roles):
        raise InputError(f"{roles!r} is not a list of roles.", f"{path}.{key}", "Write a list of names, e.g. [virt, compute].")
    return Server(name, tuple(dict.fromkeys((*roles, *more_roles))), entry.get("vms"), variables, path)


def parse(cluster: str, servers: t.Sequence[Server]) -> Inventory:
    """Check the servers' VM details, each by itself and all against each other.

    :raises InputError: a bad value, or an id, name, UUID, MAC or address that two share.
    :raises RefusedError: VM details on a server without the role virt.
    """
    machines: list[Machine] = []
    for item in servers:
        vms = parse_vms(item.vms, f"{item.path}.vms", cluster=cluster)
        if vms and VIRT_ROLE not in item.roles:
            raise RefusedError(
                f"{item.name} has VM details but not the role {VIRT_ROLE}.",
                f"{item.path}.vms",
                f"Add {VIRT_ROLE} to its roles, or move the VM details to a server that has it.",
            )
        machines.extend(Machine(vm, item) for vm in vms)
    _refuse_twins(servers, machines)
    return Inventory(cluster, tuple(servers), tuple(machines))


def _refuse_twins(servers: t.Sequence[Server], machines: t.Sequence[Machine]) -> None:
    seen: dict[tuple[str, str], str] = {}

    def once(kind: str, value: str | None, path: str, hint: str) -> None:
        if value is None:
            return
        first = seen.setdefault((kind, value), path)
        if first != path:
            raise InputError(f"{value!r} is already used at {first}.", path, hint)

    for item in servers:
        once("name", item.name, item.path, "Give every server its own name.")
    for machine in machines:
        vm = machine.vm
        once("id", vm.id, f"{vm.path}.id", "Give every VM an id that is unique in the cluster.")
        once("name", vm.name, f"{vm.path}.name" if vm.name != vm.id else f"{vm.path}.id", "Give every VM and server its own name.")
        once("uuid", vm.uuid, f"{vm.path}.uuid", "Leave the UUID out; it derives from cluster and id.")
        once("address", vm.address, f"{vm.path}.address", "Give every VM its own address.")
        for index, mac in enumerate(vm.macs):
            once("mac", mac, f"{vm.path}.nics[{index}].mac", "Give one of the two NICs another mac.")


def find_addresses(
    inventory: Inventory, lookup: Lookup, backend: t.Any = io_addresses, now: float | None = None
) -> tuple[dict[str, Found], list[str]]:
    """The addresses of the VMs, source after source in the order asked for.

    A source is asked only while some VM has no address yet. Whoever does not answer costs a warning, never the
    inventory.

    :returns: VM name → address, and the warnings.
    :raises InputError: an unknown source, a bad network.
    :raises RefusedError: a network too wide to sweep.
    """
    plan_addresses.check_sources(lookup.sources, "address_sources")
    excluded = plan_addresses.parse_excluded(lookup.exclude, "exclude_addresses")
    targets = plan_addresses.sweep_targets(lookup.discover_network, "discover_network") if lookup.discover_network else ()
    found: dict[str, Found] = {}
    warnings: list[str] = []
    for source in lookup.sources:
        missing = [machine for machine in inventory.machines if machine.vm.name not in found]
        if not missing:
            break
        if source == "fixed":
            found.update({m.vm.name: Found(m.vm.address, "fixed") for m in missing if m.vm.address})
            continue
        for table in _tables(source, missing, lookup, targets, backend, warnings, time.time() if now is None else now):
            for machine in missing:
                address = None if machine.vm.name in found else plan_addresses.choose(machine.vm.macs, table, source, excluded)
                if address and address.others and source == "arp":
                    # whether one of them is a virtual address that will move on, a neighbour table cannot tell
                    warnings.append(
                        f"{machine.vm.name} answers at several addresses ({', '.join((address.address, *address.others))}); "
                        "none is taken. Name those that are not its own in exclude_addresses, or use leases."
                    )
                elif address:
                    found[machine.vm.name] = address
            if all(machine.vm.name in found for machine in missing):
                break
    return found, warnings


def _tables(
    source: str,
    machines: t.Sequence[Machine],
    lookup: Lookup,
    targets: t.Sequence[str],
    backend: t.Any,
    warnings: list[str],
    now: float,
) -> t.Iterator[Table]:
    """The tables of one source, the cheapest and most trustworthy first."""
    if source == "lease":
        for location in lookup.leases:
            try:
                yield plan_addresses.parse_leases(backend.read_leases(location, lookup.timeout), now)
            except BackendError as error:
                warnings.append(str(error))
    if source == "arp":
        yield _neighbours(backend, warnings)
        if targets:
            backend.sweep(targets)
            yield _neighbours(backend, warnings)
    if lookup.libvirt_uri:
        yield _ask_libvirt(source, machines, lookup, backend, warnings)


def _neighbours(backend: t.Any, warnings: list[str]) -> Table:
    try:
        return plan_addresses.parse_neighbours(backend.neighbours())
    except BackendError as error:
        warnings.append(f"the neighbour table of this machine cannot be read: {error}")
        return {}


def _ask_libvirt(source: str, machines: t.Sequence[Machine], lookup: Lookup, backend: t.Any, warnings: list[str]) -> Table:
    if not backend.libvirt_available():
        warnings.append("libvirt_uri is set, but Python's libvirt binding is not installed here; install python3-libvirt.")
        return {}
    wanted: dict[str, list[str]] = {}
    for machine in machines:
        for uri in _uris(machine, lookup.libvirt_uri):
            wanted.setdefault(uri, []).append(machine.vm.uuid)
    pairs: list[tuple[str, str]] = []
    with concurrent.futures.ThreadPoolExecutor(_MOST_AT_ONCE) as pool:
        asked = {uri: pool.submit(backend.domain_addresses, uri, uuids, source, lookup.timeout) for uri, uuids in wanted.items()}
        for uri in asked:
            try:
                pairs.extend(asked[uri].result())
            except BackendError as error:
                warnings.append(str(error))
    return plan_addresses.from_pairs(pairs)


def _uris(machine: Machine, templates: t.Mapping[str, str]) -> list[str]:
    """The connections that may know a VM; ``auto`` may have become either driver."""
    hypervisor = machine.vm.hypervisor
    drivers = {"lxc": ("lxc",), "auto": ("qemu", "lxc")}.get(hypervisor, ("qemu",))
    host = str(machine.server.variables.get("ansible_host") or machine.server.name)
    return [templates[driver].replace("{host}", host).replace("{name}", machine.server.name) for driver in drivers if driver in templates]


def host_keys(path: pathlib.Path) -> HostKeys:
    """The host keys that are known of VMs.

    :arg path: of the file, which need not exist.
    :raises BackendError: it cannot be read.
    """
    return HostKeys(path, io_known_hosts.read(path))


def host_keys_path(given: t.Any, folder: str, environment: str) -> pathlib.Path:
    """Where the public host keys of VMs are kept: beside their private keys unless something else is asked for.

    :arg given: the user's own path, relative to ``folder``, which is that of the inventory file.
    """
    return pathlib.Path(os.path.abspath(folder)) / (str(given) if given else f"{DIRECTORY}/{environment_name(environment)}/{io_known_hosts.NAME}")


def hosts(inventory: Inventory, found: t.Mapping[str, Found], keys: HostKeys | None = None) -> tuple[Host, ...]:
    """Every server and VM as a host of its groups; a VM without a known address has no ``ansible_host``."""
    result = []
    kept = {"footprint_known_hosts": str(keys.path)} if keys else {}
    for item in inventory.servers:
        variables = dict(item.variables, footprint_cluster=inventory.cluster, node_roles=list(item.roles), **kept)
        vms = _as_list(item.vms)
        if vms or VIRT_ROLE in item.roles:
            variables["vms"] = vms
        result.append(Host(item.name, (SERVERS_GROUP, *item.roles), variables))
    for machine in inventory.machines:
        vm = machine.vm
        variables = {
            "footprint_cluster": inventory.cluster,
            "node_roles": list(vm.roles),
            "vm_details": details(vm),
            "vm_host": machine.server.name,
            "vm_macs": list(vm.macs),
            "vm_uuid": vm.uuid,
            **kept,
        }
        if keys and vm.name in keys.public:
            variables["vm_host_key"] = keys.public[vm.name]
            variables.update(io_known_hosts.connection_variables(vm.name, keys.path))
        if vm.name in found:
            variables["ansible_host"] = found[vm.name].address
            variables["vm_address_source"] = found[vm.name].source
        result.append(Host(vm.name, (VMS_GROUP, *vm.roles), variables))
    return tuple(result)


def details(vm: VmDetails) -> dict[str, t.Any]:
    """The details as the user gave them, with what is left out or has several names filled in."""
    return {
        **vm.given,
        "cpu": vm.cpu,
        "hypervisor": vm.hypervisor,
        "id": vm.id,
        "name": vm.name,
        "roles": list(vm.roles),
    }


def _as_list(value: t.Any) -> list[t.Any]:
    if isinstance(value, str):
        return list(parse_json(value, "vms")) if value.strip() else []
    return list(value or ())
