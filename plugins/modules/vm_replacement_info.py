#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: vm_replacement_info
short_description: List the replacements of virtual machines on a host
version_added: 1.0.0
description:
  - A host keeps a record of the last replacement of each VM that it had, so that an old VM is taken away once. This module lists the records.
extends_documentation_fragment:
  - reduced.footprint.attributes.reads
options:
  cluster:
    description: Only VMs of this cluster.
    type: str
  id:
    description: Only the VM with this ID.
    type: str
    aliases: [name]
seealso:
  - module: reduced.footprint.vm_replacement
"""

EXAMPLES = r"""
- name: List the replaced VMs of this host
  reduced.footprint.vm_replacement_info:
    cluster: lab
  register: found

- name: Show the old disks that are kept
  ansible.builtin.debug:
    msg: "{{ found.replacements | map(attribute='disks') | flatten }}"
"""

RETURN = r"""
replacements:
  description: The records.
  returned: success
  type: list
  elements: dict
  contains:
    id:
      description: ID of the VM.
      type: str
      sample: controller1
    cluster:
      description: Cluster of the VM.
      type: str
      sample: lab
    uuid:
      description: UUID that is derived from both.
      type: str
    at:
      description: Time of the replacement (UTC), which identifies it on all servers.
      type: str
      sample: 20261125T190000Z
    source:
      description: Server of the old VM.
      type: str
      sample: metal1
    to:
      description: Server of the new VM.
      type: str
      sample: metal2
    state:
      description: V(retiring) while the old VM is taken away, V(retired) afterwards, V(completed) when the new one works.
      type: str
      sample: completed
    disks:
      description: Paths of the old disks that are kept.
      type: list
      elements: str
      sample: [/var/lib/libvirt/images/controller1-disk0.qcow2.replaced-20261125T190000Z]
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_module import answer
from ansible_collections.reduced.footprint.plugins.module_utils._move.run_replacement import replacements


def main() -> None:
    """Entry point."""
    module = AnsibleModule(argument_spec={"cluster": {"type": "str"}, "id": {"type": "str", "aliases": ["name"]}}, supports_check_mode=True)
    answer(module, lambda: {"changed": False, "replacements": replacements(module.params["cluster"], module.params["id"])})


if __name__ == "__main__":
    main()
