#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: ovn_database_member
short_description: Start the databases of OVN as members of their clusters
version_added: 1.0.0
description:
  - Creates or joins the cluster of each database, starts its server and waits until it follows a leader.
  - A member that has data of the cluster is only started. No database is created because a file is missing, unless this is requested.
  - The steps of a member are returned by the filter P(reduced.footprint.service_decision#filter).
extends_documentation_fragment:
  - reduced.footprint.attributes.changes
options:
  address:
    description: IP address of this member for its peers.
    type: str
    required: true
  steps:
    description:
      - Steps by name of the database, V(OVN_Northbound) or V(OVN_Southbound). Each may have C(create) (create the cluster, from a database that is not
        clustered if there is one), C(join) (addresses at which to join), C(force) (make the data of this member a new cluster), C(discard) (move
        old data away before joining), C(kick) (addresses of servers that the cluster removes), C(restart) and C(upgrade) (convert the
        cluster to the installed schema).
      - A database with an empty mapping is only started. One that is not listed is not changed.
    type: dict
    required: true
  config_files:
    description: A server that was started before one of these files was written is restarted.
    type: list
    elements: path
    default: []
  wait_timeout:
    description: Maximum number of seconds to wait until each database follows a leader.
    type: int
    default: 60
seealso:
  - module: reduced.footprint.ovn_database_info
"""

EXAMPLES = r"""
- name: Join the databases of another member
  reduced.footprint.ovn_database_member:
    address: 192.0.2.12
    steps:
      OVN_Northbound: {join: ["ssl:192.0.2.11:6643"]}
      OVN_Southbound: {join: ["ssl:192.0.2.11:6644"]}
"""

RETURN = r"""
actions:
  description: Actions that were taken, or in check mode would be, each with the name of the database.
  returned: success
  type: list
  elements: str
  sample: [join OVN_Northbound, start OVN_Northbound]
databases:
  description: State of the databases after the change, as C(databases) of RV(reduced.footprint.ovn_database_info#module:ovn_database).
  returned: success
  type: dict
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_module import answer
from ansible_collections.reduced.footprint.plugins.module_utils._ovn.run_ovn import ensure, local_databases, parse_steps


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "address": {"type": "str", "required": True},
            "steps": {"type": "dict", "required": True},
            "config_files": {"type": "list", "elements": "path", "default": []},
            "wait_timeout": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    given = module.params
    options = {"check_mode": module.check_mode, "config_files": given["config_files"], "wait_timeout": given["wait_timeout"]}
    answer(module, lambda: ensure(local_databases(), given["address"], parse_steps(given["steps"]), **options).as_result("databases"))


if __name__ == "__main__":
    main()
