#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: vm_info
short_description: List the virtual machines of a host
version_added: 1.0.0
description:
  - Lists the VMs of a host for all its libvirt drivers (QEMU and LXC), with the metadata of M(reduced.footprint.vm_define).
  - A driver that is not installed counts as having no VMs.
  - The P(reduced.footprint.nodes#inventory) inventory plugin finds the addresses of VMs also by other means, for many hosts at once.
requirements:
  - python3-libvirt and python3-lxml on the host
extends_documentation_fragment:
  - reduced.footprint.attributes.libvirt
  - reduced.footprint.attributes.reads
options:
  cluster:
    description: Only VMs of this cluster.
    type: str
  owner:
    description:
      - V(ours) lists the VMs managed by this collection, V(foreign) all other domains, V(all) both.
      - O(cluster), O(origins) and O(ids) match managed VMs only.
    type: str
    choices: [ours, foreign, all]
    default: ours
  origins:
    description: Only VMs managed by one of these, see RV(vms[].origin).
    type: list
    elements: str
    default: []
  ids:
    description: Only VMs with one of these ids.
    type: list
    elements: str
    default: []
  names:
    description: Only VMs with one of these names.
    type: list
    elements: str
    default: []
  states:
    description: Only VMs in one of these states.
    type: list
    elements: str
    choices: [running, paused, suspended, shutdown, crashed]
    default: []
  uri:
    description: libvirt connection URI; by default all drivers of the host are queried.
    type: str
  xml:
    description: Also return the XML documents of the domains, which can be long.
    type: bool
    default: false
  drift:
    description:
      - Compare each managed VM with the last applied document, and return outside changes (RV(vms[].drift)), changes that wait for
        a restart (RV(vms[].pending)) and values that were left to a BMC emulator (RV(vms[].kept)).
      - Nothing is changed. Run M(reduced.footprint.vm_define) in check mode to see whether the VM details or the template contain changes.
    type: bool
    default: false
  volumes:
    description: Return the pool, size and allocation of each disk.
    type: bool
    default: false
  addresses:
    description: Return the addresses that libvirt knows from the leases of its networks, the guest agents and the ARP table of the host.
    type: bool
    default: false
  snapshots:
    description: Return the snapshots.
    type: bool
    default: false
seealso:
  - module: reduced.footprint.vm_define
  - module: reduced.footprint.vm_snapshot
"""

EXAMPLES = r"""
- name: List all managed VMs of this host
  reduced.footprint.vm_info:
  register: found

- name: Show the VMs that are not running
  ansible.builtin.debug:
    msg: "{{ found.vms | rejectattr('state', 'equalto', 'running') | map(attribute='name') }}"

- name: Get one VM with its XML document
  reduced.footprint.vm_info:
    cluster: lab
    ids: [controller1]
    xml: true

- name: List all other domains of this host
  reduced.footprint.vm_info:
    owner: foreign

- name: Find changes made outside of this collection
  reduced.footprint.vm_info:
    drift: true
  register: found

- name: Show the changes, one line for each VM and path
  ansible.builtin.debug:
    msg: "{{ item.0.name }}: {{ item.1.path }} is {{ item.1.config }}, was {{ item.1.applied }}"
  loop: "{{ found.vms | subelements('drift') }}"
  loop_control:
    label: ""

- name: Get the addresses of the running VMs
  reduced.footprint.vm_info:
    states: [running]
    addresses: true

- name: Get the size and allocation of the disks
  reduced.footprint.vm_info:
    volumes: true
"""

RETURN = r"""
vms:
  description: The VMs, sorted by name.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the domain.
      type: str
      sample: controller1
    id:
      description: The VM's id, null for other domains.
      type: str
      sample: controller1
    cluster:
      description: The VM's cluster, null for other domains.
      type: str
      sample: lab
    instance:
      description: The instance of OpenStack Nova that the domain is, with C(name) and C(project), null for other domains. Only Nova may change it.
      type: dict
    origin:
      description: What manages the VM, V(vm_define) for the VM details of the host. Null for other domains.
      type: str
      sample: vm_define
    protected:
      description: Whether the removal of the VM is refused.
      type: bool
    adopted:
      description: Whether the domain was created outside of this collection and taken over.
      type: bool
    uuid:
      description: UUID of the domain.
      type: str
      sample: 7b45d8dd-c21e-583a-ba1c-10588e67640e
    state:
      description: V(running), V(paused), V(suspended), V(shutdown) or V(crashed).
      type: str
      sample: running
    persistent:
      description: Whether the domain has a persistent definition.
      type: bool
    autostart:
      description: Whether the VM starts with its host.
      type: bool
    hypervisor:
      description: Type of the domain.
      type: str
      sample: lxc
    uri:
      description: libvirt connection URI of the driver.
      type: str
      sample: lxc:///system
    cpu:
      description: Number of virtual CPUs.
      type: int
      sample: 2
    memory_mib:
      description: Memory in MiB.
      type: int
      sample: 2048
    macs:
      description: MACs of the NICs, in their order.
      type: list
      elements: str
      sample: ['52:54:00:25:3d:6c']
    disks:
      description: Paths of the disks and file systems.
      type: list
      elements: str
      sample: [/var/lib/libvirt/images/controller1-disk0]
    restart_required:
      description: Whether a change waits for a restart. Exact, with and without O(drift=true).
      type: bool
    drift:
      description: Outside changes since the last run; the next run of M(reduced.footprint.vm_define) reverts them.
      returned: when O(drift=true)
      type: list
      elements: dict
      contains:
        path:
          description: Path in the document.
          type: str
          sample: devices/interface[52:54:00:25:3d:6c]/source/@bridge
        class:
          description: V(live) if it can be reverted without a restart, V(next_boot) if that takes effect after the next start.
          type: str
          sample: live
        applied:
          description: The applied value; null for an addition.
          type: str
          sample: br-admin
        config:
          description: The value in the definition; null for a removal.
          type: str
          sample: br-guest
        live:
          description: The value in the running domain; null if the VM is off or has no such element.
          type: str
          sample: br-guest
    pending:
      description: Paths whose value takes effect after the next start; C(seed) for changed cloud-init data.
      returned: when O(drift=true)
      type: list
      elements: str
      sample: [memory]
    kept:
      description: Paths controlled by a BMC emulator whose value differs from the applied one. They are left unchanged.
      returned: when O(drift=true)
      type: list
      elements: str
      sample: [os/boot]
    has_previous:
      description: Whether there is a previous definition for C(state=rolled_back) of M(reduced.footprint.vm_define).
      type: bool
    has_snapshots:
      description: Whether libvirt has snapshots of the domain.
      type: bool
    has_managed_save:
      description: Whether the next start restores saved memory. Such a start ignores a new definition.
      type: bool
    moved:
      description:
        - The destination server, for a copy that M(reduced.footprint.vm_move) keeps or creates here; null for a VM of this host.
      type: str
    volumes:
      description: The disks and file systems. Media of a CD-ROM or floppy drive are listed while inserted.
      returned: when O(volumes=true)
      type: list
      elements: dict
      contains:
        target:
          description: Target device of the guest, or mount point in a container.
          type: str
          sample: vda
        path:
          description: Path on the host.
          type: str
          sample: /var/lib/libvirt/images/controller1-disk0.qcow2
        pool:
          description: The active storage pool that contains it, else null.
          type: str
          sample: default
        name:
          description: Name of the volume.
          type: str
          sample: controller1-disk0.qcow2
        capacity_bytes:
          description: Size in bytes as seen by the guest, null for a folder.
          type: int
          sample: 21474836480
        allocation_bytes:
          description: Bytes allocated on the host, null for a folder or if O(uri) is another host.
          type: int
          sample: 1638400
    addresses:
      description:
        - The addresses of the NICs, in their order and IPv4 first, without those of one link only.
        - Null if none is known, which is not a proof that the guest has none. Empty if the guest agent reports none or the VM is off.
      returned: when O(addresses=true)
      type: list
      elements: dict
      sample: [{address: 192.168.122.57, mac: '52:54:00:25:3d:6c', source: lease}]
      contains:
        address: {description: The IPv4 or IPv6 address., type: str, sample: 192.168.122.57}
        mac: {description: MAC of the NIC., type: str, sample: '52:54:00:25:3d:6c'}
        source: {description: 'V(lease), V(agent) or V(arp).', type: str, sample: lease}
    snapshots:
      description: The snapshots that libvirt has of the domain, the oldest first, also those of others.
      returned: when O(snapshots=true)
      type: list
      elements: dict
      sample: [{name: before-upgrade, description: "", state: running, created_at: "2026-11-25T19:00:00Z", current: true, parent: null}]
      contains:
        name: {description: Name of the snapshot., type: str, sample: before-upgrade}
        description: {description: Its description., type: str, sample: ""}
        state: {description: 'V(running) or V(paused) with memory, V(shutdown) without.', type: str, sample: running}
        created_at: {description: Time of its creation (UTC)., type: str, sample: "2026-11-25T19:00:00Z"}
        current: {description: Whether the disks are based on it., type: bool, sample: true}
        parent: {description: 'Name of the snapshot before it; null for the first.', type: str, sample: null}
    xml:
      description: The persistent definition, used from the next start.
      returned: when O(xml=true)
      type: str
      sample: <domain type="lxc">...</domain>
    live_xml:
      description: The live definition, null if the domain is not running.
      returned: when O(xml=true)
      type: str
      sample: <domain type="lxc">...</domain>
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_module import answer
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_info import ALL, FOREIGN, OURS, STATES, InfoRequest, read_vms


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "cluster": {"type": "str"},
            "owner": {"type": "str", "choices": [OURS, FOREIGN, ALL], "default": OURS},
            "origins": {"type": "list", "elements": "str", "default": []},
            "ids": {"type": "list", "elements": "str", "default": []},
            "names": {"type": "list", "elements": "str", "default": []},
            "states": {"type": "list", "elements": "str", "choices": STATES, "default": []},
            "uri": {"type": "str"},
            "xml": {"type": "bool", "default": False},
            "addresses": {"type": "bool", "default": False},
            "drift": {"type": "bool", "default": False},
            "volumes": {"type": "bool", "default": False},
            "snapshots": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    answer(module, lambda: {"changed": False, "vms": read_vms(InfoRequest(**module.params))})


if __name__ == "__main__":
    main()
