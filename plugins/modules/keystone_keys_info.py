#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: keystone_keys_info
short_description: The fernet or credential keys of one keystone
version_added: 0.1.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Tells which keys a key repository holds, by their fingerprints.
  - On request it returns the keys themselves, to hand them to other members. Such a task needs C(no_log).
extends_documentation_fragment:
  - reduced.footprint.attributes.linux
  - reduced.footprint.attributes.reads
options:
  path:
    description: The directory.
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
- name: See which keys this member has
  reduced.footprint.keystone_keys_info:
  register: keystone

- name: Take the keys to the next member
  reduced.footprint.keystone_keys_info:
    secrets: true
  register: keystone
  no_log: true
"""

RETURN = r"""
repository:
  description: What the directory holds; empty values when there is none.
  returned: success
  type: dict
  contains:
    fingerprints:
      description: Number of each key and the fingerprint that tells it from others. C(0) is the staged key.
      type: dict
    primary:
      description: The number of the key that encrypts; -1 without one.
      type: int
    finished:
      description: Whether there is a primary and a staged key of its own; otherwise a rotation was cut short here.
      type: bool
    written:
      description: Number of each key and when its file was written, in seconds since the epoch.
      type: dict
    keys:
      description: Number of each key and the key.
      returned: when O(secrets=true)
      type: dict
  sample: {fingerprints: {"0": 5f3c1d2a9b8e7f60, "1": 0a1b2c3d4e5f6071}, primary: 1, finished: true, written: {"0": 1767225600, "1": 1767225600}}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._keystone.run_keys import local_repository, look


def main() -> None:
    """Look and tell."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "default": "/etc/keystone/fernet-keys"},
            # whether to tell them is no secret
            "secrets": {"type": "bool", "default": False, "no_log": False},
        },
        supports_check_mode=True,
    )
    try:
        repository = look(local_repository(module.params["path"], "keystone"), module.params["secrets"])
    except FootprintError as error:
        module.fail_json(**error.as_result())
    module.exit_json(changed=False, repository=repository)


if __name__ == "__main__":
    main()
