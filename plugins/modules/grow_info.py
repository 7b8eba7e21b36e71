#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: grow_info
short_description: Look at one controller before and after a peer of it is moved
version_added: 0.1.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Tells whether a controller is well, that is whether its database is a synced member of a cluster of the right size at the right
    position, its load balancer sees all members and its virtual address answers.
  - Run it on every controller and give all results to the filter P(reduced.footprint.add_server_gate#filter), which judges the control
    plane as a whole. The playbook C(reduced.footprint.add_server) does so before and after it moves a controller.
extends_documentation_fragment:
  - reduced.footprint.attributes.linux
  - reduced.footprint.attributes.reads
  - reduced.footprint.mariadb.unit
  - reduced.footprint.mariadb.datadir
options:
  wait:
    description: Seconds the controller gets to become well. What it is then is told; that it is not well is no failure of the module.
    type: float
    default: 0
  size:
    description: How many members the cluster is to have. Without it any size will do.
    type: int
  cluster_uuid:
    description: The cluster it is to belong to. Without it any will do.
    type: str
  position:
    description: What it is to have applied at least.
    type: int
    default: -1
  absent:
    description: Controllers that are under way, so that nobody's load balancer need reach them.
    type: list
    elements: str
    default: []
  services:
    description: Units that are to be active.
    type: list
    elements: str
    default: [mariadb, haproxy, keepalived]
  virtual_address:
    description: The virtual address of the controllers. Without it no load balancer is looked at.
    type: str
  port:
    description: Port at which a database answers at O(virtual_address).
    type: int
    default: 3306
  stats_socket:
    description: Admin socket of HAProxy.
    type: path
    default: /run/haproxy-footprint.sock
seealso:
  - module: reduced.footprint.galera_info
  - plugin: reduced.footprint.add_server_gate
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Wait until this controller is one of three
  reduced.footprint.grow_info:
    size: 3
    virtual_address: 192.0.2.20
    wait: 300
  register: look

- name: Show what is wrong with it
  ansible.builtin.debug:
    msg: "{{ look.controller.problems }}"
"""

RETURN = r"""
controller:
  description: The controller.
  returned: success
  type: dict
  contains:
    problems:
      description: Why it is not well, nothing when it is.
      type: list
      elements: str
    galera:
      description: As RV(reduced.footprint.galera_info#module:galera).
      type: dict
    services:
      description: Each of O(services) with systemd's word for it.
      type: dict
      sample: {mariadb: active, haproxy: active, keepalived: active}
    addresses:
      description: The IPv4 addresses it has.
      type: list
      elements: str
    frontends:
      description: Each service of the load balancer with its servers and the one it uses alone, if so. Nothing when it does not answer.
      type: dict
      sample: {mysql: {in_use: controller1, servers: {controller1: {status: UP, sessions: 2}}}}
    answers:
      description: Whether a database answers at the virtual address. Nothing without one.
      type: bool
    waited:
      description: Seconds that were waited.
      type: float
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.run_add_server import LookRequest, local_balancer, look, wanted
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._galera.run_galera import SERVER_ARGUMENTS, local_database


def main() -> None:
    """Look and tell."""
    module = AnsibleModule(
        argument_spec={
            "wait": {"type": "float", "default": 0},
            "size": {"type": "int"},
            "cluster_uuid": {"type": "str"},
            "position": {"type": "int", "default": -1},
            "absent": {"type": "list", "elements": "str", "default": []},
            "services": {"type": "list", "elements": "str", "default": ["mariadb", "haproxy", "keepalived"]},
            "virtual_address": {"type": "str"},
            "port": {"type": "int", "default": 3306},
            "stats_socket": {"type": "path", "default": "/run/haproxy-footprint.sock"},
            **SERVER_ARGUMENTS,
        },
        supports_check_mode=True,
    )
    given = module.params
    condition = wanted(given["size"], given["cluster_uuid"], given["position"], given["absent"], bool(given["virtual_address"]))
    request = LookRequest(tuple(given["services"]), given["virtual_address"] or None, given["port"], condition, given["wait"])
    try:
        module.exit_json(changed=False, controller=look(request, local_database(given["unit"], given["datadir"]), local_balancer(given["stats_socket"])))
    except FootprintError as error:
        module.fail_json(**error.as_result())


if __name__ == "__main__":
    main()
