#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: service_allow_list
short_description: Restrict the ports of services to listed addresses
version_added: 1.0.0
description:
  - Each list is a separate nftables table, C(inet footprint_NAME), which is replaced in one transaction. Other tables are
    not changed, and their rules still apply to traffic that a list allows.
  - Connections through the loopback interface are always allowed. All other addresses that are not listed are rejected, over IPv6 as well.
  - The lists are loaded before the units that listen are started, and every 30 seconds in case the packet filter was flushed. A unit
    whose list cannot be loaded does not start.
requirements:
  - nftables 0.9.3 or newer on the server
attributes:
  check_mode:
    details:
      - The lists are not validated by the kernel.
options:
  lists:
    description: One entry for each service. P(reduced.footprint.allow_list#lookup) returns those of the control plane.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the list, in lower case letters.
        type: str
        required: true
      served:
        description: Addresses on which the members of the service listen. IPv4 traffic to other addresses of the host is not filtered.
        type: list
        elements: str
        default: []
      rules:
        description: Allowed addresses per group of ports.
        type: list
        elements: dict
        default: []
        suboptions:
          protocol:
            description: V(vrrp) has no ports. Ports of V(udp) must be below 32768.
            type: str
            choices: [tcp, udp, vrrp]
            default: tcp
          ports:
            description: >-
              Numbers or ranges, for example V(35672-35682). At ports from 32768 on, which the kernel also uses as source ports, only new connections
              are rejected; at lower ports packets of existing connections are rejected as well.
            type: list
            elements: str
            default: []
          allowed:
            description: Addresses and networks that may connect to these ports.
            type: list
            elements: str
            default: []
      units:
        description: systemd units that must not start before the list is loaded. They need not exist yet.
        type: list
        elements: str
        default: []
  only_known:
    description: Update existing lists only. For hosts that must accept a new member but are not deployed themselves.
    type: bool
    default: false
  state:
    description: V(absent) removes these lists, and with the last list the units that load them.
    type: str
    choices: [present, absent]
    default: present
extends_documentation_fragment:
  - reduced.footprint.attributes.changes
seealso:
  - plugin: reduced.footprint.allow_list
    plugin_type: lookup
"""

EXAMPLES = r"""
- name: Restrict the cache to its members
  reduced.footprint.service_allow_list:
    lists:
      - name: memcached
        served: [192.0.2.11, 192.0.2.12]
        rules:
          - ports: ["11211"]
            allowed: [192.0.2.11, 192.0.2.12]
        units: [memcached.service]
"""

RETURN = r"""
actions:
  description: What was done, or would be done in check mode, for example V(load the allow-list of memcached).
  type: list
  elements: str
  returned: success
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_module import answer
from ansible_collections.reduced.footprint.plugins.module_utils._service.run_allow_list import enforce


def main() -> None:
    """Run the module."""
    texts = {"type": "list", "elements": "str", "default": []}
    rule = {"protocol": {"type": "str", "choices": ["tcp", "udp", "vrrp"], "default": "tcp"}, "ports": texts, "allowed": texts}
    entry = {
        "name": {"type": "str", "required": True},
        "served": texts,
        "rules": {"type": "list", "elements": "dict", "default": [], "options": rule},
        "units": texts,
    }
    module = AnsibleModule(
        argument_spec={
            "lists": {"type": "list", "elements": "dict", "required": True, "options": entry},
            "only_known": {"type": "bool", "default": False},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
        supports_check_mode=True,
    )
    answer(module, lambda: enforce(module.params, check_mode=module.check_mode))


if __name__ == "__main__":
    main()
