#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_node
short_description: Make a physical server a node whose word can be trusted
version_added: 0.1.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Validates the VM details of a server, proves which hypervisor types run guests there, measures what it can carry,
    refuses a server that cannot carry what it is asked, and records the result as local facts.
  - A hypervisor type counts as usable when a guest ran under it, not because a device or a capability says so. The guest
    for V(kvm) and V(qemu) is a boot sector that enters 64-bit long mode on the CPU model guests are given, works, takes
    an exception and a timer interrupt; the guest for V(lxc) is a container with a single process.
  - The facts are found in C(ansible_local.reduced_footprint). Values of VM details whose name tells a secret (password,
    token and the like) are masked there and in the result. What pools hold at the moment stands in C(measured), is refreshed by each
    run and counts as no change.
  - With O(state=absent) the server becomes an ordinary one again.
requirements:
  - python3-libvirt on the server, when it has the role V(virt)
attributes:
  check_mode:
    support: full
    description:
      - Nothing is recorded and no pool is made; the proofs run, their guests leave nothing behind.
      - Where libvirt is not installed yet, a warning says so, what depends on it is taken as given and nothing is proven.
  diff_mode:
    support: full
    description: Shows the storage pool and the recorded facts before and after.
  platform:
    support: full
    platforms: linux
    description: Linux on x86_64; on other machines V(kvm) and V(qemu) count as not proven.
options:
  name:
    description: Name of the server, normally its inventory name.
    type: str
    required: true
  cluster:
    description: Name of the cluster; UUIDs and MACs of its VMs derive from it.
    type: str
    required: true
  roles:
    description:
      - Roles of the server. Only a server with the role V(virt) may have VM details; without it nothing is proven and
        libvirt is not asked.
    type: list
    elements: str
    default: []
  vms:
    description:
      - VM details, a list of mappings or the same list as JSON text.
      - A VM with the role V(compute) is refused unless its details say C(nested=true).
    type: raw
    default: []
  hypervisors:
    description: The hypervisor types to prove. Those the VM details ask for are proven in any case.
    type: list
    elements: str
    choices: [kvm, qemu, lxc]
    default: [kvm, qemu, lxc]
  pool:
    description: The storage pool of libvirt for disks that name none.
    type: str
    default: default
  pool_path:
    description:
      - Folder of O(pool). When given, the pool is defined there if there is none, started, and starts with the host.
      - When not given, the pool is used as it is.
    type: path
  bridges:
    description: Bridges the server must have, besides those the VM details name. In check mode they count as made.
    type: list
    elements: str
    default: []
  memory_reserve:
    description: Memory kept for the host; a number counts in GiB, a unit can be given.
    type: str
    default: 1 GiB
  vcpu_ratio:
    description: How many vCPUs of guests one CPU of the host carries.
    type: float
    default: 4.0
  pool_reserve:
    description: Bytes kept free in each pool; a number counts in GiB, a unit can be given.
    type: str
    default: '0'
  facts_file:
    description: Where the facts are recorded.
    type: path
    default: /etc/ansible/facts.d/reduced_footprint.fact
  proof_timeout:
    description: Seconds after which the guest of a proof counts as hung.
    type: float
    default: 15.0
  reprove:
    description:
      - Prove again even where a recorded proof still holds. A proof holds for one kernel, QEMU, CPU and microcode.
    type: bool
    default: false
  uri:
    description: Address of libvirt for QEMU guests and storage pools.
    type: str
    default: qemu:///system
  container_uri:
    description: Address of libvirt for containers.
    type: str
    default: lxc:///system
  state:
    description:
      - V(present) does all of it.
      - V(checked) only validates and compares with memory and CPUs of the server; it needs no libvirt, proves nothing and
        records nothing. O(bridges) names the bridges that will be made before V(present).
      - V(absent) takes back what made the server a node - the record, the pools and networks that were made here and that no VM needs
        any more, the autostart of our VMs. Disks, bridges, packages and settings of libvirt stay. Without O(confirm) it is refused,
        and RV(removal) lists the VMs and what the cluster loses.
    type: str
    choices: [present, checked, absent]
    default: present
extends_documentation_fragment:
  - reduced.footprint.virt_node.storage
  - reduced.footprint.virt_node.removal
seealso:
  - module: reduced.footprint.virt_node_info
  - module: reduced.footprint.virt_network
