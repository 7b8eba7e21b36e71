#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: galera_data
short_description: Copy, set aside or replace the data directory of a Galera member
version_added: 0.1.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Never deletes data. What is replaced or set aside keeps its files in a directory beside, named after O(label).
  - The same O(label) means the same occasion. A run that was killed anywhere is completed by the next one, and what was done
    under a label is not done again.
  - The server is stopped where that is needed, and is left stopped.
extends_documentation_fragment:
  - reduced.footprint.attributes.linux
  - reduced.footprint.mariadb.unit
  - reduced.footprint.mariadb.datadir
attributes:
  check_mode:
    description: Can run in check_mode and tell what would be done without doing it.
    support: full
  diff_mode:
    description: Shows what would be done, in words.
    support: full
options:
  state:
    description:
      - V(copied) keeps a copy of the stopped server's data beside them.
      - V(set_aside) gives the data the other name and leaves an empty directory, as a member needs that takes all data from others.
      - V(prepared) unpacks a backup beside the data and prepares it; the server is not touched.
      - V(replaced) gives the data the other name and puts the prepared ones in their place.
    type: str
    choices: [copied, set_aside, prepared, replaced]
    required: true
  label:
    description: Names the occasion, and with it the directory beside the data.
    type: str
    required: true
  file:
    description: For O(state=prepared), the file of the backup on this host.
    type: path
  backup:
    description: For O(state=prepared), what M(reduced.footprint.galera_backup_info) tells of it.
    type: dict
  lock_timeout:
    description: Seconds to wait for another run of this module on this host to end.
    type: float
    default: 900
seealso:
  - module: reduced.footprint.galera_backup_info
"""

EXAMPLES = r"""
- name: Keep what there is
  reduced.footprint.galera_data:
    state: set_aside
    label: before-footprint-20261122T021500Z
"""

RETURN = r"""
actions:
  description: What was done, or in check mode would be. Of V(stop), V(copy), V(set aside), V(prepare), V(replace).
  returned: success
  type: list
  elements: str
aside:
  description: The directory with the former data, or with the copy.
  returned: success
  type: str
  sample: /var/lib/mysql.before-footprint-20261122T021500Z
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._galera.run_backup import local_tool, parse_backup
from ansible_collections.reduced.footprint.plugins.module_utils._galera.run_data import DataRequest, ensure_data, summary
from ansible_collections.reduced.footprint.plugins.module_utils._galera.run_galera import SERVER_ARGUMENTS, local_database


def main() -> None:
    """Ensure and tell."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["copied", "set_aside", "prepared", "replaced"], "required": True},
            "label": {"type": "str", "required": True},
            "file": {"type": "path"},
            "backup": {"type": "dict"},
            "lock_timeout": {"type": "float", "default": 900},
            **SERVER_ARGUMENTS,
        },
        required_if=[("state", "prepared", ("file", "backup"))],
        supports_check_mode=True,
    )
    given = module.params
    try:
        backup = parse_backup(given["backup"], "backup") if given["backup"] else None
        request = DataRequest(given["state"], given["label"], given["file"], backup, given["lock_timeout"])
        result = ensure_data(request, local_database(given["unit"], given["datadir"]), local_tool(given["datadir"]), check_mode=module.check_mode)
    except FootprintError as error:
        module.fail_json(**error.as_result())
    module.exit_json(diff={"before": "", "after": "".join(f"{action}\n" for action in result.actions)}, **summary(result))


if __name__ == "__main__":
    main()
