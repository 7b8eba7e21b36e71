# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan the removal of a controller or witness, for the playbook ``remove_controller``."""

from __future__ import annotations

import typing as t

from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import plan_controller_removal, plan_controlplane
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import RefusedError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_plan import Plan
from ansible_collections.reduced.footprint.plugins.module_utils._topology import plan_deploy_order
from ansible_collections.reduced.footprint.plugins.module_utils._topology.model_services import parse_services
from ansible_collections.reduced.footprint.plugins.module_utils._topology.plan_address import member_address
from ansible_collections.reduced.footprint.plugins.plugin_utils.plan_action import PlanAction

_GROUP = "footprint_staying"


class ActionModule(PlanAction):
    """Read the inventory, and let :mod:`plan_controller_removal` decide."""

    def plan(self, given: t.Mapping[str, t.Any], variables: t.Mapping[str, t.Any]) -> Plan:
        """Return the plan, with the groups and variables of a deployment without the member."""
        hostvars, groups, name = variables["hostvars"], variables["groups"], given["name"]
        own = hostvars[name] if name in hostvars else {}
        members = plan_controlplane.members_of(groups, hostvars, [name])
        services = plan_controller_removal.services_of(name, members)
        outside = sorted({host for hosts in members.values() for host in hosts} - {*variables["ansible_play_hosts_all"]})
        if outside:
            message = f"{', '.join(outside)} is excluded, but the removal configures all members."
            raise RefusedError(message, "--limit", "Run it without --limit (in AWX: Limit).")
        if given["controlplane"] is None:
            return Plan(())
        # a member without a result does not answer
        results = {str(one["item"]): one for one in given["controlplane"].get("results") or ()}
        looks = {host: (results.get(host) or {}).get("controlplane") for hosts in members.values() for host in hosts}
        silence = str((results.get(name) or {}).get("msg") or "")
        found = plan_controller_removal.Found(looks, silence, given["port"].get("state") is not None)
        wanted = plan_controller_removal.Wanted(name, given["confirm"], given["lost"])
        leaving, chassis = boolean(own.get("footprint_witness_leaves") or False), {*groups.get("compute", ()), *groups.get("ovn_chassis", ())}
        plan = plan_controller_removal.plan(wanted, members, found, leaving, name not in chassis)
        staying = _staying(groups, own, name)
        gone = {
            "rabbitmq_gone_nodes": [*(own.get("rabbitmq_gone_nodes") or ()), f"rabbit@{own.get('rabbitmq_node_host') or name}"],
            "ovn_database_gone": [*(own.get("ovn_database_gone") or ()), member_address(name, own, "ovn_database_address")],
        }
        settings = {**{f"{prefix}_group": f"{_GROUP}_{prefix}" for prefix in staying}, **gone}
        places = [{"group": f"{_GROUP}_{prefix}", "host": host} for prefix, hosts in staying.items() for host in hosts]
        return plan._replace(values={**plan.values, "variables": settings, "places": places, "services": services})


def _staying(groups: t.Mapping[str, t.Sequence[str]], own: t.Mapping[str, t.Any], name: str) -> dict[str, list[str]]:
    """Return the prefix of the variables of each service of a member, with the other members. The services of the operator are among them."""
    found = {}
    cloud = boolean(own.get("footprint_cloud") or False)
    for service in parse_services(own.get("footprint_services"), "footprint_services").values():
        hosts = plan_deploy_order.members(service, groups, own.get(f"{service.variable_prefix}_group"), cloud) if service.role else ()
        if name in hosts:
            found[service.variable_prefix] = [host for host in hosts if host != name]
    return found