"""

EXAMPLES = r"""
- name: A server for two controllers
  reduced.footprint.virt_node:
    name: metal1
    cluster: lab
    roles: [virt, compute]
    pool_path: /var/lib/libvirt/images
    memory_reserve: 4 GiB
    vms:
      - {id: controller1, cpu: 2, ram: 4, roles: [controller], nics: [{bridge: br-admin}], disks: [{size: 20GiB}]}
      - {id: controller2, cpu: 2, ram: 4, roles: [controller], nics: [{bridge: br-admin}], disks: [{size: 20GiB}]}

- name: VM details as JSON text, and only what emulation can do
  reduced.footprint.virt_node:
    name: metal2
    cluster: lab
    roles: [virt]
    hypervisors: [qemu]
    vms: '[{"id": 0, "cpu": 1, "ram": 1, "hypervisor": "qemu"}]'

- name: Refuse bad details before anything on the server is touched
  reduced.footprint.virt_node:
    name: metal1
    cluster: lab
    roles: [virt]
    bridges: [br-admin]
    vms: [{id: controller1, cpu: 2, ram: 4, nics: [{bridge: br-admin}]}]
    state: checked

- name: Disks in a volume group that is there, and a network for the bridge
  reduced.footprint.virt_node:
    name: metal1
    cluster: lab
    roles: [virt]
    pool_path: /var/lib/libvirt/images
    pools:
      - {name: fast, type: logical, source: vg0, reserve: 20 GiB}
    networks:
      - {bridge: br-admin}

- name: Prove again after a firmware update
  reduced.footprint.virt_node:
    name: metal1
    cluster: lab
    roles: [virt]
    reprove: true

- name: Make an ordinary server of it again, and keep the disks
  reduced.footprint.virt_node:
    name: metal2
    cluster: lab
    state: absent
    confirm: metal2
    remove_vms: true
    quorums: "{{ hostvars | reduced.footprint.quorum_members(groups, ['controller']) }}"
"""

RETURN = r"""
attributes:
  description: The validated attributes of the server, secrets masked. Each VM also has its name, UUID and MACs.
  returned: success, but for O(state=absent)
  type: dict
  sample: {name: metal1, cluster: lab, roles: [virt], vms: [{id: controller1, cpu: 2, ram: 4, name: controller1, uuid: '...', macs: []}]}
hypervisors:
  description: The proof of each hypervisor type.
  returned: >-
    success, but for O(state=absent); empty on a server without the role V(virt), with O(state=checked), and where check mode finds no
    libvirt
  type: dict
  contains:
    kvm:
      description: One key per proven type, V(kvm), V(qemu) or V(lxc), all of this shape.
      returned: when asked for
      type: dict
      contains:
        usable:
          description: Whether a guest ran.
          type: bool
          returned: always
        reason:
          description: What was proven, or why not, in the hypervisor's own words.
          type: str
          returned: always
          sample: '-cpu host: hung after 15 s; the last stage it reached: protected mode'
        seconds:
          description: What the proof took when it was made.
          type: float
          returned: always
        cpu_models:
          description: The outcome for each CPU model tried.
          type: dict
          returned: always
        key:
          description: The kernel, QEMU and CPU the proof holds for.
          type: str
          returned: always
        cached:
          description: Whether the proof was taken from the recorded facts.
          type: bool
          returned: always
capacity:
  description:
    - What the server has, keeps for itself and can give to VMs. Of a pool, C(promised_bytes) is what its volumes may grow to and
      C(overcommit) how much that is per byte there is; above 1 they cannot all be filled. C(mount) is there for a pool of files that is on
      a mount point.
  returned: success, but for O(state=absent)
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
  description: What was done, or would be in check mode.
  returned: success
  type: list
  elements: str
  sample: [define pool default, define network br-admin, record]
removal:
  description: What stands on the node and what the cluster loses.
  returned: with O(state=absent), also when it is refused
  type: dict
  contains:
    vms:
      description: Every VM of the host; C(fate) is V(removed), V(left), V(protected) or V(foreign).
      type: list
      elements: dict
      returned: always
      sample: [{name: controller2, id: controller2, uuid: '...', cluster: lab, origin: vm_define, owner: cluster lab, protected: false,
                roles: [controller], state: running, quorums: [controller], fate: removed}]
    quorums:
      description: What each quorum loses. C(known) is false where nobody told its other members.
      type: list
      elements: dict
      returned: always
      sample: [{quorum: controller, members: [controller2], left: 2, needed: 2, size: 3, known: true, kept: true}]
    lines:
      description: The same for people.
      type: list
      elements: str
      returned: always
      sample: ['controller2: cluster lab; running; roles controller; member of controller; is shut down and undefined']
