#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: status_info
short_description: Gather what one host contributes to the status of a footprint
version_added: 1.0.0
description:
  - Asks a host once for its VMs, its services, its clock and its probes, all at once and for a limited time. The playbook C(reduced.footprint.status)
    combines the results with M(reduced.footprint.status_plan), the playbook C(reduced.footprint.doctor) with M(reduced.footprint.doctor_plan).
  - A host that does not answer is a result, not a failure.
extends_documentation_fragment:
  - reduced.footprint.attributes.reads
options:
  server:
    description: Whether the host is a virt host, which has VMs, migrations and copies.
    type: bool
    default: false
  services:
    description: The services of the control plane this host is a member of.
    type: list
    elements: str
    choices: [galera, rabbitmq, witness, memcached, load_balancer, keystone, ovn_database, placement, glance, nova, neutron, cinder, horizon]
    default: []
  cloud:
    description: Whether to read the compute services of nova on a member of the database, and the chassis of OVN on the leader of its databases.
    type: bool
    default: false
  checks:
    description: Whether to read what the playbook C(reduced.footprint.doctor) checks as well.
    type: bool
    default: false
  probes:
    description: Services with a TCP port, a URL or a unit of systemd, which must answer on this host.
    type: dict
    default: {}
  cluster:
    description: Name of the cluster of VMs.
    type: str
    default: default
  environment:
    description: Name of the environment whose witness is inspected, if this host is one.
    type: str
    default: ""
  query_timeout:
    description: Seconds to wait for the answers of the host, at least 1.
    type: int
    default: 8
notes:
  - An action plugin on the control node also measures the clock, as M(reduced.footprint.clock_info) does.
seealso:
  - module: reduced.footprint.controlplane_info
  - module: reduced.footprint.vm_info
"""

EXAMPLES = r"""
- name: Ask a host
  reduced.footprint.status_info:
    server: true
    services: [galera, memcached]
    probes: {shop: http://localhost:8080/health}
  register: result
"""

RETURN = r"""
host:
  description: What the host answers.
  returned: success
  type: dict
  contains:
    reachable:
      description: Whether the host answered.
      type: bool
    reason:
      description: Why nothing is known, empty for a host that was only silent.
      type: str
    parts:
      description:
        - Each part with its C(value), or the C(error) that says why it is unknown. Parts are C(vms), C(migrations), C(standbys), C(controlplane) and C(clock),
          as the modules M(reduced.footprint.vm_info), M(reduced.footprint.master_migrate_info), M(reduced.footprint.vm_standby_info),
          M(reduced.footprint.controlplane_info) and M(reduced.footprint.clock_info) return them, C(compute), C(chassis), and C(probes), the problem of each.
        - Of a virt host also C(memory), with C(size_bytes) and C(free_bytes), and C(pools), the storage pools with the same and C(active).
        - With O(checks) also C(links), C(file_systems), C(disks), C(units), C(restart), C(keys) and C(run), and of a virt host C(record) and C(moves).
      type: dict
      sample: {probes: {value: {shop: ""}}}
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.run_controlplane import SERVICE_NAMES
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.run_status import gather
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_module import answer


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "server": {"type": "bool", "default": False},
            "services": {"type": "list", "elements": "str", "choices": list(SERVICE_NAMES), "default": []},
            "cloud": {"type": "bool", "default": False},
            "checks": {"type": "bool", "default": False},
            "probes": {"type": "dict", "default": {}},
            "cluster": {"type": "str", "default": "default"},
            "environment": {"type": "str", "default": ""},
            "query_timeout": {"type": "int", "default": 8},
        },
        supports_check_mode=True,
    )
    answer(module, lambda: {"changed": False, "host": {"reachable": True, "reason": "", "parts": gather(module.params)}})


if __name__ == "__main__":
    main()
