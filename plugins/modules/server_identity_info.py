#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: server_identity_info
short_description: Read which machine a server is, and what this server knows about others
version_added: 1.0.0
description:
  - Reads C(/etc/machine-id) of the server, and its records of M(reduced.footprint.server_identity) about the servers of the footprint.
extends_documentation_fragment:
  - reduced.footprint.attributes.reads
seealso:
  - module: reduced.footprint.server_identity
"""

EXAMPLES = r"""
- name: Read which machine this server is
  reduced.footprint.server_identity_info:
  register: found

- name: Show the machines that were replaced
  ansible.builtin.debug:
    msg: "{{ found.identity.records | selectattr('old') | map(attribute='name') }}"
"""

RETURN = r"""
identity:
  description: The identity.
  returned: success
  type: dict
  contains:
    here:
      description: This machine.
      type: dict
      contains:
        machine_id: {description: Content of C(/etc/machine-id)., type: str, returned: always, sample: 0123456789abcdef0123456789abcdef}
        product_uuid: {description: "UUID in its firmware, empty if it has none.", type: str, returned: always, sample: 4c4c4544-0042-3510-8052-b4c04f565231}
    records:
      description: The records of this server, one for each server of the footprint.
      type: list
      elements: dict
      contains:
        name:
          description: Name of the server in the inventory.
          type: str
          sample: metal2
        machine_id:
          description: Content of C(/etc/machine-id) of the machine that has the name.
          type: str
          sample: 0123456789abcdef0123456789abcdef
        product_uuid:
          description: UUID in its firmware, empty if it has none.
          type: str
          sample: 4c4c4544-0042-3510-8052-b4c04f565231
        address:
          description: Address at which it answers.
          type: str
          sample: 192.0.2.12
        at:
          description: Since when it has the name (UTC).
          type: str
          sample: 20261125T190000Z
        state:
          description: V(known), or V(replacing) while it takes over the name of an earlier machine.
          type: str
          sample: known
        old:
          description: Machines that had the name before, the last one first, with C(machine_id), C(product_uuid) and C(address).
          type: list
          elements: dict
        proof:
          description: Why the last of them counts as off.
          type: str
          sample: the person who typed metal2
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_module import answer
from ansible_collections.reduced.footprint.plugins.module_utils._host.identity.run_identity import identity


def main() -> None:
    """Entry point."""
    module = AnsibleModule(argument_spec={}, supports_check_mode=True)
    answer(module, lambda: {"changed": False, "identity": identity()})


if __name__ == "__main__":
    main()
