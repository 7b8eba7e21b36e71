#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virtual_address_info
short_description: Find the interface and the current holder of virtual addresses
version_added: 1.0.0
description:
  - Returns which interface of this host a virtual address belongs to, whether the host holds it, and which MAC address answers for it
    in the network.
  - The network is probed by ARP with the sender 0.0.0.0 (RFC 5227), so no ARP cache is changed.
extends_documentation_fragment:
  - reduced.footprint.attributes.reads
options:
  own:
    description: Address of this host in the network of the load balancers.
    type: str
    required: true
  addresses:
    description: The virtual addresses.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name by which frontends refer to it.
        type: str
        required: true
      address:
        description: The IPv4 address.
        type: str
        required: true
      interface:
        description: Interface for the address. Defaults to the interface whose network contains it, else that of O(own).
        type: str
      router_id:
        description: VRRP virtual router ID. Defaults to 20 for the first address, 21 for the second and so on.
        type: int
      prefix:
        description: Prefix length with which it is configured.
        type: int
        default: 32
  probe:
    description: Whether to probe the network for other holders of the addresses.
    type: bool
    default: true
"""

EXAMPLES = r"""
- name: Find the holder of the virtual address
  reduced.footprint.virtual_address_info:
    own: "{{ ansible_host }}"
    addresses:
      - {name: main, address: 192.0.2.20}
  register: result
"""

RETURN = r"""
virtual_addresses:
  description: The virtual addresses as seen from this host.
  returned: success
  type: dict
  contains:
    addresses:
      description: The addresses in the given order, with all their values, V(held) and V(answered_by) (a MAC address, or C(null)).
      type: list
      elements: dict
      sample:
        - {name: main, address: 192.0.2.20, prefix: 32, router_id: 20, interface: eno1, held: false, answered_by: "52:54:00:01:02:03"}
    home:
      description: The interface with the address O(own).
      type: str
      sample: eno1
    macs:
      description: The MAC addresses of this host.
      type: list
      elements: str
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_module import answer
from ansible_collections.reduced.footprint.plugins.module_utils._loadbalancer.run_virtual_addresses import look


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "own": {"type": "str", "required": True},
            "addresses": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "name": {"type": "str", "required": True},
                    "address": {"type": "str", "required": True},
                    "interface": {"type": "str"},
                    "router_id": {"type": "int"},
                    "prefix": {"type": "int", "default": 32},
                },
            },
            "probe": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    names = ("addresses", "own", "probe")
    answer(module, lambda: {"changed": False, "virtual_addresses": look(*(module.params[name] for name in names))})


if __name__ == "__main__":
    main()
