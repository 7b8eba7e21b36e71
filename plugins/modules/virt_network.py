#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_network
short_description: Create bridges, bonds and VLANs with automatic rollback
version_added: 1.0.0
description:
  - Creates bridges, bonds and VLANs over the NICs of a server. Addresses, routes, DHCP identity and MAC move from the NIC to
    the device over it.
  - All changes of one call form one trial. A systemd unit on the server applies it and restores the old configuration unless it
    is confirmed with O(state=confirmed) in time. Until then a reboot or a power loss restores the old configuration as well.
  - Open a new connection to the server between the two calls, which proves that the server is still reachable. A
    confirmation over the SSH connection that started the change is refused.
  - Uses the network manager of the NICs, which is systemd-networkd, netplan, NetworkManager or ifupdown, and its files.
  - Existing devices that match are not changed. Existing devices that differ are refused, with the path of the difference.
requirements:
  - systemd and iproute2 on the server
  - bridge-utils on servers with ifupdown
extends_documentation_fragment:
  - reduced.footprint.attributes.changes
attributes:
  check_mode:
    details:
      - Packages that ifupdown needs are assumed to be installed.
  platform:
    support: full
    platforms: linux
    description: Linux with systemd.
options:
  bridges:
    description: Bridges to create.
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
          - NICs, bonds or VLANs, existing ones or those of the same call. Without ports a bridge for guests only is created.
          - An existing bridge with all of these ports is not changed, also if it has more.
        type: list
        elements: str
      port:
        description: The port of a bridge with one port, instead of O(bridges[].ports).
        type: str
      address:
        description:
          - V(inherit) takes over addresses, routes and DHCP settings of the first port that has any. If the port is a bond
            of the same call, or a VLAN over one, they are taken from the bond's ports.
          - V(none) creates the bridge without addresses. The addresses of its ports are removed.
        type: str
        choices: [inherit, none]
        default: inherit
      mtu:
        description: MTU of the bridge and its ports. Default is the MTU of the ports.
        type: int
      stp:
        description: Whether the bridge uses the spanning tree protocol. Off by default.
        type: bool
      vlan_filtering:
        description: Whether the bridge filters VLANs. Off by default. Not supported by netplan.
        type: bool
  bonds:
    description: Bonds to create.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the bond.
        type: str
        required: true
      ports:
        description: The NICs of the bond.
        type: list
        elements: str
        required: true
      mode:
        description: Bonding mode of the kernel. V(active-backup) needs no configuration of the switch.
        type: str
        choices: [active-backup, balance-rr, balance-xor, broadcast, 802.3ad, balance-tlb, balance-alb]
        default: active-backup
      miimon:
        description: Interval of the link monitoring in milliseconds. Not compared for an existing bond.
        type: int
        default: 100
      lacp_rate:
        description: Rate at which the LACP partner sends its state, with mode V(802.3ad).
        type: str
        choices: [slow, fast]
      hash_policy:
        description: Transmit hash policy, with modes V(802.3ad), V(balance-xor) and V(balance-tlb).
        type: str
        choices: [layer2, layer2+3, layer3+4, encap2+3, encap3+4, vlan+srcmac]
      primary:
        description: The port that is preferred whenever it is up.
        type: str
      mtu:
        description: MTU of the bond and its ports.
        type: int
  vlans:
    description: VLANs to create.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the VLAN interface. Default is O(vlans[].link) and O(vlans[].id), separated by a dot.
        type: str
      link:
        description: The NIC, bond or bridge of the VLAN, which keeps its addresses.
        type: str
        required: true
      id:
        description: VLAN ID, 1 to 4094.
        type: int
        required: true
      mtu:
        description: MTU of the VLAN interface.
        type: int
  state:
    description:
      - V(present) starts the change, which a second call confirms. Changes nothing if all devices exist.
      - V(confirmed) makes a started change permanent. Changes nothing if all devices exist and were confirmed before.
    type: str
    choices: [present, confirmed]
    default: present
  confirm_timeout:
    description: Seconds within which the change must be confirmed.
    type: int
    default: 60
seealso:
  - module: reduced.footprint.virt_node
"""

EXAMPLES = r"""
- name: Create a bond, and bridges over the bond and over a VLAN
  reduced.footprint.virt_network:
    bonds:
      - {name: bond0, ports: [eno1, eno2]}
    vlans:
      - {link: bond0, id: 200}
    bridges:
      - {name: br-admin, ports: [bond0]}
      - {name: br-tenant, ports: [bond0.200], address: none}
  register: network

- name: Close the current connection
  ansible.builtin.meta: reset_connection

- name: Wait for the server
  ansible.builtin.wait_for_connection:
    timeout: 120

- name: Confirm the network change
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

- name: Create a bridge over one NIC
  reduced.footprint.virt_network:
    bridges:
      - {name: br-admin, ports: [eno1]}
"""

RETURN = r"""
trial:
  description: Whether a change is waiting for confirmation.
  returned: success
  type: bool
managers:
  description: The network manager that makes the change, V(networkd), V(netplan), V(networkmanager) or V(ifupdown); empty without a change.
  returned: success
  type: list
  elements: str
  sample: [networkd]
addresses:
  description: The addresses that each bridge, bond and VLAN has or, in check mode, would take over.
  returned: success
  type: dict
  sample: {bond0: [], bond0.200: [], br-admin: [192.0.2.11/24], br-tenant: []}
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

import dataclasses

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_module import answer
from ansible_collections.reduced.footprint.plugins.module_utils._network.run_network import NetworkRequest, bring

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
    module = AnsibleModule(
        argument_spec={
            "bridges": {"type": "list", "elements": "dict", "default": [], "options": _BRIDGE},
            "bonds": {"type": "list", "elements": "dict", "default": [], "options": _BOND},
            "vlans": {"type": "list", "elements": "dict", "default": [], "options": _VLAN},
            "state": {"type": "str", "choices": ["present", "confirmed"], "default": "present"},
            "confirm_timeout": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    answer(module, lambda: dataclasses.asdict(bring(NetworkRequest(**module.params), check_mode=module.check_mode)))


if __name__ == "__main__":
    main()
