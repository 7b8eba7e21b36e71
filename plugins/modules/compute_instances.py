#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: compute_instances
short_description: Empty a compute server of its instances, and bring them back
version_added: 1.0.0
description:
  - With O(state=emptied), disables the compute service of a server in Nova, and migrates its running instances live, one at a time. Those that are off
    remain. If one can be neither migrated nor stopped, the module fails with the reason of each, and nothing is changed.
  - With O(state=restored), enables the service if it was disabled by O(state=emptied), starts the instances that were stopped, and migrates the others
    back.
  - Keep RV(record) of a run in check mode before the real run, and pass it as O(record) to it and to O(state=restored). After a kill, the same calls
    continue.
  - An instance that Nova is changing is waited for.
requirements:
  - openstacksdk on the control node
extends_documentation_fragment:
  - reduced.footprint.attributes.changes_without_diff
attributes:
  platform:
    support: full
    platforms: posix
    description: The control node.
options:
  server:
    description: Name of the server in Nova.
    type: str
    required: true
  state:
    description: Whether the server has no running instance, or has those of O(record) again.
    type: str
    choices: [emptied, restored]
    required: true
  stop:
    description: Whether instances that cannot be migrated live are stopped.
    type: bool
    default: false
  removal:
    description: Whether instances that are off are a reason against it, because the server is removed.
    type: bool
    default: false
  record:
    description: RV(record) of the run that began to empty the server.
    type: dict
    default: {}
  cloud:
    description: Name of the administrator's login in C(clouds.yaml).
    type: str
    default: footprint
  wait_timeout:
    description: Maximum number of seconds to wait for each instance, and for nova-compute.
    type: int
    default: 1800
notes:
  - Run it on the control node. Live migration requires the role C(compute) on all servers of the group C(compute).
"""

EXAMPLES = r"""
- name: Plan which instances leave metal1
  reduced.footprint.compute_instances:
    server: metal1
    state: emptied
  check_mode: true
  register: planned

- name: Migrate them
  reduced.footprint.compute_instances:
    server: metal1
    state: emptied
    record: "{{ planned.record }}"

- name: Bring them back
  reduced.footprint.compute_instances:
    server: metal1
    state: restored
    record: "{{ planned.record }}"
"""

RETURN = r"""
actions:
  description: What was done and its duration, or what would be done in check mode. A live migration interrupts an instance only at its end.
  type: list
  elements: str
  returned: success
lines:
  description: The plan as text with O(state=emptied), else which instances were left as they are.
  type: list
  elements: str
  returned: success
record:
  description: The changes, with C(disable) and C(steps). To be kept until the server is restored.
  type: dict
  returned: success
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._cloud.run_evacuation import evacuate
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_module import answer


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "server": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["emptied", "restored"], "required": True},
            "stop": {"type": "bool", "default": False},
            "removal": {"type": "bool", "default": False},
            "record": {"type": "dict", "default": {}},
            "cloud": {"type": "str", "default": "footprint"},
            "wait_timeout": {"type": "int", "default": 1800},
        },
        supports_check_mode=True,
    )
    answer(module, lambda: evacuate(module.params, check_mode=module.check_mode))


if __name__ == "__main__":
    main()
