# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: the VM details of a plan that no server lists."""

from __future__ import annotations

import typing as t

DOCUMENTATION = r"""
name: plan_vms
short_description: Add the master's VM to the VM details of a plan
version_added: 1.0.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - The VM of a migrated master is defined by the variables C(master_migrate_*) and not listed in the VM details of a server. This filter
    adds its VM details, so that a plan counts it.
  - They are not added if a server lists that VM, and if the VM does not exist and C(master_migrate_temporary_address), which
    a migration requires, is not set.
positional: hostvars, servers, vms, destination
options:
  _input:
    description: VM details that no server lists, a list or the same list as JSON text. Any other value is returned unchanged.
    type: raw
    required: true
  hostvars:
    description: The variables of all hosts.
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
    vms: "{{ [] | reduced.footprint.plan_vms(hostvars, groups['virt']) }}"
"""

RETURN = r"""
_value:
  description: The VM details.
  type: list
  elements: dict
"""

from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.plugin_utils.filters import filter_module


def plan_vms(
    given: t.Any,
    hostvars: t.Mapping[str, t.Any],
    servers: t.Sequence[str],
    vms: t.Mapping[str, t.Any] | None = None,
    destination: str | None = None,
) -> t.Any:
    """Return the VM details; see :func:`master_vm`."""
    from ansible_collections.reduced.footprint.plugins.module_utils._placement.request.model_placement import as_list
    from ansible_collections.reduced.footprint.plugins.module_utils._placement.request.plan_facts import master_vm

    try:
        # the module reports other values
        return [*as_list(given, "vms"), *master_vm(hostvars, servers, vms or {}, destination)] if isinstance(given, (list, str)) else given
    except FootprintError:
        return given


FilterModule = filter_module("plan_vms", plan_vms)
