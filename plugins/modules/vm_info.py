#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: vm_info
short_description: Show the virtual machines of a host
version_added: 0.1.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Lists the VMs of a host over all its drivers (QEMU and LXC), with what M(reduced.footprint.vm_define) noted about them.
  - A driver that is not installed counts as having no VMs.
  - Addresses of VMs are the business of the P(reduced.footprint.nodes#inventory) inventory plugin.
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
      - V(ours) lists the VMs made by this collection, V(foreign) those that are not, V(all) both.
      - O(cluster), O(origins) and O(ids) speak of our VMs only, so none of the others pass them.
    type: str
    choices: [ours, foreign, all]
    default: ours
  origins:
    description: Only VMs kept by one of these, see RV(vms[].origin).
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
    description: Address of libvirt; without it all drivers of the host are asked.
    type: str
  xml:
    description: Give the documents of the domains too. They can be long.
    type: bool
    default: false
  drift:
    description:
      - Compare each VM of ours with the document that was applied to it last, and tell what others changed since
        (RV(vms[].drift)), what waits for a restart (RV(vms[].pending)) and what was left to a BMC emulator (RV(vms[].kept)).
      - Nothing is changed. Whether the VM details or the template ask for something new is a question for
        M(reduced.footprint.vm_define) in check mode.
    type: bool
    default: false
  volumes:
    description: Tell of each disk which pool it is in, how large it is and what it takes.
    type: bool
    default: false
seealso:
  - module: reduced.footprint.vm_define
"""

EXAMPLES = r"""
- name: All our VMs on this host
  reduced.footprint.vm_info:
  register: found

- name: Show what is not running
  ansible.builtin.debug:
    msg: "{{ found.vms | rejectattr('state', 'equalto', 'running') | map(attribute='name') }}"

- name: One VM with its document
  reduced.footprint.vm_info:
    cluster: lab
    ids: [controller1]
    xml: true

- name: What is on this host beside our VMs
  reduced.footprint.vm_info:
    owner: foreign

- name: Find what others changed
  reduced.footprint.vm_info:
    drift: true
  register: found

- name: Show it, a line for each VM and path
  ansible.builtin.debug:
    msg: "{{ item.0.name }}: {{ item.1.path }} is {{ item.1.config }}, was {{ item.1.applied }}"
  loop: "{{ found.vms | subelements('drift') }}"
  loop_control:
    label: ""

- name: How full the disks are
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
      description: The VM's id, nothing when it is not ours.
      type: str
      sample: controller1
    cluster:
      description: Its cluster, nothing when it is not ours.
      type: str
      sample: lab
    origin:
      description: Who keeps it, V(vm_define) for the list of the host. Nothing when it is not ours.
      type: str
      sample: vm_define
    protected:
      description: Whether its removal is refused.
      type: bool
      sample: false
    adopted:
      description: Whether somebody else made it and it was taken over.
      type: bool
      sample: false
    uuid:
      description: UUID of the domain.
      type: str
      sample: 7b45d8dd-c21e-583a-ba1c-10588e67640e
    state:
      description: V(running), V(paused), V(suspended), V(shutdown) or V(crashed).
      type: str
      sample: running
    persistent:
      description: Whether it has a definition that outlives its run.
      type: bool
      sample: true
    autostart:
      description: Whether it comes up with its host.
      type: bool
      sample: true
    hypervisor:
      description: Type of the domain.
      type: str
      sample: lxc
    uri:
      description: Address of the driver it belongs to.
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
      description: MACs of its NICs, in their order.
      type: list
      elements: str
      sample: ['52:54:00:25:3d:6c']
    disks:
      description: Paths of its disks and file systems.
      type: list
      elements: str
      sample: [/var/lib/libvirt/images/controller1-disk0]
    restart_required:
      description: Whether a change waits for its restart. Exact, with and without O(drift=true).
      type: bool
      sample: false
    drift:
      description: What others changed since the last run; the next run of M(reduced.footprint.vm_define) puts it right.
      returned: when O(drift=true)
      type: list
      elements: dict
      contains:
        path:
          description: The place in the document.
          type: str
          sample: devices/interface[52:54:00:25:3d:6c]/source/@bridge
        class:
          description: V(live) when it can be put right without a restart, V(next_boot) when it is in effect after the next one.
          type: str
          sample: live
        applied:
          description: What was applied; nothing for something that was added.
          type: str
          sample: br-admin
        config:
          description: What its definition says now; nothing for something that was taken away.
          type: str
          sample: br-guest
        live:
          description: What runs, nothing when it is off or has no such thing.
          type: str
          sample: br-guest
    pending:
      description: Paths whose value is in effect after the next start only.
      returned: when O(drift=true)
      type: list
      elements: str
      sample: [memory]
    kept:
      description: Paths that a BMC emulator owns and that are not as they were applied. They stay as found.
      returned: when O(drift=true)
      type: list
      elements: str
      sample: [os/boot]
    has_previous:
      description: Whether there is a definition to go back to with C(state=rolled_back) of M(reduced.footprint.vm_define).
      type: bool
      sample: true
    has_snapshots:
      description: Whether libvirt keeps snapshots of it.
      type: bool
      sample: false
    has_managed_save:
      description: Whether its next start resumes a memory that was saved. Such a start does not see a new definition.
      type: bool
      sample: false
    moved:
      description:
        - The server that has it or will have it, for the copy that M(reduced.footprint.vm_move) keeps or makes here; nothing
          for a VM of this host.
      type: str
      sample: null
    volumes:
      description: Its disks and file systems. Media of a CD-ROM or floppy drive are listed as long as they are in.
      returned: when O(volumes=true)
      type: list
      elements: dict
      contains:
        target:
          description: The device the guest sees, or the folder a container mounts it at.
          type: str
          sample: vda
        path:
          description: Where it stands on the host.
          type: str
          sample: /var/lib/libvirt/images/controller1-disk0.qcow2
        pool:
          description: The active storage pool it is in, nothing when it is in none.
          type: str
          sample: default
        name:
          description: Name of the volume.
          type: str
          sample: controller1-disk0.qcow2
        capacity:
          description: Bytes the guest sees, nothing for a folder.
          type: int
          sample: 21474836480
        allocation:
          description: Bytes it takes on the host now, nothing for a folder or when O(uri) is another host.
          type: int
          sample: 1638400
    xml:
      description: The definition it has after its next start.
      returned: when O(xml=true)
      type: str
      sample: <domain type="lxc">...</domain>
    live_xml:
      description: The definition it runs with, nothing when it does not run.
      returned: when O(xml=true)
      type: str
      sample: <domain type="lxc">...</domain>
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_zip_imports import compile_once


def main() -> None:
    """Parameters in, use case, result out."""
    compile_once()
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_info import ALL, FOREIGN, OURS, STATES, InfoRequest, read_vms

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
            "drift": {"type": "bool", "default": False},
            "volumes": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    try:
        vms = read_vms(InfoRequest(**module.params))
    except FootprintError as error:
        module.fail_json(**error.as_result())
    module.exit_json(changed=False, vms=vms)


if __name__ == "__main__":
    main()
