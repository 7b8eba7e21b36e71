#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: rabbitmq_info
short_description: Look at one member of a RabbitMQ cluster
version_added: 0.1.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Tells whether the RabbitMQ node of this host serves, who its peers are, which of them run, and what ails it. Of a stopped
    node it tells what the node noted of its cluster.
  - Put the results of all members together and give them to the filter P(reduced.footprint.rabbitmq_decision#filter) to learn
    who has to start the cluster.
extends_documentation_fragment:
  - reduced.footprint.attributes.linux
  - reduced.footprint.attributes.reads
  - reduced.footprint.rabbitmq.node
  - reduced.footprint.rabbitmq.cookie
options:
  expected:
    description: The nodes that have to run for the member to be called ready. Without them only this one is asked for.
    type: list
    elements: str
    default: []
  settle:
    description: Seconds to give a member that is up to become ready before it is described.
    type: float
    default: 0
  peers:
    description: Names of hosts and the IPv4 address each must resolve to on this host.
    type: dict
    default: {}
seealso:
  - module: reduced.footprint.rabbitmq_member
"""

EXAMPLES = r"""
- name: Look at a member
  reduced.footprint.rabbitmq_info:
    node: rabbit@metal1
    expected: [rabbit@metal1, rabbit@metal2, rabbit@metal3]
    settle: 30
  register: look

- name: Tell what ails it
  ansible.builtin.debug:
    msg: "{{ look.rabbitmq.problems }}"
"""

RETURN = r"""
rabbitmq:
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
    node:
      description: Its Erlang name.
      type: str
    alive:
      description: Whether its Erlang machine answers.
      type: bool
    running:
      description: Whether its broker serves.
      type: bool
    paused:
      description: Whether the machine of a member answers while its broker does not serve, as when it sees no majority.
      type: bool
    ready:
      description: Whether nothing ails it.
      type: bool
    problems:
      description: Why it is not ready.
      type: list
      elements: str
    members:
      description: The nodes of its cluster, itself included; empty when it has no data.
      type: list
      elements: str
    running_nodes:
      description: Those of them that run.
      type: list
      elements: str
    last_running:
      description: Those that ran when it stopped.
      type: list
      elements: str
    partitions:
      description: Which nodes see which others as parted.
      type: dict
    alarms:
      description: Alarms of memory, disk or file descriptors.
      type: list
      elements: raw
    maintenance:
      description: Whether clients are sent away, as RabbitMQ calls it.
      type: str
    version:
      description: The server's version.
      type: str
    tls:
      description: What it speaks with clients by its configuration, V(off), V(on) or V(both). Null for a node that is still to be made.
      type: str
    internode_tls:
      description: What it speaks with its peers by its configuration, V(off) or V(on). Null for a node that is still to be made.
      type: str
    contents:
      description: What a node that is no member keeps beside a fresh one's own. Nothing (null) if it is stopped and cannot tell.
      type: list
      elements: str
    cookie:
      description: V(same) as O(cookie), V(other), or V(none).
      type: str
    unresolved:
      description: Names in O(peers) that do not resolve as they must.
      type: list
      elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._rabbitmq.run_rabbitmq import SERVER_ARGUMENTS, local_broker, look


def main() -> None:
    """Look and tell."""
    module = AnsibleModule(
        argument_spec={
            "expected": {"type": "list", "elements": "str", "default": []},
            "settle": {"type": "float", "default": 0},
            "peers": {"type": "dict", "default": {}},
            **SERVER_ARGUMENTS,
        },
        supports_check_mode=True,
    )
    given = module.params
    try:
        broker = local_broker(given["node"], given["unit"])
        module.exit_json(changed=False, rabbitmq=look(broker, given["cookie"], given["expected"], given["settle"], given["peers"]))
    except FootprintError as error:
        module.fail_json(**error.as_result())


if __name__ == "__main__":
    main()
