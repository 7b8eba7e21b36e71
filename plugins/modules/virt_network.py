#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_network
short_description: Bring a server its bridges, bonds and VLANs, with a way back
version_added: 0.1.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Makes bridges, bonds and VLANs over the NICs of a server. Addresses, routes, DHCP identity and MAC go from the NIC up to
    what now stands over it.
  - All differences of one call are one trial. It is carried out by a unit of systemd on the server itself and returns to the
    old configuration unless it is confirmed with O(state=confirmed) in time. Until then a restart or a power loss
    returns to the old configuration as well.
  - Between the two calls open a new connection to the server, that is what proves that the change did not cut it off. A
    confirmation over the SSH connection that started the change is refused.
  - Works through whichever of systemd-networkd, netplan, NetworkManager and ifupdown manages the NICs, in its own files.
  - What exists as it is wanted is left as it is. What exists and is different is refused, with the place of the difference.
requirements:
  - systemd and iproute2 on the server
  - bridge-utils on servers with ifupdown
attributes:
  check_mode:
    support: full
    description:
      - Tells whether a change would be made, with the same checks. Packages that ifupdown needs count as installed.
  diff_mode:
    support: full
    description: Shows the configuration before and after, passwords hidden.
  platform:
    support: full
    platforms: linux
    description: Linux with systemd.
options:
  bridges:
    description: The bridges.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the bridge, up to 15 characters.
        type: str
        required: true
      ports:
        description:
          - NICs, bonds or VLANs, existing ones or those of the same call. None at all makes a bridge for guests alone.
          - A bridge that has them all, and maybe others, is left as it is.
        type: list
        elements: str
      port:
        description: The only port, another way to write O(bridges[].ports).
        type: str
      address:
        description:
          - V(inherit) takes over addresses, routes and DHCP settings of the first port that has some. Where the port is a bond
            of the same call, or a VLAN over one, those are what the bond's ports had.
          - V(none) gives the bridge no address. What its ports had is given up.
        type: str
        choices: [inherit, none]
        default: inherit
      mtu:
        description: MTU of the bridge and its ports. What the ports have where nothing is said.
        type: int
      stp:
        description: Whether the bridge speaks the spanning tree protocol. Off where nothing is said.
        type: bool
      vlan_filtering:
        description: Whether the bridge tells VLANs apart. Off where nothing is said. netplan cannot say it.
        type: bool
  bonds:
    description: The bonds.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the bond.
        type: str
        required: true
      ports:
        description: The NICs it is made of.
        type: list
        elements: str
        required: true
      mode:
        description: How it uses them, in the words of the kernel. V(active-backup) needs nothing of the switch.
        type: str
        choices: [active-backup, balance-rr, balance-xor, broadcast, 802.3ad, balance-tlb, balance-alb]
        default: active-backup
      miimon:
        description: Milliseconds between two looks at the links. Not compared where the bond exists.
        type: int
        default: 100
      lacp_rate:
        description: How often the partner is asked for its state, with mode V(802.3ad).
        type: str
        choices: [slow, fast]
      hash_policy:
        description: What traffic is spread by, with modes V(802.3ad), V(balance-xor) and V(balance-tlb).
        type: str
        choices: [layer2, layer2+3, layer3+4, encap2+3, encap3+4, vlan+srcmac]
      primary:
        description: The port that is used whenever it is up.
        type: str
      mtu:
        description: MTU of the bond and its ports.
        type: int
  vlans:
    description: The VLANs.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the VLAN interface, O(vlans[].link) and O(vlans[].id) with a dot between them where nothing is said.
        type: str
      link:
        description: The NIC, bond or bridge it stands on. What that has of addresses stays there.
        type: str
        required: true
      id:
        description: Number of the VLAN, 1 to 4094.
        type: int
        required: true
      mtu:
        description: MTU of the VLAN interface.
        type: int
  state:
    description:
      - V(present) starts the change and leaves its confirmation to a second call. Nothing happens when all of it is there.
      - V(confirmed) makes a started change last. Nothing happens when all of it is there and was confirmed before.
    type: str
    choices: [present, confirmed]
    default: present
  timeout:
    description: Seconds the change waits for its confirmation.
    type: int
    default: 60
