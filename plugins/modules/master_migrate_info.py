#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: master_migrate_info
short_description: Gather information about migrations of a master, or about a source
version_added: 0.1.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - On a virt host, returns the state of its migrations from their journals, also while a migration runs.
  - On a source, returns the last reports about its migrations, and gathers the facts that M(reduced.footprint.master_migrate) requires.
extends_documentation_fragment:
  - reduced.footprint.attributes
  - reduced.footprint.attributes.reads
  - reduced.footprint.attributes.linux
options:
  gather:
    description: What to gather, the migrations of a virt host or facts of this machine as a source.
    type: str
    choices: [migrations, source]
    default: migrations
  name:
    description: Return only the migration with this name.
    type: str
  log_lines:
    description: Number of lines to return from the end of each migration's log.
    type: int
    default: 0
  wait:
    description:
      - With O(name), wait for the next phase or pass or the end of the migration, for this number of seconds at most. The
        default does not wait.
    type: int
    default: 0
  services:
    description: With O(gather=source), systemd units whose state is returned.
    type: list
    elements: str
    default: []
  containers:
    description: With O(gather=source), containers whose state is returned.
    type: list
    elements: dict
    default: []
    suboptions:
      engine:
        description: Container engine.
        type: str
        choices: [docker, podman]
        required: true
      name:
        description: Name of the container.
        type: str
        required: true
  address:
    description: With O(gather=source), the admin address.
    type: str
seealso:
  - module: reduced.footprint.master_migrate
"""

EXAMPLES = r"""
- name: Get the progress of the migration
  reduced.footprint.master_migrate_info:
    name: master
    log_lines: 5
  register: info

- name: Show phase and downtime
  ansible.builtin.debug:
    msg: "{{ info.migrations[0].phase }}, {{ info.migrations[0].downtime }} s"

- name: Gather facts of the source
  reduced.footprint.master_migrate_info:
    gather: source
    services: [mariadb]
    address: 192.0.2.2
  delegate_to: laptop
"""

RETURN = r"""
migrations:
  description:
    - The migrations of this host, each as RV(reduced.footprint.master_migrate#module:migration) with the additions below.
  returned: O(gather=migrations)
  type: list
  elements: dict
  contains:
    name:
      description: Its name.
      type: str
    state:
      description: State of the migration, or interrupted if its worker has ended and it waits for another run.
      type: str
    phase:
      description: The current or last phase.
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
      description: Why it failed or was rolled back.
      type: str
    active:
      description: Whether its systemd unit is active.
      type: bool
    log:
      description: The last lines of its log.
      type: list
      elements: str
reported:
  description:
    - The last reports about migrations of which this machine is the source, as received from the destination hosts, each as
      RV(reduced.footprint.master_migrate#module:migration) with the additions below. They remain if a destination host is lost.
  returned: success
  type: list
  elements: dict
  contains:
    host:
      description: The destination host.
      type: str
    reported_at:
      description: Time of the report, ISO 8601 in UTC.
      type: str
      sample: "2026-11-23T02:15:00Z"
source_facts:
  description: Names, file systems, block devices without one, cards, tools, configuration files of this machine; passwords in them are redacted.
  returned: O(gather=source)
  type: dict
error:
  description: The error.
  returned: failure
  type: dict
  contains:
    message: {description: The problem., type: str, returned: always}
    path: {description: Path of the invalid value in the options or on the host. Null if there is none., type: str, returned: always}
    hint: {description: How to fix it. Null if there is no hint., type: str, returned: always}
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
