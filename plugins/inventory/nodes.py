# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: nodes
short_description: Servers and the virtual machines on them, as hosts of one kind
version_added: 0.1.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Reads which physical servers there are, which roles they have and which virtual machines each carries (its VM
    details), and shows B(all of them as ordinary hosts) in groups named after their roles. A play over the group
    C(controller) needs no list typed in and does not see whether a controller is metal or a virtual machine.
  - The servers stand in the option O(servers), or are hosts that another inventory source brought (read before this one),
    or both. Such a host takes part when it has the variable C(vms) or C(node_roles), be it in the inventory itself or in
      C(host_vars) beside it.
  - UUIDs and MAC addresses are computed from cluster, id and the name or position of the NIC, so they are known before a
    machine exists. Its address is taken from the first of O(address_sources) that knows it.
  - It may also read the B(topology) of a control plane, which hosts have which roles, which roles mean which services, and
    their settings. Then there are groups named after the services too, C(galera) for example, and settings become variables of
    the services' roles. A file of this kind is usually called C(NAME.footprint.yml). Hosts that an earlier source brought take
    part in it as well. Nobody needs it, ordinary groups work without.
  - A server that is down, a lease file that cannot be read or a machine that has no address yet never breaks the
    inventory. They cost a warning at most, unless O(strict) is set.
notes:
  - Besides the groups of the roles there are C(servers) with every physical server and C(footprint_vms) with every virtual
    machine.
  - "Variables of every host: C(footprint_cluster), C(node_roles), C(footprint_known_hosts), C(ansible_host) when its address is
    known."
  - "Variables of a server besides its own: C(vms)."
  - "Variables of a virtual machine besides: C(vm_details), C(vm_host), C(vm_uuid), C(vm_macs), C(vm_address_source); where its ssh
    host key is known C(vm_host_key) and C(ansible_ssh_extra_args), C(ansible_sftp_extra_args) and C(ansible_scp_extra_args), which
    pin it."
  - "Variables of a host with a topology besides: C(footprint_topology) with C(environment), C(roles), C(services), C(names) and
    C(origins), the layer that each setting came from."
  - O(cluster), O(environment), O(dhcp_leases), O(libvirt_uri), O(discover_network) and O(exclude_addresses) may be templates, for example
    lookups of the environment. They are rendered before any host is known.
  - Sources are read in the order in which they are given on the command line; inside a directory in the order of their
    names. Hosts of sources that are read later are not seen.
extends_documentation_fragment:
  - constructed
  - inventory_cache
