# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use case: convert servers and their VM details to hosts, groups, variables and addresses."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import json
import os
import pathlib
import time
import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import BackendError, InputError, Problems, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_fields import mapping
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_json_text import parse_json
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_secret import DIRECTORY, environment_name
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_node import ROLE_WITNESS
from ansible_collections.reduced.footprint.plugins.module_utils._inventory import (
    io_addresses,
    model_hardware,
    model_inventory,
    plan_addresses,
    plan_details,
    plan_places,
    plan_witness,
)
from ansible_collections.reduced.footprint.plugins.module_utils._inventory.model_inventory import VIRT_ROLE, Inventory, Machine, Server
from ansible_collections.reduced.footprint.plugins.module_utils._inventory.plan_addresses import Found, Table
from ansible_collections.reduced.footprint.plugins.module_utils._power import model_bmc
from ansible_collections.reduced.footprint.plugins.module_utils._vm.details.model_vm import KNOWN_KEYS, VmDetails
from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot import io_known_hosts

SERVERS_GROUP = "servers"
VMS_GROUP = "footprint_vms"

# Servers queried in parallel; more would only queue in ssh.
_PARALLEL = 8


@dataclasses.dataclass(frozen=True)
class Lookup:
    """The sources of addresses and their parameters."""

    sources: tuple[str, ...] = plan_addresses.SOURCES
    leases: tuple[str, ...] = ()
    libvirt_uri: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    discover_network: str | None = None
    exclude: tuple[str, ...] = ()
    timeout: float = 10.0


@dataclasses.dataclass(frozen=True)
class Host:
    """One host of the resulting inventory, physical or virtual."""

    name: str
    groups: tuple[str, ...]
    variables: t.Mapping[str, t.Any]


@dataclasses.dataclass(frozen=True)
class HostKeys:
    """The public ssh host keys of VMs by name, and the file that contains them."""

    path: pathlib.Path
    public: t.Mapping[str, str]


def parse_servers(value: t.Any, path: str = "servers", vm_defaults: t.Any = None, problems: Problems | None = None) -> tuple[Server, ...]:
    """Parse the ``servers`` mapping of the inventory file.

    :arg problems: collects errors; a server with an error is left out.
    """
    found = problems or Problems()
    common = found.call(plan_details.parse_defaults, vm_defaults, "vm_defaults") or plan_details.Layer("vm_defaults", {})
    servers = []
    for name, entry in mapping(value, path, "Write each server as NAME: {ansible_host: …, roles: [virt]}.").items():
        one = found.call(server, name, entry, f"{path}.{name}")
        own = found.call(plan_details.parse_defaults, entry.get("vm_defaults"), f"{path}.{name}.vm_defaults") if one and entry else common
        if one and own:
            servers.append(dataclasses.replace(one, defaults=(own, common) if own is not common else (common,)))
    if problems is None:
        found.check()
    return tuple(servers)


def server(name: str, entry: t.Any, path: str, more_roles: t.Sequence[str] = (), connection: t.Mapping[str, t.Any] | None = None) -> Server:
    """Parse one server.

    :arg entry: its variables, with ``roles`` or ``node_roles`` and ``vms``; ``None`` means none.
    :arg connection: its connection variables, if ``entry`` does not have all of them.
    """
    entry = mapping(entry, path, "Write the server's variables as a mapping.")
    variables = {key: value for key, value in entry.items() if key not in ("roles", "node_roles", "vms", "vm_defaults")}
    key = "roles" if "roles" in entry else "node_roles"
    roles = entry.get(key) or ()
    roles = (roles,) if isinstance(roles, str) else roles
    if not isinstance(roles, (list, tuple)) or not all(isinstance(role, str) and role for role in roles):
        raise InputError(f"expected a list of roles, got {roles!r}.", f"{path}.{key}", "Write a list of names, e.g. [virt, compute].")
    if variables.get("bmc") is not None:
        model_bmc.check_entry(variables["bmc"], variables.get("ansible_host"), f"{path}.bmc")
    model_hardware.parse(variables.get("hardware"), f"{path}.hardware")
    place = plan_places.place(name, variables if connection is None else connection)
    return Server(name, tuple(dict.fromkeys((*roles, *more_roles))), entry.get("vms"), variables, path, place)


