#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: failover_cluster
short_description: Configure the fencing of a cluster that starts virtual machines by itself
version_added: 1.0.0
description:
  - Configures options and fencing of the cluster that M(reduced.footprint.failover_member) has formed, on one of its two servers. Elements of Pacemaker's
    configuration that others have created are kept.
  - A lost server is fenced by its management controller with Redfish, by its watchdog, or by the watchdog if the controller does not answer.
  - O(state=lost) and O(state=alone) are for what only a person can know.
extends_documentation_fragment:
  - reduced.footprint.attributes.changes
  - reduced.footprint.failover
options:
  state:
    description:
      - V(present) waits until both servers are in the cluster, and checks that each controller answers from this server.
      - V(lost) states that the server O(lost) is off, because neither its controller nor its watchdog confirms that. Its VMs are started here then.
        B(If it runs, they run twice.) Refused while it is in the cluster. The playbook C(reduced.footprint.start_standby) checks that it does not answer.
      - V(alone), after both servers were off, continues without the server O(lost), which is off. Refused if that had a VM last.
    type: str
    choices: [present, lost, alone]
    default: present
  lost:
    description: The other server, as typed by a person who made sure that it is off.
    type: str
  wait_timeout:
    description: Maximum number of seconds to wait until both servers are in the cluster.
    type: int
    default: 180
seealso:
  - module: reduced.footprint.failover_member
"""

EXAMPLES = r"""
- name: Let each server be fenced by its management controller
  reduced.footprint.failover_cluster:
    cluster: lab-metal1-metal2
    members:
      - {name: metal1, addresses: [192.0.2.11], bmc: "{{ lookup('reduced.footprint.bmc', 'metal1') }}"}
      - {name: metal2, addresses: [192.0.2.12], bmc: "{{ lookup('reduced.footprint.bmc', 'metal2') }}"}
    witness: 192.0.2.20

- name: Start what metal1 ran, which lost its power and that of its controller
  reduced.footprint.failover_cluster:
    state: lost
    lost: metal1
"""

RETURN = r"""
actions:
  description: What Pacemaker does because of the change.
  returned: success
  type: list
  elements: str
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_module import answer
from ansible_collections.reduced.footprint.plugins.module_utils._standby.model_cluster import MEMBER_ARGUMENTS
from ansible_collections.reduced.footprint.plugins.module_utils._standby.run_cluster import apply


def arguments() -> dict:
    """The module's options."""
    return {
        **MEMBER_ARGUMENTS,
        "state": {"type": "str", "choices": ["present", "lost", "alone"], "default": "present"},
        "lost": {"type": "str"},
        "wait_timeout": {"type": "int", "default": 180},
    }


def main() -> None:
    """Entry point."""
    required = [("state", "present", ["cluster", "members", "witness"]), ("state", "lost", ["lost"]), ("state", "alone", ["lost"])]
    module = AnsibleModule(argument_spec=arguments(), supports_check_mode=True, required_if=required)
    answer(module, lambda: apply(module.params, check_mode=module.check_mode))


if __name__ == "__main__":
    main()
