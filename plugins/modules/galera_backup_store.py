#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: galera_backup_store
short_description: Store backups of a Galera cluster in a directory
version_added: 0.1.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Verifies the checksum of a file that M(reduced.footprint.galera_backup) created and that was copied to this host, renames it
    (0600), and writes its metadata file. An incomplete file never has the final name.
  - Removes the oldest backups of the same cluster beyond O(retain).
extends_documentation_fragment:
  - reduced.footprint.attributes.linux
attributes:
  check_mode:
    description: Predicts the changes and makes none.
    support: full
  diff_mode:
    description: Lists the removed files and the new one.
    support: full
options:
  directory:
    description: Directory of the backups.
    type: path
    required: true
  incoming:
    description: The copied file, on the same file system as O(directory).
    type: path
    required: true
  backup:
    description: The result RV(reduced.footprint.galera_backup#module:backup) of M(reduced.footprint.galera_backup).
    type: dict
    required: true
  retain:
    description: Number of backups of this cluster to keep, including the new one. V(0) keeps all.
    type: int
    default: 7
seealso:
  - module: reduced.footprint.galera_backup
"""

EXAMPLES = r"""
- name: Store the backup
  reduced.footprint.galera_backup_store:
    directory: /srv/backups
    incoming: /srv/backups/.incoming/footprint-20261122T021500Z.mbs.zst
    backup: "{{ made.backup }}"
    retain: 14
  delegate_to: localhost
"""

RETURN = r"""
path:
  description: Path of the stored backup.
  returned: success
  type: str
removed:
  description: Names of older backup files that were removed, or in check mode would be.
  returned: success
  type: list
  elements: str
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._galera.run_backup import keep, parse_backup


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "directory": {"type": "path", "required": True},
            "incoming": {"type": "path", "required": True},
            "backup": {"type": "dict", "required": True},
            "retain": {"type": "int", "default": 7},
        },
        supports_check_mode=True,
    )
    given = module.params
    if given["retain"] < 0:
        module.fail_json(msg=f"retain: {given['retain']} is less than 0. Set the number of backups to keep, 0 for all.")
    try:
        backup = parse_backup(given["backup"], "backup")
        changed, removed = keep(given["directory"], given["incoming"], backup, given["retain"], check_mode=module.check_mode)
    except FootprintError as error:
        module.fail_json(**error.as_result())
    diff = {"before": "".join(f"{name}\n" for name in removed), "after": f"{backup.file}\n" if changed else ""}
    module.exit_json(changed=changed, path=os.path.join(given["directory"], backup.file), removed=list(removed), diff=diff)


if __name__ == "__main__":
    main()
