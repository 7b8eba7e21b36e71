#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_node_info
short_description: Read the recorded facts and the current state of a virt node, or validate its details
version_added: 1.0.0
description:
  - Reads the facts that M(reduced.footprint.virt_node) recorded on a server, secrets masked, and the current state from libvirt and
    the kernel, that is pools, networks, bridges, VMs with their owners, and the remaining capacity.
  - Proofs are not repeated; each recorded proof shows whether it is still valid for this kernel, QEMU and CPU.
  - If libvirt is not installed or does not answer, a warning reports it and all other values are returned.
  - With O(name) the details of a server that may not be prepared yet are validated instead, given by the same options as for
    M(reduced.footprint.virt_node). The module fails if they are invalid, if a bridge is missing, or if memory or CPUs of the server are not
    sufficient for its VMs. libvirt is not required.
extends_documentation_fragment:
  - reduced.footprint.attributes.reads
  - reduced.footprint.virt_node.details
  - reduced.footprint.virt_node.storage
options:
  name:
    description: Name of the server whose details are validated, normally its inventory name.
    type: str
  cluster:
    description: Name of the cluster. Required with O(name).
    type: str
  uri:
    description: Connection URI of libvirt for QEMU guests, storage pools and networks.
    type: str
    default: qemu:///system
  container_uri:
    description: Connection URI of libvirt for containers.
    type: str
    default: lxc:///system
  facts_file:
    description: File in which the facts are recorded.
    type: path
    default: /etc/ansible/facts.d/reduced_footprint.fact
seealso:
  - module: reduced.footprint.virt_node
  - module: reduced.footprint.vm_info
"""

EXAMPLES = r"""
- name: Read a node
  reduced.footprint.virt_node_info:
  register: node_info

- name: Show the remaining capacity
  ansible.builtin.debug:
    msg: >-
      {{ inventory_hostname }}: {{ node_info.node.capacity.memory_left_mib }} MiB of memory left;
      pools {{ node_info.node.pools | dict2items | map(attribute='key') | join(', ') }}

- name: Validate the details before any change on the server
  reduced.footprint.virt_node_info:
    name: metal1
    cluster: lab
    roles: [virt]
    bridges: [br-admin]
    vms: [{id: controller1, cpu: 2, ram: 4, nics: [{bridge: br-admin}]}]
