#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: rabbitmq_info
short_description: Gather the state of a RabbitMQ cluster member
version_added: 1.0.0
description:
  - Returns whether the RabbitMQ node of this host is running, its peers, which of them are running, and its problems. For a
    stopped node it returns what the node has saved about its cluster.
  - Pass the results of all members to the filter P(reduced.footprint.service_decision#filter) to find the member that must start
    the cluster.
extends_documentation_fragment:
  - reduced.footprint.attributes.reads
  - reduced.footprint.rabbitmq.node
  - reduced.footprint.rabbitmq.cookie
options:
  expected:
    description: Nodes that must be running for the member to be ready. If empty, only this node is checked.
    type: list
    elements: str
    default: []
  wait:
    description: Wait for a started member to become ready before its state is returned.
    type: bool
    default: false
  wait_timeout:
    description: Maximum number of seconds to wait. The state is returned in any case.
    type: int
    default: 60
  peers:
    description: Host names and the IPv4 address that each must resolve to on this host.
    type: dict
    default: {}
seealso:
  - module: reduced.footprint.rabbitmq_member
"""

EXAMPLES = r"""
- name: Gather the state of a member
  reduced.footprint.rabbitmq_info:
    node: rabbit@metal1
    expected: [rabbit@metal1, rabbit@metal2, rabbit@metal3]
    wait: true
    wait_timeout: 30
  register: member

- name: Show its problems
  ansible.builtin.debug:
    msg: "{{ member.rabbitmq.problems }}"
"""

RETURN = r"""
rabbitmq:
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
    node:
      description: Erlang node name.
      type: str
    alive:
      description: Whether its Erlang VM answers.
      type: bool
    running:
      description: Whether its broker is running.
      type: bool
    paused:
      description: Whether the unit of a cluster member is started while its broker is not running. It waits for others, as in a minority.
      type: bool
    ready:
      description: Whether it has no problems.
      type: bool
    problems:
      description: Why the member is not ready.
      type: list
      elements: str
    members:
      description: Nodes of its cluster, including itself; empty if it has no data.
      type: list
      elements: str
    running_nodes:
      description: The running nodes of its cluster.
      type: list
      elements: str
    last_running:
      description: Nodes that were running when it stopped.
      type: list
      elements: str
    served:
      description: Groups of nodes with a majority that it was in since all nodes were running, the last one at the end. Its guard keeps them.
      type: list
      elements: list
    khepri:
      description: Whether its metadata are in Khepri, the Raft store of RabbitMQ 4, and not in Mnesia.
      type: bool
    partitions:
      description: Network partitions, by node the nodes that it is partitioned from.
      type: dict
    alarms:
      description: Memory, disk or file descriptor alarms.
      type: list
      elements: str
    maintenance:
      description: Maintenance status of the node.
      type: str
    version:
      description: Version of RabbitMQ.
      type: str
    tls:
      description: Whether it is configured for plain text (V(off)), TLS (V(on)) or V(both) with clients. Null if not configured yet.
      type: str
    internode_tls:
      description: Whether it is configured for TLS with its peers, V(off) or V(on). Null if not configured yet.
      type: str
    contents:
      description: Objects of a node outside of a cluster in addition to those of a fresh one. Null if unknown because it is stopped.
      type: list
      elements: str
    cookie:
      description: V(same) as O(cookie), V(other), or V(none).
      type: str
    unresolved:
      description: Names in O(peers) that do not resolve to the expected address.
      type: list
      elements: str
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_module import answer
from ansible_collections.reduced.footprint.plugins.module_utils._rabbitmq.run_rabbitmq import SERVER_ARGUMENTS, local_broker, look


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "expected": {"type": "list", "elements": "str", "default": []},
            "wait": {"type": "bool", "default": False},
            "wait_timeout": {"type": "int", "default": 60},
            "peers": {"type": "dict", "default": {}},
            **SERVER_ARGUMENTS,
        },
        supports_check_mode=True,
    )
    given = module.params
    wait_timeout = given["wait_timeout"] if given["wait"] else 0
    broker = local_broker(given["node"], given["unit"])
    answer(module, lambda: {"changed": False, "rabbitmq": look(broker, given["cookie"], given["expected"], wait_timeout, given["peers"])})


if __name__ == "__main__":
    main()