def parse(cluster: str, servers: t.Sequence[Server], problems: Problems | None = None) -> Inventory:
    """Check the VM details of all servers, and add their defaults."""
    found = problems or Problems()
    machines: list[Machine] = []
    complete, slips, images = [], {}, {}
    for item in servers:
        vms, parsed, errors = plan_details.parse(item.vms, f"{item.path}.vms", cluster, item.defaults, item.more)
        found.found += errors
        if parsed and VIRT_ROLE not in item.roles:
            found.found.append(
                RefusedError(
                    f"{item.name} has VM details but not the role {VIRT_ROLE}.",
                    f"{item.path}.vms",
                    f"Add {VIRT_ROLE} to its roles, or move the VM details to a server with this role.",
                )
            )
        complete.append(dataclasses.replace(item, vms=vms))
        machines.extend(Machine(vm, complete[-1]) for vm in parsed)
        slips[item.name] = tuple(dict.fromkeys(_slips(item, parsed)))
        images[item.name] = dict(_images(item, parsed))
    if not found.found:
        # parts that could not be read would be missing here
        found.call(model_inventory.refuse_duplicates, complete, machines)
        found.call(_check_witnesses, complete, machines)
    if problems is None:
        found.check()
    return Inventory(cluster, tuple(complete), tuple(machines), slips, images)


def _check_witnesses(servers: t.Sequence[Server], machines: t.Sequence[Machine]) -> None:
    found = [plan_witness.Machine(item.name, "", item.roles, f"{item.path}.roles") for item in servers]
    found += [plan_witness.Machine(one.vm.name, one.server.name, one.vm.roles, f"{one.vm.path}.roles") for one in machines]
    plan_witness.check_places(
        [one for one in found if ROLE_WITNESS in one.roles], [one for one in found if "controller" in one.roles]
    )


def _layers(item: Server, vm: VmDetails) -> list[model_inventory.Layer]:
    """Return the details of a VM as they are written, and their defaults."""
    entry = next((one.values for one in item.more if one.path == vm.path), None)
    if entry is None:
        entry = plan_details.as_list(item.vms, "vms")[int(vm.path[:-1].rpartition("[")[2])]
    return [model_inventory.Layer(vm.path, entry), *(item.defaults or ())]


def _images(item: Server, vms: t.Sequence[VmDetails]) -> t.Iterator[tuple[str, str]]:
    for vm, index, disk in ((vm, index, disk) for vm in vms for index, disk in enumerate(vm.disks) if disk.image):
        error = plan_details.at_origin(InputError("", f"{vm.path}.disks[{index}].image"), _layers(item, vm))
        yield str(error.path), disk.image


def _slips(item: Server, vms: t.Sequence[VmDetails]) -> t.Iterator[str]:
    for vm in vms:
        parts = [(f"{kind}[{index}].", part.free) for kind in ("nics", "disks") for index, part in enumerate(getattr(vm, kind))]
        details = [f"{where}{key}" for where, free in [("", vm.free.keys() - KNOWN_KEYS), *parts] for key in sorted(free)]
        if details:
            # imported only if needed: jinja2 and lxml slow down every run
            from ansible_collections.reduced.footprint.plugins.module_utils._vm.template.run_blame import unknown_details

            problems = Problems()
            for detail in details:
                problems.call(unknown_details, vm, [detail])
            yield from (str(plan_details.at_origin(error, _layers(item, vm))) for error in problems.found)


def find_addresses(
    inventory: Inventory, lookup: Lookup, backend: t.Any = io_addresses, now: float | None = None
) -> tuple[dict[str, Found], list[str]]:
    """Return the addresses of the VMs, from the sources in the given order.

    A source is queried only while a VM has no address yet. A source that fails causes a warning, never an error.

    :returns: VM name → address, and the warnings.
    """
    plan_addresses.check_sources(lookup.sources, "address_sources")
    plan_addresses.check_uris(lookup.libvirt_uri, "libvirt_uri")
    plan_addresses.check_timeout(lookup.timeout, "timeout")
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
                    # a neighbour table does not show whether one of them is a virtual address that will move
                    warnings.append(
                        f"{machine.vm.name} has several addresses in the neighbour table ({', '.join((address.address, *address.others))}); "
                        "none is used. List virtual addresses in exclude_addresses, or use leases."
                    )
                elif address:
                    found[machine.vm.name] = address
            if all(machine.vm.name in found for machine in missing):
                break
    return found, warnings


def signature(inventory: Inventory, lookup: Lookup) -> dict[str, t.Any]:
    """Return what the addresses depend on; addresses found earlier are valid while it is the same. Only lists, mappings and scalars."""
    machines = {one.vm.name: [one.vm.address, one.server.variables.get("ansible_host"), *one.vm.macs] for one in inventory.machines}
    return dict(parse_json(json.dumps({"machines": machines, "lookup": dataclasses.asdict(lookup)}, default=str), "signature"))


def require_addresses(inventory: Inventory, found: t.Mapping[str, Found]) -> None:
    """Check that the address of each VM was found."""
    missing = [machine.vm.name for machine in inventory.machines if machine.vm.name not in found]
    if missing:
        raise RefusedError(f"no address is known for {', '.join(missing)}.", "strict", "Start these VMs, set their address, or remove strict.")


