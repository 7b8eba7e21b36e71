#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: galera_backup_store
short_description: Keep backups of a Galera cluster in a directory
version_added: 0.1.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Takes a file that M(reduced.footprint.galera_backup) made and that was brought to this host, proves that it arrived whole, and
    gives it its name, 0600, with its note beside it. Nothing half ever has that name.
  - Removes the oldest backups of the same cluster when there are more than O(retain).
extends_documentation_fragment:
  - reduced.footprint.attributes.linux
attributes:
  check_mode:
    description: Can run in check_mode and tell what would be done without doing it.
    support: full
  diff_mode:
    description: Shows which files would be there before and after.
    support: full
options:
  directory:
    description: Where the backups are kept.
    type: path
    required: true
  incoming:
    description: The file as it arrived, in the same file system.
    type: path
    required: true
  backup:
    description: What M(reduced.footprint.galera_backup) returned as RV(reduced.footprint.galera_backup#module:backup).
    type: dict
    required: true
  retain:
    description: How many backups of this cluster are kept, the new one among them. V(0) keeps all.
    type: int
    default: 7
seealso:
  - module: reduced.footprint.galera_backup
"""

EXAMPLES = r"""
- name: Keep the backup
  reduced.footprint.galera_backup_store:
    directory: /srv/backups
    incoming: /srv/backups/.incoming/footprint-20261122T021500Z.mbs.zst
    backup: "{{ made.backup }}"
    retain: 14
  delegate_to: localhost
"""

RETURN = r"""
path:
  description: The file.
  returned: success
  type: str
removed:
  description: Names of the files of older backups that were removed, or in check mode would be.
  returned: success
  type: list
  elements: str
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._galera.run_backup import keep, parse_backup


def main() -> None:
    """Keep and tell."""
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
        module.fail_json(msg=f"retain: {given['retain']} is less than 0. Name how many backups are kept, 0 for all.")
    try:
        backup = parse_backup(given["backup"], "backup")
        changed, removed = keep(given["directory"], given["incoming"], backup, given["retain"], check_mode=module.check_mode)
    except FootprintError as error:
        module.fail_json(**error.as_result())
    diff = {"before": "".join(f"{name}\n" for name in removed), "after": f"{backup.file}\n" if changed else ""}
    module.exit_json(changed=changed, path=os.path.join(given["directory"], backup.file), removed=list(removed), diff=diff)


if __name__ == "__main__":
    main()
