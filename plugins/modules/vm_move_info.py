#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: vm_move_info
short_description: List moves of virtual machines from and to a host
version_added: 1.0.0
description:
  - A host keeps a record of every VM that was moved away from it, which prevents that the VM is defined or started there again. This
    module lists these records, and those of moves that are unfinished.
extends_documentation_fragment:
  - reduced.footprint.attributes.reads
options:
  cluster:
    description: Only VMs of this cluster.
    type: str
  unfinished:
    description: Only unfinished moves, that is all except those with RV(moves[].state) V(confirmed).
    type: bool
    default: false
seealso:
  - module: reduced.footprint.vm_move
"""

EXAMPLES = r"""
- name: List moves that are not confirmed or finished
  reduced.footprint.vm_move_info:
    unfinished: true
  register: found
"""

RETURN = r"""
moves:
  description: The records, sorted by VM name.
  returned: success
  type: list
  elements: dict
  contains:
    id:
      description: ID of the VM.
      type: str
    cluster:
      description: Cluster of the VM.
      type: str
    name:
      description: Name of the VM.
      type: str
    uuid:
      description: UUID of the domain.
      type: str
    to:
      description: The destination of the move.
      type: str
    at:
      description: Time of the record (UTC).
      type: str
    state:
      description:
        - V(moving) during the move, V(moved) when the VM is on the destination and the old copy is kept, V(confirmed) when the old
          copy is removed, V(arriving) on the destination during the move.
      type: str
    waiting:
      description:
        - What the worker of the move waits for, because the VM may be off on both servers until the destination answers. Null if it
          does not wait.
      type: str
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.run_add_server import departures
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_module import answer


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={"cluster": {"type": "str"}, "unfinished": {"type": "bool", "default": False}},
        supports_check_mode=True,
    )
    answer(module, lambda: {"changed": False, "moves": departures(module.params["cluster"], module.params["unfinished"])})


if __name__ == "__main__":
    main()
