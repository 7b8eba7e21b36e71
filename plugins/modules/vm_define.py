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
  - Renders a libvirt XML template with the details of each VM, creates volumes that are missing, defines the domains, sets autostart and starts them;
    all VMs of a host in one call.
  - Everything is read, rendered and decided before anything is touched. A VM that fails, then or later, leaves the others alone; its result says why,
    and the next run takes up what is missing. VM details that are not valid end the whole call, as does an error that no VM of the call is without,
    e.g. a broken template.
  - UUIDs and MACs derive from O(cluster), the VM's id and the name or number of the NIC, so they are the same on every
    host and in every run.
  - A VM of ours that is no longer in O(vms) is never stopped or removed; a warning names it. Domains of somebody else are touched only with O(adopt).
  - The rendered document is kept in the domain's metadata, but for the passwords of VNC and SPICE, for whoever may read domains reads that. What is
    wanted, what was applied last, the definition and what runs are compared only where the template speaks; order, units and what libvirt adds by
    itself make no difference. What somebody else changed is told in RV(vms[].drift) and put right. The boot order, the firmware and the media in
    drives, which a BMC emulator sets, are left as found until the template itself changes them.
  - Each difference has a class, see RV(vms[].changes). A running VM is changed in place where that is possible; where its guest or the driver
    refuses, the change waits for the next start, is told once, and is not tried again before.
  - A definition is edited in place, so the addresses of devices and whatever the template does not speak of stay. It is never removed to be made
    anew, and the one before is kept (O(state=rolled_back)). Passwords of displays stay what they are.
  - Volumes that exist are never written over. They grow with the details, also below a running VM, and never shrink.
  - A volume that a VM was created with and that is missing is never replaced by an empty one; see O(recreate_disks).
requirements:
  - python3-libvirt, python3-lxml and python3-jinja2 on the host
  - qemu-utils on the host, for qcow2 volumes and base images
  - xorriso on the host, for VMs with C(user_data), C(network_config) or C(meta_data)
attributes:
  check_mode:
    support: full
    description:
      - Says exactly what the real run would do, volumes included. Only what a guest is going to refuse is not known before.
      - On a host where libvirt is not installed or does not answer yet, every VM counts as new and a warning says so.
  diff_mode:
    support: full
    description: Shows state, volumes, each change with its class and the rendered document of each VM, before and after.
options:
  cluster:
    description: Name of the cluster; identities derive from it, and it marks the domains as ours.
    type: str
    required: true
  state:
    description:
      - V(running) defines and starts, V(present) only defines, V(shutdown) defines and shuts down.
      - V(absent) shuts down and removes the definition, NVRAM included, and keeps the disks unless O(remove_disks) says
        otherwise. Protected VMs are refused. Saved memory and the records of snapshots go too.
      - V(rolled_back) gives the VMs the definition they had before their last change and leaves it so when asked again; a run
        with their details goes forward. O(vms) need name no more than the ids. Whether they run does not change, nor does
        their autostart.
      - A VM that M(reduced.footprint.vm_move) took to another server, or that is on its way, is left alone with V(running) and V(present) (see
        RV(vms[].moved_to)) and refused with the other states.
      - A run ends when the state is so. A paused or suspended VM goes on with V(running); one whose memory was saved goes on
        from there, with the definition it was saved with.
    type: str
    choices: [running, present, shutdown, absent, rolled_back]
    default: running
  autostart:
    description: Whether the VMs come up with their host. A VM's own C(autostart) wins.
    type: bool
    default: true
  uri:
    description:
      - Address of libvirt. Without it each VM's hypervisor type chooses the system's own driver, one connection per driver.
    type: str
extends_documentation_fragment:
  - reduced.footprint.attributes.libvirt
  - reduced.footprint.vm_details
  - reduced.footprint.vm_details.run
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

- name: A cloud image with a user, on a disk that may grow later
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

- name: Remove a VM with its disks, overwritten; without the last two lines its disks stay
  reduced.footprint.vm_define:
    cluster: lab
    vms: [{id: web1}]
    state: absent
    remove_disks: true
    wipe: true

- name: Create a disk again whose content was lost and is not needed; without the last line that is an error
  reduced.footprint.vm_define:
    cluster: lab
    vms: "{{ vms }}"
    recreate_disks: [web1-disk1.qcow2]

- name: Go back to the definition before the last change
  reduced.footprint.vm_define:
    cluster: lab
    vms: [{id: controller1}]
    state: rolled_back

