#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: ovn_database_info
short_description: Gather the state of a member of the databases of OVN
version_added: 1.0.0
description:
  - Returns the state of the Northbound and the Southbound database of OVN on this host, their clusters, leaders and problems.
  - Pass the results of all members to the filter P(reduced.footprint.service_decision#filter) to find the members that have to join.
extends_documentation_fragment:
  - reduced.footprint.attributes.reads
options:
  size:
    description: Number of servers that each database must have. Without it any number is accepted.
    type: int
  wait:
    description: Wait until the running servers are healthy before the state is returned.
    type: bool
    default: false
  wait_timeout:
    description: Maximum number of seconds to wait. The state is returned in any case.
    type: int
    default: 30
seealso:
  - module: reduced.footprint.ovn_database_member
"""

EXAMPLES = r"""
- name: Gather the state of a member
  reduced.footprint.ovn_database_info:
    size: 3
    wait: true
  register: member

- name: Show its problems
  ansible.builtin.debug:
    msg: "{{ member.ovn_database.problems }}"
"""

RETURN = r"""
ovn_database:
  description: State of the member.
  returned: success
  type: dict
  contains:
    installed:
      description: Whether the databases are installed.
      type: bool
    problems:
      description: Why the member is not healthy.
      type: list
      elements: str
    databases:
      description: >-
        V(OVN_Northbound) and V(OVN_Southbound), each with C(file) (V(none), V(standalone) or V(clustered)), C(cluster) (its ID), C(running), C(status),
        C(role), C(term), C(leader) (address of the leader, empty without a majority), C(servers) (addresses) and C(silent) (servers that do not answer
        the leader; on the leader only).
      type: dict
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_module import answer
from ansible_collections.reduced.footprint.plugins.module_utils._ovn.run_ovn import local_databases, look


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={"size": {"type": "int"}, "wait": {"type": "bool", "default": False}, "wait_timeout": {"type": "int", "default": 30}},
        supports_check_mode=True,
    )
    given = module.params
    wait_timeout = given["wait_timeout"] if given["wait"] else 0
    answer(module, lambda: {"changed": False, "ovn_database": look(local_databases(), given["size"], wait_timeout)})


if __name__ == "__main__":
    main()
