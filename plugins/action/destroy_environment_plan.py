# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan the removal of an environment from a server, for the playbook ``destroy_environment``."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.module_utils._controlplane import plan_controlplane, plan_destroy
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_plan import Plan
from ansible_collections.reduced.footprint.plugins.plugin_utils.plan_action import PlanAction


class ActionModule(PlanAction):
    """Read the inventory, and let :mod:`plan_destroy` decide."""

    def plan(self, given: t.Mapping[str, t.Any], variables: t.Mapping[str, t.Any]) -> Plan:
        """Return the plan for the server of the task."""
        hostvars, groups, server = variables["hostvars"], variables["groups"], str(variables["inventory_hostname"])
        environments = plan_controlplane.environments_of(groups, hostvars).values()
        members = dict.fromkeys(host for services in environments for hosts in services.values() for host in hosts)
        known = plan_destroy.Known(
            server,
            {str(hostvars[host].get("footprint_cluster")) for host in variables["ansible_play_hosts_all"]},
            [host for host in members if hostvars[host].get("vm_host") == server],
            [host for host in groups.get("controller", ()) if not hostvars[host].get("vm_host")],
        )
        wanted = plan_destroy.Wanted(given["cluster"], given["keep_protected"], given["remove_master"], given["lost"])
        results = (given["removal"], given["standbys"], given["records"].get("results") or (), given["vms"], given["control"])
        return plan_destroy.plan(wanted, known, plan_destroy.Found(*results))
