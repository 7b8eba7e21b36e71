#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: vm_move_info
short_description: List the virtual machines that left a host, or are on their way
version_added: 0.1.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - A host keeps a note of every VM that was moved away from it, so that it is never made or started there a second time. This
    module lists the notes.
extends_documentation_fragment:
  - reduced.footprint.attributes.linux
  - reduced.footprint.attributes.reads
options:
  cluster:
    description: Only VMs of this cluster.
    type: str
  unfinished:
    description: Only moves that wait for something, that is not those with RV(moves[].state) V(confirmed).
    type: bool
    default: false
seealso:
  - module: reduced.footprint.vm_move
"""

EXAMPLES = r"""
- name: Which moves wait to be confirmed or finished?
  reduced.footprint.vm_move_info:
    unfinished: true
  register: found
"""

RETURN = r"""
moves:
  description: The notes, sorted by the VMs' names.
  returned: success
  type: list
  elements: dict
  contains:
    id:
      description: The VM's id.
      type: str
    cluster:
      description: Its cluster.
      type: str
    name:
      description: Its name.
      type: str
    uuid:
      description: UUID of the domain.
      type: str
    to:
      description: The server that has it now, or will have it.
      type: str
    at:
      description: When the note was written (UTC).
      type: str
    state:
      description:
        - V(moving) while it is on its way, V(moved) when it runs elsewhere and the old copy is kept here, V(confirmed) when the old
          copy is gone, V(arriving) on the host it is on its way to.
      type: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.run_add_server import departures
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError


def main() -> None:
    """Read and tell."""
    module = AnsibleModule(
        argument_spec={"cluster": {"type": "str"}, "unfinished": {"type": "bool", "default": False}},
        supports_check_mode=True,
    )
    try:
        module.exit_json(changed=False, moves=departures(module.params["cluster"], module.params["unfinished"]))
    except FootprintError as error:
        module.fail_json(**error.as_result())


if __name__ == "__main__":
    main()
