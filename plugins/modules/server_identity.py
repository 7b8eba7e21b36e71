#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: server_identity
short_description: Keep on a server which machine has the name of another one
version_added: 1.0.0
description:
  - Each virt host keeps a record about every virt host, so that after the loss of one the others know which machine it was. The playbook
    C(reduced.footprint.provision_virt) writes the records, C(reduced.footprint.replace_server) changes them.
  - The C(machine_id) decides which machine it is, because a firmware may give several servers the same UUID.
extends_documentation_fragment:
  - reduced.footprint.attributes.changes
options:
  machines:
    description: The machines.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the server in the inventory.
        type: str
        required: true
      machine_id:
        description: Content of C(/etc/machine-id).
        type: str
        required: true
      product_uuid:
        description: UUID in its firmware.
        type: str
        default: ""
      address:
        description: Address at which it answers.
        type: str
        default: ""
  state:
    description:
      - V(known) records servers that have no record yet. The record of another machine with the same name is not changed, with a warning.
        Two names with one C(machine_id) cause a warning as well.
      - V(replacing) records that the machine takes over the name of the recorded one.
      - V(replaced) records that this is completed.
    type: str
    choices: [known, replacing, replaced]
    default: known
  at:
    description: Time of the record (UTC).
    type: str
    required: true
  proof:
    description: With O(state=replacing), why the earlier machine counts as off.
    type: str
    default: ""
seealso:
  - module: reduced.footprint.server_identity_info
"""

EXAMPLES = r"""
- name: Record a server
  reduced.footprint.server_identity:
    machines:
      - {name: metal2, machine_id: 0123456789abcdef0123456789abcdef, address: 192.0.2.12}
    at: 20261125T190000Z

- name: Record that another machine takes over its name
  reduced.footprint.server_identity:
    machines:
      - {name: metal2, machine_id: 00112233445566778899aabbccddeeff, address: 192.0.2.12}
    state: replacing
    at: 20261126T110000Z
    proof: the person who typed metal2
"""

RETURN = r"""
records:
  description: The records about the machines, as RV(reduced.footprint.server_identity_info#module:identity.records).
  returned: success
  type: list
  elements: dict
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_module import answer
from ansible_collections.reduced.footprint.plugins.module_utils._host.identity.run_identity import apply


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "machines": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "name": {"type": "str", "required": True},
                    "machine_id": {"type": "str", "required": True},
                    "product_uuid": {"type": "str", "default": ""},
                    "address": {"type": "str", "default": ""},
                },
            },
            "state": {"type": "str", "choices": ["known", "replacing", "replaced"], "default": "known"},
            "at": {"type": "str", "required": True},
            "proof": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    names = ("machines", "state", "at", "proof")
    answer(module, lambda: apply(*(module.params[name] for name in names), check_mode=module.check_mode))


if __name__ == "__main__":
    main()
