# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: init_plan
short_description: Write the first inventory
version_added: 1.0.0
description:
  - Checks the answers to the questions of the playbook C(init). With O(facts) it writes an C(ansible.cfg), an inventory and its variables on the control node,
    and prints the placement of the VMs.
  - A file that exists is never changed. If a machine does not answer, an address is in use, or the VMs do not fit, no file is written.
extends_documentation_fragment:
  - reduced.footprint.attributes.changes
options:
  servers: {description: 'The servers, each as C(NAME=ADDRESS).', type: list, elements: str, required: true}
  user: {description: The user for ssh., type: str, default: root}
  wanted:
    description: V(vms) is a first VM, V(control_plane) three controllers, V(cloud) also the settings of a cloud, V(move) only the migration of O(source).
    type: str
    choices: [vms, control_plane, cloud, move]
    default: control_plane
  source: {description: 'The machine to migrate into a VM, as C(NAME=ADDRESS).', type: str, default: ""}
  addresses: {description: 'Range of free addresses in the network of the servers, as C(FIRST-LAST).', type: str, required: true}
  cluster: {description: Name of the cluster., type: str, default: home}
  directory: {description: Directory of the files on the control node., type: path, required: true}
  expert_mode: {description: Whether the user has read the disclaimer., type: bool, default: false}
  facts:
    description: Results of M(ansible.builtin.setup) in a loop over RV(machines). Without them, only the answers are checked.
    type: dict
notes:
  - An action plugin on the control node. It contacts no host.
seealso:
  - module: reduced.footprint.footprint_plan
  - plugin: reduced.footprint.nodes
    plugin_type: inventory
"""

EXAMPLES = r"""
- name: Check the answers
  reduced.footprint.init_plan:
    servers: [metal1=192.0.2.11, metal2=192.0.2.12]
    addresses: 192.0.2.20-192.0.2.40
    directory: /srv/footprint
  register: answers
"""

RETURN = r"""
machines:
  description: The machines to inspect, as arguments of M(ansible.builtin.add_host).
  returned: without O(facts)
  type: list
  elements: dict
  sample: [{name: metal1, ansible_host: 192.0.2.11, ansible_user: root}]
lines:
  description: The files, the placement, and the playbooks to run next, as printed.
  returned: always
  type: list
  elements: str
why:
  description: The reasons why nothing was written.
  returned: always
  type: list
  elements: str
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""
