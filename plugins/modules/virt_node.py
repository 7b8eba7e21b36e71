#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_node
short_description: Validate, test and record a physical server as a virt node
version_added: 1.0.0
description:
  - Validates the VM details of a server, proves which hypervisor types can run guests, measures the capacity,
    fails if the capacity is not sufficient for the VM details, and records the result as local facts.
  - A hypervisor type is usable if a test guest ran under it; a device node or a capability is not sufficient. The guest
    for V(kvm) and V(qemu) is a boot sector that enters 64-bit long mode on the CPU model of the guests, executes code, handles
    an exception and a timer interrupt; the guest for V(lxc) is a container with a single process.
  - The facts are available as C(ansible_local.reduced_footprint). Values of VM details whose name suggests a secret (password,
    token and similar) are masked there and in the result. The current usage of pools is recorded in C(measured), refreshed by each
    run and does not count as a change.
  - O(state=absent) removes the node; the server becomes an ordinary one again.
requirements:
  - python3-libvirt on the server, if it has the role V(virt)
attributes:
  check_mode:
    details:
      - The proofs run; their guests leave nothing behind.
      - If libvirt is not installed yet, a warning reports it, everything that depends on it is assumed to be present, and nothing is proven.
  platform:
    support: full
    platforms: linux
    description: Linux on x86_64; on other architectures V(kvm) and V(qemu) are not proven.
options:
  name:
    description: Name of the server, normally its inventory name.
    type: str
    required: true
  cluster:
    description: Name of the cluster; UUIDs and MACs of its VMs derive from it.
    type: str
    required: true
  hypervisors:
    description: The hypervisor types to prove. Types that the VM details request are always proven.
    type: list
    elements: str
    choices: [kvm, qemu, lxc]
    default: [kvm, qemu, lxc]
  facts_file:
    description: File in which the facts are recorded.
    type: path
    default: /etc/ansible/facts.d/reduced_footprint.fact
  proof_timeout:
    description: Seconds after which the test guest of a proof is considered hung.
    type: int
    default: 15
  reprove:
    description:
      - Repeat the proof although the recorded one is still valid. A proof is valid for one kernel, QEMU, CPU and microcode.
    type: bool
    default: false
  uri:
    description: Connection URI of libvirt for QEMU guests and storage pools.
    type: str
    default: qemu:///system
  container_uri:
    description: Connection URI of libvirt for containers.
    type: str
    default: lxc:///system
  state:
    description:
      - V(present) validates, proves, measures and records.
      - V(absent) removes the record, the pools and networks that this module created and that no remaining VM needs, and the autostart
        of the cluster's VMs. Disks, bridges, packages and settings of libvirt are kept. Without O(confirm) it is refused,
        and RV(removal) lists the VMs and the impact on the cluster.
    type: str
    choices: [present, absent]
    default: present
extends_documentation_fragment:
  - reduced.footprint.attributes.changes
  - reduced.footprint.virt_node.details
  - reduced.footprint.virt_node.storage
  - reduced.footprint.virt_node.removal
seealso:
  - module: reduced.footprint.virt_node_info
  - module: reduced.footprint.virt_network
"""

EXAMPLES = r"""
- name: Prepare a server for two controllers
  reduced.footprint.virt_node:
    name: metal1
    cluster: lab
    roles: [virt, compute]
    pool_path: /var/lib/libvirt/images
    memory_reserve: 4 GiB
    vms:
      - {id: controller1, cpu: 2, ram: 4, roles: [controller], nics: [{bridge: br-admin}], disks: [{size: 20GiB}]}
      - {id: controller2, cpu: 2, ram: 4, roles: [controller], nics: [{bridge: br-admin}], disks: [{size: 20GiB}]}

- name: Pass VM details as JSON text, and prove emulation only
  reduced.footprint.virt_node:
    name: metal2
    cluster: lab
    roles: [virt]
    hypervisors: [qemu]
    vms: '[{"id": 0, "cpu": 1, "ram": 1, "hypervisor": "qemu"}]'

- name: Use an existing volume group as pool, and define a network for the bridge
  reduced.footprint.virt_node:
    name: metal1
    cluster: lab
    roles: [virt]
    pool_path: /var/lib/libvirt/images
    pools:
      - {name: fast, type: logical, source: vg0, reserve: 20 GiB}
    networks:
      - {bridge: br-admin}

- name: Repeat the proofs after a firmware update
  reduced.footprint.virt_node:
    name: metal1
    cluster: lab
    roles: [virt]
    reprove: true

- name: Remove the node and its VMs, and keep the disks
  reduced.footprint.virt_node:
    name: metal2
    cluster: lab
    state: absent
    confirm: metal2
    remove_vms: true
    quorums:
      controller:
        - {name: controller1, server: metal1, alive: true}
        - {name: controller2, server: metal2, alive: true}
        - {name: controller3, server: metal3, alive: true}
"""

RETURN = r"""
attributes:
  description: The validated attributes of the server, secrets masked. Each VM also has its name, UUID and MACs.
  returned: success, except for O(state=absent)
  type: dict
  sample: {name: metal1, cluster: lab, roles: [virt], vms: [{id: controller1, cpu: 2, ram: 4, name: controller1, uuid: '...', macs: []}]}
