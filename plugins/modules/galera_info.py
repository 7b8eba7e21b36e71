#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: galera_info
short_description: Gather the state of a Galera cluster member
version_added: 1.0.0
description:
  - Returns whether the MariaDB server of this host is a ready member of a Galera cluster, which cluster its data belongs to, and
    the position of the data, also if the server is stopped.
  - Pass the results of all members to the filter P(reduced.footprint.galera_decision#filter) to find the member that must start
    the cluster.
extends_documentation_fragment:
  - reduced.footprint.attributes.reads
  - reduced.footprint.mariadb.unit
  - reduced.footprint.mariadb.datadir
options:
  wait:
    description: Wait for a member that is starting, or that has lost its peers, before its state is returned. Galera often recovers by itself.
    type: bool
    default: false
  wait_timeout:
    description: Maximum number of seconds to wait. The state is returned in any case.
    type: int
    default: 60
  recover:
    description:
      - Read the position from InnoDB if the server is stopped and has not saved it, as after a power loss.
      - This starts the server program briefly, without network.
    type: bool
    default: true
seealso:
  - module: reduced.footprint.galera_member
"""

EXAMPLES = r"""
- name: Gather the state of the members
  reduced.footprint.galera_info:
    wait: true
    wait_timeout: 30
  register: member

- name: Show the positions
  ansible.builtin.debug:
    msg: "{{ member.galera.cluster_uuid }}:{{ member.galera.seqno }}"
"""

RETURN = r"""
galera:
  description: State of the member.
  returned: success
  type: dict
  contains:
    installed:
      description: Whether the server is installed.
      type: bool
    unit:
      description: Active state of the systemd unit, for example V(active).
      type: str
    standalone:
      description: Whether the server runs without replication.
      type: bool
    running:
      description: Whether the server answers and takes part in replication.
      type: bool
    primary:
      description: Whether the member is in a Primary Component.
      type: bool
    ready:
      description: Whether the member is Primary, connected, ready and Synced.
      type: bool
    problems:
      description: Why the member is not ready.
      type: list
      elements: str
    cluster_uuid:
      description: UUID of the cluster that the data belongs to, null if the server was never a member or lost its data.
      type: str
    cluster_name:
      description: Cluster name of the running server, null if it is not running.
      type: str
    seqno:
      description: Position of the last transaction, -1 if it cannot be read.
      type: int
    safe_to_bootstrap:
      description: Whether it was the last member to leave the cluster.
      type: bool
    databases:
      description: Databases on its disk, empty while it receives the data of another member.
      type: list
      elements: str
    aside:
      description: Directories with the data of a server that has none, because an interrupted run has set it aside.
      type: list
      elements: str
    size:
      description: Number of members in its component.
      type: int
    configuration:
      description: Configuration number of its Primary Component (C(wsrep_cluster_conf_id)), -1 if it is in none.
      type: int
    node:
      description: Id of the member in its Primary Component, null if it is in none.
      type: str
    view:
      description: Ids of all members of its Primary Component. Two members that are not in each other's view are in different ones.
      type: list
      elements: str
    saved_view:
      description:
        - The last Primary Component that it was in, null if it left it in an orderly stop. While no member is Primary, it shows which members are needed to
          know whose data is the newest.
      type: dict
      contains:
        id: {description: Id of the view., type: str, returned: always}
        members: {description: Name of each member by its id in the component. Null if unknown., type: dict, returned: always}
    caught_up:
      description: Whether it was seen in this component with all changes applied.
      type: bool
    clients:
      description: Number of clients connected over the network. The member that receives the writes has the most.
      type: int
    tls:
      description: Whether it uses plain text (V(off)), TLS (V(on)) or V(both) with its peers, null if it is not running.
      type: str
    tls_written:
      description: The same according to the server's configuration files, running or not. Null if Galera is not configured in them.
      type: str
    certificate_names:
      description: Subject alternative names of the server's certificate for clients, empty if it does not offer TLS.
      type: list
      elements: str
    tls_both:
      description: Whether its Galera version supports both at the same time, null if it is not running.
      type: bool
    local_state:
      description: State of the member (C(wsrep_local_state_comment)), for example V(Synced).
      type: str
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_module import answer
from ansible_collections.reduced.footprint.plugins.module_utils._galera.run_galera import SERVER_ARGUMENTS, local_database, look


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "wait": {"type": "bool", "default": False},
            "wait_timeout": {"type": "int", "default": 60},
            "recover": {"type": "bool", "default": True},
            **SERVER_ARGUMENTS,
        },
        supports_check_mode=True,
    )
    given = module.params
    database = local_database(given["unit"], given["datadir"])
    wait_timeout = given["wait_timeout"] if given["wait"] else 0
    answer(module, lambda: {"changed": False, "galera": look(database, wait_timeout, given["recover"])})


if __name__ == "__main__":
    main()
