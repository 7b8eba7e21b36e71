# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: remove_controller_plan
short_description: Plan the removal of a controller or witness
version_added: 1.0.0
description:
  - Decides for the playbook C(remove_controller) whether the other members of the control plane have a majority without it, prints the effect, and fails with
    all reasons against it. A member that does not answer is unknown, so nothing is removed beside it.
extends_documentation_fragment:
  - reduced.footprint.attributes.reads
options:
  name:
    description: The controller or witness.
    type: str
    required: true
  confirm:
    description: The removal is confirmed if this is its name.
    type: str
    default: ""
  lost:
    description: Whether it is lost for good and does not answer.
    type: bool
    default: false
  controlplane:
    description:
      - Results of M(reduced.footprint.controlplane_info) in a loop over the hosts of the control plane. Without them, only the name is checked.
    type: dict
  port:
    description: With O(lost), the result of M(ansible.builtin.wait_for) for its ssh port, which has a C(state) if it answers.
    type: dict
    default: {}
notes:
  - An action plugin on the control node, which also reads the variables and groups of all hosts. It contacts no host.
seealso:
  - module: reduced.footprint.controlplane_info
"""

EXAMPLES = r"""
- name: Plan the removal
  reduced.footprint.remove_controller_plan:
    name: controller3
    confirm: controller3
    controlplane: "{{ answers }}"
  register: plan
"""

RETURN = r"""
lines:
  description: The effect, as printed.
  returned: always
  type: list
  elements: str
services:
  description: The services of which it is a member.
  returned: success
  type: list
  elements: str
units:
  description: The units that stop on it, in this order. Empty if it is lost. RabbitMQ and the arbitrator are stopped by their roles.
  returned: success
  type: list
  elements: str
places:
  description: For each of its services the other members, each with C(host) and C(group), the group of those.
  returned: success
  type: list
  elements: dict
variables:
  description: The variables with which a deployment uses these groups, and lets RabbitMQ and the databases of OVN forget the member.
  returned: success
  type: dict
why:
  description: The reasons against it.
  returned: always
  type: list
  elements: str
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""
