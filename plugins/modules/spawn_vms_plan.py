#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: spawn_vms_plan
short_description: Add VM details that are given to a run to the inventory
version_added: 1.0.0
description:
  - Checks VM details as the inventory plugin P(reduced.footprint.nodes#inventory) does, together with its files, and keeps them in the file
    C(NAME.vms.yml) next to the inventory file C(NAME.yml) of the servers. Returns the hosts that the inventory of this run lacks.
  - VM details with the id of kept ones replace them. Those that differ from the inventory file itself are refused.
  - Where the file cannot be written, and in a job of AWX, its text is printed instead, without cloud-init data.
extends_documentation_fragment:
  - reduced.footprint.attributes.changes
options:
  vms:
    description: Each server with its VM details, a mapping of lists, or that as JSON text. Templates in it are refused.
    type: raw
    required: true
notes:
  - An action plugin on the control node, which also reads the variables of all hosts. It contacts no host.
seealso:
  - module: reduced.footprint.vm_define
  - plugin: reduced.footprint.nodes
    plugin_type: inventory
"""

EXAMPLES = r"""
- name: Keep the details of a VM
  reduced.footprint.spawn_vms_plan:
    vms:
      metal1: [{id: web, ram: 4, nics: [{bridge: br-admin}], disks: [{size: 20, image: debian-12}]}]
  register: given
"""

RETURN = r"""
hosts:
  description: Servers and VMs that the inventory of this run lacks, or has with other VM details, as arguments of M(ansible.builtin.add_host).
  returned: success
  type: list
  elements: dict
lines:
  description: Where the VM details are kept, as printed.
  returned: always
  type: list
  elements: str
why:
  description: The reasons why nothing was kept.
  returned: always
  type: list
  elements: str
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""
