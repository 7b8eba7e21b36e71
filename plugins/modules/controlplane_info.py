#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: controlplane_info
short_description: Look at the services of the control plane on one host
version_added: 0.1.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Tells of each service on this host whether its units run, what it says of itself and of its cluster, and why it is not well.
  - Each service is asked with a limit of time, so that one that hangs does not hold up the others.
  - Run it on all hosts of the control plane. The playbook C(reduced.footprint.status) puts the results together, and
    C(reduced.footprint.rolling_restart) waits with it for each member that it restarted.
extends_documentation_fragment:
  - reduced.footprint.attributes.linux
  - reduced.footprint.attributes.reads
options:
  services:
    description: The services this host is a member of. Those that are not installed are told as such. With none, all that are installed.
    type: list
    elements: str
    choices: [galera, rabbitmq, memcached, load_balancer, keystone]
    default: []
  sizes:
    description: How many members the cluster of a service is to have. A cluster with fewer is not well. Without it any size will do.
    type: dict
    default: {}
  frontends:
    description: Servers which the load balancer of this host, if it has one, is to send clients to. It is not well as long as it does not.
    type: list
    elements: str
    default: []
  wait:
    description: Seconds the services get to become well. What they are then is told; that one is not well is no failure of the module.
    type: float
    default: 0
  timeout:
    description: Seconds each service gets for an answer.
    type: float
    default: 15
  packages:
    description: Whether to tell the package each unit came with, and whether the unit runs since before that was installed.
    type: bool
    default: false
seealso:
  - module: reduced.footprint.galera_info
"""

EXAMPLES = r"""
- name: Look at what runs here
  reduced.footprint.controlplane_info:
  register: look

- name: Wait until the database of this host is one of three again
  reduced.footprint.controlplane_info:
    services: [galera]
    sizes: {galera: 3}
    wait: 300
  register: look
  failed_when: look.controlplane.problems | length > 0
"""

RETURN = r"""
controlplane:
  description: The services of this host.
  returned: success
  type: dict
  contains:
    problems:
      description: Why something is not well, nothing when all is.
      type: list
      elements: str
      sample: ["galera: mariadb.service is failed"]
    addresses:
      description: The IPv4 addresses of this host.
      type: list
      elements: str
    services:
      description:
        - Each service with its C(units) (their state, process, start, file and the number systemd gave that start), its own C(problems), and
          C(facts), which are nothing when it does not answer.
        - With O(packages=true) each unit has its C(package), and is C(stale) when it was started before that was installed.
        - The facts of V(galera) are those of RV(reduced.footprint.galera_info#module:galera). V(rabbitmq) tells C(members), C(running),
          C(partitions), C(alarms) and C(version), V(load_balancer) tells C(virtual_addresses), those C(held) here, the states
          keepalived last said its instances are in as C(vrrp), what answers there as C(fronts), and C(frontends) with their servers and
          the one in use. V(memcached) and V(keystone) tell their C(version).
      type: dict
      sample:
        memcached:
          problems: []
          facts: {address: 192.0.2.11, version: 1.6.18}
          units:
            memcached.service: {state: active, sub: running, pid: 811, since: 1767225600, invocation: 0f3a5c7e, path: /lib/systemd/system/memcached.service}
    waited:
      description: Seconds that were waited.
      type: float
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.run_controlplane import SERVICE_NAMES, LookRequest, look, parse_sizes
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError


def main() -> None:
    """Look and tell."""
    module = AnsibleModule(
        argument_spec={
            "services": {"type": "list", "elements": "str", "choices": list(SERVICE_NAMES), "default": []},
            "sizes": {"type": "dict", "default": {}},
            "frontends": {"type": "list", "elements": "str", "default": []},
            "wait": {"type": "float", "default": 0},
            "timeout": {"type": "float", "default": 15},
            "packages": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    given = module.params
    try:
        sizes, limits = parse_sizes(given["sizes"]), (given["wait"], given["timeout"])
        request = LookRequest(tuple(given["services"]), sizes, tuple(given["frontends"]), *limits, packages=given["packages"])
        module.exit_json(changed=False, controlplane=look(request))
    except FootprintError as error:
        module.fail_json(**error.as_result())


if __name__ == "__main__":
    main()