- name: Take over a domain somebody made by hand
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
      description:
        - V(running), V(paused), V(suspended), V(shutdown), V(crashed) or V(absent); in check mode the one it would have.
        - V(moved), V(moving) or V(arriving) where M(reduced.footprint.vm_move) has it; then nothing was done.
      type: str
      sample: running
    moved_to:
      description: The server that has it or will have it, where M(reduced.footprint.vm_move) took it; nothing otherwise.
      type: str
      sample: null
    changed:
      description: Whether anything was done.
      type: bool
      sample: true
    actions:
      description:
        - What was done, in order; in check mode what would be done.
        - C(define), C(redefine), C(adopt), C(update_metadata), C(change_live), C(autostart_on), C(autostart_off), C(start),
          C(resume), C(power_cycle), C(shutdown), C(undefine), and what was done to volumes with their names.
      type: list
      elements: str
      sample: [define, create_volume default/controller1-disk0.qcow2, autostart_on, start]
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
    changes:
      description: What was changed of a VM that was there, in check mode what would be.
      type: list
      elements: dict
      sample: [{path: memory, class: next_boot, before: 2097152 KiB, after: 4194304 KiB, applied: 2097152 KiB}]
      contains:
        path:
          description: The value, or a whole device such as C(devices/disk[vdb]).
          type: str
          sample: memory
        class:
          description:
            - V(live) is in effect now, V(next_boot) when it starts next.
            - V(recreate) would make another VM of it and V(refused) would lose data; then RV(vms[].error) says so and
              nothing was done.
          type: str
          sample: next_boot
        before:
          description: What it was, nothing where it was not there.
          type: str
          sample: 2097152 KiB
        after:
          description: What it is, nothing where it is gone.
          type: str
          sample: 4194304 KiB
        applied:
          description: What was applied the last time.
          type: str
          sample: 2097152 KiB
    drift:
      description: What somebody else changed of a VM of ours since that was applied. It was put right, or will be with the next start.
      type: list
      elements: dict
      sample: [{path: memory, applied: 2097152 KiB, wanted: 2097152 KiB, config: 1048576 KiB, live: 2097152 KiB}]
      contains:
        path:
          description: The value, or a whole device.
          type: str
          sample: memory
        applied:
          description: What was applied the last time.
          type: str
          sample: 2097152 KiB
        wanted:
          description: What is wanted now.
          type: str
          sample: 2097152 KiB
        config:
          description: What was found in the definition.
          type: str
          sample: 1048576 KiB
        live:
          description: What was found in what runs, nothing where it does not run.
          type: str
          sample: 2097152 KiB
    restart_required:
      description: Whether something of what is wanted takes effect only when it is restarted.
      type: bool
      sample: false
    disks:
      description: Its volumes, in the order of the details. None with O(state=absent).
      type: list
      elements: dict
      sample: [{name: controller1-disk0.qcow2, pool: default, path: /var/lib/libvirt/images/controller1-disk0.qcow2,
                capacity: 21474836480, allocation: 1310720}]
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
          description: Where it stands on the host.
          type: str
          sample: /var/lib/libvirt/images/controller1-disk0.qcow2
        capacity:
          description: Bytes the VM sees. Nothing for the folder of a container, which has no limit.
          type: int
          sample: 21474836480
        allocation:
          description: Bytes it occupies now. Nothing for a folder, and in check mode for a volume that is not made yet.
          type: int
          sample: 1310720
    host_key:
      description:
        - The public ssh host key of the guest, where O(host_keys) names the VM and its key is known for certain. Nothing
          otherwise.
      type: str
      sample: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFU1bV0Ytq1Tfw1pPqXHgkz2XSm2XG3uM2mC1lVtC0Cs
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
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_quiet_module import quiet
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_zip_imports import compile_once, keep_compiled


def main() -> None:
    """Parameters in, use case, result out."""
    compile_once()
    from ansible_collections.reduced.footprint.plugins.module_utils._core import model_redaction
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.apply.run_define import DefineRequest, define_vms
    from ansible_collections.reduced.footprint.plugins.module_utils._vm.first_boot import model_cloud_init

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
            "autostart": {"type": "bool", "default": True},
            "pool": {"type": "str", "default": "default"},
            "uri": {"type": "str"},
            "strict": {"type": "bool", "default": False},
            "adopt": {"type": "bool", "default": False},
            "allow_power_cycling": {"type": "bool", "default": False},
            "force": {"type": "bool", "default": False},
            "shutdown_timeout": {"type": "float", "default": 120.0},
            "live_timeout": {"type": "float", "default": 10.0},
            "lock_timeout": {"type": "float", "default": 300.0},
            "parallel": {"type": "int", "default": 4},
            "node_roles": {"type": "list", "elements": "str"},
            "pending_images": {"type": "list", "elements": "str", "default": []},
            "host_keys": {"type": "dict", "default": {}, "no_log": True},
        },
        supports_check_mode=True,
    )
    try:
        request = DefineRequest(**module.params)
        # and not for the result, which tells the parameters
        module.no_log_values.update(model_redaction.hidden_values(module.params["vms"]), model_redaction.display_passwords(module.params["template"]))
        module.params["vms"] = model_cloud_init.without_secrets(module.params["vms"])
        result = define_vms(request, check_mode=module.check_mode)
        keep_compiled(module.check_mode)
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
