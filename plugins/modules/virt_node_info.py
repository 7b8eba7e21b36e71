#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_node_info
short_description: Tell what a node was recorded as and how it stands now
version_added: 0.1.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Reads what M(reduced.footprint.virt_node) recorded on a server, secrets masked, and asks libvirt and the kernel how it stands now,
    pools, networks, bridges, VMs with their owners, and what is left of its capacity.
  - Nothing is proven anew; each recorded proof says whether it still holds for this kernel, QEMU and CPU.
  - On a server where libvirt is not installed or does not answer, a warning says so and the rest is told.
extends_documentation_fragment:
  - reduced.footprint.attributes.linux
  - reduced.footprint.attributes.reads
options:
  uri:
    description: Address of libvirt for QEMU guests, storage pools and networks.
    type: str
    default: qemu:///system
  container_uri:
    description: Address of libvirt for containers.
    type: str
    default: lxc:///system
  facts_file:
    description: Where the facts are recorded.
    type: path
    default: /etc/ansible/facts.d/reduced_footprint.fact
seealso:
  - module: reduced.footprint.virt_node
  - module: reduced.footprint.vm_info
"""

EXAMPLES = r"""
- name: Look at a node
  reduced.footprint.virt_node_info:
  register: look

- name: Show what is left on it
  ansible.builtin.debug:
    msg: >-
      {{ inventory_hostname }}: {{ look.node.capacity.memory_left_mib }} MiB of memory left;
      pools {{ look.node.pools | dict2items | map(attribute='key') | join(', ') }}
"""

RETURN = r"""
node:
  description: The node.
  returned: success
  type: dict
  contains:
    recorded:
      description: Whether it was recorded as a node.
      type: bool
      returned: always
      sample: true
    name:
      description: Its recorded name, nothing where it was not recorded.
      type: str
      returned: always
      sample: metal1
    cluster:
      description: Its recorded cluster, nothing where it was not recorded.
      type: str
      returned: always
      sample: lab
    roles:
      description: Its recorded roles.
      type: list
      elements: str
      returned: always
      sample: [virt, compute]
    attributes:
      description: All recorded attributes, the VM details among them, secrets masked.
      type: dict
      returned: always
      sample: {name: metal1, cluster: lab, roles: [virt], vms: []}
    libvirt:
      description: Whether libvirt answered; without it pools, networks and VMs are empty.
      type: bool
      returned: always
      sample: true
    hypervisors:
      description: The recorded proof of each hypervisor type, as M(reduced.footprint.virt_node) returns it.
      type: dict
      returned: always
      contains:
        kvm:
          description: One key per proven type, V(kvm), V(qemu) or V(lxc), all of this shape.
          returned: when it was proven
          type: dict
          contains:
            usable:
              description: Whether a guest ran.
              type: bool
              returned: always
            reason:
              description: What was proven, or why not.
              type: str
              returned: always
            seconds:
              description: What the proof took when it was made.
              type: float
              returned: always
            cpu_models:
              description: The outcome for each CPU model tried.
              type: dict
              returned: always
            key:
              description: The kernel, QEMU and CPU the proof was made for.
              type: str
              returned: always
            holds:
              description: Whether they are still the same.
              type: bool
              returned: always
    bridges:
      description: The bridges of the host.
      type: list
      elements: str
      returned: always
      sample: [br-admin]
    networks:
      description: The networks of libvirt.
      type: list
      elements: dict
      returned: always
      sample: [{name: br-admin, mode: bridge, bridge: br-admin, active: true, autostart: true, ours: true}]
    pools:
      description:
        - The storage pools of libvirt by their names. Sizes are nothing for a pool that is not active; C(promised_bytes) is what its
          volumes may grow to, C(overcommit) how much that is per byte there is. C(ours) are those M(reduced.footprint.virt_node) made,
          C(reserve_bytes) is what was recorded to be kept free in this pool, where that is not what is kept free in all.
        - C(mount) is the mount point of the file system a pool of files is on, nothing for the root file system; C(mounted) is false where
          it was seen on a mount point that has nothing mounted now.
      type: dict
      returned: always
      sample:
        default: {path: /var/lib/libvirt/images, type: dir, source: null, reserve_bytes: null, mount: null, mounted: true,
                  active: true, autostart: true, ours: true,
                  volumes: 3, capacity_bytes: 107374182400, allocation_bytes: 10737418240, available_bytes: 96636764160,
                  promised_bytes: 64424509440, overcommit: 0.6}
    vms:
      description:
        - The VMs of the host, also those that are not ours. C(owner) says whose they are in words, C(moved_to) where the new copy of one
          runs that was moved away, C(pools) and C(networks) what they use.
      type: list
      elements: dict
      returned: always
      sample:
        - {name: controller1, id: controller1, uuid: 7f8c1c9e-5f0e-5c9e-8c1e-0a1b2c3d4e5f, cluster: lab, origin: vm_define, owner: cluster lab,
           protected: false, roles: [controller], state: running, autostart: true, memory_mib: 4096, cpu: 2, moved_to: null,
           pools: [default], networks: []}
    capacity:
      description:
        - What the machine has and what is left after the recorded reserve and with the recorded ratio. C(active_mib) counts VMs that run, are
          paused or suspended, C(defined_mib) all; C(memory_left_all_running_mib) falls below zero where not all of them could run.
      type: dict
      returned: always
      sample: {memory_mib: 24105, memory_reserve_mib: 1024, cpus: 8, vcpu_ratio: 4.0, arch: x86_64, kernel: 6.1.0-18-amd64,
               cpu_model: AMD EPYC, qemu_version: 7.2.9, active_mib: 4096, active_vcpus: 2, defined_mib: 8192, defined_vcpus: 4,
               memory_left_mib: 18985, vcpus_left: 30, memory_left_all_running_mib: 14889}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.run_info import NodeInfoRequest, read_node


def main() -> None:
    """Parameters in, use case, result out."""
    module = AnsibleModule(
        argument_spec={
            "uri": {"type": "str", "default": "qemu:///system"},
            "container_uri": {"type": "str", "default": "lxc:///system"},
            "facts_file": {"type": "path", "default": "/etc/ansible/facts.d/reduced_footprint.fact"},
        },
        supports_check_mode=True,
    )
    try:
        node, warnings = read_node(NodeInfoRequest(**module.params))
    except FootprintError as error:
        module.fail_json(**error.as_result())
    for warning in warnings:
        module.warn(warning)
    module.exit_json(changed=False, node=node)


if __name__ == "__main__":
    main()
