#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: keystone_service
short_description: Create the accounts and the endpoints of services in keystone
version_added: 1.0.0
description:
  - Creates or updates the accounts of services with their roles, their entries in the catalog and their endpoints, over keystone's API.
  - Each password is verified by logging in, and set if it is not valid. One run makes all changes, and needs no Python library on the host.
extends_documentation_fragment:
  - reduced.footprint.attributes.changes
options:
  url:
    description: URL of a keystone service, for example on this host.
    type: str
    required: true
  admin_username:
    description: Name of the administrator.
    type: str
    default: admin
  admin_password:
    description: Password of the administrator.
    type: str
    required: true
  admin_project:
    description: Project of the administrator.
    type: str
    default: admin
  services:
    description: Services, each with its account.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the account and of the service.
        type: str
        required: true
      password:
        description: Password of the account.
        type: str
        required: true
      roles:
        description: Roles of the account in O(project).
        type: list
        elements: str
        default: [admin, service]
      type:
        description: Type of the service in the catalog, for example V(image). Without it only the account is created.
        type: str
      description:
        description: Description of the service in the catalog.
        type: str
        default: ""
      public_url:
        description: URL of the service for clients. Required with O(services[].type).
        type: str
      internal_url:
        description: URL of the service for other services. Defaults to O(services[].public_url).
        type: str
  project:
    description: Project of the accounts of services. It is created if it does not exist.
    type: str
    default: service
  region:
    description: Region of the endpoints.
    type: str
    default: RegionOne
  wait_timeout:
    description: Maximum number of seconds to wait for a keystone that is starting.
    type: int
    default: 60
"""

EXAMPLES = r"""
- name: Create the account and the endpoints of the image service
  reduced.footprint.keystone_service:
    url: "http://{{ ansible_host }}:5000/v3"
    admin_password: "{{ lookup('reduced.footprint.secret', 'keystone/admin') }}"
    services:
      - name: glance
        type: image
        password: "{{ lookup('reduced.footprint.secret', 'glance/service') }}"
        public_url: https://192.0.2.20:9292
  run_once: true
"""

RETURN = r"""
actions:
  description: What was created or changed, or in check mode would be.
  returned: success
  type: list
  elements: str
  sample: ["create the account glance"]
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_changes import Changes
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_module import answer, quiet
from ansible_collections.reduced.footprint.plugins.module_utils._keystone.run_bootstrap import local_keystone
from ansible_collections.reduced.footprint.plugins.module_utils._keystone.run_catalog import Catalog, ensure_all, wanted


def main() -> None:
    """Run the module."""
    module = quiet(AnsibleModule)(
        argument_spec={
            "url": {"type": "str", "required": True},
            "admin_username": {"type": "str", "default": "admin"},
            "admin_password": {"type": "str", "required": True, "no_log": True},
            "admin_project": {"type": "str", "default": "admin"},
            "services": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "name": {"type": "str", "required": True},
                    "password": {"type": "str", "required": True, "no_log": True},
                    "roles": {"type": "list", "elements": "str", "default": ["admin", "service"]},
                    "type": {"type": "str"},
                    "description": {"type": "str", "default": ""},
                    "public_url": {"type": "str"},
                    "internal_url": {"type": "str"},
                },
                "required_by": {"type": ["public_url"]},
            },
            "project": {"type": "str", "default": "service"},
            "region": {"type": "str", "default": "RegionOne"},
            "wait_timeout": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    given = module.params
    keystone = local_keystone(given["url"])
    login = (given["admin_username"], given["admin_password"], given["admin_project"])
    options = {"check_mode": module.check_mode, "wait_timeout": given["wait_timeout"]}
    accounts = [(wanted({**given, **one}), one["password"]) for one in given["services"]]
    answer(module, lambda: Changes(ensure_all(accounts, lambda: Catalog(keystone, login), **options)).as_result())


if __name__ == "__main__":
    main()
