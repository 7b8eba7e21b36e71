#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: migrate_server_plan
short_description: Plan which servers move into virtual machines, or report which have moved
version_added: 1.0.0
description:
  - Decides for the playbook C(migrate_server) which servers move into VMs of which virt hosts, in which order, and compares what they need with what is free.
  - Prints the plan, and fails with all reasons against it that are known without contacting the servers.
extends_documentation_fragment:
  - reduced.footprint.attributes.reads
options:
  servers:
    description: The servers, in the order in which they move unless C(migrate_server_after) of one names others of them.
    type: list
    elements: str
    required: true
  confirm:
    description: The servers whose pause is confirmed. Without all that have not moved there are no steps, except in check mode and for rehearsals.
    type: list
    elements: str
    default: []
  defaults:
    description: Each virt host with its variables of the role P(reduced.footprint.master_migrate#role), which those of a server override.
    type: dict
    required: true
  nodes:
    description: Each virt host with RV(reduced.footprint.virt_node_info#module:node), empty without an answer.
    type: dict
    default: {}
  migrations:
    description: Each virt host with RV(reduced.footprint.master_migrate_info#module:migrations), null without an answer.
    type: dict
    required: true
  failures:
    description: Each virt host with the servers whose move failed there, and why. With it, the result of the moves is reported.
    type: dict
  ended:
    description: With O(failures), each virt host with the servers that were moved there, or checked in check mode.
    type: dict
    default: {}
notes:
  - An action plugin on the control node, which also reads the variables and groups of all hosts. It contacts no host.
seealso:
  - module: reduced.footprint.master_migrate
"""

EXAMPLES = r"""
- name: Plan the moves
  reduced.footprint.migrate_server_plan:
    servers: [db1, web1]
    defaults: "{{ variables_of_virt_hosts }}"
    nodes: "{{ virt_hosts }}"
    migrations: "{{ migrations }}"
  register: plan
"""

RETURN = r"""
lines:
  description: The plan or the report, as printed.
  returned: always
  type: list
  elements: str
steps:
  description:
    - The servers that move, in this order, each with C(action), V(migrate), C(server), its virt host C(node), its C(number) from 0, and the names of the
      C(variables) of the role that any of the servers has; C(fixed) are the values of those that say which server it is.
  returned: without O(failures)
  type: list
  elements: dict
missing:
  description: Servers that have not moved, or were not rehearsed, or in check mode not checked without a problem. If there are any, the module fails.
  returned: with O(failures)
  type: list
  elements: str
why:
  description: The reasons against it.
  returned: always
  type: list
  elements: str
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""
