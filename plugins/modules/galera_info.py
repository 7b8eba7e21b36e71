#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: galera_info
short_description: Look at one member of a Galera cluster
version_added: 0.1.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Tells whether the MariaDB server of this host is a ready member of a Galera cluster, which cluster its data belong to,
    and at which position they are, also when the server is stopped.
  - Put the results of all members together and give them to the filter P(reduced.footprint.galera_decision#filter) to learn
    who has to start the cluster.
extends_documentation_fragment:
  - reduced.footprint.attributes.linux
  - reduced.footprint.attributes.reads
  - reduced.footprint.mariadb.unit
  - reduced.footprint.mariadb.datadir
options:
  settle:
    description:
      - Seconds to give a member that is just starting, or that has lost its peers, before it is described. Galera heals much
        by itself.
    type: float
    default: 0
  recover:
    description:
      - Read the position out of the stopped server's data when the server left no note of it, as after a power loss.
      - This starts the server's program for a moment, without network.
    type: bool
    default: true
seealso:
  - module: reduced.footprint.galera_member
"""

EXAMPLES = r"""
- name: Look at the members
  reduced.footprint.galera_info:
    settle: 30
  register: look

- name: Show the position of each
  ansible.builtin.debug:
    msg: "{{ look.galera.cluster_uuid }}:{{ look.galera.seqno }}"
"""

RETURN = r"""
galera:
  description: The member.
  returned: success
  type: dict
  contains:
    installed:
      description: Whether the server is installed.
      type: bool
    unit:
      description: What systemd says of the unit, for example V(active).
      type: str
    standalone:
      description: Whether the server runs without replication.
      type: bool
    running:
      description: Whether the server answers and takes part in replication.
      type: bool
    primary:
      description: Whether it is in a Primary Component.
      type: bool
    ready:
      description: Whether it is Primary, connected, ready and Synced.
      type: bool
    problems:
      description: Why it is not ready.
      type: list
      elements: str
    cluster_uuid:
      description: The cluster its data belong to, none if it never was a member or lost its data.
      type: str
    cluster_name:
      description: The name of the cluster as the server that runs knows it, none when it does not run.
      type: str
    seqno:
      description: The position of its last transaction, -1 when it cannot be read.
      type: int
    safe_to_bootstrap:
      description: Whether it was the last one to leave.
      type: bool
    databases:
      description: Databases of a server that never was a member.
      type: list
      elements: str
    size:
      description: How many members its component has.
      type: int
    configuration:
      description: The number of its Primary Component's configuration (C(wsrep_cluster_conf_id)), -1 when it is in none.
      type: int
    node:
      description: The id under which it is in its Primary Component, none when it is in none.
      type: str
    view:
      description: The ids of all members of its Primary Component. Two that do not know of each other are in different ones.
      type: list
      elements: str
    clients:
      description: How many clients are connected over the network. The member that is written to has the most.
      type: int
    tls:
      description: What it speaks with its peers, plain text (V(off)), TLS (V(on)) or V(both), none when it does not run.
      type: str
    tls_written:
      description: The same as the server's configuration files say, whether it runs or not. None when they do not speak of Galera.
      type: str
    vouched_for:
      description: Names and addresses in the certificate the server shows its clients, empty when it offers them no TLS.
      type: list
      elements: str
    tls_both:
      description: Whether its Galera is able to speak both, none when it does not run.
      type: bool
    local_state:
      description: Its state in words, for example V(Synced).
      type: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._galera.run_galera import SERVER_ARGUMENTS, local_database, look


def main() -> None:
    """Look and tell."""
    module = AnsibleModule(
        argument_spec={
            "settle": {"type": "float", "default": 0},
            "recover": {"type": "bool", "default": True},
            **SERVER_ARGUMENTS,
        },
        supports_check_mode=True,
    )
    database = local_database(module.params["unit"], module.params["datadir"])
    try:
        module.exit_json(changed=False, galera=look(database, module.params["settle"], module.params["recover"]))
    except FootprintError as error:
        module.fail_json(**error.as_result())


if __name__ == "__main__":
    main()
