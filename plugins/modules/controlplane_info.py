#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: controlplane_info
short_description: Gather the state of the control plane services on one host
version_added: 1.0.0
description:
  - Returns for each service on this host whether its units run, its own state and that of its cluster, and why it is unhealthy.
  - Each query has a timeout, so that a service that hangs does not delay the others.
  - Run it on all hosts of the control plane. The playbook C(reduced.footprint.status) combines the results. The playbooks
    C(reduced.footprint.rolling_restart) and C(reduced.footprint.add_server) pass them to P(reduced.footprint.controlplane_decision#filter),
    which checks the control plane as a whole before and after a member is changed.
extends_documentation_fragment:
  - reduced.footprint.attributes.reads
options:
  services:
    description: The services this host is a member of. A service that is not installed is reported as a problem. An empty list means all installed ones.
    type: list
    elements: str
    choices: [galera, rabbitmq, witness, memcached, load_balancer, keystone, ovn_database, placement, glance, nova, neutron, cinder, horizon]
    default: []
  cluster:
    description: Name of the cluster whose witness is inspected, if this host is one. Empty inspects no witness.
    type: str
    default: ""
  sizes:
    description: Expected number of members of the cluster of each service. A cluster of another size is unhealthy. Without it any size is accepted.
    type: dict
    default: {}
  cluster_uuid:
    description: Expected UUID of the Galera cluster of this host. Empty accepts any.
    type: str
    default: ""
  position:
    description: Lowest accepted position (sequence number of the last applied transaction) of the Galera member on this host.
    type: int
    default: -1
  frontends:
    description:
      - Servers to which the load balancer of this host, if there is one, must send clients. Until it does, it is reported as unhealthy.
      - A frontend without any healthy server is ignored.
    type: list
    elements: str
    default: []
  virtual_address:
    description: Virtual address at which a database must answer this host. Empty skips this check.
    type: str
    default: ""
  port:
    description: Port of the database at O(virtual_address).
    type: int
    default: 3306
  wait:
    description: Wait for the services to become healthy before their state is returned.
    type: bool
    default: false
  wait_timeout:
    description: Maximum number of seconds to wait. The state is returned in any case; an unhealthy service does not make the module fail.
    type: int
    default: 300
  query_timeout:
    description: Seconds to wait for the answer of each service.
    type: int
    default: 15
  packages:
    description: Whether to return the package of each unit, and whether the unit was started before that package was installed.
    type: bool
    default: false
seealso:
  - module: reduced.footprint.galera_info
  - plugin: reduced.footprint.controlplane_decision
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Gather the state of all services of this host
  reduced.footprint.controlplane_info:
  register: result

- name: Wait until the database of this host is a member of a cluster of three
  reduced.footprint.controlplane_info:
    services: [galera]
    sizes: {galera: 3}
    wait: true
  register: result
  failed_when: result.controlplane.problems | length > 0
"""

RETURN = r"""
controlplane:
  description: The services of this host.
  returned: success
  type: dict
  contains:
    problems:
      description: Why services are unhealthy, empty if all are healthy.
      type: list
      elements: str
      sample: ["galera: mariadb.service is failed"]
    addresses:
      description: The IPv4 addresses of this host.
      type: list
      elements: str
    services:
      description:
        - Each service with its C(units) (state, process, start time (UTC), unit file and systemd's invocation ID), its own C(problems), and
          C(facts), which are C(null) if the service does not answer.
        - C(certificate), if it has one, with the time at which it or its authority C(expires) (UTC), and the C(days) left.
        - With O(packages=true) each unit has its C(package), and is C(stale) if it was started before that package was installed, or is
          stopped.
        - V(galera) also has C(guard), the latest decision of C(footprint-galera-guard) (C(action), C(reason), C(waits_for)), with C(age_seconds), which are
          C(null) if it does not run, C(isolated), and C(failed), why it gave up; and C(reversed), when the server last logged that newer data
          was replaced, or V(unknown) if its journal cannot be read; and C(backup), C(name) and start (C(made), UTC) of the last one of the daily
          backups that another host has stored, C(null) without one, or V(unknown).
        - V(rabbitmq) also has C(waits), the C(reason) for which its guard does not let it start, and whether only a C(person) removes it; C(null) if it does
          not wait.
        - The facts of V(galera) are those of RV(reduced.footprint.galera_info#module:galera). V(rabbitmq) has C(members), C(running),
          C(partitions), C(alarms), C(maintenance) (state of each member), C(drained) (whether this one is in maintenance mode) and
          C(version). V(load_balancer) has C(virtual_addresses), those C(held) by this host, the last state
          keepalived logged for each instance as C(vrrp), the listeners at the held addresses as C(fronts), and C(frontends) with their
          servers and the one in use. V(witness) has the addresses of the
          database C(members), those it is C(connected) to, the longest C(round_trip_seconds) to one of these, C(null) if unknown, and what
          that C(distance) costs as text, empty up to 2 ms. V(memcached) and V(keystone) have their C(version), the services of OpenStack
          C(apis), why each is unhealthy, and C(drained), units to which load balancers send no new requests.
      type: dict
      sample:
        memcached:
          problems: []
          facts: {address: 192.0.2.11, version: 1.6.18}
          units:
            memcached.service:
              {state: active, sub: running, pid: 811, since: "2026-01-01T00:00:00Z", invocation: 0f3a5c7e, path: /lib/systemd/system/memcached.service}
    answers:
      description: Whether a database answers at O(virtual_address), C(null) without O(virtual_address).
      type: bool
    waited_seconds:
      description: Seconds the module waited.
      type: float
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.run_controlplane import SERVICE_NAMES, LookRequest, look, parse_wanted
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_module import answer


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "services": {"type": "list", "elements": "str", "choices": list(SERVICE_NAMES), "default": []},
            "cluster": {"type": "str", "default": ""},
            "sizes": {"type": "dict", "default": {}},
            "cluster_uuid": {"type": "str", "default": ""},
            "position": {"type": "int", "default": -1},
            "frontends": {"type": "list", "elements": "str", "default": []},
            "virtual_address": {"type": "str", "default": ""},
            "port": {"type": "int", "default": 3306},
            "wait": {"type": "bool", "default": False},
            "wait_timeout": {"type": "int", "default": 300},
            "query_timeout": {"type": "int", "default": 15},
            "packages": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    given = module.params

    def gather() -> dict[str, t.Any]:
        limits = (given["wait_timeout"] if given["wait"] else 0, given["query_timeout"])
        more = {"packages": given["packages"], "cluster": given["cluster"]}
        request = LookRequest(tuple(given["services"]), parse_wanted(given), given["virtual_address"], given["port"], *limits, **more)
        return {"changed": False, "controlplane": look(request)}

    answer(module, gather)


if __name__ == "__main__":
    main()
