#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: master_migrate_info
short_description: Look at migrations of a master, or at a machine that is to be moved
version_added: 0.1.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - On a virt host, tells how its migrations stand, from the journals they keep. It may be asked while one runs.
  - On a source, tells what it was last told of its migration, and gathers what M(reduced.footprint.master_migrate) wants to know of it beforehand.
extends_documentation_fragment:
  - reduced.footprint.attributes.linux
  - reduced.footprint.attributes.reads
options:
  gather:
    description: What to look at, the migrations of a virt host or this machine as a source.
    type: str
    choices: [migrations, source]
    default: migrations
  name:
    description: Only the migration of this name.
    type: str
  log_lines:
    description: So many last lines of each migration's log.
    type: int
    default: 0
  wait:
    description:
      - With O(name), answer as soon as the migration comes to another phase or pass or ends, at latest after so many seconds. The
        default answers at once.
    type: int
    default: 0
  services:
    description: With O(gather=source), units whose state is wanted.
    type: list
    elements: str
    default: []
  containers:
    description: With O(gather=source), containers whose state is wanted.
    type: list
    elements: dict
    default: []
    suboptions:
      engine:
        description: What runs it.
        type: str
        choices: [docker, podman]
        required: true
      name:
        description: Its name.
        type: str
        required: true
  address:
    description: With O(gather=source), the admin address.
    type: str
seealso:
  - module: reduced.footprint.master_migrate
"""

EXAMPLES = r"""
- name: See how far the master is
  reduced.footprint.master_migrate_info:
    name: master
    log_lines: 5
  register: look

- name: Show phase and downtime
  ansible.builtin.debug:
    msg: "{{ look.migrations[0].phase }}, {{ look.migrations[0].downtime }} s"

- name: Look at the source
  reduced.footprint.master_migrate_info:
    gather: source
    services: [mariadb]
    address: 192.0.2.2
  delegate_to: laptop
"""

RETURN = r"""
migrations:
  description:
    - The migrations this host knows, each as RV(reduced.footprint.master_migrate#module:migration) with the additions below.
  returned: O(gather=migrations)
  type: list
  elements: dict
  contains:
    name:
      description: Its name.
      type: str
    state:
      description: As there, or interrupted when its worker is gone and it waits for another run.
      type: str
    phase:
      description: The phase it is in or ended with.
      type: str
    downtime:
      description: Seconds of downtime.
      type: float
    bytes:
      description: Bytes of file content copied.
      type: int
    host:
      description: The destination host.
      type: str
    error:
      description: Why it failed or returned.
      type: str
    active:
      description: Whether its unit runs.
      type: bool
    log:
      description: The last lines of its log.
      type: list
      elements: str
reported:
  description:
    - What this machine, as the source of migrations, was last told of them by the hosts that carry them out, each as
      RV(reduced.footprint.master_migrate#module:migration) with the additions below. It stays when such a host is lost.
  returned: success
  type: list
  elements: dict
  contains:
    host:
      description: The destination host.
      type: str
    reported_at:
      description: When that host reported it, ISO 8601 in UTC.
      type: str
      sample: "2026-11-23T02:15:00Z"
source_facts:
  description: Names, file systems, block devices without one, cards, tools, configuration files of this machine; passwords in them are blotted out.
  returned: O(gather=source)
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.run_look import look, look_at_source


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "gather": {"type": "str", "choices": ["migrations", "source"], "default": "migrations"},
            "name": {"type": "str"},
            "log_lines": {"type": "int", "default": 0},
            "wait": {"type": "int", "default": 0},
            "services": {"type": "list", "elements": "str", "default": []},
            "containers": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {"engine": {"type": "str", "choices": ["docker", "podman"], "required": True}, "name": {"type": "str", "required": True}},
            },
            "address": {"type": "str"},
        },
        supports_check_mode=True,
    )
    params = module.params
    try:
        if params["gather"] == "source":
            module.exit_json(**look_at_source(params["services"], params["address"], params["containers"]))
        module.exit_json(**look(params["name"], params["log_lines"], params["wait"]))
    except FootprintError as error:
        module.fail_json(**error.as_result())


if __name__ == "__main__":
    main()
