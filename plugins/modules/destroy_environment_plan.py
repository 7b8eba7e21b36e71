# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: destroy_environment_plan
short_description: Plan the removal of an environment from a server
version_added: 1.0.0
description:
  - Decides for the playbook C(destroy_environment) what is removed from a server, prints it, and fails with all reasons against it.
  - What cannot be read is unknown, which is a reason against it.
extends_documentation_fragment:
  - reduced.footprint.attributes.reads
options:
  cluster:
    description: Name of the cluster that is removed.
    type: str
    required: true
  removal:
    description: Result of M(reduced.footprint.virt_node) with O(reduced.footprint.virt_node#module:state=absent) in check mode.
    type: dict
    required: true
  standbys:
    description: Result of M(reduced.footprint.vm_standby_info) on the server.
    type: dict
    required: true
  records:
    description: Results of M(reduced.footprint.vm_standby_info) in a loop over the machines that accept the keys of copies.
    type: dict
    required: true
  vms:
    description: Result of M(reduced.footprint.vm_info).
    type: dict
    required: true
  control:
    description: Result of M(ansible.builtin.setup) with the network cards of the control node.
    type: dict
    required: true
  keep_protected:
    description: Whether protected VMs are no reason against it; they are left as they are.
    type: bool
    default: false
  remove_master:
    description: Whether the VM of the master is removed as well.
    type: bool
    default: false
  lost:
    description: Names of standbys and witnesses that are off and do not return, and therefore are not asked.
    type: list
    elements: str
    default: []
notes:
  - An action plugin on the control node, which also reads the variables and groups of all hosts. It contacts no host.
seealso:
  - module: reduced.footprint.virt_node
  - module: reduced.footprint.vm_standby_info
"""

EXAMPLES = r"""
- name: Plan the removal
  reduced.footprint.destroy_environment_plan:
    cluster: blue
    removal: "{{ removal }}"
    standbys: "{{ standbys }}"
    records: "{{ records }}"
    vms: "{{ vms_of_the_server }}"
    control: "{{ control }}"
  register: plan
"""

RETURN = r"""
lines:
  description: What is removed, as printed.
  returned: always
  type: list
  elements: str
  sample: ['metal1: controller1: cluster blue; running; is shut down and undefined']
steps:
  description: What to do before the VMs are removed, in this order. Empty on failure.
  returned: always
  type: list
  elements: dict
  contains:
    action:
      description:
        - V(disarm) if the VM is not started by itself any more, V(leave) if a server leaves the cluster that did that, V(forget) if a machine removes its
          key, copies and record.
      type: str
    id: {description: ID of the VM; null with V(leave)., type: str}
    host: {description: The machine., type: str}
locks:
  description: VMs of the control plane that are removed, which no other run may restart meanwhile.
  returned: always
  type: list
  elements: str
report:
  description: What is kept.
  returned: always
  type: list
  elements: str
why:
  description: The reasons against it.
  returned: always
  type: list
  elements: str
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""