error:
  description: What was wrong. For a server that cannot carry the ask the message names asked, available, reserve and missing.
  returned: failure
  type: dict
  contains:
    path:
      description: Where the bad value stands.
      type: str
      returned: always
    message:
      description: What is wrong.
      type: str
      returned: always
    hint:
      description: What to do about it.
      type: str
      returned: always
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_quiet_module import quiet
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_zip_imports import compile_once, keep_compiled

_POOL = {
    "name": {"type": "str", "required": True},
    "type": {"type": "str", "choices": ["dir", "logical"]},
    "path": {"type": "str"},
    "source": {"type": "str"},
    "reserve": {"type": "str"},
    "mounted": {"type": "bool"},
}
_NETWORK = {"name": {"type": "str"}, "bridge": {"type": "str", "required": True}}
# what only one of the two use cases takes
_REMOVAL: dict[str, dict[str, t.Any]] = {
    "confirm": {"type": "str"},
    "remove_vms": {"type": "bool", "default": False},
    "erase": {"type": "str", "choices": ["none", "disks"], "default": "none"},
    "quorums": {"type": "dict"},
    "quorum_roles": {"type": "list", "elements": "str", "default": ["controller"]},
    "break_quorum": {"type": "bool", "default": False},
    "shutdown_timeout": {"type": "float", "default": 120.0},
    "force": {"type": "bool", "default": False},
}
_BOTH = ("name", "cluster", "roles", "vms", "uri", "container_uri", "facts_file")


def main() -> None:
    """Entry point."""
    compile_once()
    from ansible_collections.reduced.footprint.plugins.module_utils._core.model_redaction import hidden_values
    from ansible_collections.reduced.footprint.plugins.module_utils._host.node.run_node import NodeRequest, prepare_node
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot.model_cloud_init import without_secrets

    module = quiet(AnsibleModule)(
        argument_spec={
            "name": {"type": "str", "required": True},
            "cluster": {"type": "str", "required": True},
            "roles": {"type": "list", "elements": "str", "default": []},
            "vms": {"type": "raw", "default": []},
            "hypervisors": {"type": "list", "elements": "str", "choices": ["kvm", "qemu", "lxc"], "default": ["kvm", "qemu", "lxc"]},
            "pool": {"type": "str", "default": "default"},
            "pool_path": {"type": "path"},
            "pools": {"type": "list", "elements": "dict", "default": [], "options": _POOL},
            "networks": {"type": "list", "elements": "dict", "default": [], "options": _NETWORK},
            "bridges": {"type": "list", "elements": "str", "default": []},
            "memory_reserve": {"type": "str", "default": "1 GiB"},
            "vcpu_ratio": {"type": "float", "default": 4.0},
            "pool_reserve": {"type": "str", "default": "0"},
            "facts_file": {"type": "path", "default": "/etc/ansible/facts.d/reduced_footprint.fact"},
            "proof_timeout": {"type": "float", "default": 15.0},
            "reprove": {"type": "bool", "default": False},
            "uri": {"type": "str", "default": "qemu:///system"},
            "container_uri": {"type": "str", "default": "lxc:///system"},
            "state": {"type": "str", "choices": ["present", "checked", "absent"], "default": "present"},
            **_REMOVAL,
        },
        supports_check_mode=True,
    )
    module.no_log_values.update(hidden_values(module.params["vms"]))
    given = dict(module.params)
    # and not for the result, which tells the parameters
    module.params["vms"] = without_secrets(module.params["vms"])
    try:
        result: t.Any
        if given["state"] == "absent":
            # what removes is sent to the host by every call, and read by those alone that remove
            from ansible_collections.reduced.footprint.plugins.module_utils._host.removal.run_removal import RemovalRequest, remove_node

            result = remove_node(RemovalRequest(**{key: given[key] for key in (*_BOTH, *_REMOVAL)}), check_mode=module.check_mode)
        else:
            result = prepare_node(NodeRequest(**{key: value for key, value in given.items() if key not in _REMOVAL}), check_mode=module.check_mode)
            keep_compiled(module.check_mode or given["state"] == "checked")
    except FootprintError as error:
        module.fail_json(**error.as_result())
    for warning in result.warnings:
        module.warn(warning)
    told = result.as_dict()
    if not module._diff:
        told.pop("diff", None)
    if "error" in told:
        module.fail_json(**told)
    module.exit_json(**told)


if __name__ == "__main__":
    main()
