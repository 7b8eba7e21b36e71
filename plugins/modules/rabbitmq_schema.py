#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: rabbitmq_schema
short_description: Create virtual hosts, users, policies and queues in RabbitMQ
version_added: 1.0.0
description:
  - Creates what is missing and changes what differs, with one import of definitions. Passwords are hashed first, passed on
    standard input, and are never part of a command line.
  - Deletes nothing except O(absent_users).
  - Adds missing replicas of quorum queues, up to three, on members that joined after the queue was declared.
  - Run it on one member of a cluster, the changes are replicated.
extends_documentation_fragment:
  - reduced.footprint.attributes.changes
  - reduced.footprint.rabbitmq.node
options:
  vhosts:
    description: Virtual hosts.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the virtual host.
        type: str
        required: true
      default_queue_type:
        description:
          - Type of queues whose clients do not request one. Requires RabbitMQ 3.11; with an older version and another type than
            V(classic) the module warns.
        type: str
        choices: [quorum, classic, stream]
  users:
    description: Users.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the user.
        type: str
        required: true
      password:
        description: The password.
        type: str
        required: true
      tags:
        description: Tags, for example V(monitoring).
        type: list
        elements: str
        default: []
      permissions:
        description: Permissions per virtual host.
        type: list
        elements: dict
        default: []
        suboptions:
          vhost:
            description: The virtual host, V(/) or one of O(vhosts).
            type: str
            required: true
          configure:
            description: Regular expression for names that the user may create and delete.
            type: str
            default: .*
          write:
            description: Regular expression for names that the user may write to.
            type: str
            default: .*
          read:
            description: Regular expression for names that the user may read from.
            type: str
            default: .*
  policies:
    description: Policies.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the policy.
        type: str
        required: true
      vhost:
        description: The virtual host, V(/) or one of O(vhosts).
        type: str
        required: true
      pattern:
        description: Regular expression for names that the policy applies to.
        type: str
        default: .*
      apply_to:
        description: Objects that the policy applies to.
        type: str
        choices: [queues, exchanges, all, quorum_queues, classic_queues, streams]
        default: queues
      priority:
        description: The policy with the highest priority applies.
        type: int
        default: 0
      definition:
        description: Definition of the policy, for example C(expires).
        type: dict
        required: true
  queues:
    description: Durable queues.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the queue.
        type: str
        required: true
      vhost:
        description: The virtual host, V(/) or one of O(vhosts).
        type: str
        required: true
      type:
        description: Type of the queue. An existing queue of another type is refused.
        type: str
        choices: [quorum, classic, stream]
        default: quorum
      arguments:
        description: Additional arguments, for example C(x-max-length).
        type: dict
        default: {}
  absent_users:
    description: Users to delete.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Create the queues of the shop
  reduced.footprint.rabbitmq_schema:
    node: rabbit@metal1
    vhosts:
      - name: shop
    users:
      - name: shop
        password: "{{ lookup('reduced.footprint.secret', 'rabbitmq/shop') }}"
        permissions:
          - vhost: shop
    queues:
      - name: orders
        vhost: shop
    absent_users: [guest]
  run_once: true
"""

RETURN = r"""
actions:
  description: Actions that were taken, or in check mode would be.
  returned: success
  type: list
  elements: str
  sample: [create virtual host shop, create user shop]
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_module import answer
from ansible_collections.reduced.footprint.plugins.module_utils._rabbitmq.run_schema import ARGUMENTS, ensure_schema


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=dict(ARGUMENTS), supports_check_mode=True)
    answer(module, lambda: ensure_schema(**module.params, check_mode=module.check_mode).as_result())


if __name__ == "__main__":
    main()
