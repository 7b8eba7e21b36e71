# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: address
author:
  - reduced.footprint authors (@reduced-footprint)
version_added: 1.0.0
short_description: Addresses at which a service of the control plane is reached
description:
  - Returns the virtual address if the load balancer has a frontend for the service, otherwise the addresses of its members, one
    element each. C(lookup) joins them with commas, C(query) keeps the list.
  - The port and scheme of C(rabbitmq) are those with TLS (C(amqps), 5671) if C(rabbitmq_tls) is true or, if it is not set, if
    the role C(rabbitmq) has created certificates below C(footprint_secrets), as it does for a new cluster.
  - The members are determined from the groups, in the same way as by P(reduced.footprint.deploy_plan#lookup). The address of a
    member is that of P(reduced.footprint.member_addresses#filter) with the variable C(SERVICE_address).
options:
  _terms:
    description:
      - Names of services, real ones (V(galera), V(rabbitmq), V(memcached), V(keystone)), logical ones (V(database), V(rpc),
        V(notifications)), the name of a frontend (V(mysql)) or one that C(footprint_services) declares.
    type: list
    elements: str
    required: true
  port:
    description: Append a port, V(true) for that of the service as C(footprint_services) or the variable of its role sets it, or a number.
    type: raw
  external:
    description:
      - Return the address for external clients. Only services with a TLS frontend at the load balancer have one.
      - It is the variable C(footprint_external_name) if set, otherwise the virtual address; an additional virtual address is
        preferred to the main one.
    type: bool
    default: false
  with_scheme:
    description: Prepend the scheme, C(https) if the load balancer serves it with TLS, otherwise C(http), C(mysql), C(amqp) and so on.
    type: bool
    default: false
  consumer:
    description: Name of the service that uses the address. Its C(mapping) may replace a logical service by another one.
    type: str
  services:
    description: Services that are declared or changed in addition to the built-in ones.
    type: dict
    default: {}
    vars:
      - name: footprint_services
seealso:
  - plugin: reduced.footprint.member_addresses
    plugin_type: filter
  - plugin: reduced.footprint.deploy_plan
    plugin_type: lookup
"""

EXAMPLES = r"""
- name: Configure an application to use the control plane
  hosts: application
  tasks:
    - name: Write its settings
      ansible.builtin.copy:
        dest: /etc/application.conf
        mode: "0644"
        content: |
          [identity]
          url = {{ lookup('reduced.footprint.address', 'keystone', port=true, with_scheme=true) }}/v3
          public = {{ lookup('reduced.footprint.address', 'keystone', port=true, with_scheme=true, external=true) }}/v3
          [database]
          host = {{ lookup('reduced.footprint.address', 'database') }}
          [messages]
          hosts = {{ lookup('reduced.footprint.address', 'rpc', port=true) }}
"""

RETURN = r"""
_raw:
  description: The addresses.
  type: list
  elements: str
  sample: ["https://192.0.2.20:5000"]
"""

import dataclasses
import os
import typing as t

from ansible.errors import AnsibleError
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.lookup import LookupBase
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError, InputError
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_secret import secrets_directory
from ansible_collections.reduced.footprint.plugins.module_utils._service.model_openstack import OPENSTACK
from ansible_collections.reduced.footprint.plugins.module_utils._topology import plan_address, plan_deploy_order
from ansible_collections.reduced.footprint.plugins.module_utils._topology.model_services import LOAD_BALANCER, Service, parse_services

#: Service → variable of its role that sets its port.
_PORTS = {
    "rabbitmq": "rabbitmq_port", "memcached": "memcached_port", "keystone": "keystone_port", "ovn_database": "ovn_database_northbound_port",
    **{one.name: one.apis[0].port_variable for one in OPENSTACK.values() if one.apis},
}  # fmt: skip
_ROLE = os.path.join(os.path.dirname(__file__), "..", "..", "roles", LOAD_BALANCER)


class LookupModule(LookupBase):
    """Map names of services to addresses."""

    def run(self, terms: list[t.Any], variables: t.Any = None, **kwargs: t.Any) -> list[str]:
        """Return the addresses.

        :raises AnsibleError: an unknown service, one without a host, or one that is not available to external clients.
        """
        self.set_options(var_options=variables, direct=kwargs)
        known = variables or {}
        try:
            declared = self._templar.template(self.get_option("services"))
            services = parse_services(declared, "footprint_services")
            undeclared = [name for name in _PORTS if not ((declared or {}).get(name) or {}).get("port")]
            services = {**services, **{name: self._configured(services[name], known) for name in undeclared}}
            wish = plan_address.Wish(self._port(), self.get_option("external"), self.get_option("with_scheme"))
            edge = self._edge(services[LOAD_BALANCER], known)
            found: list[str] = []
            for term in terms:
                service = plan_address.target(str(term), services, self.get_option("consumer"))
                found += plan_address.addresses(service, self._members(service, known), edge, wish)
            return found
        except FootprintError as error:
            raise AnsibleError(f"address: {error}") from None

    def _configured(self, service: Service, known: t.Mapping[str, t.Any]) -> Service:
        """Return a service with the port that the variables of its role set."""
        if service.name == "rabbitmq" and self._rabbitmq_uses_tls(known):
            return dataclasses.replace(service, port=int(self._templar.template(known.get("rabbitmq_tls_port")) or 5671), scheme="amqps")
        port = self._templar.template(known.get(_PORTS[service.name]))
        return dataclasses.replace(service, port=int(port)) if port else service

    def _rabbitmq_uses_tls(self, known: t.Mapping[str, t.Any]) -> bool:
        """Whether RabbitMQ serves TLS: as set by the operator, else whether its role has created certificates for it here."""
        configured = self._templar.template(known.get("rabbitmq_tls"))
        if configured is not None:
            return boolean(configured)
        environment = known.get("footprint_environment") or known.get("footprint_cluster") or "footprint"
        try:
            given = self._templar.template(known.get("footprint_secrets"))
            directory = secrets_directory(given, known.get("inventory_dir"), self._templar.template(environment))
        except InputError:
            return False  # no directory for secrets is known
        return (directory / "amqp" / "ca.pem.txt").exists()

    def _port(self) -> int | bool | None:
        value = self.get_option("port")
        if value is None or isinstance(value, bool):
            return value
        if str(value).isdecimal() and 0 < int(value) < 65536:
            return int(value)
        raise InputError(f"{value!r} is not a valid port.", "port", "Use true for the port of the service, or a number from 1 to 65535.")

    def _hosts(self, service: Service, known: t.Mapping[str, t.Any]) -> tuple[str, ...]:
        chosen = self._templar.template(known.get(f"{service.variable_prefix}_group"))
        cloud = boolean(self._templar.template(known.get("footprint_cloud")) or False)
        return plan_deploy_order.members(service, known.get("groups") or {}, str(chosen) if chosen else None, cloud)

    def _members(self, service: Service, known: t.Mapping[str, t.Any]) -> list[str]:
        return plan_address.member_addresses(self._hosts(service, known), known.get("hostvars") or {}, f"{service.variable_prefix}_address")

    def _edge(self, service: Service, known: t.Mapping[str, t.Any]) -> plan_address.Edge:
        """Return the settings of the load balancer: the defaults of its role, overridden by variables. They use variables of the role."""
        if not self._hosts(service, known):
            return plan_address.Edge()
        defaults, internal = (self._loader.load_from_file(os.path.join(_ROLE, folder, "main.yml"), trusted_as_template=True) for folder in ("defaults", "vars"))
        settings = {key: known.get(key, defaults.get(key)) for key in {*defaults, "load_balancer_virtual_address", "footprint_external_name"}}
        given = {key: value for key, value in settings.items() if value is not None}
        templar = self._templar.copy_with_new_env(available_variables={**internal, **known, **given})

        def value(name: str) -> t.Any:
            return templar.template(settings.get(name))

        addresses = {plan_address.MAIN: str(value("load_balancer_virtual_address") or "")}
        addresses.update({str(item["name"]): str(item["address"]) for item in value("load_balancer_virtual_addresses") or ()})
        present = {name: address for name, address in addresses.items() if address}
        return plan_address.Edge(present, str(value("footprint_external_name") or ""), tuple(value("load_balancer_frontends") or ()))
