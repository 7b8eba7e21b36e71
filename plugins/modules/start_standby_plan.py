# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: start_standby_plan
short_description: Decide whether a virtual machine may be started from its copy
version_added: 1.0.0
description:
  - Decides for the playbook C(start_standby) whether another virt host has the VM, or has the record of a move of it that has not ended, and then fails.
  - Virt hosts that did not answer are printed; the VM may run there.
extends_documentation_fragment:
  - reduced.footprint.attributes.reads
options:
  id:
    description: ID of the VM.
    type: str
    required: true
  uuid:
    description: UUID of the VM.
    type: str
    required: true
  source:
    description: The server of the VM, which was lost.
    type: str
    required: true
  abandon_move:
    description: Virt hosts with the record of a move that the start ends.
    type: list
    elements: str
    default: []
  lost:
    description: Virt hosts that do not answer, and do not run the VM.
    type: list
    elements: str
    default: []
  vms:
    description: Results of M(reduced.footprint.vm_info) in a loop over the other virt hosts.
    type: dict
    required: true
  moves:
    description: Results of M(reduced.footprint.vm_move_info) in a loop over the other virt hosts.
    type: dict
    required: true
notes:
  - An action plugin on the control node. It contacts no host.
seealso:
  - module: reduced.footprint.vm_standby
"""

EXAMPLES = r"""
- name: Decide whether the VM may be started
  reduced.footprint.start_standby_plan:
    id: notes
    uuid: 0c5b0d1e-8f0c-5d9e-9d0e-6f0c1c2f3a4b
    source: metal1
    vms: "{{ vms_of_the_others }}"
    moves: "{{ moves_of_the_others }}"
"""

RETURN = r"""
lines:
  description: Which virt hosts did not answer, as printed.
  returned: always
  type: list
  elements: str
why:
  description: The reasons against the start.
  returned: always
  type: list
  elements: str
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""
