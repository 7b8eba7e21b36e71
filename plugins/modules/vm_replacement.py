#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: vm_replacement
short_description: Take an old virtual machine away, so that a new one replaces it
version_added: 1.0.0
description:
  - Shuts the VM down, or powers it off, renames its disks, and removes its definition, so that M(reduced.footprint.vm_define) can create it again
    with empty disks. The playbook C(reduced.footprint.replace_controller) uses this module.
  - If the new VM is on another server, a record remains on this one, as after a move. M(reduced.footprint.vm_define) does not create the VM here again.
  - The old VM is taken away once for each O(at). A repeated call does not touch the new VM, and completes what an interrupted one left.
extends_documentation_fragment:
  - reduced.footprint.attributes.changes
requirements:
  - python3-libvirt and python3-lxml on the host
options:
  id:
    description: ID of the VM.
    type: str
    required: true
    aliases: [name]
  cluster:
    description: Name of the cluster.
    type: str
    required: true
  state:
    description:
      - V(retired) takes the old VM away.
      - V(completed) records, on the server of the new VM, that this one works.
    type: str
    choices: [retired, completed]
    default: retired
  at:
    description: Time of the replacement (UTC) as V(YYYYMMDDTHHMMSSZ), which identifies it on all servers.
    type: str
    required: true
  here:
    description: Name of this server.
    type: str
    required: true
  source:
    description: Name of the server of the old VM. Default is O(here).
    type: str
  to:
    description: Name of the server of the new VM. Default is O(here).
    type: str
  details:
    description:
      - Details of the VM, as for M(reduced.footprint.vm_define). On the server of the new VM, volumes with the names of its disks are taken away as
        well, because M(reduced.footprint.vm_define) would use them.
    type: dict
    default: {}
  pool:
    description: The storage pool of disks without C(pool).
    type: str
    default: default
  remove_disks:
    description:
      - Remove the old disks. By default they are kept, with C(.replaced-TIME) added to their names.
      - Disks in pools that do not contain files, such as logical volumes, cannot be renamed and require this.
    type: bool
    default: false
  shutdown_timeout:
    description: Seconds that the old VM has to shut down before it is powered off.
    type: int
    default: 120
  uri:
    description: Connection URI of libvirt. Detected if omitted.
    type: str
notes:
  - A VM with a disk that must keep its name, for example because another VM uses it, is refused before anything is changed.
seealso:
  - module: reduced.footprint.vm_replacement_info
  - module: reduced.footprint.vm_define
  - module: reduced.footprint.vm_move
"""

EXAMPLES = r"""
- name: Take the old VM away, whose disk is damaged
  reduced.footprint.vm_replacement:
    id: controller1
    cluster: lab
    at: 20261125T190000Z
    here: metal1

- name: Create it again
  reduced.footprint.vm_define:
    cluster: lab
    vms: [{id: controller1, ram: 2, nics: [{bridge: br-admin}], disks: [{size: 20 GiB, image: debian-12}]}]

- name: Record that it works
  reduced.footprint.vm_replacement:
    id: controller1
    cluster: lab
    at: 20261125T190000Z
    here: metal1
    state: completed
"""

RETURN = r"""
actions:
  description: Actions that were taken, or in check mode would be.
  returned: success
  type: list
  elements: str
  sample: [power off, keep /var/lib/libvirt/images/controller1-disk0.qcow2.replaced-20261125T190000Z, undefine]
replacement:
  description: The record of the replacement, as in RV(reduced.footprint.vm_replacement_info#module:replacements).
  returned: success
  type: dict
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_module import answer
from ansible_collections.reduced.footprint.plugins.module_utils._move.run_replacement import ReplacementRequest, apply


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "id": {"type": "str", "required": True, "aliases": ["name"]},
            "cluster": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["retired", "completed"], "default": "retired"},
            "at": {"type": "str", "required": True},
            "here": {"type": "str", "required": True},
            "source": {"type": "str"},
            "to": {"type": "str"},
            "details": {"type": "dict", "default": {}},
            "pool": {"type": "str", "default": "default"},
            "remove_disks": {"type": "bool", "default": False},
            "shutdown_timeout": {"type": "int", "default": 120},
            "uri": {"type": "str"},
        },
        supports_check_mode=True,
    )
    given = {**module.params, "source": module.params["source"] or module.params["here"], "to": module.params["to"] or module.params["here"]}
    given.pop("name", None)
    answer(module, lambda: apply(ReplacementRequest(**given), check_mode=module.check_mode))


if __name__ == "__main__":
    main()
