# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan the removal of a virt node, for the playbook ``remove_virt_node``."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._cloud import model_backends
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import plan_controlplane, plan_quorums, plan_server_removal
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_plan import Plan
from ansible_collections.reduced.footprint.plugins.plugin_utils.plan_action import PlanAction


class ActionModule(PlanAction):
    """Read the inventory, and let :mod:`plan_server_removal` decide."""

    def plan(self, given: t.Mapping[str, t.Any], variables: t.Mapping[str, t.Any]) -> Plan:
        """Return the plan for the server of the task."""
        hostvars, groups, server = variables["hostvars"], variables["groups"], str(variables["inventory_hostname"])
        # a member without a result counts as unhealthy
        looks = {str(one["item"]): one.get("controlplane") or {} for one in given["controlplane"].get("results") or ()}
        environments = plan_controlplane.environments_of(groups, hostvars)
        places = {host: str(hostvars[host].get("vm_host") or "") for host in looks}
        quorums = plan_quorums.quorums_of(looks, groups, given["quorums"], environments, places)
        confirmed, instances = given["confirm"] == server, (given["leave_instances"], given["migrate_instances"])
        wanted = plan_server_removal.Wanted(server, given["cluster"], confirmed, given["remove_vms"], *instances)
        # it may have left the group already
        backends, computes = hostvars[server].get(model_backends.PREFIX) or {}, [*(groups.get("compute") or ()), server]
        volumes = model_backends.warnings(backends, model_backends.Site("", computes), server)
        found = plan_server_removal.Found(given["standbys"], given["compute"], given["impact"], volumes)
        return plan_server_removal.plan(wanted, found, set(groups["all"]), quorums)
