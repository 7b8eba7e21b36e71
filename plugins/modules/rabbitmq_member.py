#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: rabbitmq_member
short_description: Bring a RabbitMQ node into its cluster
version_added: 0.1.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Starts, or restarts when its configuration is newer than it, the RabbitMQ node of this host, makes it a member of a cluster
    and waits until it is healthy.
  - A node that is no member yet but is known to the cluster has lost its disk. The cluster forgets it, then it joins anew.
  - A node with contents of its own is never made to join, because joining would wipe them.
  - Before a restart clients and the leaders of queues are sent to the other members, and it waits until no quorum queue would
    lose its majority.
extends_documentation_fragment:
  - reduced.footprint.attributes.linux
  - reduced.footprint.rabbitmq.node
  - reduced.footprint.rabbitmq.cookie
attributes:
  check_mode:
    description: Can run in check_mode and tell what would be done without doing it.
    support: full
  diff_mode:
    description: Shows the member's state before and after.
    support: full
options:
  state:
    description:
      - V(present) is a healthy member.
      - V(started) only asks systemd for a start, for members that wait for each other.
      - V(restarted) is a healthy member after a restart.
    type: str
    choices: [present, started, restarted]
    default: present
  seed:
    description: A running node of the cluster it has to be in. Without it the node is the first one.
    type: str
  forget:
    description: Nodes that left for good. The cluster forgets those it still knows.
    type: list
    elements: str
    default: []
  config_files:
    description: A server that was started before one of these files was last written is restarted.
    type: list
    elements: path
    default: []
  force_boot:
    description:
      - Let a stopped node start without waiting for those that ran when it stopped. What only they have is lost.
      - A node that is up is left alone.
    type: bool
    default: false
  timeout:
    description: Seconds until the member must be healthy.
    type: float
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
    - What was done, or in check mode would be. Of V(set the cookie), V(force the start), V(start), V(restart), V(join), V(forget)
      and V(revive).
  returned: success
  type: list
  elements: str
  sample: [start, join]
rabbitmq:
  description: The member as RV(reduced.footprint.rabbitmq_info#module:rabbitmq) describes it, after the change.
  returned: success
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._rabbitmq.run_rabbitmq import SERVER_ARGUMENTS, MemberRequest, ensure, local_broker


def main() -> None:
    """Ensure and tell."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "started", "restarted"], "default": "present"},
            "seed": {"type": "str"},
            "forget": {"type": "list", "elements": "str", "default": []},
            "config_files": {"type": "list", "elements": "path", "default": []},
            "force_boot": {"type": "bool", "default": False},
            "timeout": {"type": "float", "default": 600},
            **SERVER_ARGUMENTS,
        },
        supports_check_mode=True,
    )
    given = module.params
    request = MemberRequest(
        given["state"], given["seed"] or None, tuple(given["forget"]), tuple(given["config_files"]), given["force_boot"], given["timeout"]
    )
    try:
        result = ensure(request, local_broker(given["node"], given["unit"]), given["cookie"], check_mode=module.check_mode)
    except FootprintError as error:
        module.fail_json(**error.as_result())
    diff = {"before": dict(result.before, actions=[]), "after": dict(result.after, actions=list(result.actions))}
    module.exit_json(changed=result.changed, actions=list(result.actions), rabbitmq=dict(result.after), diff=diff)


if __name__ == "__main__":
    main()