def _tables(
    source: str,
    machines: t.Sequence[Machine],
    lookup: Lookup,
    targets: t.Sequence[str],
    backend: t.Any,
    warnings: list[str],
    now: float,
) -> t.Iterator[Table]:
    """The tables of one source, the fastest and most reliable first."""
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
        yield _query_libvirt(source, machines, lookup, backend, warnings)


def _neighbours(backend: t.Any, warnings: list[str]) -> Table:
    try:
        return plan_addresses.parse_neighbours(backend.neighbours())
    except BackendError as error:
        warnings.append(f"cannot read the neighbour table of the control node: {error}")
        return {}


def _query_libvirt(source: str, machines: t.Sequence[Machine], lookup: Lookup, backend: t.Any, warnings: list[str]) -> Table:
    if not backend.libvirt_available():
        warnings.append("libvirt_uri is set, but the Python of Ansible (see ansible --version) cannot import libvirt; install python3-libvirt for it.")
        return {}
    wanted: dict[str, list[str]] = {}
    for machine in machines:
        for uri in _uris(machine, lookup.libvirt_uri):
            wanted.setdefault(uri, []).append(machine.vm.uuid)
    pairs: list[tuple[str, str]] = []
    with concurrent.futures.ThreadPoolExecutor(_PARALLEL) as pool:
        queries = {uri: pool.submit(backend.domain_addresses, uri, uuids, source, lookup.timeout) for uri, uuids in wanted.items()}
        for query in queries.values():
            try:
                pairs.extend(query.result())
            except BackendError as error:
                warnings.append(str(error))
    return plan_addresses.from_pairs(pairs)


def _uris(machine: Machine, templates: t.Mapping[str, str]) -> list[str]:
    """The libvirt URIs that may know a VM; ``auto`` may be either driver."""
    hypervisor = machine.vm.hypervisor
    drivers = {"lxc": ("lxc",), "auto": ("qemu", "lxc")}.get(hypervisor, ("qemu",))
    host = str(machine.server.variables.get("ansible_host") or machine.server.name)
    # in a URI the colons of an IPv6 address would start a port
    host = f"[{host}]" if ":" in host and not host.startswith("[") else host
    return [templates[driver].replace("{host}", host).replace("{name}", machine.server.name) for driver in drivers if driver in templates]


def host_keys(path: pathlib.Path) -> HostKeys:
    """Read the known host keys of VMs."""
    return HostKeys(path, io_known_hosts.read(path))


def host_connection(name: str, path: pathlib.Path) -> dict[str, t.Any]:
    """Return host variables with which Ansible accepts only the recorded host key of a server or VM."""
    return io_known_hosts.connection_variables(name, path)


def host_keys_path(given: t.Any, folder: str, environment: str) -> pathlib.Path:
    """Return the path of the file with the public host keys of VMs, by default next to their private keys.

    :arg given: a path of the user, relative to ``folder``, the folder of the inventory file.
    """
    return pathlib.Path(os.path.abspath(folder)) / (str(given) if given else f"{DIRECTORY}/{environment_name(environment)}/{io_known_hosts.NAME}")


def hosts(
    inventory: Inventory, found: t.Mapping[str, Found], keys: HostKeys | None = None, lookup: Lookup | None = None
) -> tuple[Host, ...]:
    """Return every server and VM as a host with its groups; a VM without a known address has no ``ansible_host``.

    :arg lookup: the sources of addresses, recorded in every VM for searches after the inventory was read.
    """
    # only lists and mappings: an inventory may be exported as JSON
    options = dataclasses.asdict(lookup) if lookup else {}
    sources = {"vm_address_lookup": {key: list(value) if isinstance(value, tuple) else value for key, value in options.items()}} if lookup else {}
    result = []
    kept = {"footprint_known_hosts": str(keys.path)} if keys else {}
    for item in inventory.servers:
        variables = dict(item.variables, footprint_cluster=inventory.cluster, node_roles=list(item.roles), **kept)
        vms = plan_details.as_list(item.vms, "vms")
        if vms or VIRT_ROLE in item.roles:
            variables["vms"] = vms
        if keys and item.name in keys.public:
            # it was installed by this collection; settings of the user have priority
            variables = {**host_connection(item.name, keys.path), **variables}
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
            **sources,
        }
        if keys and vm.name in keys.public:
            variables["vm_host_key"] = keys.public[vm.name]
            variables.update(host_connection(vm.name, keys.path))
        if vm.name in found:
            variables["ansible_host"] = found[vm.name].address
            variables["vm_address_source"] = found[vm.name].source
        result.append(Host(vm.name, (VMS_GROUP, *vm.roles), variables))
    return tuple(result)


def details(vm: VmDetails) -> dict[str, t.Any]:
    """Return the VM details of the user, with defaults and the canonical names of keys."""
    return {
        **vm.given,
        "cpu": vm.cpu,
        "hypervisor": vm.hypervisor,
        "id": vm.id,
        "name": vm.name,
        "roles": list(vm.roles),
    }
