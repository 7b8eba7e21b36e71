#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: galera_schema
short_description: Databases and users of a service in MariaDB
version_added: 0.1.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Creates databases and users that are missing, sets a password that differs, grants privileges that are missing.
  - Never drops or revokes anything.
  - Speaks to the server as C(root) through its local socket; secrets travel on standard input and are never part of a command
    line. In a Galera cluster run it on one member only, the others follow.
extends_documentation_fragment:
  - reduced.footprint.attributes.linux
  - reduced.footprint.mariadb.unit
attributes:
  check_mode:
    description: Can run in check_mode and tell what would be done without doing it.
    support: full
  diff_mode:
    description: Shows what is missing, in words without secrets.
    support: full
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
        description: Where the user may log in from.
        type: str
        default: '%'
      password:
        description:
          - The password. Without one, which only the host V(localhost) may do, the system user of that name logs in through the
            local socket.
        type: str
      privileges:
        description: Privileges by scope, for example V(SELECT) on V(shop.*).
        type: dict
        default: {}
      require_tls:
        description: Let the user in over TLS alone. It is never taken back.
        type: bool
        default: false
"""

EXAMPLES = r"""
- name: Give the shop its database
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
  description: What was done, or in check mode would be.
  returned: success
  type: list
  elements: str
  sample: [create database shop, create user shop@%]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._galera.run_schema import ensure_schema


def main() -> None:
    """Ensure and tell."""
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
    try:
        result = ensure_schema(**module.params, check_mode=module.check_mode)
    except FootprintError as error:
        module.fail_json(**error.as_result())
    diff = {"before": "", "after": "".join(f"{action}\n" for action in result.actions)}
    module.exit_json(changed=result.changed, actions=list(result.actions), diff=diff)


if __name__ == "__main__":
    main()
