#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: grow_info
short_description: Gather the state of one controller before and after one of its peers is moved
version_added: 0.1.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Returns whether a controller is healthy. It is healthy if its database is a synced member of a cluster of the expected size at the
    expected position, its load balancer reaches all members, and a database answers at the virtual address.
  - Run it on every controller and pass all results to the filter P(reduced.footprint.add_server_gate#filter), which evaluates the control
    plane as a whole. The playbook C(reduced.footprint.add_server) does so before and after it moves a controller.
extends_documentation_fragment:
  - reduced.footprint.attributes.linux
  - reduced.footprint.attributes.reads
  - reduced.footprint.mariadb.unit
  - reduced.footprint.mariadb.datadir
options:
  wait:
    description: Seconds to wait for the controller to become healthy. Then its state is returned; an unhealthy controller does not make the module fail.
    type: float
    default: 0
  size:
    description: Expected number of members of the cluster. Without it any size is accepted.
    type: int
  cluster_uuid:
    description: Expected UUID of its cluster. Without it any cluster is accepted.
    type: str
  position:
    description: Lowest accepted position (sequence number of the last applied transaction).
    type: int
    default: -1
  absent:
    description: Controllers that are being moved and that no load balancer has to reach.
    type: list
    elements: str
    default: []
  services:
    description: Units that must be active.
    type: list
    elements: str
    default: [mariadb, haproxy, keepalived]
  virtual_address:
    description: The virtual address of the controllers. Without it no load balancer is checked.
    type: str
  port:
    description: Port of the database at O(virtual_address).
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
- name: Wait until this controller is a member of a cluster of three
  reduced.footprint.grow_info:
    size: 3
    virtual_address: 192.0.2.20
    wait: 300
  register: result

- name: Show its problems
  ansible.builtin.debug:
    msg: "{{ result.controller.problems }}"
"""

RETURN = r"""
controller:
  description: The controller.
  returned: success
  type: dict
  contains:
    problems:
      description: Why it is unhealthy, empty if it is healthy.
      type: list
      elements: str
    galera:
      description: As RV(reduced.footprint.galera_info#module:galera).
      type: dict
    services:
      description: Each of O(services) with its state in systemd.
      type: dict
      sample: {mariadb: active, haproxy: active, keepalived: active}
    addresses:
      description: The IPv4 addresses of the host.
      type: list
      elements: str
    frontends:
      description: Each frontend of the load balancer with its servers and, for a frontend that uses one server at a time, that server as
        C(in_use). C(null) if the load balancer does not answer.
      type: dict
      sample: {mysql: {in_use: controller1, servers: {controller1: {status: UP, sessions: 2}}}}
    answers:
      description: Whether a database answers at the virtual address, C(null) without a virtual address.
      type: bool
    waited:
      description: Seconds the module waited.
      type: float
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.run_add_server import LookRequest, local_balancer, look, wanted
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._galera.run_galera import SERVER_ARGUMENTS, local_database


def main() -> None:
    """Run the module."""
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