hypervisors:
  description: The proof of each hypervisor type.
  returned: success, except for O(state=absent); empty on a server without the role V(virt), and in check mode without libvirt
  type: dict
  contains:
    kvm:
      description:
        - One key per tested type, V(kvm), V(qemu) or V(lxc), as in RV(reduced.footprint.virt_node_info#module:node.hypervisors). Instead of C(holds) it
          contains C(cached), whether the proof was read from the recorded facts.
      returned: when requested
      type: dict
capacity:
  description:
    - Total, reserved and available capacity of the server. For a pool, C(promised_bytes) is the size to which its volumes may grow and
      C(overcommit) its ratio to the capacity; above 1 the volumes cannot all be filled. C(mount) is present for a pool of files that is
      on a mount point.
  returned: success, except for O(state=absent)
  type: dict
  sample:
    memory_mib: 24105
    memory_reserve_mib: 1024
    memory_for_vms_mib: 23081
    others_mib: 0
    cpus: 8
    vcpu_ratio: 4.0
    vcpus_for_vms: 32
    others_vcpus: 0
    arch: x86_64
    cpu_model: AMD EPYC
    kernel: 6.1.0-18-amd64
    qemu_version: 7.2.9
    pools: {default: {path: /var/lib/libvirt/images, type: dir, capacity_bytes: 107374182400, allocation_bytes: 10737418240,
                      available_bytes: 96636764160, promised_bytes: 64424509440, overcommit: 0.6}}
actions:
  description: The actions that were performed, or would be in check mode.
  returned: success
  type: list
  elements: str
  sample: [define pool default, define network br-admin, record]
removal:
  description: The VMs of the node and the impact of its removal on the cluster.
  returned: with O(state=absent), also on refusal
  type: dict
  contains:
    vms:
      description: Every VM of the host; C(fate) is V(removed), V(left), V(protected) or V(foreign).
      type: list
      elements: dict
      sample: [{name: controller2, id: controller2, uuid: '...', cluster: lab, origin: vm_define, owner: cluster lab, protected: false,
                roles: [controller], state: running, quorums: [controller], fate: removed}]
    quorums:
      description: The impact on each quorum. C(known) is false if its members are not in O(quorums).
      type: list
      elements: dict
      sample: [{quorum: controller, members: [controller2], left: 2, needed: 2, size: 3, known: true, kept: true}]
    lines:
      description: The same as readable text.
      type: list
      elements: str
      sample: ['controller2: cluster lab; running; roles controller; member of controller; is shut down and undefined']
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_redaction import hidden_values
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_module import answer, quiet
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.model_arguments import DETAILS_ARGUMENTS
from ansible_collections.reduced.footprint.plugins.module_utils._host.node.run_node import NodeRequest, prepare_node
from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot.model_cloud_init import without_secrets

# options of the removal only
_REMOVAL: dict[str, dict[str, t.Any]] = {
    "confirm": {"type": "str"},
    "remove_vms": {"type": "bool", "default": False},
    "erase": {"type": "str", "choices": ["none", "disks"], "default": "none"},
    "quorums": {"type": "dict"},
    "quorum_roles": {"type": "list", "elements": "str", "default": ["controller"]},
    "break_quorum": {"type": "bool", "default": False},
    "leave_instances": {"type": "bool", "default": False},
    "shutdown_timeout": {"type": "int", "default": 120},
    "force": {"type": "bool", "default": False},
    "keep_shared": {"type": "bool", "default": False},
}
_BOTH = ("name", "cluster", "roles", "vms", "uri", "container_uri", "facts_file")


def main() -> None:
    """Entry point."""
    module = quiet(AnsibleModule)(
        argument_spec={
            "name": {"type": "str", "required": True},
            "cluster": {"type": "str", "required": True},
            **DETAILS_ARGUMENTS,
            "hypervisors": {"type": "list", "elements": "str", "choices": ["kvm", "qemu", "lxc"], "default": ["kvm", "qemu", "lxc"]},
            "facts_file": {"type": "path", "default": "/etc/ansible/facts.d/reduced_footprint.fact"},
            "proof_timeout": {"type": "int", "default": 15},
            "reprove": {"type": "bool", "default": False},
            "uri": {"type": "str", "default": "qemu:///system"},
            "container_uri": {"type": "str", "default": "lxc:///system"},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            **_REMOVAL,
        },
        supports_check_mode=True,
    )
    module.no_log_values.update(hidden_values(module.params["vms"]))
    given = dict(module.params)
    # the result contains the parameters
    module.params["vms"] = without_secrets(module.params["vms"])

    def change() -> dict[str, t.Any]:
        if given["state"] == "absent":
            # imported only for a removal: every call sends this code to the host
            from ansible_collections.reduced.footprint.plugins.module_utils._host.removal.run_removal import RemovalRequest, remove_node

            return remove_node(RemovalRequest(**{key: given[key] for key in (*_BOTH, *_REMOVAL)}), check_mode=module.check_mode).as_dict()
        request = NodeRequest(**{key: value for key, value in given.items() if key != "state" and key not in _REMOVAL})
        return prepare_node(request, check_mode=module.check_mode)

    answer(module, change)


if __name__ == "__main__":
    main()
