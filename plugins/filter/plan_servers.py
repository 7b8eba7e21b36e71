# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: the servers of a plan from their variables and facts."""

from __future__ import annotations

import typing as t

DOCUMENTATION = r"""
name: plan_servers
short_description: Build the servers of a plan from the inventory and facts
version_added: 1.0.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Converts the variables of servers to the option C(servers) of M(reduced.footprint.footprint_plan).
  - Memory, CPUs, bridges and the size of storage pools come from gathered facts (subsets C(hardware), C(network), C(local)),
    hypervisors, reserve and ratio from the record of M(reduced.footprint.virt_node).
  - The variable C(node_capacity) of a server, a mapping as the module takes it, overrides all of them. Use it to plan servers
    that cannot be reached yet.
positional: servers, vms, nodes, copies
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
    description:
      - Servers with their existing VMs, RV(reduced.footprint.vm_info#module:vms).
      - For a server that is missing here, or has V(false), it is unknown which of its VMs exist.
    type: dict
    default: {}
  nodes:
    description: Servers with their current storage pools and networks, RV(reduced.footprint.virt_node_info#module:node).
    type: dict
    default: {}
  copies:
    description: Servers with the copies of VMs of other servers, RV(reduced.footprint.vm_standby_info#module:standbys).
    type: dict
    default: {}
seealso:
  - module: reduced.footprint.footprint_plan
"""

EXAMPLES = r"""
- name: Plan from the inventory
  reduced.footprint.footprint_plan:
    cluster: lab
    servers: "{{ hostvars | reduced.footprint.plan_servers(['metal1', 'metal2'], vms={'metal1': found.vms}) }}"
"""

RETURN = r"""
_value:
  description: A mapping for each server, in the order of O(servers).
  type: list
  elements: dict
"""

from ansible_collections.reduced.footprint.plugins.plugin_utils.filters import filter_module


def plan_servers(
    hostvars: t.Mapping[str, t.Any],
    servers: t.Sequence[str],
    vms: t.Mapping[str, t.Sequence[t.Mapping[str, t.Any]]] | None = None,
    nodes: t.Mapping[str, t.Mapping[str, t.Any]] | None = None,
    copies: t.Mapping[str, t.Sequence[t.Mapping[str, t.Any]]] | None = None,
) -> list[dict[str, t.Any]]:
    """Return the servers as plain values; see :func:`servers_from_variables`."""
    from ansible_collections.reduced.footprint.plugins.module_utils._placement.request.plan_facts import servers_from_variables

    return servers_from_variables(hostvars, servers, vms or {}, nodes or {}, copies)


FilterModule = filter_module("plan_servers", plan_servers)
