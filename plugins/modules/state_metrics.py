#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: state_metrics
short_description: Write the state of a host as metrics, by timers
version_added: 1.0.0
description:
  - Installs two timers of systemd that gather what M(reduced.footprint.status_info) reports of this host, and write it as text files for the
    textfile collector of the node exporter of Prometheus. Alerts need neither Ansible nor a control node then.
  - The first one gathers what an alert must not wait for, the services and probes. The second one gathers what costs more, RabbitMQ, the databases of
    OVN, the compute services, VMs, copies, unfinished jobs, keys, units and disks.
  - What could not be read has the value 0 in the metric C(footprint_part_known) or C(footprint_service_known), and no other metrics.
  - The role P(reduced.footprint.monitoring#role) uses it.
extends_documentation_fragment:
  - reduced.footprint.attributes.changes
options:
  server:
    description: Whether the host is a virt host, which has VMs, migrations and copies.
    type: bool
    default: false
  services:
    description: The services of the control plane this host is a member of, as in M(reduced.footprint.status_info).
    type: list
    elements: str
    default: []
  cloud:
    description: Whether to read the compute services and chassis of a cloud.
    type: bool
    default: false
  probes:
    description: Services with a TCP port, a URL or a unit of systemd, which must answer on this host.
    type: dict
    default: {}
  votes:
    description: Service to the number of votes that its cluster should have.
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
  directory:
    description: Directory of the text files. It must exist when the timers run.
    type: path
    default: /var/lib/prometheus/node-exporter
  services_seconds:
    description: Seconds between two gatherings of services and probes.
    type: int
    default: 20
  machine_seconds:
    description: Seconds between two gatherings of everything else.
    type: int
    default: 120
  slice:
    description: Slice of systemd to which the processes belong, for a common limit of memory.
    type: str
    default: ""
seealso:
  - module: reduced.footprint.status_info
"""

EXAMPLES = r"""
- name: Write the state of a controller as metrics
  reduced.footprint.state_metrics:
    services: [galera, memcached]
    votes: {galera: 3}
"""

RETURN = r"""
actions: {description: 'What was written or started, or would be in check mode.', returned: success, type: list, elements: str}
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_module import answer
from ansible_collections.reduced.footprint.plugins.module_utils._monitoring import run_state_metrics


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "server": {"type": "bool", "default": False},
            "services": {"type": "list", "elements": "str", "default": []},
            "cloud": {"type": "bool", "default": False},
            "probes": {"type": "dict", "default": {}},
            "votes": {"type": "dict", "default": {}},
            "cluster": {"type": "str", "default": "default"},
            "environment": {"type": "str", "default": ""},
            "directory": {"type": "path", "default": "/var/lib/prometheus/node-exporter"},
            "services_seconds": {"type": "int", "default": 20},
            "machine_seconds": {"type": "int", "default": 120},
            "slice": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    answer(module, lambda: run_state_metrics.apply(module.params, check_mode=module.check_mode))


if __name__ == "__main__":
    main()
