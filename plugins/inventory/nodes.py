# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: nodes
short_description: Physical servers and the virtual machines on them as ordinary hosts
version_added: 1.0.0
author: [reduced.footprint authors (@reduced-footprint)]
description:
  - Reads the physical servers, their roles and the virtual machines of each (its VM details), and adds B(all of them as ordinary
    hosts) to groups named after their roles. A play on the group C(controller) works for physical and virtual controllers alike.
  - The servers are listed in the option O(servers), or are hosts of another inventory source (read before this one), or both. A host of another source is
    included if it has the variable C(vms) or C(node_roles), in the inventory or in its C(host_vars).
  - UUIDs and MAC addresses are computed from cluster, id and the name or position of the NIC, so they are known before a
    VM exists. The address of a VM is taken from the first of O(address_sources) that returns one.
  - Optionally reads the B(topology) of a control plane, that is, the roles of hosts, the services of roles, and their settings. Then groups named after the
    services are added as well, for example C(galera), and settings become variables of the services' roles. Such a file is usually called
    C(NAME.footprint.yml). Hosts of earlier sources are included. A topology is not required; ordinary groups work without one.
  - Unknown options, and misspelt names of keys, roles, services, hosts and variables of this collection's roles are errors.
  - A server that is down, a lease file that cannot be read or a VM without an address never breaks the
    inventory. They cause a warning at most, unless O(strict) is set.
