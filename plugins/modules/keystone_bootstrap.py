#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: keystone_bootstrap
short_description: Create the administrator and the endpoints of keystone
version_added: 1.0.0
description:
  - Logs in as the administrator at the keystone service of this host. If that fails, or the catalog differs from the options, runs
    C(keystone-manage bootstrap), which creates or updates both, and checks again.
  - Run it on one member, after its database was created. The password is never part of a command line.
extends_documentation_fragment:
  - reduced.footprint.attributes.changes
options:
  url:
    description: URL of the keystone service on this host.
    type: str
    required: true
  username:
    description: Name of the administrator.
    type: str
    default: admin
  password:
    description: Password of the administrator. It is changed if it differs.
    type: str
    required: true
  project:
    description: Project of the administrator.
    type: str
    default: admin
  role:
    description: Role of the administrator.
    type: str
    default: admin
  region:
    description: Region of the endpoints.
    type: str
    default: RegionOne
  public_url:
    description: URL of the service for clients.
    type: str
    required: true
  internal_url:
    description: URL of the service for other services. Defaults to O(public_url).
    type: str
  admin_url:
    description: URL of the service for administrators. Defaults to O(internal_url).
    type: str
  wait_timeout:
    description: Maximum number of seconds to wait for a service that is starting.
    type: int
    default: 60
"""

EXAMPLES = r"""
- name: Create the administrator
  reduced.footprint.keystone_bootstrap:
    url: "http://{{ ansible_host }}:5000/v3"
    password: "{{ lookup('reduced.footprint.secret', 'keystone/admin') }}"
    public_url: https://192.0.2.20:5000/v3
  run_once: true
"""

RETURN = r"""
actions:
  description: What was created or changed, or in check mode would be.
  returned: success
  type: list
  elements: str
  sample: ["set the public endpoint of RegionOne to https://192.0.2.20:5000/v3"]
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_module import answer
from ansible_collections.reduced.footprint.plugins.module_utils._keystone.run_bootstrap import ensure, local_keystone, wanted


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "url": {"type": "str", "required": True},
            "username": {"type": "str", "default": "admin"},
            "password": {"type": "str", "required": True, "no_log": True},
            "project": {"type": "str", "default": "admin"},
            "role": {"type": "str", "default": "admin"},
            "region": {"type": "str", "default": "RegionOne"},
            "public_url": {"type": "str", "required": True},
            "internal_url": {"type": "str"},
            "admin_url": {"type": "str"},
            "wait_timeout": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    given = module.params
    options = {"check_mode": module.check_mode, "wait_timeout": given["wait_timeout"]}
    answer(module, lambda: ensure(wanted(given), given["password"], local_keystone(given["url"]), **options).as_result())


if __name__ == "__main__":
    main()
