#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: master_source_info
short_description: Gather information about the source of a migration
version_added: 1.0.0
description:
  - Gathers the facts of a machine that M(reduced.footprint.master_migrate) requires to migrate it, and returns the last reports about its
    migrations.
extends_documentation_fragment:
  - reduced.footprint.attributes.reads
options:
  services:
    description: systemd units whose state is returned.
    type: list
    elements: str
    default: []
  containers:
    description: Containers whose state is returned.
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
    description: The admin address.
    type: str
  excludes:
    description: The O(reduced.footprint.master_migrate#module:excludes) of the migration, which do not count as used space.
    type: list
    elements: str
    default: []
seealso:
  - module: reduced.footprint.master_migrate
"""

EXAMPLES = r"""
- name: Gather facts of the source
  reduced.footprint.master_source_info:
    services: [mariadb]
    address: 192.0.2.2
  delegate_to: laptop
  register: gathered
"""

RETURN = r"""
source:
  description: This machine as the source of a migration.
  returned: success
  type: dict
  contains:
    facts:
      description: Names, file systems, block devices without one, cards, tools, configuration files of this machine; passwords in them are redacted.
      type: dict
    reports:
      description:
        - The last report about each of its migrations, as received from the destination host, each as
          RV(reduced.footprint.master_migrate#module:migration) with the additions below. They remain if a destination host is lost.
      type: list
      elements: dict
      contains:
        host:
          description: The destination host.
          type: str
        reported_at:
          description: Time of the report (UTC).
          type: str
          sample: "2026-11-23T02:15:00Z"
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_module import answer
from ansible_collections.reduced.footprint.plugins.module_utils._migrate.request.run_look import look_at_source


def main() -> None:
    """Entry point."""
    module = AnsibleModule(
        argument_spec={
            "services": {"type": "list", "elements": "str", "default": []},
            "containers": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {"engine": {"type": "str", "choices": ["docker", "podman"], "required": True}, "name": {"type": "str", "required": True}},
            },
            "address": {"type": "str"},
            "excludes": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    names = ("services", "address", "containers", "excludes")
    answer(module, lambda: {"changed": False, "source": look_at_source(*(module.params[name] for name in names))})


if __name__ == "__main__":
    main()
