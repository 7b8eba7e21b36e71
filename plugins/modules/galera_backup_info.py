#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: galera_backup_info
short_description: Read and verify a backup of a Galera cluster
version_added: 1.0.0
description:
  - Reads the metadata file of a backup and verifies that the backup file matches it.
extends_documentation_fragment:
  - reduced.footprint.attributes.reads
options:
  file:
    description: The backup file. The metadata file has the same name and C(.json).
    type: path
    required: true
  prove:
    description: Compare the checksum, which reads the whole file, not the size alone.
    type: bool
    default: true
seealso:
  - module: reduced.footprint.galera_backup
"""

EXAMPLES = r"""
- name: Verify a backup
  reduced.footprint.galera_backup_info:
    file: /srv/backups/footprint-20261122T021500Z.mbs.zst
  delegate_to: localhost
  register: found
"""

RETURN = r"""
backup:
  description: As M(reduced.footprint.galera_backup) returns it.
  returned: success
  type: dict
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_module import answer
from ansible_collections.reduced.footprint.plugins.module_utils._galera.run_backup import inspect


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={"file": {"type": "path", "required": True}, "prove": {"type": "bool", "default": True}},
        supports_check_mode=True,
    )
    answer(module, lambda: {"changed": False, "backup": inspect(module.params["file"], module.params["prove"]).as_dict()})


if __name__ == "__main__":
    main()
