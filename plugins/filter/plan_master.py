# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: the VM details of the migrated master for a plan."""

from __future__ import annotations

import typing as t

DOCUMENTATION = r"""
name: plan_master
short_description: Build the VM details of the master's VM for a plan
version_added: 1.0.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - The VM of a migrated master is defined by the variables C(master_migrate_*) and not listed in the VM details of a server. This filter
    returns its VM details, so that a plan counts it.
  - The list is empty if a server lists that VM, and if the VM does not exist and C(master_migrate_temporary_address), which
    a migration requires, is not set.
positional: servers, vms, destination
options:
  _input:
    description: The variables of all hosts, C(hostvars).
    type: dict
    required: true
  servers:
    description: Names of the physical servers.
    type: list
    elements: str
    required: true
  vms:
    description: Servers with their existing VMs, RV(reduced.footprint.vm_info#module:vms).
    type: dict
    default: {}
  destination:
    description: The server to which the master will be migrated. By default the plan selects one.
    type: str
seealso:
  - module: reduced.footprint.footprint_plan
  - plugin: reduced.footprint.plan_servers
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Plan from the inventory, including the master
  reduced.footprint.footprint_plan:
    cluster: lab
    servers: "{{ hostvars | reduced.footprint.plan_servers(groups['virt']) }}"
    vms: "{{ hostvars | reduced.footprint.plan_master(groups['virt']) }}"
"""

RETURN = r"""
_value:
  description: A list with one mapping, or an empty one.
  type: list
  elements: dict
"""

from ansible.errors import AnsibleFilterError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._placement.request.plan_facts import master_vm


def plan_master(
    hostvars: t.Mapping[str, t.Any], servers: t.Sequence[str], vms: t.Mapping[str, t.Any] | None = None, destination: str | None = None
) -> list[dict[str, t.Any]]:
    """Return the VM details; see :func:`master_vm`."""
    try:
        return master_vm(hostvars, servers, vms or {}, destination)
    except FootprintError as error:
        raise AnsibleFilterError(f"plan_master: {error}") from error
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise AnsibleFilterError(f"plan_master: invalid variables of servers: {error!r}") from error


class FilterModule:
    """The filters of this plugin."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filters by name."""
        return {"plan_master": plan_master}
