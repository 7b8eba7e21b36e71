#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: galera_schema
short_description: Create databases and users of a service in MariaDB
version_added: 1.0.0
description:
  - Creates missing databases and users, sets passwords that differ, and grants missing privileges.
  - Never drops or revokes anything.
  - Connects as C(root) through the local socket; secrets are passed on standard input and are never part of a command line. In a
    Galera cluster run it on one member only, the changes are replicated.
extends_documentation_fragment:
  - reduced.footprint.attributes.changes
  - reduced.footprint.mariadb.unit
options:
  databases:
    description: Names of databases.
    type: list
    elements: str
    default: []
  users:
    description: Users.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the user.
        type: str
        required: true
      host:
        description: Host that the user may log in from.
        type: str
        default: '%'
      password:
        description:
          - The password. If unset, which is allowed with host V(localhost) only, the system user of that name logs in through the
            local socket.
        type: str
      privileges:
        description: Privileges by scope, for example V(SELECT) on V(shop.*). With V(GRANT OPTION) the user may give them to others.
        type: dict
        default: {}
      require_tls:
        description: Require TLS for this user. This is never removed.
        type: bool
        default: false
"""

EXAMPLES = r"""
- name: Create the database of the shop
  reduced.footprint.galera_schema:
    databases: [shop]
    users:
      - name: shop
        password: "{{ shop_password }}"
        privileges:
          shop.*: ALL
  run_once: true
"""

RETURN = r"""
actions:
  description: Actions that were taken, or in check mode would be.
  returned: success
  type: list
  elements: str
  sample: [create database shop, create user shop@%]
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_module import answer
from ansible_collections.reduced.footprint.plugins.module_utils._galera.run_schema import ensure_schema


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "databases": {"type": "list", "elements": "str", "default": []},
            "users": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "name": {"type": "str", "required": True},
                    "host": {"type": "str", "default": "%"},
                    "password": {"type": "str", "no_log": True},
                    "privileges": {"type": "dict", "default": {}},
                    "require_tls": {"type": "bool", "default": False},
                },
            },
            "unit": {"type": "str", "default": "mariadb.service"},
        },
        supports_check_mode=True,
    )
    answer(module, lambda: ensure_schema(**module.params, check_mode=module.check_mode).as_result())


if __name__ == "__main__":
    main()
