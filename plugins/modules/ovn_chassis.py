#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: ovn_chassis
short_description: Configure Open vSwitch of a host as a chassis of OVN
version_added: 1.0.0
description:
  - Sets keys of the database of Open vSwitch, its managers, and bridges with their ports, in one transaction.
  - With O(datapath=auto) it uses the datapath of the kernel if the kernel answers for it, and otherwise that of the process
    C(ovs-vswitchd), which is slow and meant for test systems.
  - Other keys, bridges and ports, such as those that OVN creates, are not changed. A port that this module has added to a bridge is removed when it is no
    longer listed there, because two uplinks in the same network would be a loop.
extends_documentation_fragment:
  - reduced.footprint.attributes.changes
options:
  external_ids:
    description: Keys in the column C(external_ids) of the table Open_vSwitch, null for one to be removed.
    type: dict
    default: {}
  other_config:
    description: Keys in the column C(other_config) of the table Open_vSwitch, null for one to be removed.
    type: dict
    default: {}
  managers:
    description: Additional addresses at which clients such as nova-compute reach the database of Open vSwitch.
    type: list
    elements: str
    default: []
  bridges:
    description: Bridges that must exist, normally those of provider networks.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the bridge.
        type: str
        required: true
      ports:
        description: Interfaces that must be ports of it.
        type: list
        elements: str
        default: []
  observer:
    description:
      - Name of a port in OVN for an interface of this host without addresses. With a port in the networks of gateways, a chassis that is not a gateway
        takes part in the decision which gateway is lost. Empty for no such interface. By default, the interface is not changed.
    type: str
  datapath:
    description: Datapath of the bridges. V(system) is that of the kernel and refused if the kernel has none.
    type: str
    choices: [auto, system, netdev]
    default: auto
  tso:
    description: Whether the switch accepts segments larger than packets with V(netdev). By default it does so with this datapath only.
    type: bool
seealso:
  - module: reduced.footprint.ovn_database_info
"""

EXAMPLES = r"""
- name: Configure a chassis
  reduced.footprint.ovn_chassis:
    external_ids:
      hostname: metal1
      ovn-remote: ssl:192.0.2.11:6642
      ovn-encap-type: geneve
      ovn-encap-ip: 192.0.2.11
      ovn-bridge-mappings: provider:br-ex
    bridges:
      - {name: br-ex, ports: [eno2]}
"""

RETURN = r"""
datapath:
  description: Datapath in use, V(system) or V(netdev).
  returned: success
  type: str
  sample: system
proof:
  description: What the kernel answered about its datapath.
  returned: success
  type: str
  sample: the kernel has the datapath
actions:
  description: Commands of C(ovs-vsctl) that were run, or would be in check mode.
  returned: success
  type: list
  elements: str
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_changes import Changes
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_module import answer
from ansible_collections.reduced.footprint.plugins.module_utils._ovn.run_chassis import Request, ensure, parse_wanted


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "external_ids": {"type": "dict", "default": {}},
            "other_config": {"type": "dict", "default": {}},
            "managers": {"type": "list", "elements": "str", "default": []},
            "bridges": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {"name": {"type": "str", "required": True}, "ports": {"type": "list", "elements": "str", "default": []}},
            },
            "observer": {"type": "str"},
            "datapath": {"type": "str", "choices": ["auto", "system", "netdev"], "default": "auto"},
            "tso": {"type": "bool"},
        },
        supports_check_mode=True,
    )
    given = module.params

    def change() -> dict[str, t.Any]:
        result = ensure(Request(parse_wanted(given), given["datapath"], given["tso"]), check_mode=module.check_mode)
        return {**Changes(result.actions, result.before, result.after).as_result(), "datapath": result.datapath, "proof": result.proof}

    answer(module, change)


if __name__ == "__main__":
    main()