"""

RETURN = r"""
node:
  description: The node. With O(name) only RV(node.attributes), as validated, and RV(node.capacity), without the usage by VMs.
  returned: success
  type: dict
  contains:
    recorded:
      description: Whether the server is recorded as a node.
      type: bool
    name:
      description: The recorded name, null if the server is not recorded.
      type: str
      sample: metal1
    cluster:
      description: The recorded cluster, null if the server is not recorded.
      type: str
      sample: lab
    roles:
      description: The recorded roles.
      type: list
      elements: str
      sample: [virt, compute]
    attributes:
      description: All recorded attributes including the VM details, secrets masked.
      type: dict
      sample: {name: metal1, cluster: lab, roles: [virt], vms: []}
    libvirt:
      description: Whether libvirt answered; otherwise pools, networks and VMs are empty.
      type: bool
    hypervisors:
      description: The recorded proof of each hypervisor type.
      type: dict
      contains:
        kvm:
          description: One key per tested type, V(kvm), V(qemu) or V(lxc), all with this structure.
          returned: when it was tested
          type: dict
          contains:
            usable:
              description: Whether a test guest ran.
              type: bool
            reason:
              description: What was proven, or why the proof failed.
              type: str
            seconds:
              description: Duration of the proof in seconds.
              type: float
            cpu_models:
              description: The result for each CPU model that was tried.
              type: dict
            key:
              description: The kernel, QEMU and CPU for which the proof was made.
              type: str
            holds:
              description: Whether the proof is still valid.
              type: bool
    bridges:
      description: The bridges of the host.
      type: list
      elements: str
      sample: [br-admin]
    networks:
      description: The libvirt networks.
      type: list
      elements: dict
      sample: [{name: br-admin, mode: bridge, bridge: br-admin, active: true, autostart: true, ours: true}]
    pools:
      description:
        - The libvirt storage pools by name. Sizes are null for an inactive pool; C(promised_bytes) is the size to which its
          volumes may grow, C(overcommit) its ratio to the capacity. C(ours) is true for pools that M(reduced.footprint.virt_node) created,
          C(reserve_bytes) is the recorded reserve of this pool, null if it has the reserve of all pools.
        - C(mount) is the mount point of the file system of a pool of files, null for the root file system; C(mounted) is false if
          the pool was on a mount point before and nothing is mounted there now.
      type: dict
      sample:
        default: {path: /var/lib/libvirt/images, type: dir, source: null, reserve_bytes: null, mount: null, mounted: true,
                  active: true, autostart: true, ours: true,
                  volumes: 3, capacity_bytes: 107374182400, allocation_bytes: 10737418240, available_bytes: 96636764160,
                  promised_bytes: 64424509440, overcommit: 0.6}
    vms:
      description:
        - The VMs of the host, including unmanaged ones. C(owner) is the owner as text, C(moved_to) the server that runs the VM
          if this is the old copy of a move, C(pools) and C(networks) are those that the VM uses.
      type: list
      elements: dict
      sample:
        - {name: controller1, id: controller1, uuid: 7f8c1c9e-5f0e-5c9e-8c1e-0a1b2c3d4e5f, cluster: lab, origin: vm_define, owner: cluster lab,
           protected: false, roles: [controller], state: running, autostart: true, memory_mib: 4096, cpu: 2, moved_to: null,
           pools: [default], networks: []}
    capacity:
      description:
        - Total and remaining capacity, with the recorded reserve and ratio. C(active_mib) counts VMs that are running,
          paused or suspended, C(defined_mib) all VMs; C(memory_left_all_running_mib) is negative if not all of them can run together.
      type: dict
      sample: {memory_mib: 24105, memory_reserve_mib: 1024, cpus: 8, vcpu_ratio: 4.0, arch: x86_64, kernel: 6.1.0-18-amd64,
               cpu_model: AMD EPYC, qemu_version: 7.2.9, active_mib: 4096, active_vcpus: 2, defined_mib: 8192, defined_vcpus: 4,
               memory_left_mib: 18985, vcpus_left: 30, memory_left_all_running_mib: 14889}
    tenants:
      description:
        - What the VMs of the footprint leave to those of tenants of a cloud. C(reserved_mib) is the memory of the host and of the footprint's VMs,
          running or not, C(tenant_mib) the rest; the first C(reserved_cpus) CPUs are not used by tenants, who have the C(tenant_cpus).
      type: dict
      sample: {reserved_mib: 5376, tenant_mib: 18729, reserved_cpus: 2, tenant_cpus: 2-7}
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_redaction import hidden_values
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_module import answer, quiet
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_arguments import DETAILS_ARGUMENTS
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.run_info import read_node
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.run_node import NodeRequest, check_node
from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot.model_cloud_init import without_secrets


def main() -> None:
    """Entry point."""
    module = quiet(AnsibleModule)(
        argument_spec={
            "name": {"type": "str"},
            "cluster": {"type": "str"},
            **DETAILS_ARGUMENTS,
            "uri": {"type": "str", "default": "qemu:///system"},
            "container_uri": {"type": "str", "default": "lxc:///system"},
            "facts_file": {"type": "path", "default": "/etc/ansible/facts.d/reduced_footprint.fact"},
        },
        required_by={"name": ("cluster",)},
        supports_check_mode=True,
    )
    module.no_log_values.update(hidden_values(module.params["vms"]))
    given = dict(module.params)
    # the result contains the parameters
    module.params["vms"] = without_secrets(module.params["vms"])

    def gather() -> dict[str, t.Any]:
        if given["name"] is not None:
            return {"changed": False, "node": check_node(NodeRequest(**given))}
        node, warnings = read_node(given["uri"], given["container_uri"], given["facts_file"])
        return {"changed": False, "node": node, "warnings": warnings}

    answer(module, gather)


if __name__ == "__main__":
    main()
