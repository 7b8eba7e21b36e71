#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: vm_define
short_description: Make the virtual machines of a host as their details and a template say
version_added: 0.1.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Renders a libvirt XML template with the details of each VM, creates volumes that are missing, defines the domains, sets
    autostart and starts them; all VMs of a host in one call.
  - Everything is read, rendered and decided before anything is touched. From then on one VM that fails leaves the others
    alone; its result says why, and the next run takes up what is missing.
  - UUIDs and MACs derive from O(cluster), the VM's id and the number of the NIC, so they are the same on every host and in
    every run.
  - A VM of ours that is no longer in O(vms) is never stopped or removed; a warning names it. Domains of somebody else are
    never touched.
  - Volumes that exist are never written over.
requirements:
  - python3-libvirt, python3-lxml and python3-jinja2 on the host
  - qemu-utils on the host, for qcow2 volumes and base images
attributes:
  check_mode:
    support: full
    description:
      - Says exactly what the real run would do, volumes included.
      - On a host where libvirt is not installed or does not answer yet, every VM counts as new and a warning says so.
  diff_mode:
    support: full
    description: Shows state, new volumes and the rendered document of each VM, before and after.
  platform:
    support: full
    platforms: linux
    description: Linux with libvirt.
options:
  cluster:
    description: Name of the cluster; identities derive from it, and it marks the domains as ours.
    type: str
    required: true
  vms:
    description:
      - VM details, a list of mappings or the same list as JSON text. No details are no error and nothing to do.
      - C(id) is required and unique in the cluster; V(0) is legal. C(name) defaults to it.
      - C(cpu) (or C(vcpus)) counts virtual CPUs; C(ram) (or C(mem)) counts in GiB, C(memory_mb) in MiB, and each takes a
        unit. Without them a VM gets 2 CPUs and 2 GiB, and a warning says so.
      - C(hypervisor) is V(kvm), V(qemu), V(lxc) or V(auto) (the default, C(kvm) where the facts of
        M(reduced.footprint.virt_node) prove it usable, else C(qemu) with a warning).
      - C(nics) is a list of mappings with C(bridge) or C(network), and C(vlan), C(mac), C(model), C(virtualport).
      - C(disks) is a list of mappings with C(size) (GiB or a unit), C(image) (base image in the folder C(images) of the
        pool), C(backing) (a qcow2 layer over the image rather than a copy), C(format) (V(raw) or V(qcow2)), C(pool), C(name),
        C(target), C(bus), C(serial), C(mount) (containers). C(vda_size) is the size of the first. A container's disk is a
        folder in the pool, its size is not enforced.
      - C(address), C(autostart), C(machine), C(protected), C(roles), C(uuid), and C(boot) (order of V(network), V(hd),
        V(cdrom)) are understood too. Any other key is a variable for the template.
    type: raw
    default: []
  template:
    description:
      - The libvirt XML template, or the name of a packaged one (V(default)).
      - C({id}) in single braces is replaced as it stands; a text with double braces or C({%) is Jinja2, sandboxed. Values
        are escaped for XML in both.
      - A variable without a value is rendered empty, a value that is not used does no harm; RV(vms[].missing_variables)
        and RV(vms[].unused_attributes) name them.
      - Give the content of a file with P(ansible.builtin.file#lookup); Jinja2 written in a play itself needs C(!unsafe).
    type: str
    default: default
  state:
    description:
      - V(running) defines and starts, V(present) only defines, V(shutdown) defines and shuts down.
      - V(absent) shuts down and removes the definition, NVRAM included, and keeps the disks. Protected VMs are refused.
    type: str
    choices: [running, present, shutdown, absent]
    default: running
  autostart:
    description: Whether the VMs come up with their host. A VM's own C(autostart) wins.
    type: bool
    default: true
  pool:
    description: The storage pool of libvirt for disks that name none. It must exist and be active.
    type: str
    default: default
  uri:
    description:
      - Address of libvirt. Without it each VM's hypervisor type chooses the system's own driver, one connection per driver.
    type: str
  strict:
    description: Refuse unused values and missing variables instead of naming them.
    type: bool
    default: false
  allow_power_cycling:
    description:
      - A running VM whose definition changes keeps running with the old one, and RV(vms[].restart_required) says so. With
        this it is shut down and started, one VM at a time.
    type: bool
    default: false
  force:
    description: Cut the power of a VM that did not shut down within O(shutdown_timeout). Removing a VM does that in any case.
    type: bool
    default: false
  shutdown_timeout:
    description: Seconds a VM gets to shut down.
    type: float
    default: 120.0
  lock_timeout:
    description: Seconds to wait for another run on the same host.
    type: float
    default: 300.0
  parallel:
    description: How many VMs start at once.
    type: int
    default: 4
  node_roles:
    description: Roles of this host. When given, VM details on a host without the role V(virt) are refused.
    type: list
    elements: str
  pending_images:
    description:
      - File names of base images that an earlier task is going to fetch. In check mode they count as there.
    type: list
    elements: str
    default: []
seealso:
  - module: reduced.footprint.vm_info
  - module: reduced.footprint.virt_node
"""

EXAMPLES = r"""
- name: Two controllers, one of them a container
  reduced.footprint.vm_define:
    cluster: lab
    vms:
      - id: controller1
        cpu: 2
        ram: 4
        nics: [{bridge: br-admin}]
        disks: [{size: 20 GiB, image: debian-12, format: qcow2}]
      - id: controller2
        ram: 2
        hypervisor: lxc
        nics: [{bridge: br-admin}]
        disks: [{size: 4 GiB, image: debian-12-root}]

- name: The template and the details of the specification
  reduced.footprint.vm_define:
    cluster: lab
    template: |
      <domain type='kvm'>
        <name>{id}</name>
        <memory unit='GiB'>{ram}</memory>
        <vcpu placement='static'>{cpu}</vcpu>
      </domain>
    vms: '[{"id": 1, "cpu": 2, "ram": 4}]'

- name: A template of your own, defined but not started
  reduced.footprint.vm_define:
    cluster: lab
    vms: "{{ vms }}"
    template: "{{ lookup('ansible.builtin.file', 'my_vm.xml.j2') }}"
    state: present

- name: Apply a change to running VMs at once
  reduced.footprint.vm_define:
    cluster: lab
    vms: "{{ vms }}"
    allow_power_cycling: true

- name: Remove the definition of a VM, keep its disks
  reduced.footprint.vm_define:
    cluster: lab
    vms: [{id: controller2, hypervisor: lxc}]
    state: absent
"""

RETURN = r"""
vms:
  description: One result per VM, in the order of the details.
  returned: always
  type: list
  elements: dict
  contains:
    id:
      description: The VM's id, as text.
      type: str
      sample: controller1
    name:
      description: Name of its domain.
      type: str
      sample: controller1
    uuid:
      description: UUID of its domain.
      type: str
      sample: 7b45d8dd-c21e-583a-ba1c-10588e67640e
    macs:
      description: MACs of its NICs, in their order.
      type: list
      elements: str
      sample: ['52:54:00:25:3d:6c']
    hypervisor:
      description: The type it has on this host; never C(auto).
      type: str
      sample: qemu
    state:
      description: V(running), V(paused), V(shutdown), V(crashed) or V(absent); in check mode the one it would have.
      type: str
      sample: running
    changed:
      description: Whether anything was done.
      type: bool
      sample: true
    actions:
      description: What was done, in order; in check mode what would be done.
      type: list
      elements: str
      sample: [create_volume default/controller1-disk0.qcow2, define, autostart_on, start]
    unused_attributes:
      description: Keys of the details that the template does not use.
      type: list
      elements: str
      sample: [rack]
    missing_variables:
      description: Variables of the template that have no value and were rendered empty.
      type: list
      elements: str
      sample: []
    restart_required:
      description: Whether it runs with an older definition than it has.
      type: bool
      sample: false
    error:
      description: Why it failed, nothing when it did not.
      type: str
      sample: null
unlisted:
  description: Names of VMs of this cluster on this host that O(vms) does not name. They were left alone.
  returned: always
  type: list
  elements: str
  sample: []
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._model.errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._run.define import DefineRequest, define_vms


def main() -> None:
    """Parameters in, use case, result out."""
    module = AnsibleModule(
        argument_spec={
            "cluster": {"type": "str", "required": True},
            "vms": {"type": "raw", "default": []},
            "template": {"type": "str", "default": "default"},
            "state": {"type": "str", "choices": ["running", "present", "shutdown", "absent"], "default": "running"},
            "autostart": {"type": "bool", "default": True},
            "pool": {"type": "str", "default": "default"},
            "uri": {"type": "str"},
            "strict": {"type": "bool", "default": False},
            "allow_power_cycling": {"type": "bool", "default": False},
            "force": {"type": "bool", "default": False},
            "shutdown_timeout": {"type": "float", "default": 120.0},
            "lock_timeout": {"type": "float", "default": 300.0},
            "parallel": {"type": "int", "default": 4},
            "node_roles": {"type": "list", "elements": "str"},
            "pending_images": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    try:
        result = define_vms(DefineRequest(**module.params), check_mode=module.check_mode)
    except FootprintError as error:
        module.fail_json(**error.as_result())
    for warning in result.warnings:
        module.warn(warning)
    told = result.as_result(diff=module._diff)
    if result.failed:
        module.fail_json(**told)
    module.exit_json(**told)


if __name__ == "__main__":
    main()
