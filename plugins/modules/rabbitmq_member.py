#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: rabbitmq_member
short_description: Start a RabbitMQ node as a member of its cluster
version_added: 1.0.0
description:
  - Starts the RabbitMQ node of this host, or restarts it if its configuration is newer, joins it to a cluster and waits until it
    is healthy.
  - A node without data that the cluster already knows has lost its disk. The cluster forgets it, then it joins again.
  - A node that has contents never joins, because joining would wipe them. If a cluster with Khepri was forced to start without it, or has sent it some of
    its data because it has lost its disk, they are moved aside first.
  - The first node of a new cluster of RabbitMQ 4.0 or later moves its metadata into Khepri. This cannot be undone.
  - Before a restart it waits until no quorum queue would lose its majority, and moves clients and queue leaders to other members.
extends_documentation_fragment:
  - reduced.footprint.attributes.changes
  - reduced.footprint.rabbitmq.node
  - reduced.footprint.rabbitmq.cookie
options:
  state:
    description:
      - V(present) waits for a healthy member.
      - V(started) only starts the unit, for members that wait for each other.
      - V(restarted) restarts the member and waits until it is healthy.
    type: str
    choices: [present, started, restarted]
    default: present
  seed:
    description: A running node of the cluster to join. If unset, this node is the first one.
    type: str
  forget:
    description: Nodes that left permanently. The cluster forgets those it still knows.
    type: list
    elements: str
    default: []
  config_files:
    description: A server that was started before one of these files was written is restarted.
    type: list
    elements: path
    default: []
  force_boot:
    description:
      - Start a node that is stopped, or waits for others, without them. Queues and messages that only they have are lost.
      - Has no effect on a running node, and with Mnesia none on one that sees a running member when it starts. With Khepri the node becomes the only one of
        its cluster, and the others must join it again.
    type: bool
    default: false
  wait_timeout:
    description: Maximum number of seconds to wait until the member is healthy.
    type: int
    default: 600
seealso:
  - module: reduced.footprint.rabbitmq_info
"""

EXAMPLES = r"""
- name: Join one by one
  reduced.footprint.rabbitmq_member:
    node: "rabbit@{{ inventory_hostname }}"
    seed: rabbit@metal1
    cookie: "{{ rabbitmq_erlang_cookie }}"
    config_files:
      - /etc/rabbitmq/rabbitmq.conf
  throttle: 1
"""

RETURN = r"""
actions:
  description:
    - Actions that were taken, or in check mode would be. Some of V(set the cookie), V(set its data aside), V(force the start), V(start), V(restart),
      V(use Khepri), V(join), V(forget) and V(revive).
  returned: success
  type: list
  elements: str
  sample: [start, join]
rabbitmq:
  description: State of the member after the change, as RV(reduced.footprint.rabbitmq_info#module:rabbitmq).
  returned: success
  type: dict
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_module import answer
from ansible_collections.reduced.footprint.plugins.module_utils._rabbitmq.run_rabbitmq import SERVER_ARGUMENTS, MemberRequest, ensure, local_broker


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "started", "restarted"], "default": "present"},
            "seed": {"type": "str"},
            "forget": {"type": "list", "elements": "str", "default": []},
            "config_files": {"type": "list", "elements": "path", "default": []},
            "force_boot": {"type": "bool", "default": False},
            "wait_timeout": {"type": "int", "default": 600},
            **SERVER_ARGUMENTS,
        },
        supports_check_mode=True,
    )
    given = module.params
    request = MemberRequest(
        given["state"], given["seed"] or None, tuple(given["forget"]), tuple(given["config_files"]), given["force_boot"], given["wait_timeout"]
    )
    broker = local_broker(given["node"], given["unit"])
    answer(module, lambda: ensure(request, broker, given["cookie"], check_mode=module.check_mode).as_result("rabbitmq"))


if __name__ == "__main__":
    main()
