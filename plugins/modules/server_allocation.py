#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: server_allocation
short_description: Assign whole servers to requests, and remember them
version_added: 1.0.0
description:
  - Assigns a physical server of a pool to each request, and records it in a file. A request keeps its server in later runs until it is released;
    a server is never split, and never assigned twice.
  - Either all requests have a server afterwards, or nothing is assigned. Of the servers that match, the smallest ones are used.
  - Runs at the same time wait for each other, so both see the same assignments. Run it on the machine with the record, usually the control node.
extends_documentation_fragment:
  - reduced.footprint.attributes.changes
options:
  record:
    description:
      - Absolute path of the file with the assignments, created if missing. Keep it with the inventory, under version control.
      - A damaged record is refused, never replaced.
    type: path
    required: true
  state:
    description: V(assigned) assigns servers to O(wanted), V(released) releases those of O(names).
    type: str
    choices: [assigned, released]
    default: assigned
  servers:
    description:
      - The pool, a list of mappings with C(name), C(memory) and C(disk) (numbers are in GiB), C(cpus), C(arch) and C(traits), a list of names such as
        V(gpu) or V(sriov). P(reduced.footprint.plan_servers#filter) builds it from the inventory and facts.
      - A server that is not listed keeps its assignment.
    type: raw
    default: []
  wanted:
    description:
      - Requests, a list of mappings with C(name) and any of C(ram) and C(disk) (numbers are in GiB), C(cpu), C(arch), C(traits), C(host)
        (only this server) and C(count).
      - C(match) is V(exact) (as much as requested and no more, the default) or V(at_least). The server has all C(traits) of the request, in either case.
      - The server of a request that no longer matches it is an error; release it first.
    type: raw
    default: []
  names:
    description: Names of requests to release. Those without a server are accepted.
    type: list
    elements: str
    default: []
  lock_timeout:
    description: Seconds to wait for another run.
    type: int
    default: 60
seealso:
  - module: reduced.footprint.footprint_plan
"""

EXAMPLES = r"""
- name: Assign servers
  reduced.footprint.server_allocation:
    record: "{{ inventory_dir }}/.allocations/lab.json"
    servers:
      - {name: metal1, memory: 64, cpus: 16}
      - {name: metal2, memory: 128, cpus: 32, traits: [gpu]}
    wanted:
      - {name: compute1, ram: 32, match: at_least}
      - {name: render1, ram: 64, match: at_least, traits: [gpu]}
  delegate_to: localhost
  run_once: true

- name: Release a server
  reduced.footprint.server_allocation:
    record: "{{ inventory_dir }}/.allocations/lab.json"
    state: released
    names: [render1]
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
allocations:
  description: All assignments of the record. In check mode those after a real run.
  returned: success
  type: list
  elements: dict
  contains:
    name: {description: Name of the request., type: str, sample: compute1}
    server: {description: Name of its server., type: str, sample: metal1}
    since: {description: Time of the assignment (UTC)., type: str, sample: "2026-11-24T10:00:00Z"}
    reason: {description: Why this server. Null if the request is not part of this run., type: str, sample: the smallest free server that matches}
actions:
  description: What was assigned or released, or in check mode would be.
  returned: success
  type: list
  elements: str
  sample: [assign metal1 to compute1]
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_module import answer, quiet
from ansible_collections.reduced.footprint.plugins.module_utils._metal import run_allocation


def main() -> None:
    """Run the module."""
    module = quiet(AnsibleModule)(
        argument_spec={
            "record": {"type": "path", "required": True},
            "state": {"type": "str", "choices": list(run_allocation.STATES), "default": run_allocation.ASSIGNED},
            "servers": {"type": "raw", "default": []},
            "wanted": {"type": "raw", "default": []},
            "names": {"type": "list", "elements": "str", "default": []},
            "lock_timeout": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )

    def change() -> dict[str, t.Any]:
        # servers of the inventory may carry VM details with secrets
        module.no_log_values.update(run_allocation.hidden_values(module.params))
        given = dict(module.params)
        module.params["servers"] = run_allocation.shown(module.params["servers"])
        return run_allocation.allocate(given, module.check_mode).as_result()

    answer(module, change)


if __name__ == "__main__":
    main()
