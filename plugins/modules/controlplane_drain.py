#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: controlplane_drain
short_description: Hand the clients of a controller over to its peers before the controller is moved
version_added: 1.0.0
description:
  - With O(here=true), on the controller itself, moves the virtual address to a peer if this host holds it. To do so it restarts
    keepalived, which releases the address with a VRRP announcement and does not claim it again.
  - Otherwise, on the controller that holds the virtual address, redirects the clients of services that use O(member) alone to another
    member. Their connections are closed, as they would be when the member stops; clients repeat what was not acknowledged.
  - No setting lasts longer than two seconds, so nothing has to be reverted if the module is killed.
extends_documentation_fragment:
  - reduced.footprint.attributes.changes_without_diff
options:
  member:
    description: Name of the controller to be moved, as configured in the load balancer.
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
    description: Services with their port at O(virtual_address). Other services are not changed.
    type: dict
    default: {mysql: 3306}
  wait_timeout:
    description: Maximum number of seconds to wait until the peers have taken over.
    type: int
    default: 30
  stats_socket:
    description: Admin socket of HAProxy.
    type: path
    default: /run/haproxy-footprint.sock
seealso:
  - module: reduced.footprint.controlplane_info
"""

EXAMPLES = r"""
- name: Move the virtual address to a peer, on the controller to be moved
  reduced.footprint.controlplane_drain:
    member: controller2
    here: true
    virtual_address: 192.0.2.20

- name: Redirect its clients to another member, on the controller that holds the virtual address
  reduced.footprint.controlplane_drain:
    member: controller2
    virtual_address: 192.0.2.20
"""

RETURN = r"""
handed_over:
  description: What was handed over, or would be in check mode.
  returned: success
  type: list
  elements: str
  sample: [writer of mysql]
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.run_add_server import HandoverRequest, hand_over, local_balancer, parse_ports
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_module import answer


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "member": {"type": "str", "required": True},
            "here": {"type": "bool", "default": False},
            "virtual_address": {"type": "str", "required": True},
            "ports": {"type": "dict", "default": {"mysql": 3306}},
            "wait_timeout": {"type": "int", "default": 30},
            "stats_socket": {"type": "path", "default": "/run/haproxy-footprint.sock"},
        },
        supports_check_mode=True,
    )
    given = module.params

    def drain() -> dict[str, t.Any]:
        request = HandoverRequest(given["member"], given["here"], given["virtual_address"], parse_ports(given["ports"]), given["wait_timeout"])
        done = hand_over(request, local_balancer(given["stats_socket"]), module.check_mode)
        return {"changed": bool(done), "handed_over": done}

    answer(module, drain)


if __name__ == "__main__":
    main()
