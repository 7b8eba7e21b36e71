# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: deploy_plan
author:
  - reduced.footprint authors (@reduced-footprint)
version_added: 1.0.0
short_description: Hosts and order of the deployment of services
description:
  - Returns the steps of the playbook C(reduced.footprint.deploy_controllers), each service after those it depends on.
  - The services are those of the collection, C(galera), C(rabbitmq), C(witness), C(memcached), C(load_balancer) and C(keystone), and those
    declared in the variable C(footprint_services).
  - C(witness) runs on the hosts of the group C(witness) only. These are also members of RabbitMQ if this makes the number of its
    members odd, unless C(rabbitmq_witness) is V(false). A witness that is lost together with a member, and one that makes the
    number of votes even, are rejected.
  - A service runs on the hosts of the group with its name, or of the group named by the variable C(SERVICE_group). Without such a
    group it runs on all hosts of the group C(controller).
options:
  _terms:
    description: No terms are used.
    type: list
    elements: str
    default: []
  components:
    description:
      - Only these services, as a list or as text separated by commas or blanks. Logical names such as V(database) stand
        for the real service. Empty means all services that have hosts.
    type: raw
    default: []
  with_dependencies:
    description: Also deploy the services on which the named ones depend. Otherwise these must already be deployed.
    type: bool
    default: false
  fail:
    description: Whether an invalid value is an error. Otherwise C(error) in the result contains the message, for M(ansible.builtin.assert).
    type: bool
    default: true
  services:
    description: Services that are declared or changed, in the format of O(reduced.footprint.nodes#inventory:services).
    type: dict
    default: {}
    vars:
      - name: footprint_services
seealso:
  - plugin: reduced.footprint.nodes
    plugin_type: inventory
"""

EXAMPLES = r"""
- name: Show the order of a deployment
  hosts: controller
  gather_facts: false
  tasks:
    - name: Show the steps
      ansible.builtin.debug:
        msg: "{{ (lookup('reduced.footprint.deploy_plan', components='keystone', with_dependencies=true)).steps | map(attribute='name') }}"
      run_once: true
"""

RETURN = r"""
_raw:
  description:
    - One mapping with C(steps), C(hosts) (all hosts of the steps), C(memory) (host → C(needed) in MiB and C(shares) as text), C(listed) (the
      services that have allow-lists) and C(units) (the systemd units of all services).
    - Each step has C(name), C(service), C(role), C(hosts), C(tasks_from), C(once), C(marker) (file name that marks a one-time
      step as done), C(check) (whether the role has a tasks file C(check)) and C(compared) (V(openstack) or V(base) if its role can compare
      what it needs together with the others of this kind).
  type: list
  elements: dict
"""

import os
import typing as t

from ansible.errors import AnsibleError
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.lookup import LookupBase
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._inventory import plan_witness
from ansible_collections.reduced.footprint.plugins.module_utils._service import plan_allow_list
from ansible_collections.reduced.footprint.plugins.module_utils._topology import plan_deploy_order
from ansible_collections.reduced.footprint.plugins.module_utils._topology.model_services import WITNESS, Service, parse_services

_ROLES = os.path.join(os.path.dirname(__file__), "..", "..", "roles")
_OURS = "reduced.footprint."


class LookupModule(LookupBase):
    """Plan a deployment from groups and declared services."""

    def run(self, terms: list[t.Any], variables: t.Any = None, **kwargs: t.Any) -> list[dict[str, t.Any]]:
        """Return the plan.

        :raises AnsibleError: an unknown service, a dependency cycle, a service without a host.
        """
        self.set_options(var_options=variables, direct=kwargs)
        known = variables or {}
        try:
            services = parse_services(self._templar.template(self.get_option("services")), "footprint_services")
            wanted = plan_deploy_order.components(self._templar.template(self.get_option("components")), services)
            chosen = {name: self._group(service, known) for name, service in services.items() if service.role and self._group(service, known)}
            groups = known.get("groups") or {}
            leaving = boolean(self._templar.template(known.get("footprint_witness_leaves")) or False)
            services = plan_deploy_order.with_leaving(services, leaving)
            services = plan_deploy_order.without_witness(services, [name for name in services if self._votes_without(services[name], known)])
            self._check_witnesses(services, groups, chosen, known)
            steps = plan_deploy_order.plan(services, groups, wanted, self.get_option("with_dependencies"), chosen, self._cloud(known))
        except FootprintError as error:
            if not self.get_option("fail"):
                return [{"error": str(error)}]
            raise AnsibleError(f"deploy_plan: {error}") from None
        environment = self._templar.template(known.get("footprint_environment", known.get("footprint_cluster"))) or "footprint"
        hosts = list(dict.fromkeys(host for step in steps for host in step.hosts))
        found = [step.as_dict(str(environment)) for step in steps]
        for step in found:
            step["check"] = step["check"] or not step["once"] and _has_check(step["role"])
        return [
            {
                "steps": found,
                "hosts": hosts,
                "memory": {host: plan_deploy_order.memory(host, steps) for host in hosts},
                "listed": list(plan_allow_list.SERVICES),
                "units": plan_allow_list.all_units(str(environment)),
            }
        ]

    def _cloud(self, known: t.Mapping[str, t.Any]) -> bool:
        """Return whether controllers have the services of the cloud."""
        return boolean(self._templar.template(known.get("footprint_cloud")) or False)

    def _votes_without(self, service: Service, known: t.Mapping[str, t.Any]) -> bool:
        """Return whether the variable SERVICE_witness is false."""
        value = self._templar.template(known.get(f"{service.variable_prefix}_witness"))
        return value is not None and not boolean(value)

    def _check_witnesses(
        self, services: t.Mapping[str, Service], groups: t.Mapping[str, t.Sequence[str]], chosen: t.Mapping[str, str], known: t.Mapping[str, t.Any]
    ) -> None:
        """Check the witnesses against the members of the database and of RabbitMQ.

        :raises RefusedError: a witness that is lost together with a member, or does not decide.
        """
        hostvars = known.get("hostvars") or {}

        def machines(name: str) -> list[plan_witness.Machine]:
            group = chosen.get(name) or services[name].group_name
            found = []
            for host in plan_deploy_order.members(services[name], groups, chosen.get(name)):
                own = hostvars[host] if host in hostvars else {}
                roles = tuple(role for role in groups if host in groups[role])
                found.append(plan_witness.Machine(host, str(own.get("vm_host") or ""), roles, f"{group}: {host}"))
            return found

        witnesses, data = machines(WITNESS), machines("galera")
        plan_witness.check_places(witnesses, [*data, *machines("rabbitmq")])
        plan_witness.check_votes(witnesses, [one.name for one in data], services[WITNESS].leaving)

    def _group(self, service: Service, known: t.Mapping[str, t.Any]) -> str:
        """Return the group set by the variable SERVICE_group."""
        return str(self._templar.template(known.get(f"{service.variable_prefix}_group")) or "")


def _has_check(role: str) -> bool:
    """Whether a role of this collection has tasks that validate its settings and change nothing."""
    return role.startswith(_OURS) and os.path.isfile(os.path.join(_ROLES, role[len(_OURS) :], "tasks", "check.yml"))
