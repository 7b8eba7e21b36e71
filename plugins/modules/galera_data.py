#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: galera_data
short_description: Copy, set aside or replace the data directory of a Galera member
version_added: 1.0.0
description:
  - Never deletes data. Data that is replaced or set aside is kept in a directory next to the data directory, named after O(label).
  - The same O(label) identifies the same operation. The next run completes one that was killed, and an operation that was completed
    under a label is not repeated. In a restore, the position of the data decides whether it is that of the backup.
  - The server is stopped where required, and is not started again.
extends_documentation_fragment:
  - reduced.footprint.attributes.changes
  - reduced.footprint.mariadb.unit
  - reduced.footprint.mariadb.datadir
options:
  state:
    description:
      - V(copied) copies the data directory of the stopped server.
      - V(set_aside) renames the data directory and creates an empty one, so that the member copies all data from another member.
      - V(prepared) unpacks and prepares a backup next to the data directory; the server keeps running.
      - V(replaced) renames the data directory and moves the prepared data to its place.
      - V(verified) records that the data is still that of the backup, when all other members are empty. From then on the backup counts as restored.
    type: str
    choices: [copied, set_aside, prepared, replaced, verified]
    required: true
  label:
    description: Identifies the operation; suffix of the directory with the previous data or the copy.
    type: str
    required: true
  file:
    description: For O(state=prepared), the backup file on this host.
    type: path
  backup:
    description: In a restore, the backup as M(reduced.footprint.galera_backup_info) returns it. With O(state=set_aside), data that the member
      has received since its data was set aside is set aside as well.
    type: dict
  lock_timeout:
    description: Seconds to wait for another run of this module on this host to finish.
    type: int
    default: 900
seealso:
  - module: reduced.footprint.galera_backup_info
"""

EXAMPLES = r"""
- name: Set the existing data aside
  reduced.footprint.galera_data:
    state: set_aside
    label: before-footprint-20261122T021500Z
"""

RETURN = r"""
actions:
  description: Actions that were taken, or in check mode would be. Some of V(stop), V(copy), V(set aside), V(prepare), V(replace).
  returned: success
  type: list
  elements: str
aside:
  description: The directory with the previous data or the copy.
  returned: success
  type: str
  sample: /var/lib/mysql.before-footprint-20261122T021500Z
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_changes import Changes
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_module import answer
from ansible_collections.reduced.footprint.plugins.module_utils._galera.run_backup import local_tool, parse_backup
from ansible_collections.reduced.footprint.plugins.module_utils._galera.run_data import DataRequest, ensure_data, summary
from ansible_collections.reduced.footprint.plugins.module_utils._galera.run_galera import SERVER_ARGUMENTS, local_database


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["copied", "set_aside", "prepared", "replaced", "verified"], "required": True},
            "label": {"type": "str", "required": True},
            "file": {"type": "path"},
            "backup": {"type": "dict"},
            "lock_timeout": {"type": "int", "default": 900},
            **SERVER_ARGUMENTS,
        },
        required_if=[("state", "prepared", ("file", "backup")), ("state", "replaced", ("backup",)), ("state", "verified", ("backup",))],
        supports_check_mode=True,
    )
    given = module.params

    def change() -> dict[str, t.Any]:
        backup = parse_backup(given["backup"], "backup") if given["backup"] else None
        request = DataRequest(given["state"], given["label"], given["file"], backup, given["lock_timeout"])
        result = ensure_data(request, local_database(given["unit"], given["datadir"]), local_tool(given["datadir"]), check_mode=module.check_mode)
        return {**Changes(result.actions).as_result(), **summary(result)}

    answer(module, change)


if __name__ == "__main__":
    main()
