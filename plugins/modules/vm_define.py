#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: vm_define
short_description: Create and update the virtual machines of a host from VM details and a template
version_added: 1.0.0
description:
  - Renders a libvirt XML template with the details of each VM, creates missing volumes, defines the domains, sets autostart and starts them;
    all VMs of a host in one call.
  - Everything is read, rendered and planned before anything is changed. A VM that fails does not affect the others; its result contains the error, and the
    next run completes what is missing. Invalid VM details fail the whole call, as does an error that affects all VMs of the call, e.g. an invalid template.
  - UUIDs and MACs are derived from O(cluster), the VM's id and the name or number of the NIC, so they are the same on every host and in every run.
  - A VM of this collection that is no longer in O(vms) is never stopped or removed; a warning names it. Other domains are changed only with O(adopt).
  - The rendered document is stored in the domain's metadata, without VNC and SPICE passwords, because every user who may read domains can read the
    metadata. The rendered document, the last applied document, the definition and the running domain are compared only in elements that the template
    contains; order, units and elements that libvirt adds are ignored. Changes made outside of this module are reported in RV(vms[].drift) and
    reverted. The boot order, the firmware and the media in drives, which a BMC emulator sets, are left unchanged until the template changes them.
  - Each difference has a class, see RV(vms[].changes). A running VM is changed in place where possible. If the guest or the driver
    refuses, the change is reported once, waits for the next start, and is not tried again before.
  - A definition is edited in place, so device addresses and all elements that the template does not contain are kept. It is never removed and
    created again, and the previous definition is kept (O(state=rolled_back)). Display passwords are kept.
  - Existing volumes are never overwritten. They grow with the details, also while the VM is running, and never shrink.
  - A missing volume of an existing VM is never replaced by an empty one; see O(recreate_disks), nor a new one by an old one; see O(adopt_disks).
requirements:
  - python3-libvirt, python3-lxml and python3-jinja2 on the host, python3-yaml for cloud-init data as text
  - qemu-utils on the host, for qcow2 volumes and base images
  - xorriso on the host, for VMs with C(user_data), C(network_config), C(meta_data) or O(authorized_keys)
attributes:
  check_mode:
    details:
      - Includes volumes. Only refusals by a guest cannot be predicted.
      - On a host where libvirt is not installed or does not answer yet, every VM counts as new, with a warning.
  diff_mode:
    details:
      - Shows the state, the volumes, each change with its class and the rendered document of each VM, before and after.
