#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: keystone_keys
short_description: One step with the fernet or credential keys of one keystone
version_added: 0.1.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Changes a key repository file by file, each whole or not at all, in the order in which a keystone that reads it meanwhile misses
    no key it needs.
  - Which step is the next is decided by the filter P(reduced.footprint.keystone_keys_decision#filter) from the repositories of all
    members; the role C(keystone) and the playbook C(rotate_keys) put them together.
extends_documentation_fragment:
  - reduced.footprint.attributes.linux
attributes:
  check_mode:
    description: Can run in check_mode and tell what would be done without doing it.
    support: full
  diff_mode:
    description: Shows what is done, in words without secrets.
    support: full
options:
  path:
    description: The directory.
    type: path
    default: /etc/keystone/fernet-keys
  user:
    description: The system user who reads the keys and owns them.
    type: str
    default: keystone
  state:
    description:
      - V(created) makes a primary and a staged key where there are none.
      - V(promoted) makes the staged key the primary, and a new staged key.
      - V(restaged) makes the new staged key that a promotion cut short still lacks.
      - V(present) makes the repository hold exactly O(keys).
    type: str
    choices: [created, promoted, restaged, present]
    required: true
  keys:
    description: Number of each key and the key, as M(reduced.footprint.keystone_keys_info) returns them with O(keys) asked for.
    type: dict
  max_active_keys:
    description: How many keys there are to be, the staged one included. At least 3.
    type: int
    default: 3
  keep_seconds:
    description:
      - For how long a key that no longer encrypts may still be needed. It stays that long even when there are more than
        O(max_active_keys).
    type: int
    default: 0
"""

EXAMPLES = r"""
- name: Make the keys of a new cloud
  reduced.footprint.keystone_keys:
    state: created

- name: Give this member the keys of another
  reduced.footprint.keystone_keys:
    state: present
    keys: "{{ other.repository['keys'] }}"
  no_log: true
"""

RETURN = r"""
actions:
  description: What was done, or in check mode would be.
  returned: success
  type: list
  elements: str
  sample: [write key 4, let readers finish, write the staged key, remove key 1]
fingerprints:
  description: Number of each key and its fingerprint afterwards. In check mode those of keys not made yet are not those of the real run.
  returned: success
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._keystone.run_keys import KeysRequest, ensure, local_repository, parse_keys


def main() -> None:
    """Do one step and tell."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "default": "/etc/keystone/fernet-keys"},
            "user": {"type": "str", "default": "keystone"},
            "state": {"type": "str", "choices": ["created", "promoted", "restaged", "present"], "required": True},
            "keys": {"type": "dict", "no_log": True},
            "max_active_keys": {"type": "int", "default": 3, "no_log": False},
            "keep_seconds": {"type": "int", "default": 0},
        },
        required_if=[("state", "present", ["keys"])],
        supports_check_mode=True,
    )
    given = module.params
    try:
        request = KeysRequest(given["state"], parse_keys(given["keys"]), given["max_active_keys"], given["keep_seconds"])
        result = ensure(request, local_repository(given["path"], given["user"]), check_mode=module.check_mode)
    except FootprintError as error:
        module.fail_json(**error.as_result())
    diff = {"before": "", "after": "".join(f"{action}\n" for action in result.actions)}
    module.exit_json(changed=result.changed, actions=list(result.actions), fingerprints=dict(result.after), diff=diff)


if __name__ == "__main__":
    main()
