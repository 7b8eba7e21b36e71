#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: vm_snapshot
short_description: Create, revert and remove snapshots of a virtual machine
version_added: 1.0.0
description:
  - Snapshots of libvirt within the qcow2 disks of a VM, of a running VM with its memory. The guest is paused while the memory is written.
  - Refused with the reason for containers, disks that are not qcow2 or that are shared, VMs with UEFI variables, an emulated TPM, saved memory or
    copies on a standby, and VMs that M(reduced.footprint.vm_move) moves. A VM with snapshots is in turn neither moved nor copied.
  - A snapshot is not a backup, because it is in the same file as the disk. Never revert a single member of a database or another cluster.
requirements:
  - python3-libvirt and python3-lxml on the host
extends_documentation_fragment:
  - reduced.footprint.attributes.libvirt
  - reduced.footprint.attributes.changes
options:
  id:
    description: ID of the VM.
    type: str
    required: true
  cluster:
    description: Name of the cluster.
    type: str
    required: true
  snapshot:
    description: Name of the snapshot, of letters, digits and C(._-).
    type: str
    required: true
  state:
    description:
      - V(present) creates the snapshot, unless the VM has one of this name.
      - V(reverted) reverts the disks, the memory and the definition to it. Data written since are lost. Each call reverts again, so it is always a change.
        A run of M(reduced.footprint.vm_define) applies the VM details again.
      - V(absent) removes the snapshot and keeps those that were taken later, and the current data.
    type: str
    choices: [present, reverted, absent]
    default: present
  description:
    description: Description of a new snapshot.
    type: str
    default: ""
  uri:
    description: libvirt connection URI on this host; by default all drivers are searched.
    type: str
  lock_timeout:
    description: Seconds to wait for another run on the same host.
    type: int
    default: 300
seealso:
  - module: reduced.footprint.vm_info
  - module: reduced.footprint.vm_define
"""

EXAMPLES = r"""
- name: Create a snapshot before an upgrade
  reduced.footprint.vm_snapshot:
    cluster: lab
    id: web
    snapshot: before-upgrade

- name: Return to it
  reduced.footprint.vm_snapshot:
    cluster: lab
    id: web
    snapshot: before-upgrade
    state: reverted

- name: List the snapshots
  reduced.footprint.vm_info:
    ids: [web]
    snapshots: true

- name: Remove the snapshot
  reduced.footprint.vm_snapshot:
    cluster: lab
    id: web
    snapshot: before-upgrade
    state: absent
"""

RETURN = r"""
snapshots:
  description: The snapshots of the VM, as in RV(reduced.footprint.vm_info#module:vms[].snapshots); in check mode those that it has.
  returned: success
  type: list
  elements: dict
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_module import answer
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_snapshot import STATES, SnapshotRequest, change


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "id": {"type": "str", "required": True},
            "cluster": {"type": "str", "required": True},
            "snapshot": {"type": "str", "required": True},
            "state": {"type": "str", "choices": list(STATES), "default": "present"},
            "description": {"type": "str", "default": ""},
            "uri": {"type": "str"},
            "lock_timeout": {"type": "int", "default": 300},
        },
        supports_check_mode=True,
    )
    answer(module, lambda: change(SnapshotRequest(**module.params), check_mode=module.check_mode))


if __name__ == "__main__":
    main()