notes:
  - In addition to the groups of the roles, C(servers) contains every physical server and C(footprint_vms) every virtual machine.
  - "Variables of every host: C(footprint_cluster), C(node_roles), C(footprint_known_hosts), and C(ansible_host) if its address is known."
  - "Additional variables of a server: C(vms), and C(footprint_inventory) with the sources up to this file."
  - VM details in the extra variable C(spawn_vms_details), a mapping of servers, are added to those of the file.
  - "Additional variables of a virtual machine: C(vm_details), C(vm_host), C(vm_uuid), C(vm_macs), C(vm_address_source), C(vm_address_lookup)
    (the sources of addresses, for P(reduced.footprint.vm_connection#lookup)); if its ssh host key is known, also C(vm_host_key), and
    C(ansible_ssh_extra_args), C(ansible_sftp_extra_args) and C(ansible_scp_extra_args), which pin the key."
  - "Additional variables of a host with a topology: C(footprint_topology) with C(environment), C(roles), C(services), C(names) and
    C(origins), the layer that each setting came from."
  - O(cluster), O(environment), O(dhcp_leases), O(libvirt_uri), O(discover_network) and O(exclude_addresses) may be templates, for example
    lookups of the environment. They are rendered before any host is known.
  - Sources are read in the order of the command line, those of a directory in the order of their names. Hosts of later ones are not available.
extends_documentation_fragment: [constructed, inventory_cache, reduced.footprint.topology]
options:
  plugin:
    description: Name of this plugin.
    type: str
    required: true
    choices: [reduced.footprint.nodes, nodes]
  cluster:
    description: Name of the cluster, from which UUIDs and MAC addresses derive, so it must never change. Letters, digits, C(._-).
    type: str
    required: true
  part_of:
    description:
      - Only in a file C(NAME.vms.yml), name of the inventory file beside it, whose C(servers) have the C(vms) of this file as well. The playbook
        C(spawn_vms) writes it to keep VM details that were given as C(spawn_vms_details).
    type: str
  servers:
    description:
      - The physical servers by name.
      - In each entry, C(roles) is the list of its roles and C(vms) its VM details, a list of mappings or that list as JSON text, which require the role
        C(virt). C(vm_defaults) are defaults of these, over O(vm_defaults). C(bmc), C(hardware), C(install) and C(node_capacity) are described in the
        guides. All other keys are host variables.
      - With O(roles), a role that is declared neither there nor by this collection is an error.
      - "Keys of VM details: C(id) (unique in the cluster), C(name), C(cpu), C(ram), C(hypervisor), C(roles), C(nics),
        C(disks), C(address), C(autostart), C(protected), C(machine), and any other key that a libvirt template uses."
      - An C(address) with a prefix (V(192.0.2.21/24)) becomes the C(network_config) of the first NIC, by its MAC address, with C(gateway), the default
        route, and C(nameservers), a list; both may be left out. Without a prefix, the VM gets the address by other means, usually from a DHCP server.
    type: dict
    default: {}
  vm_defaults:
    description:
      - Keys of VM details that all VMs in O(servers) have unless their server or they themselves set them, except C(id), C(name), C(uuid) and C(address).
      - Mappings are merged recursively, other values replace each other, lists such as C(disks) as a whole. V(null) removes a default.
    type: dict
    default: {}
  address_sources:
    description:
      - Sources of the address of a virtual machine, in the order in which they are queried; the first result is used.
      - V(fixed) is C(address) in the VM details.
      - V(lease) is O(dhcp_leases), then libvirt's own DHCP servers if O(libvirt_uri) is given.
      - V(agent) is the guest agent, queried through libvirt.
      - V(arp) is the neighbour table of the control node, if necessary after a sweep of O(discover_network), then that of the
        virtual machine's server, queried through libvirt. A VM with several addresses in the table is left without one,
        because one of them may be a virtual address that moves; list that one in O(exclude_addresses).
    type: list
    elements: str
    choices: [fixed, lease, agent, arp]
    default: [fixed, lease, agent, arp]
  dhcp_leases:
    description:
      - Lease files of dnsmasq, or of Kea for IPv4 (memfile, for example C(/var/lib/kea/kea-leases4.csv)), each a path or an C(http) or
        C(https) URL that serves the file. Kea moves leases to a file that ends in C(.2); it is read beside a path, of URLs list both.
      - They are read in order until all addresses are known.
    type: list
    elements: str
    default: []
  libvirt_uri:
    description:
      - The libvirt URI of the servers, by driver (C(qemu), also for C(kvm), and C(lxc)). V({host}) is replaced by the server's
        C(ansible_host), an IPv6 address in brackets, V({name}) by its name.
      - Queried only for VMs whose address is not known from an earlier source. Requires Python's libvirt binding.
    type: dict
    default: {}
  discover_network:
    description:
      - An IPv4 network to search for VMs whose address is still unknown. One empty datagram is sent to each address, so that the
        kernel fills its neighbour table.
      - Networks larger than /22 are refused.
    type: str
  exclude_addresses:
    description:
      - Addresses or networks that never identify a VM, for example the virtual address that moves between the controllers.
    type: list
    elements: str
    default: []
  known_hosts:
    description:
      - The file with the public ssh host keys of the virtual machines by name, in the format of OpenSSH. The role
        P(reduced.footprint.virt_guests#role) writes it before the first connection to a new VM.
      - Ansible connects to a VM listed there only if the VM has that key. The path is relative
        to this file. Default is C(.secrets/ENVIRONMENT/known_hosts.txt) with the name of the environment.
    type: str
  timeout:
    description: Seconds to wait for a server that serves leases or runs libvirt.
    type: float
    default: 10.0
  strict:
    description: Fail instead of showing a warning, and if a VM has no address.
    type: bool
    default: false
"""

EXAMPLES = r"""
# cluster.nodes.yml: two servers with three controllers. Show it with
#   ansible-inventory -i cluster.nodes.yml --graph
plugin: reduced.footprint.nodes
cluster: blue
vm_defaults: {cpu: 2, ram: 8, roles: [controller], nics: [{bridge: br-admin}], disks: [{size: 40, image: debian-12}]}
servers:
  metal1: {ansible_host: 192.0.2.11, roles: [virt, compute], vms: [{id: controller1}, {id: controller2}]}
  metal2: {ansible_host: 192.0.2.12, roles: [virt, compute], vms: [{id: controller3}]}
# the DHCP server is queried first, at the admin address
dhcp_leases: [http://192.0.2.2:8080/leases]
discover_network: 192.0.2.0/24
exclude_addresses: [192.0.2.20]

---
# blue.footprint.yml: a topology for hosts of another source
#   ansible-inventory -i hosts.ini -i blue.footprint.yml --graph
plugin: reduced.footprint.nodes
cluster: blue
nodes:
  node[1-3]$: {roles: [db, messaging]}
  node[4-6]$: {roles: [api], configs: {keystone: {workers: 4}}}
roles: {db: [database], messaging: [rpc, notifications, memcached], api: [keystone, load_balancer]}
replicas: {database: 3}
configs: {galera: {settings: {max_connections: 500}}}

---
# The servers are in an ordinary inventory, with their VM details as variable `vms` and `node_roles: [virt]`:
#   ansible-inventory -i hosts.ini -i cluster.nodes.yml --graph
plugin: reduced.footprint.nodes
cluster: blue
libvirt_uri: {qemu: "qemu+ssh://root@{host}/system", lxc: "lxc+ssh://root@{host}/"}
"""

import dataclasses
import os
import typing as t

from ansible import constants
from ansible.errors import AnsibleParserError
from ansible.inventory.helpers import get_group_vars
from ansible.plugins.inventory import BaseInventoryPlugin, Cacheable, Constructable
from ansible.utils.vars import combine_vars, load_extra_vars
from ansible.vars.plugins import get_vars_from_inventory_sources

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError, InputError, Problems, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_fields import check_known
from ansible_collections.reduced.footprint.plugins.module_utils._inventory import run_inventory, run_kept, run_names
from ansible_collections.reduced.footprint.plugins.module_utils._topology import run_topology


class InventoryModule(BaseInventoryPlugin, Constructable, Cacheable):
    """Inventory plugin; the logic is in ``_inventory/run_inventory.py``."""

    NAME = "reduced.footprint.nodes"

    def verify_file(self, path: str) -> bool:
        """Accept any YAML file; parsing checks whether it names this plugin."""
        return super().verify_file(path) and path.endswith((".yml", ".yaml"))

    def parse(self, inventory: t.Any, loader: t.Any, path: str, cache: bool = True) -> None:
        super().parse(inventory, loader, path, cache)
        problems = Problems()
        try:
            if run_kept.is_part(path):
                # read with the file that it is a part of
                run_names.READ[os.path.abspath(path)] = ""
                return
            config = self._read_config_data(path)
            for key in config:
                problems.call(check_known, {key: None}, sorted(self.option_definitions), "", "")
            problems.call(self._populate, path, cache, problems)
            problems.check()
            run_names.READ[os.path.abspath(path)] = ""
        except FootprintError as error:
            # Ansible continues without the file; the playbooks do not
            run_names.READ[os.path.abspath(path)] = str(error)
            if run_kept.GIVEN is not None:
                return
            self._end(f"{path}: {error}")
            raise AnsibleParserError(f"{path}: {error}") from None
        except AnsibleParserError as error:
            # invalid YAML; only its cause has the line
            if run_names.is_ours(path) and error.__context__:
                self._end(error.__context__)
            raise

    def _end(self, error: str | BaseException) -> None:
        """End as Ansible would if every file must be valid, but with the error as the last line, and not twice among other texts."""
        if constants.INVENTORY_ANY_UNPARSED_IS_FAILED:
            self.display.error(error)
            raise SystemExit(1) from None

    def _populate(self, path: str, cache: bool, problems: Problems) -> None:
        wanted = run_topology.parse({key: self.get_option(key) for key in run_topology.KEYS}, list(self._included(path)))
        servers = run_inventory.parse_servers(self.get_option("servers"), "servers", self.get_option("vm_defaults"), problems)
        servers = run_kept.add(servers, path, self._kept(path), self._given(), problems)
        named = {item.name for item in servers}
        run_topology.check_names(wanted, servers, run_names.known_variables(), problems)
        servers += tuple(item for item in self._servers_of_other_sources() if item.name not in named)
        plan = run_inventory.parse(self._option("cluster"), run_topology.give_roles(servers, wanted), problems)
        run_topology.check_vms(wanted, plan, named, {item.name for item in servers}, problems)
        if problems.found:
            return
        run_names.SLIPS.update(plan.slips)
        run_names.IMAGES.update(plan.images)
        laid = self._lay(wanted, plan)
        lookup = self._lookup()
        found = self._addresses(plan, lookup, path, cache)
        if self.get_option("strict"):
            run_inventory.require_addresses(plan, found)
        for key, value in laid.common.items():
            self.inventory.set_variable("all", key, value)
        keys = run_inventory.host_keys_path(self._option("known_hosts"), os.path.dirname(path), self._option("environment") or plan.cluster)
        mine = run_topology.over(run_inventory.hosts(plan, found, run_inventory.host_keys(keys), lookup), laid)
        for host in mine:
            self._add(host)
        for name in run_kept.KEPT.get(os.path.abspath(path), ()):
            self.inventory.set_variable(name, "footprint_inventory", [*getattr(self.inventory, "processed_sources", []), os.path.abspath(path)])
        done = {host.name for host in mine}
        for name in (one for one in laid.variables if one not in done):
            self._complete(name, laid)

    def _kept(self, path: str) -> t.Any:
        """Return the content of the file with VM details that were given to earlier runs."""
        file = run_kept.file_of(path)
        return self._read(file) if os.path.isfile(file) else None

    def _given(self) -> t.Any:
        """Return the VM details given to this run."""
        if run_kept.GIVEN is not None:
            return run_kept.GIVEN
        given = load_extra_vars(self.loader).get(run_kept.VARIABLE)
        return self.templar.template(given) if isinstance(given, str) else given

    def _included(self, path: str) -> t.Iterator[tuple[str, t.Any]]:
        """Name and content of each included file."""
        for name in self.get_option("includes"):
            file = self.loader.path_dwim_relative(os.path.dirname(path), "", name)
            if not os.path.isfile(file):
                raise InputError(f"{name} does not exist.", "includes", "Give the path of a file relative to this file.")
            yield name, self._read(file)

    def _read(self, file: str) -> t.Any:
        """Load a YAML file of the operator; templates in it remain templates."""
        return self.loader.load_from_file(file, cache="none", trusted_as_template=True)

    def _lay(self, wanted: run_topology.Topology, plan: run_inventory.Inventory) -> run_topology.Laid:
        mine = {item.name for item in plan.servers} | {machine.vm.name for machine in plan.machines}
        others = []
        for host in [] if wanted.empty else list(self.inventory.hosts.values()):
            if host.name not in mine:
                variables = combine_vars(get_group_vars(host.get_groups()), host.get_vars())
                others.append(run_topology.known(host.name, variables, [group.name for group in host.get_groups()]))
        roles = os.path.join(os.path.dirname(__file__), "..", "..", "roles")
        defaults = {}
        for name in [] if wanted.empty else run_topology.COMPONENTS:
            file = os.path.join(roles, name, "defaults", "main.yml")
            defaults[name] = run_topology.component_defaults(name, self._read(file) if os.path.isfile(file) else {})
        laid = run_topology.lay(wanted, plan, others, self._option("environment") or "", self.get_option("own_groups"), defaults)
        if self.get_option("strict") and laid.warnings:
            raise RefusedError(" ".join(laid.warnings), "strict", "Correct the topology, or remove strict.")
        for warning in laid.warnings:
            self.display.warning(warning)
        return laid

    def _complete(self, name: str, laid: run_topology.Laid) -> None:
        """Add groups and variables of the topology to a host of another source; its own variables are kept."""
        host = self.inventory.hosts[name]
        for group in (group for group, members in laid.groups.items() if name in members):
            self.inventory.add_host(name, group=self.inventory.add_group(self._sanitize_group_name(group)))
        for key, value in laid.variables[name].items():
            if key not in host.vars or key in (run_topology.TOPOLOGY, run_topology.ENVIRONMENTS):
                before = host.vars.get(key) if key == run_topology.ENVIRONMENTS else None
                self.inventory.set_variable(name, key, {**before, **value} if before else value)

    def _option(self, name: str) -> t.Any:
        """Return an option that may be a template."""
        return self.templar.template(self.get_option(name))

    def _servers_of_other_sources(self) -> t.Iterator[run_inventory.Server]:
        for host in list(self.inventory.hosts.values()):
            variables = combine_vars(get_group_vars(host.get_groups()), host.get_vars())
            # VM details are often in host_vars/SERVER.yml, which inventory sources do not read
            sources = getattr(self.inventory, "processed_sources", [])
            variables = combine_vars(variables, get_vars_from_inventory_sources(self.loader, sources, [host], "all"))
            # added by another file of this plugin: its VMs are known
            if "footprint_cluster" in host.vars or "vm_host" in variables or not ("vms" in variables or "node_roles" in variables):
                continue
            if variables.get("vms") and (self.get_option("vm_defaults") or "vm_defaults" in variables):
                message = f"does not apply to the VMs of {host.name}, which are in its variables."
                raise RefusedError(message, "vm_defaults", "Move them below servers, or write out their keys and remove vm_defaults.")
            # only variables that determine the VMs are read; the host's own variables are kept
            entry = {key: variables[key] for key in ("vms", "node_roles", "ansible_host", "bmc", "hardware") if key in variables}
            virt = [run_inventory.VIRT_ROLE] if run_inventory.VIRT_ROLE in [group.name for group in host.get_groups()] else []
            yield run_inventory.server(host.name, entry, host.name, virt, variables)

    def _lookup(self) -> run_inventory.Lookup:
        return run_inventory.Lookup(
            sources=tuple(self.get_option("address_sources")),
            leases=tuple(self._option("dhcp_leases")),
            libvirt_uri=self._option("libvirt_uri"),
            discover_network=self._option("discover_network"),
            exclude=tuple(self._option("exclude_addresses")),
            timeout=self.get_option("timeout"),
        )

    def _addresses(self, plan: run_inventory.Inventory, lookup: run_inventory.Lookup, path: str, cache: bool) -> dict[str, run_inventory.Found]:
        if run_kept.GIVEN is not None:
            # the addresses of VMs that do not exist yet are not found in any other way
            return run_inventory.find_addresses(plan, dataclasses.replace(lookup, sources=("fixed",)))[0]
        self.load_cache_plugin()
        key = self.get_cache_key(path)
        wanted = run_inventory.signature(plan, lookup)
        if cache and self.get_option("cache"):
            kept = self._cache.get(key)
            # the cache is invalid if a VM was added or removed, its NICs or its address changed, or other sources are asked
            if isinstance(kept, dict) and kept.get("wanted") == wanted:
                return {name: run_inventory.Found(*entry) for name, entry in kept["found"].items()}
        found, warnings = run_inventory.find_addresses(plan, lookup)
        if self.get_option("strict") and warnings:
            raise RefusedError(" ".join(warnings), "strict", "Correct the sources of addresses, or remove strict to continue without them.")
        for warning in warnings:
            self.display.warning(f"{path}: {warning}")
        if self.get_option("cache") and len(found) == len(plan.machines):
            # cache complete results only: a VM that is still starting must be found next time
            self._cache[key] = {"wanted": wanted, "found": {name: [item.address, item.source] for name, item in found.items()}}
        return found

    def _add(self, host: run_inventory.Host) -> None:
        self.inventory.add_host(host.name)
        for group in host.groups:
            self.inventory.add_host(host.name, group=self.inventory.add_group(self._sanitize_group_name(group)))
        for key, value in host.variables.items():
            self.inventory.set_variable(host.name, key, value)
        strict = self.get_option("strict")
        variables = dict(host.variables)
        self._set_composite_vars(self.get_option("compose"), variables, host.name, strict=strict)
        self._add_host_to_composed_groups(self.get_option("groups"), variables, host.name, strict=strict)
        self._add_host_to_keyed_groups(self.get_option("keyed_groups"), variables, host.name, strict=strict)