seealso:
  - module: reduced.footprint.virt_node
"""

EXAMPLES = r"""
- name: Two NICs bonded, and a bridge to the admin network over them
  reduced.footprint.virt_network:
    bonds:
      - {name: bond0, ports: [eno1, eno2]}
    vlans:
      - {link: bond0, id: 200}
    bridges:
      - {name: br-admin, ports: [bond0]}
      - {name: br-tenant, ports: [bond0.200], address: none}
  register: network

- name: Come back over a new connection
  ansible.builtin.meta: reset_connection

- name: Wait until the server answers
  ansible.builtin.wait_for_connection:
    timeout: 120

- name: Keep the network
  reduced.footprint.virt_network:
    bonds:
      - {name: bond0, ports: [eno1, eno2]}
    vlans:
      - {link: bond0, id: 200}
    bridges:
      - {name: br-admin, ports: [bond0]}
      - {name: br-tenant, ports: [bond0.200], address: none}
    state: confirmed
  when: network.trial

- name: One NIC
  reduced.footprint.virt_network:
    bridges:
      - {name: br-admin, ports: [eno1]}
"""

RETURN = r"""
trial:
  description: Whether a change waits for its confirmation.
  returned: success
  type: bool
managers:
  description: What makes the change, V(networkd), V(netplan), V(networkmanager) or V(ifupdown); empty when nothing was to be done.
  returned: success
  type: list
  elements: str
  sample: [networkd]
addresses:
  description: The addresses that each bridge, bond and VLAN has or, in check mode, takes over.
  returned: success
  type: dict
  sample: {bond0: [], bond0.200: [], br-admin: [192.0.2.11/24], br-tenant: []}
error:
  description: What was wrong.
  returned: failure
  type: dict
  contains:
    path:
      description: Where the bad value stands.
      type: str
      returned: always
    message:
      description: What is wrong.
      type: str
      returned: always
    hint:
      description: What to do about it.
      type: str
      returned: always
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_zip_imports import compile_once, keep_compiled

_BRIDGE = {
    "name": {"type": "str", "required": True},
    "ports": {"type": "list", "elements": "str"},
    "port": {"type": "str"},
    "address": {"type": "str", "choices": ["inherit", "none"], "default": "inherit"},
    "mtu": {"type": "int"},
    "stp": {"type": "bool"},
    "vlan_filtering": {"type": "bool"},
}
_BOND = {
    "name": {"type": "str", "required": True},
    "ports": {"type": "list", "elements": "str", "required": True},
    "mode": {
        "type": "str",
        "choices": ["active-backup", "balance-rr", "balance-xor", "broadcast", "802.3ad", "balance-tlb", "balance-alb"],
        "default": "active-backup",
    },
    "miimon": {"type": "int", "default": 100},
    "lacp_rate": {"type": "str", "choices": ["slow", "fast"]},
    "hash_policy": {"type": "str", "choices": ["layer2", "layer2+3", "layer3+4", "encap2+3", "encap3+4", "vlan+srcmac"]},
    "primary": {"type": "str"},
    "mtu": {"type": "int"},
}
_VLAN = {
    "name": {"type": "str"},
    "link": {"type": "str", "required": True},
    "id": {"type": "int", "required": True},
    "mtu": {"type": "int"},
}


def main() -> None:
    """Entry point."""
    compile_once()
    from ansible_collections.reduced.footprint.plugins.module_utils._network.run_network import NetworkRequest, bring

    module = AnsibleModule(
        argument_spec={
            "bridges": {"type": "list", "elements": "dict", "default": [], "options": _BRIDGE},
            "bonds": {"type": "list", "elements": "dict", "default": [], "options": _BOND},
            "vlans": {"type": "list", "elements": "dict", "default": [], "options": _VLAN},
            "state": {"type": "str", "choices": ["present", "confirmed"], "default": "present"},
            "timeout": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    try:
        result = bring(NetworkRequest(**module.params), check_mode=module.check_mode)
        keep_compiled(module.check_mode)
    except FootprintError as error:
        module.fail_json(**error.as_result())
    module.exit_json(**result.as_dict())


if __name__ == "__main__":
    main()
