#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: controlplane_drain
short_description: Let a controller hand its clients to its peers before it is moved
version_added: 0.1.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - With O(here=true), on the controller itself, gives the virtual address to a peer if it is here. keepalived is restarted for
    that, which says goodbye to the peers and does not ask for the address again.
  - Otherwise, on the controller that holds the virtual address, sends the clients of services that use O(member) alone to another
    member. Their connections are cut, as they would be when the member stops; what was not acknowledged, they send again.
  - Nothing that is set stays for longer than two seconds, so there is nothing to take back when the module is killed.
extends_documentation_fragment:
  - reduced.footprint.attributes.linux
attributes:
  check_mode:
    description: Can run in check_mode and tell what would be handed over without doing it.
    support: full
  diff_mode:
    description: What is handed over is told, there is no file to compare.
    support: none
options:
  member:
    description: Name of the controller that is to be moved, as the load balancer calls it.
    type: str
    required: true
  here:
    description: Whether this host is O(member).
    type: bool
    default: false
  virtual_address:
    description: The virtual address of the controllers.
    type: str
    required: true
  ports:
    description: Services with the port at which they answer at O(virtual_address). Others are left alone.
    type: dict
    default: {mysql: 3306}
  timeout:
    description: Seconds the peers get to take over.
    type: float
    default: 30
  stats_socket:
    description: Admin socket of HAProxy.
    type: path
    default: /run/haproxy-footprint.sock
seealso:
  - module: reduced.footprint.grow_info
"""

EXAMPLES = r"""
- name: Give the virtual address away, on the controller that is to be moved
  reduced.footprint.controlplane_drain:
    member: controller2
    here: true
    virtual_address: 192.0.2.20

- name: Send its clients to another member, on the controller that holds the virtual address
  reduced.footprint.controlplane_drain:
    member: controller2
    virtual_address: 192.0.2.20
"""

RETURN = r"""
handed_over:
  description: What was handed over, or in check mode would be.
  returned: success
  type: list
  elements: str
  sample: [writer of mysql]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.run_add_server import HandoverRequest, hand_over, local_balancer, parse_ports
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError


def main() -> None:
    """Hand over and tell."""
    module = AnsibleModule(
        argument_spec={
            "member": {"type": "str", "required": True},
            "here": {"type": "bool", "default": False},
            "virtual_address": {"type": "str", "required": True},
            "ports": {"type": "dict", "default": {"mysql": 3306}},
            "timeout": {"type": "float", "default": 30},
            "stats_socket": {"type": "path", "default": "/run/haproxy-footprint.sock"},
        },
        supports_check_mode=True,
    )
    given = module.params
    try:
        request = HandoverRequest(given["member"], given["here"], given["virtual_address"], parse_ports(given["ports"]), given["timeout"])
        done = hand_over(request, local_balancer(given["stats_socket"]), module.check_mode)
    except FootprintError as error:
        module.fail_json(**error.as_result())
    module.exit_json(changed=bool(done), handed_over=done)


if __name__ == "__main__":
    main()