options:
  plugin:
    description: Marks the file as one for this plugin.
    type: str
    required: true
    choices: [reduced.footprint.nodes, nodes]
  cluster:
    description:
      - Name of the cluster. UUIDs and MAC addresses of its machines derive from it, so it must never change.
      - Letters, digits, dot, hyphen and underscore.
    type: str
    required: true
  servers:
    description:
      - The physical servers by name.
      - In each, C(roles) is the list of its roles and C(vms) its VM details, a list of mappings or that list as JSON text. A
        server with VM details needs the role C(virt). Everything else becomes host variables as it is.
      - "Keys of VM details: C(id) (unique in the cluster), C(name), C(cpu), C(ram), C(hypervisor), C(roles), C(nics),
        C(disks), C(address), C(autostart), C(protected), C(machine), and any other that a libvirt template uses."
    type: dict
    default: {}
  nodes:
    description:
      - Which hosts have which roles and settings. Each key is a regular expression for names of hosts, anchored at the start
        only, so that V(node1) matches C(node12) too; end it with V($) where that matters. C(roles) is a list of roles, C(configs)
        a mapping of settings.
      - A host that several keys match has the roles of all of them. Their settings are merged in the lexicographic order of the
        keys, the last wins; there is a warning when a key for one host is overridden by one for several.
    type: dict
    default: {}
  roles:
    description:
      - The services of each role, as a list. The roles of servers and VM details count as well as those of O(nodes).
      - Services are C(galera), C(rabbitmq), C(memcached), C(load_balancer), C(keystone), the logical ones C(database), C(rpc) and
        C(notifications), and those declared in O(services).
    type: dict
    default: {}
  replicas:
    description: On how many hosts a service runs, the first ones of the inventory among those that have it. Without, on all.
    type: dict
    default: {}
  services:
    description:
      - Services that the collection does not bring, and changes to those that it does.
      - A logical service has C(service_def), the real one it stands for.
      - A real one has C(role), the Ansible role that deploys it, C(depends), the services that come before it, C(once), steps
        that are done once per deployment, C(port), C(scheme), C(memory) in MiB, C(defaults), C(group), C(frontend), C(check) and
        C(exclusive).
      - Both may have C(configs), settings of this service alone, and C(mapping), which service it uses for a logical one.
    type: dict
    default: {}
  configs:
    description:
      - Settings for all hosts. Below the name of a service they become variables of its role, C(galera.settings) is the
        variable C(galera_settings); anything else is a variable of that name.
      - Weaker are O(global_configs), then the defaults of the services' roles. Stronger are C(configs) of O(nodes), then those of
        O(services). Mappings are merged deep, everything else replaces.
      - What the operator says of a host itself, in O(servers) or C(host_vars), is stronger than all of them.
    type: dict
    default: {}
  global_configs:
    description: Settings below all others, for example of a whole site in a file that O(includes) names.
    type: dict
    default: {}
  includes:
    description:
      - Files with some of O(nodes), O(roles), O(replicas), O(services), O(configs) and O(global_configs), for example what several
        environments share. Relative to this file. Later ones win, and this file over all of them.
    type: list
    elements: str
    default: []
  environment:
    description:
      - Name of the environment that the topology describes. Secrets and files that the operator gets are kept by it.
      - Without, the name of the cluster.
    type: str
  own_groups:
    description:
      - Begin the names of the topology's groups with that of the environment, C(blue_galera) for example, and make a group of that
        name alone with all hosts that have services. For inventories that hold several environments.
      - Without, a second environment in one inventory is refused, because the groups would mix.
    type: bool
    default: false
  address_sources:
    description:
      - Where the address of a virtual machine is looked for, the first that knows it wins.
      - V(fixed) is C(address) in the VM details.
      - V(lease) are O(dhcp_leases), then libvirt's own DHCP servers when O(libvirt_uri) is given.
      - V(agent) is the guest agent, asked through libvirt.
      - V(arp) is the neighbour table of the machine Ansible runs on, after a sweep of O(discover_network) if need be, then
        that of the virtual machine's server, asked through libvirt. A machine that answers at several addresses there is
        left without one, because one of them may be a virtual address that moves on; name it in O(exclude_addresses).
    type: list
    elements: str
    choices: [fixed, lease, agent, arp]
    default: [fixed, lease, agent, arp]
  dhcp_leases:
    description:
      - Lease files of dnsmasq, each a path or an C(http) or C(https) URL that serves the file.
      - Several may be given; they are read one after the other until all addresses are known.
    type: list
    elements: str
    default: []
  libvirt_uri:
    description:
      - How to reach the servers' libvirt, by driver (C(qemu), which serves C(kvm) machines too, and C(lxc)). V({host}) stands
        for the server's C(ansible_host), V({name}) for its name.
      - Asked only for machines whose address no earlier source knows. Needs Python's libvirt binding.
    type: dict
    default: {}
  discover_network:
    description:
      - An IPv4 network in which to look for the machines whose address is still unknown. The kernel learns who has which
        address from one empty datagram to each.
      - Networks wider than /22 are refused.
    type: str
  exclude_addresses:
    description:
      - Addresses or networks that never are a machine's own, for example the virtual address that moves between the
        controllers.
    type: list
    elements: str
    default: []
  known_hosts:
    description:
      - The file with the public ssh host keys of the virtual machines, in the format of OpenSSH and by their names. The role
        P(reduced.footprint.virt_guests#role) writes it, before a new machine is connected to for the first time.
      - Ansible connects to a machine that it names only if the machine has that key, whoever answers at its address. Relative
        to this file. Default C(known_hosts.txt) in C(.secrets/) and the name of the environment.
    type: str
  timeout:
    description: Seconds to wait for a server that holds leases or runs libvirt.
    type: float
    default: 10.0
  strict:
    description: Fail where there would be a warning, and when a machine has no address.
    type: bool
    default: false
"""

EXAMPLES = r"""
# cluster.nodes.yml: two servers, three controllers on them. Try it with
#   ansible-inventory -i cluster.nodes.yml --graph
plugin: reduced.footprint.nodes
cluster: blue
servers:
  metal1:
    ansible_host: 192.0.2.11
    roles: [virt, compute]
    vms:
      - {id: controller1, cpu: 2, ram: 8, roles: [controller], nics: [{bridge: br-admin}], disks: [{size: 40}]}
      - {id: controller2, cpu: 2, ram: 8, roles: [controller], nics: [{bridge: br-admin}], disks: [{size: 40}]}
  metal2:
    ansible_host: 192.0.2.12
    roles: [virt, compute]
    vms:
      - {id: controller3, cpu: 2, ram: 8, roles: [controller], nics: [{bridge: br-admin}], disks: [{size: 40}]}
# the DHCP server is asked first, whoever holds the admin address at the moment
dhcp_leases:
  - http://192.0.2.2:8080/leases
discover_network: 192.0.2.0/24
exclude_addresses: [192.0.2.20]

---
# blue.footprint.yml: a topology over hosts that stand elsewhere
#   ansible-inventory -i hosts.ini -i blue.footprint.yml --graph
plugin: reduced.footprint.nodes
cluster: blue
nodes:
  node[1-3]$:
    roles: [db, messaging]
  node[4-6]$:
    roles: [api]
    configs:
      keystone: {workers: 4}
roles:
  db: [database]
  messaging: [rpc, notifications, memcached]
  api: [keystone, load_balancer]
replicas:
  database: 3
configs:
  galera:
    settings: {max_connections: 500}

---
# The servers are in an ordinary inventory, with their VM details as variable `vms` and `node_roles: [virt]`:
#   ansible-inventory -i hosts.ini -i cluster.nodes.yml --graph
plugin: reduced.footprint.nodes
cluster: blue
libvirt_uri:
  qemu: qemu+ssh://root@{host}/system
  lxc: lxc+ssh://root@{host}/
"""

import os
import typing as t

from ansible.errors import AnsibleParserError
from ansible.inventory.helpers import get_group_vars
from ansible.plugins.inventory import BaseInventoryPlugin, Cacheable, Constructable
from ansible.utils.vars import combine_vars
from ansible.vars.plugins import get_vars_from_inventory_sources

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError, InputError, RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._inventory import run_inventory
from ansible_collections.reduced.footprint.plugins.module_utils._topology import run_topology


class InventoryModule(BaseInventoryPlugin, Constructable, Cacheable):
    """Thin shell around the use case in ``_inventory/run_inventory.py``."""

    NAME = "reduced.footprint.nodes"

    def verify_file(self, path: str) -> bool:
        """Any YAML file may name this plugin; whether it does, parsing tells."""
        return super().verify_file(path) and path.endswith((".yml", ".yaml"))

    def parse(self, inventory: t.Any, loader: t.Any, path: str, cache: bool = True) -> None:
        super().parse(inventory, loader, path, cache)
        self._read_config_data(path)
        try:
            self._populate(path, cache)
        except FootprintError as error:
            raise AnsibleParserError(f"{path}: {error}") from error

    def _populate(self, path: str, cache: bool) -> None:
        wanted = run_topology.parse({key: self.get_option(key) for key in run_topology.KEYS}, list(self._included(path)))
        servers = run_inventory.parse_servers(self.get_option("servers"))
        named = {item.name for item in servers}
        servers += tuple(item for item in self._servers_already_there() if item.name not in named)
        plan = run_inventory.parse(self._option("cluster"), run_topology.give_roles(servers, wanted))
        laid = self._lay(wanted, plan)
        found = self._addresses(plan, path, cache)
        if self.get_option("strict"):
            missing = [machine.vm.name for machine in plan.machines if machine.vm.name not in found]
            if missing:
                raise RefusedError(f"no address is known for {', '.join(missing)}.", "strict", "Start them, name their address, or drop strict.")
        for key, value in laid.common.items():
            self.inventory.set_variable("all", key, value)
        environment = self._option("environment") or plan.cluster
        keys = run_inventory.host_keys(run_inventory.host_keys_path(self._option("known_hosts"), os.path.dirname(path), environment))
        mine = run_topology.over(run_inventory.hosts(plan, found, keys), laid)
        for host in mine:
            self._add(host)
        done = {host.name for host in mine}
        for name in laid.variables:
            if name not in done:
                self._complete(name, laid)

    def _included(self, path: str) -> t.Iterator[tuple[str, t.Any]]:
        """The files that are included, by their names."""
        for name in self.get_option("includes"):
            file = self.loader.path_dwim_relative(os.path.dirname(path), "", name)
            if not os.path.isfile(file):
                raise InputError(f"{name} is not there.", "includes", "Name a file relative to this one.")
            yield name, self._read(file)

    def _read(self, file: str) -> t.Any:
        """What stands in a YAML file of the operator's, templates in it remaining templates."""
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
            raise RefusedError(" ".join(laid.warnings), "strict", "Correct the topology, or drop strict.")
        for warning in laid.warnings:
            self.display.warning(warning)
        return laid

    def _complete(self, name: str, laid: run_topology.Laid) -> None:
        """A host of another source gets what the topology adds; what is said of it there stays."""
        host = self.inventory.hosts[name]
        for group, members in laid.groups.items():
            if name in members:
                self.inventory.add_host(name, group=self.inventory.add_group(self._sanitize_group_name(group)))
        for key, value in laid.variables[name].items():
            if key not in host.vars or key in (run_topology.TOPOLOGY, run_topology.ENVIRONMENTS):
                before = host.vars.get(key) if key == run_topology.ENVIRONMENTS else None
                self.inventory.set_variable(name, key, {**before, **value} if before else value)

    def _option(self, name: str) -> t.Any:
        """An option that may be a template."""
        return self.templar.template(self.get_option(name))

    def _servers_already_there(self) -> t.Iterator[run_inventory.Server]:
        for host in list(self.inventory.hosts.values()):
            variables = combine_vars(get_group_vars(host.get_groups()), host.get_vars())
            # VM details often stand in host_vars/SERVER.yml, which no inventory source reads by itself
            sources = getattr(self.inventory, "processed_sources", [])
            variables = combine_vars(variables, get_vars_from_inventory_sources(self.loader, sources, [host], "all"))
            # a file of this plugin brought it already: its machines are known
            if "footprint_cluster" in host.vars or "vm_host" in variables or not ("vms" in variables or "node_roles" in variables):
                continue
            # its own variables stay where they are; only what decides about machines is read
            entry = {key: variables[key] for key in ("vms", "node_roles", "ansible_host") if key in variables}
            virt = [run_inventory.VIRT_ROLE] if run_inventory.VIRT_ROLE in [group.name for group in host.get_groups()] else []
            yield run_inventory.server(host.name, entry, host.name, virt)

    def _addresses(self, plan: run_inventory.Inventory, path: str, cache: bool) -> dict[str, run_inventory.Found]:
        self.load_cache_plugin()
        key = self.get_cache_key(path)
        reads_cache = cache and self.get_option("cache")
        wanted = {machine.vm.name: list(machine.vm.macs) for machine in plan.machines}
        if reads_cache:
            try:
                kept = self._cache[key]
            except KeyError:
                kept = None
            # a machine that came, went or changed its NICs makes what is kept useless
            if kept and kept.get("machines") == wanted:
                return {name: run_inventory.Found(*entry) for name, entry in kept["found"].items()}
        lookup = run_inventory.Lookup(
            sources=tuple(self.get_option("address_sources")),
            leases=tuple(self._option("dhcp_leases")),
            libvirt_uri=self._option("libvirt_uri"),
            discover_network=self._option("discover_network"),
            exclude=tuple(self._option("exclude_addresses")),
            timeout=self.get_option("timeout"),
        )
        found, warnings = run_inventory.find_addresses(plan, lookup)
        if self.get_option("strict") and warnings:
            raise RefusedError(" ".join(warnings), "strict", "Drop strict to go on without.")
        for warning in warnings:
            self.display.warning(f"{path}: {warning}")
        if self.get_option("cache") and len(found) == len(wanted):
            # only a complete answer is worth keeping: a machine that is just starting must be found next time
            self._cache[key] = {"machines": wanted, "found": {name: [item.address, item.source] for name, item in found.items()}}
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
