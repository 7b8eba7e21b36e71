#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: keystone_keys
short_description: Change the fernet or credential keys of a keystone member
version_added: 1.0.0
description:
  - Changes a key repository file by file, each file atomically, in an order in which keystone never misses a key that it needs while
    it reads the repository.
  - The filter P(reduced.footprint.service_decision#filter) decides the next step from the repositories of all members; the
    role C(keystone) and the playbook C(rotate_keys) use both.
extends_documentation_fragment:
  - reduced.footprint.attributes.changes
options:
  path:
    description: Directory of the key repository.
    type: path
    default: /etc/keystone/fernet-keys
  user:
    description: System user that reads and owns the keys.
    type: str
    default: keystone
  state:
    description:
      - V(created) creates a primary and a staged key in an empty repository.
      - V(promoted) makes the staged key the primary key and creates a new staged key.
      - V(restaged) creates the new staged key that is missing after an interrupted promotion.
      - V(present) writes exactly O(keys).
    type: str
    choices: [created, promoted, restaged, present]
    required: true
  keys:
    description: Mapping of number to key, as M(reduced.footprint.keystone_keys_info) returns it with C(secrets=true).
    type: dict
  max_active_keys:
    description: Maximum number of keys, including the staged one. At least 3.
    type: int
    default: 3
  keep_seconds:
    description:
      - Seconds for which a former primary key may still be needed. It is kept that long even if there are more than
        O(max_active_keys).
    type: int
    default: 0
"""

EXAMPLES = r"""
- name: Create the keys of a new cloud
  reduced.footprint.keystone_keys:
    state: created

- name: Copy the keys of another member to this one
  reduced.footprint.keystone_keys:
    state: present
    keys: "{{ other.repository.contents }}"
  no_log: true
"""

RETURN = r"""
actions:
  description: Actions that were taken, or in check mode would be.
  returned: success
  type: list
  elements: str
  sample: [write key 4, let readers finish, write the staged key, remove key 1]
fingerprints:
  description: Mapping of number to fingerprint after the change. In check mode, fingerprints of new keys differ from those of the real run.
  returned: success
  type: dict
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_changes import Changes
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_module import answer
from ansible_collections.reduced.footprint.plugins.module_utils._keystone.run_keys import KeysRequest, ensure, local_repository, parse_keys


def main() -> None:
    """Run the module."""
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

    def change() -> dict[str, t.Any]:
        request = KeysRequest(given["state"], parse_keys(given["keys"]), given["max_active_keys"], given["keep_seconds"])
        result = ensure(request, local_repository(given["path"], given["user"]), check_mode=module.check_mode)
        return {**Changes(result.actions).as_result(), "fingerprints": dict(result.after)}

    answer(module, change)


if __name__ == "__main__":
    main()
