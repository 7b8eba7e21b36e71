#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: ssh_known_host
short_description: Record the SSH host key of a server or virtual machine
version_added: 1.0.0
description:
  - Records a public host key in a file in the format of C(known_hosts). Run it on the machine with the file, usually the control node.
  - A key that the file does not have yet replaces all other keys of the host, of any type, because they belong to an earlier installation.
  - Runs at the same time wait for each other and keep each other's entries, also in different jobs, and in containers that share the directory. The lock is
    a hidden file next to O(path).
  - Entries of other hosts, comments, patterns, and keys with a marker such as C(@revoked) are not changed.
extends_documentation_fragment:
  - reduced.footprint.attributes.changes
options:
  path:
    description: The file, created with mode 0600 if missing.
    type: path
    required: true
  name:
    description: The name or address of the host. An entry with a hashed name is found as well.
    type: str
    required: true
  key:
    description: The public key, type and base64 without the name of the host. A comment is ignored.
    type: str
    required: true
  exclusive:
    description:
      - Whether this is the only key of the host. All others are removed, also if the file already has this one.
      - With V(false), other keys remain if the file already has this one, because they may be further keys of the same installation.
    type: bool
    default: false
  lock_timeout:
    description: Seconds to wait for another run.
    type: int
    default: 60
seealso:
  - plugin: reduced.footprint.ssh_host_key
    plugin_type: lookup
"""

EXAMPLES = r"""
- name: Record the host key of a new server
  reduced.footprint.ssh_known_host:
    path: ~/.ssh/known_hosts
    name: 192.0.2.12
    key: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFU1bV0Ytq1Tfw1pPqXHgkz2XSm2XG3uM2mC1lVtC0Cs
  delegate_to: localhost
"""

RETURN = r"""
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_module import answer
from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot import run_known_host


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "name": {"type": "str", "required": True},
            "key": {"type": "str", "required": True, "no_log": False},
            "exclusive": {"type": "bool", "default": False},
            "lock_timeout": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    answer(module, lambda: run_known_host.record(module.params, module.check_mode).as_result())


if __name__ == "__main__":
    main()
