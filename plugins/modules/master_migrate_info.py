#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: master_migrate_info
short_description: List the migrations of a virt host
version_added: 1.0.0
description:
  - Returns the state of the migrations of a virt host from their journals, also while a migration runs.
extends_documentation_fragment:
  - reduced.footprint.attributes.reads
options:
  name:
    description: Return only the migration with this name.
    type: str
  log_lines:
    description: Number of lines to return from the end of each migration's log.
    type: int
    default: 0
  wait:
    description: With O(name), wait for the next phase or pass, or the end of the migration.
    type: bool
    default: false
  wait_timeout:
    description: Maximum number of seconds to wait. The state is returned in any case.
    type: int
    default: 60
seealso:
  - module: reduced.footprint.master_migrate
  - module: reduced.footprint.master_source_info
"""

EXAMPLES = r"""
- name: Get the progress of the migration
  reduced.footprint.master_migrate_info:
    name: master
    log_lines: 5
  register: info

- name: Show phase and downtime
  ansible.builtin.debug:
    msg: "{{ info.migrations[0].phase }}, {{ info.migrations[0].downtime_seconds }} s"
"""

RETURN = r"""
migrations:
  description:
    - The migrations of this host, each as RV(reduced.footprint.master_migrate#module:migration) with the differences below.
  returned: success
  type: list
  elements: dict
  contains:
    state:
      description: State of the migration, or interrupted if its worker has ended and it waits for another run.
      type: str
    active:
      description: Whether its systemd unit is active.
      type: bool
    log:
      description: The last lines of its log.
      type: list
      elements: str
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_module import answer
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.run_look import look


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str"},
            "log_lines": {"type": "int", "default": 0},
            "wait": {"type": "bool", "default": False},
            "wait_timeout": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    params = module.params
    wait_timeout = params["wait_timeout"] if params["wait"] else 0
    answer(module, lambda: {"changed": False, "migrations": look(params["name"], params["log_lines"], wait_timeout)})


if __name__ == "__main__":
    main()
