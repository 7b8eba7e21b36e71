# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: remove_virt_node_plan
short_description: Plan the removal of a virt node
version_added: 1.0.0
description:
  - Decides for the playbook C(remove_virt_node) what ends with the VMs of a server, prints the impact on the cluster, and, if the removal is confirmed, fails
    with all reasons against it. The VMs themselves are checked by M(reduced.footprint.virt_node).
extends_documentation_fragment:
  - reduced.footprint.attributes.reads
options:
  cluster:
    description: Name of the cluster.
    type: str
    required: true
  confirm:
    description: The removal is confirmed if this is the name of the server.
    type: str
    default: ""
  remove_vms:
    description: Whether the VMs of the cluster are removed.
    type: bool
    default: false
  leave_instances:
    description: Whether nova-compute on the server is no reason against it.
    type: bool
    default: false
  migrate_instances:
    description: Whether nova-compute on the server is no reason against it, because its instances are migrated and it is stopped before.
    type: bool
    default: false
  quorums:
    description: Groups that form a quorum; a group that is not in the inventory is ignored.
    type: list
    elements: str
    required: true
  standbys:
    description: Result of M(reduced.footprint.vm_standby_info) on the server.
    type: dict
    required: true
  controlplane:
    description: Results of M(reduced.footprint.controlplane_info) in a loop over the hosts of the control plane.
    type: dict
    required: true
  compute:
    description: Result of C(systemctl is-active nova-compute) on the server.
    type: dict
    required: true
  impact:
    description: Result of M(reduced.footprint.footprint_plan) with all servers.
    type: dict
    required: true
notes:
  - An action plugin on the control node, which also reads the variables and groups of all hosts. It contacts no host.
seealso:
  - module: reduced.footprint.virt_node
"""

EXAMPLES = r"""
- name: Plan the removal
  reduced.footprint.remove_virt_node_plan:
    cluster: blue
    confirm: metal1
    quorums: [controller]
    standbys: "{{ standbys }}"
    controlplane: "{{ answers }}"
    compute: "{{ compute }}"
    impact: "{{ impact }}"
  register: plan
"""

RETURN = r"""
lines:
  description: The impact on the cluster, as printed.
  returned: always
  type: list
  elements: str
quorums:
  description:
    - The members of each quorum, each with C(name), C(server) and C(alive), for M(reduced.footprint.virt_node). A member is alive if it answers and is healthy
      in each service with a majority of which it is a member. Witnesses vote in each quorum.
  returned: always
  type: dict
steps:
  description: What ends with the VMs after they were removed, in this order. Empty on failure, without confirmation, and if the VMs are not removed.
  returned: always
  type: list
  elements: dict
  contains:
    action:
      description:
        - V(disarm) if the VM is not started by itself any more, V(leave) if a server leaves the cluster that did that, V(withdraw) if a machine removes its
          key, V(end) if its copies end.
      type: str
    id: {description: ID of the VM; null with V(leave)., type: str}
    host: {description: The machine., type: str}
    public_key: {description: The key to remove., returned: with V(withdraw), type: str}
    withdrawn_from:
      description: Machines that do not accept the key any more, or cannot be asked later.
      returned: with V(end)
      type: list
      elements: str
why:
  description: The reasons against it.
  returned: always
  type: list
  elements: str
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""
