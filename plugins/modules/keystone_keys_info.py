#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: keystone_keys_info
short_description: Gather the fernet or credential keys of a keystone member
version_added: 1.0.0
description:
  - Returns the fingerprints of the keys in a key repository.
  - On request returns the keys too, to copy them to other members. Such a task requires C(no_log).
extends_documentation_fragment:
  - reduced.footprint.attributes.reads
options:
  path:
    description: Directory of the key repository.
    type: path
    default: /etc/keystone/fernet-keys
  secrets:
    description: Return the keys too.
    type: bool
    default: false
seealso:
  - module: reduced.footprint.keystone_keys
"""

EXAMPLES = r"""
- name: Gather the fingerprints of the keys
  reduced.footprint.keystone_keys_info:
  register: keystone

- name: Read the keys
  reduced.footprint.keystone_keys_info:
    secrets: true
  register: keystone
  no_log: true
"""

RETURN = r"""
repository:
  description: Content of the repository; empty values if the directory does not exist.
  returned: success
  type: dict
  contains:
    fingerprints:
      description: Mapping of number to fingerprint. C(0) is the staged key.
      type: dict
    primary:
      description: Number of the primary key, which encrypts; -1 without one.
      type: int
    finished:
      description: Whether there is a primary key and a different staged key; otherwise a rotation was interrupted.
      type: bool
    written:
      description: Mapping of number to modification time of the file (UTC).
      type: dict
    fixes:
      description: What has to be fixed, owners and modes of the directory and the keys.
      type: list
      elements: str
    contents:
      description: Mapping of number to key.
      returned: when O(secrets=true)
      type: dict
  sample:
    fingerprints: {"0": 5f3c1d2a9b8e7f60, "1": 0a1b2c3d4e5f6071}
    primary: 1
    finished: true
    written: {"0": "2026-01-01T00:00:00Z", "1": "2026-01-01T00:00:00Z"}
    fixes: []
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_module import answer
from ansible_collections.reduced.footprint.plugins.module_utils._keystone.run_keys import local_repository, look


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "default": "/etc/keystone/fernet-keys"},
            # the flag itself is not a secret
            "secrets": {"type": "bool", "default": False, "no_log": False},
        },
        supports_check_mode=True,
    )
    params = module.params
    answer(module, lambda: {"changed": False, "repository": look(local_repository(params["path"], "keystone"), params["secrets"])})


if __name__ == "__main__":
    main()