options:
  cluster:
    description: Name of the cluster; identities are derived from it, and it is stored in the domains.
    type: str
    required: true
  state:
    description:
      - V(running) defines and starts the VMs, V(present) only defines them, V(shutdown) defines and shuts them down.
      - V(absent) shuts the VMs down and removes their definitions including NVRAM, saved memory and snapshot metadata. Disks are kept
        unless O(remove_disks=true). Protected VMs are refused.
      - V(rolled_back) restores the definition before the last change; repeating it has no further effect. A run with the details applies
        them again. O(vms) only needs the ids. The power state and autostart do not change.
      - A VM that M(reduced.footprint.vm_move) has moved or is moving to another server is left unchanged with V(running) and V(present) (see
        RV(vms[].moved_to)) and refused with the other states.
      - The module waits until the state is reached, and with O(wait) until the guests can be reached. With V(running), a paused or
        suspended VM is resumed; a VM with saved memory is restored, with the definition it was saved with.
    type: str
    choices: [running, present, shutdown, absent, rolled_back]
    default: running
  autostart:
    description: Whether the VMs start with their host. C(autostart) of a VM takes precedence.
    type: bool
    default: true
  uri:
    description:
      - libvirt connection URI. By default the hypervisor type of each VM selects the system driver, with one connection per driver.
      - With the URI of another host, for example V(qemu+ssh://root@server1/system), volumes, base images and seeds are created
        through libvirt; no file of that host is accessed in another way. Containers, base images in pools of block devices, and growing
        logical volumes are refused. Bridges and firmware of that host are not checked in advance.
    type: str
  images_path:
    description:
      - Folder on the host that runs this module with base images for the host in O(uri). An image that the pool lacks is uploaded once, as a
        volume with the name of the file.
      - Supported only with the URI of another host. There, the base image C(debian-12) is the volume C(debian-12.qcow2), C(debian-12.img) or
        C(debian-12.raw) of the pool with the folder C(images) of the disk's pool, if there is such a pool, or of the disk's pool.
    type: path
extends_documentation_fragment:
  - reduced.footprint.attributes.libvirt
  - reduced.footprint.attributes.changes
  - reduced.footprint.vm_details
  - reduced.footprint.vm_details.run
seealso:
  - module: reduced.footprint.vm_info
  - module: reduced.footprint.virt_node
"""

EXAMPLES = r"""
- name: Define two controllers, one of them a container
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
        disks: [{size: 4 GiB, image: debian-root}]

- name: Define a VM from the template and details of the specification
  reduced.footprint.vm_define:
    cluster: lab
    template: |
      <domain type='kvm'>
        <name>{id}</name>
        <memory unit='GiB'>{ram}</memory>
        <vcpu placement='static'>{cpu}</vcpu>
      </domain>
    vms: '[{"id": 1, "cpu": 2, "ram": 4}]'

- name: Define VMs from a custom template without starting them
  reduced.footprint.vm_define:
    cluster: lab
    vms: "{{ vms }}"
    template: "{{ lookup('ansible.builtin.file', 'my_vm.xml.j2') }}"
    state: present

- name: Define a VM from a cloud image, and wait until root can log in with the operator's key
  reduced.footprint.vm_define:
    cluster: lab
    wait: ssh
    authorized_keys: ["{{ lookup('ansible.builtin.file', '~/.ssh/id_ed25519.pub') }}"]
    vms: [{id: web0, ram: 1, nics: [{bridge: br-admin}], disks: [{size: 10 GiB, image: debian-12-cloud, format: qcow2}]}]

- name: Define a VM from a cloud image, with a user and a disk that may grow later
  reduced.footprint.vm_define:
    cluster: lab
    vms:
      - id: web1
        ram: 1
        nics: [{bridge: br-admin}]
        disks: [{size: 10 GiB, image: debian-12-cloud, format: qcow2, backing: true, serial: ROOT}]
        user_data:
          users: [{name: admin, ssh_authorized_keys: ["{{ admin_key }}"], sudo: "ALL=(ALL) NOPASSWD:ALL"}]
        network_config:
          version: 2
          ethernets: {nic0: {match: {name: "en*"}, dhcp4: true}}

- name: Remove a VM, overwrite and delete its disks; without the last two lines the disks are kept
  reduced.footprint.vm_define:
    cluster: lab
    vms: [{id: web1}]
    state: absent
    remove_disks: true
    wipe: true

- name: Create a missing disk again; without the last line the missing volume is an error
  reduced.footprint.vm_define:
    cluster: lab
    vms: "{{ vms }}"
    recreate_disks: [web1-disk1.qcow2]

- name: Roll back to the definition before the last change
  reduced.footprint.vm_define:
    cluster: lab
    vms: [{id: controller1}]
    state: rolled_back

- name: Take over a domain that was created manually
  reduced.footprint.vm_define:
    cluster: lab
    vms: [{id: builder, cpu: 4, ram: 8, nics: [{bridge: br-admin}], disks: [{size: 40 GiB, format: qcow2}]}]
    adopt: true
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
      description: Name of the domain.
      type: str
      sample: controller1
    uuid:
      description: UUID of the domain.
      type: str
      sample: 7b45d8dd-c21e-583a-ba1c-10588e67640e
    macs:
      description: MACs of the NICs, in their order.
      type: list
      elements: str
      sample: ['52:54:00:25:3d:6c']
    hypervisor:
      description: The hypervisor type on this host; never C(auto).
      type: str
      sample: qemu
    state:
      description:
        - V(running), V(paused), V(suspended), V(shutdown), V(crashed) or V(absent); in check mode the predicted state.
        - V(moved), V(moving) or V(arriving) for a VM that M(reduced.footprint.vm_move) moves; the VM is left unchanged.
      type: str
      sample: running
    moved_to:
      description: The destination server of a VM that M(reduced.footprint.vm_move) moves, else null.
      type: str
    changed:
      description: Whether the VM was changed.
      type: bool
    actions:
      description:
        - The actions performed, in order; in check mode the predicted actions.
        - C(upload_image), C(define), C(redefine), C(adopt), C(update_metadata), C(change_live), C(autostart_on), C(autostart_off), C(start),
          C(resume), C(power_cycle), C(shutdown), C(undefine), and volume actions with the volume.
      type: list
      elements: str
      sample: [define, create_volume default/controller1-disk0.qcow2, autostart_on, start]
    unused_attributes:
      description: Keys of the details that the template does not use.
      type: list
      elements: str
      sample: [rack]
    missing_variables:
      description: Variables of the template without a value, which were rendered empty.
      type: list
      elements: str
    changes:
      description: Changes of an existing VM; in check mode the predicted changes.
      type: list
      elements: dict
      sample: [{path: memory, class: next_boot, before: 2097152 KiB, after: 4194304 KiB, applied: 2097152 KiB}]
      contains:
        path:
          description: Path of the value, or of a whole device such as C(devices/disk[vdb]).
          type: str
          sample: memory
        class:
          description:
            - V(live) is in effect now, V(next_boot) after the next start.
            - V(recreate) would require a new VM and V(refused) would lose data; RV(vms[].error) is set and the VM is left unchanged.
          type: str
          sample: next_boot
        before:
          description: Previous value, null if it did not exist.
          type: str
          sample: 2097152 KiB
        after:
          description: New value, null if it was removed.
          type: str
          sample: 4194304 KiB
        applied:
          description: The value applied by the last run.
          type: str
          sample: 2097152 KiB
    drift:
      description: Changes made outside of this module since the last run. They were reverted, or will be with the next start.
      type: list
      elements: dict
      sample: [{path: memory, applied: 2097152 KiB, wanted: 2097152 KiB, config: 1048576 KiB, live: 2097152 KiB}]
      contains:
        path:
          description: Path of the value, or of a whole device.
          type: str
          sample: memory
        applied:
          description: The value applied by the last run.
          type: str
          sample: 2097152 KiB
        wanted:
          description: The value in the rendered document.
          type: str
          sample: 2097152 KiB
        config:
          description: The value found in the definition.
          type: str
          sample: 1048576 KiB
        live:
          description: The value found in the running domain, null if the VM is not running.
          type: str
          sample: 2097152 KiB
    restart_required:
      description: Whether a change takes effect only after a restart.
      type: bool
    disks:
      description: The volumes, in the order of the details. Empty with O(state=absent).
      type: list
      elements: dict
      sample: [{name: controller1-disk0.qcow2, pool: default, path: /var/lib/libvirt/images/controller1-disk0.qcow2,
                capacity_bytes: 21474836480, allocation_bytes: 1310720}]
      contains:
        name:
          description: Name of the volume in its pool.
          type: str
          sample: controller1-disk0.qcow2
        pool:
          description: Name of the pool.
          type: str
          sample: default
        path:
          description: Path on the host.
          type: str
          sample: /var/lib/libvirt/images/controller1-disk0.qcow2
        capacity_bytes:
          description: Size in bytes as seen by the VM. Null for the folder of a container, which has no limit.
          type: int
          sample: 21474836480
        allocation_bytes:
          description: Allocated bytes. Null for a folder, and in check mode for a volume that does not exist yet.
          type: int
          sample: 1310720
    host_key:
      description:
        - The public SSH host key of the guest if O(host_keys) contains the VM and the key is known for certain, else null.
      type: str
      sample: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFU1bV0Ytq1Tfw1pPqXHgkz2XSm2XG3uM2mC1lVtC0Cs
    addresses:
      description:
        - The addresses of the NICs with O(wait), without those of one link only. With V(ssh) the first one is the one that answered.
        - Null if none is known, which is not a proof that the guest has none. Empty if the guest agent reports none.
      type: list
      elements: dict
      sample: [{address: 192.168.122.57, mac: '52:54:00:25:3d:6c', source: lease}]
      contains:
        address: {description: The IPv4 or IPv6 address., type: str, sample: 192.168.122.57}
        mac: {description: MAC of the NIC., type: str, sample: '52:54:00:25:3d:6c'}
        source: {description: 'V(lease), V(agent) or V(arp) of libvirt, or V(details) for one that only the VM details contain.', type: str, sample: lease}
    error:
      description: The error message, null on success.
      type: str
unlisted:
  description: Names of VMs of this cluster on this host that are not in O(vms). They were left unchanged.
  returned: always
  type: list
  elements: str
  sample: []
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core import model_redaction
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_module import answer, quiet
from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_define import DefineRequest, define_vms
from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot import model_cloud_init


def main() -> None:
    """Run the module."""
    module = quiet(AnsibleModule)(
        argument_spec={
            "cluster": {"type": "str", "required": True},
            "vms": {"type": "raw", "default": []},
            "only": {"type": "list", "elements": "str", "default": []},
            "template": {"type": "str", "default": "default"},
            "state": {"type": "str", "choices": ["running", "present", "shutdown", "absent", "rolled_back"], "default": "running"},
            "remove_disks": {"type": "bool", "default": False},
            "wipe": {"type": "bool", "default": False},
            "recreate_disks": {"type": "list", "elements": "str", "default": []},
            "adopt_disks": {"type": "list", "elements": "str", "default": []},
            "autostart": {"type": "bool", "default": True},
            "wait": {"type": "str", "choices": ["address", "ssh"]},
            "wait_timeout": {"type": "int", "default": 300},
            "pool": {"type": "str", "default": "default"},
            "uri": {"type": "str"},
            "images_path": {"type": "path"},
            "strict": {"type": "bool", "default": False},
            "adopt": {"type": "bool", "default": False},
            "allow_emulation": {"type": "bool", "default": False},
            "allow_power_cycling": {"type": "bool", "default": False},
            "force": {"type": "bool", "default": False},
            "shutdown_timeout": {"type": "int", "default": 120},
            "live_timeout": {"type": "int", "default": 10},
            "lock_timeout": {"type": "int", "default": 300},
            "parallel": {"type": "int", "default": 4},
            "node_roles": {"type": "list", "elements": "str"},
            "pending_images": {"type": "list", "elements": "str", "default": []},
            "host_keys": {"type": "dict", "default": {}, "no_log": True},
            "authorized_keys": {"type": "list", "elements": "str", "default": [], "no_log": False},
        },
        supports_check_mode=True,
    )

    def define() -> dict[str, t.Any]:
        given = dict(module.params)
        # first mask the secrets for the result, which contains the parameters, also of an invalid request; the request keeps them
        module.no_log_values.update(model_redaction.hidden_values(given["vms"]), model_redaction.display_passwords(given["template"]))
        module.params["vms"] = model_cloud_init.without_secrets(given["vms"])
        result = define_vms(DefineRequest(**given), check_mode=module.check_mode)
        return {**result.as_result(diff=module._diff), "warnings": result.warnings}

    answer(module, define)


if __name__ == "__main__":
    main()
