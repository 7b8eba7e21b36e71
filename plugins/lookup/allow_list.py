# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: allow_list
author:
  - reduced.footprint authors (@reduced-footprint)
version_added: 1.0.0
short_description: Allow-lists for the ports of control plane services
description:
  - Returns the allow-lists of services, as M(reduced.footprint.service_allow_list) takes them.
  - Ports that only members of a service need, for example those of Galera replication, are open to these members. Other ports are open to
    all hosts that run a service of the control plane, to the virtual addresses, and to the addresses in C(footprint_allowed) and
    C(SERVICE_allowed). Witnesses may reach the ports for votes only, and as chassis (C(ovn_chassis_witness)) the Southbound database of OVN; the
    hosts of the groups C(compute) and C(ovn_chassis) those of RabbitMQ for clients and of the Southbound database of OVN only.
  - The members of a service are determined in the same way as by P(reduced.footprint.deploy_plan#lookup). The addresses of a host are its
    C(ansible_host), every C(SERVICE_address) and those in its variables C(footprint_network_addresses) and C(footprint_addresses).
options:
  _terms:
    description: Names of services, V(galera), V(rabbitmq), V(witness), V(memcached), V(load_balancer), V(keystone), V(ovn_database) or those of a cloud.
    type: list
    elements: str
    required: true
  services:
    description: Services that are declared or changed in addition to the built-in ones.
    type: dict
    default: {}
    vars:
      - name: footprint_services
seealso:
  - module: reduced.footprint.service_allow_list
"""

EXAMPLES = r"""
- name: Show the allow-list of the database
  ansible.builtin.debug:
    msg: "{{ lookup('reduced.footprint.allow_list', 'galera') }}"
"""

RETURN = r"""
_raw:
  description: For each service C(name), C(served), C(rules) and C(units).
  type: list
  elements: dict
"""

import typing as t

from ansible.errors import AnsibleError
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.lookup import LookupBase
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError, InputError
from ansible_collections.reduced.footprint.plugins.module_utils._service import plan_allow_list
from ansible_collections.reduced.footprint.plugins.module_utils._service.model_allow_list import networks
from ansible_collections.reduced.footprint.plugins.module_utils._topology import plan_deploy_order
from ansible_collections.reduced.footprint.plugins.module_utils._topology.model_networks import ADDRESSES
from ansible_collections.reduced.footprint.plugins.module_utils._topology.model_services import WITNESS, Service, known, parse_services
from ansible_collections.reduced.footprint.plugins.module_utils._topology.plan_address import member_address

# addresses of a server in addition to those of its services
_OWN = ("ansible_host", "ovn_chassis_address", "compute_address")


class LookupModule(LookupBase):
    """Map names of services to allow-lists."""

    def run(self, terms: list[t.Any], variables: t.Any = None, **kwargs: t.Any) -> list[dict[str, t.Any]]:
        """Return the allow-lists.

        :raises AnsibleError: an unknown service, a member without an address, an invalid address.
        """
        self.set_options(var_options=variables, direct=kwargs)
        self.variables = variables or {}
        try:
            services = parse_services(self._templar.template(self.get_option("services")), "footprint_services")
            services = plan_deploy_order.with_leaving(services, boolean(self._value("footprint_witness_leaves") or False))
            real = [service for service in services.values() if service.role]
            hosts = {service.name: self._hosts(service) for service in real}
            witnesses = hosts.pop(WITNESS)
            plane = [address for host in dict.fromkeys(host for name in hosts for host in hosts[name]) for address in self._addresses(host, real)]
            servers = [address for host in self._servers(hosts) for address in self._addresses(host, real)]
            chassis = [address for host in self._watching(witnesses) for address in self._addresses(host, real)]
            clients = [*plane, *self._virtual(), *self._listed("footprint_allowed")]
            found = []
            for term in terms:
                if str(term) not in plan_allow_list.SERVICES:
                    raise InputError(f"{term!r} has no allow-list.", "service", f"Use one of {known(plan_allow_list.SERVICES)}.")
                service = services[str(term)]
                members = witnesses if service.name == WITNESS else hosts.get(service.name, ())
                if not self._votes_without(service):
                    members = (*members, *plan_deploy_order.witnesses_of(service, members, witnesses))
                peers = [self._own(host, service) for host in members]
                # a witness listens on its galera_address, too
                voting = {"galera": witnesses, WITNESS: hosts["galera"]}.get(service.name, ())
                voters = [self._own(host, services["galera"]) for host in voting]
                if service.name == WITNESS:
                    peers = [self._own(host, services["galera"]) for host in members]
                allowed = networks([*clients, *self._listed(f"{service.variable_prefix}_allowed")], f"{service.variable_prefix}_allowed")
                # a machine may be the witness of several clusters
                instance = self._environment() if service.name == WITNESS else ""
                others = [*servers, *(chassis if service.name == "ovn_database" else ())]
                found.append(plan_allow_list.wanted(service.name, peers, allowed, self._ports(service.name), voters, instance, networks(others, "servers")))
            return found
        except FootprintError as error:
            raise AnsibleError(f"allow_list: {error}") from None

    def _votes_without(self, service: Service) -> bool:
        """Return whether the variable SERVICE_witness is false."""
        value = self._value(f"{service.variable_prefix}_witness")
        return value is not None and not boolean(value)

    def _environment(self) -> str:
        return str(self._value("footprint_environment") or self._value("footprint_cluster") or "footprint")

    def _value(self, name: str) -> t.Any:
        return self._templar.template(self.variables.get(name))

    def _hosts(self, service: Service) -> tuple[str, ...]:
        chosen = self._value(f"{service.variable_prefix}_group")
        return plan_deploy_order.members(service, self.variables.get("groups") or {}, str(chosen) if chosen else None, self._cloud())

    def _servers(self, hosts: t.Mapping[str, t.Sequence[str]]) -> list[str]:
        """Return the servers that run the VMs of tenants, and gateways: clients of the queue and of the Southbound database of OVN.

        :arg hosts: service → its members. A cloud may have hosts of its own, without ``footprint_cloud``.
        """
        groups = self.variables.get("groups") or {}
        found = dict.fromkeys((*groups.get("compute", ()), *groups.get("ovn_chassis", ())))
        return [str(host) for host in found] if hosts.get("nova") or hosts.get("ovn_database") else []

    def _watching(self, witnesses: t.Sequence[str]) -> list[str]:
        """Return the witnesses that are chassis of OVN where there are others: clients of the Southbound database."""
        groups = self.variables.get("groups") or {}
        wanted = boolean(True if self._value("ovn_chassis_witness") is None else self._value("ovn_chassis_witness"))
        return [*witnesses] if wanted and (groups.get("compute") or groups.get("ovn_chassis")) else []

    def _cloud(self) -> bool:
        """Return whether controllers have the services of the cloud."""
        return boolean(self._value("footprint_cloud") or False)

    def _of(self, host: str) -> t.Mapping[str, t.Any]:
        hostvars = self.variables.get("hostvars") or {}
        return hostvars[host] if host in hostvars else {}

    def _own(self, host: str, service: Service) -> str:
        """Return the address on which a member listens."""
        variable = f"{service.variable_prefix}_address"
        return networks([member_address(host, self._of(host), variable)], f"{host}.{variable}")[0]

    def _addresses(self, host: str, services: t.Sequence[Service]) -> list[str]:
        """Return the source addresses of a host.

        A host name cannot be listed; its addresses must then be in footprint_allowed or footprint_addresses.
        """
        own = self._of(host)
        listed = [own.get(variable) for variable in (*_OWN, *(f"{service.variable_prefix}_address" for service in services))]
        found = [str(address) for address in listed if address] or [host]
        # those in named networks
        found += map(str, (own.get(ADDRESSES) or {}).values())
        addresses = []
        for address in dict.fromkeys([*found, *(own.get("footprint_addresses") or ())]):
            try:
                addresses += networks([str(address)], host) if address else []
            except InputError:
                self._display.vvv(f"allow_list: skipping {address} of {host}, which is not an address")
        return addresses

    def _virtual(self) -> list[str]:
        more = self._value("load_balancer_virtual_addresses") or ()
        return [str(one) for one in (self._value("load_balancer_virtual_address"), *(item.get("address") for item in more)) if one]

    def _listed(self, name: str) -> list[str]:
        value = self._value(name) or []
        return list(networks(value, name))

    def _ports(self, service: str) -> dict[str, t.Any]:
        names = [port.partition(":")[0] for access in plan_allow_list.SERVICES[service].access for port in access.ports if ":" in port]
        return {name: self._value(name) for name in names if self.variables.get(name) is not None}
