#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: galera_member
short_description: Start a MariaDB server as a member of its Galera cluster
version_added: 1.0.0
description:
  - Starts the MariaDB server of this host, or restarts it if its configuration is newer, and waits until it is a ready member of
    its cluster, that is Primary, connected, ready and Synced.
  - With O(state=bootstrapped) it starts the cluster. Do so on one member only, the one that the filter
    P(reduced.footprint.galera_decision#filter) returns.
  - A member that is already in a Primary Component never starts another one. With O(confirm), it first asks the guards of the others, because they may
    have formed one since that filter decided, for example while the control node slept.
extends_documentation_fragment:
  - reduced.footprint.attributes.changes
  - reduced.footprint.mariadb.unit
  - reduced.footprint.mariadb.datadir
options:
  state:
    description:
      - V(present) joins the running cluster.
      - V(bootstrapped) starts the cluster with this member's data.
    type: str
    choices: [present, bootstrapped]
    default: present
  cluster_uuid:
    description: UUID of the cluster it must belong to. A member of another cluster is refused.
    type: str
  confirm:
    description:
      - With O(state=bootstrapped), names of all other members that have data of the cluster, or that may have some. This one starts the cluster only if what
        their guards report right before says so.
      - Empty to start without asking, as for a new cluster.
    type: list
    elements: str
    default: []
  forced:
    description: With O(confirm), start even if others do not answer or have newer data, but never while one of them is in a Primary Component.
    type: bool
    default: false
  config_files:
    description: A server that was started before one of these files was written is restarted.
    type: list
    elements: path
    default: []
  wait_timeout:
    description: Maximum number of seconds to wait until the member is ready. A new member copies all data first.
    type: int
    default: 600
seealso:
  - module: reduced.footprint.galera_info
"""

EXAMPLES = r"""
- name: Join one by one
  reduced.footprint.galera_member:
    cluster_uuid: 6f2e8a5c-c3a1-11ef-9f0b-3b1d1f0a8f0e
    config_files:
      - /etc/mysql/mariadb.conf.d/70-footprint-galera.cnf
  throttle: 1
"""

RETURN = r"""
actions:
  description: Actions that were taken, or in check mode would be. Some of V(start), V(restart), V(bootstrap), V(reform).
  returned: success
  type: list
  elements: str
  sample: [restart]
galera:
  description: State of the member after the change, as RV(reduced.footprint.galera_info#module:galera).
  returned: success
  type: dict
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_module import answer
from ansible_collections.reduced.footprint.plugins.module_utils._galera.run_galera import SERVER_ARGUMENTS, MemberRequest, ensure, local_database


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "bootstrapped"], "default": "present"},
            "cluster_uuid": {"type": "str"},
            "confirm": {"type": "list", "elements": "str", "default": []},
            "forced": {"type": "bool", "default": False},
            "config_files": {"type": "list", "elements": "path", "default": []},
            "wait_timeout": {"type": "int", "default": 600},
            **SERVER_ARGUMENTS,
        },
        supports_check_mode=True,
    )
    given = module.params
    files, others = tuple(given["config_files"]), tuple(given["confirm"])
    request = MemberRequest(given["state"], given["cluster_uuid"] or None, files, given["wait_timeout"], others, given["forced"])
    database = local_database(given["unit"], given["datadir"])
    answer(module, lambda: ensure(request, database, check_mode=module.check_mode).as_result("galera"))


if __name__ == "__main__":
    main()
