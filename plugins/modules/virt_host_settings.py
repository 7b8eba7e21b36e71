#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_host_settings
short_description: Configure libvirt on a host
version_added: 1.0.0
description:
  - Manages the settings of a virt host in one call, namely C(qemu.conf), libvirt-guests, systemd units, kernel limits, huge
    pages, nested virtualization, members of the group C(libvirt), and SELinux labels.
  - Supports the monolithic daemon C(libvirtd) and the modular daemons (C(virtqemud) and others), whichever the host uses.
  - The daemon is restarted only if a file that it reads is newer than its start, so a run that was killed between writing and
    restarting is completed by the next run. Guests continue to run.
  - If libvirt does not start with the new settings, the old ones are restored, the daemon is started with them, and the
    module fails with libvirt's error message.
  - Settings that this module wrote and that are no longer configured are removed.
  - Installs the hook with which libvirt asks the record of each VM whether it may run on this host.
requirements:
  - systemd and libvirt on the server
  - semanage, restorecon and matchpathcon if SELinux is enabled and O(pool_paths) is set
extends_documentation_fragment:
  - reduced.footprint.attributes.changes
attributes:
  check_mode:
    details:
      - With O(mask_broken_kvm) the hypervisor proof runs in check mode as well; its guest leaves nothing behind.
      - The number of huge pages that the kernel can allocate is only known after the request.
  platform:
    support: full
    platforms: linux
    description: Linux with systemd and libvirt.
options:
  qemu_conf:
    description:
      - Settings of C(/etc/libvirt/qemu.conf), name to value; strings, integers, booleans and lists of strings.
      - Written to a block at the top of the file; libvirt uses the first of two settings with the same name.
    type: dict
    default: {}
  guests_conf:
    description: Settings of libvirt-guests, name to value, written to a block at the end of O(guests_file).
    type: dict
    default: {}
  guests_file:
    description: Configuration file of libvirt-guests, C(/etc/sysconfig/libvirt-guests) in the RHEL family.
    type: path
    default: /etc/default/libvirt-guests
  sysctl:
    description: Kernel limits, name to number, raised to at least these values immediately and at each boot.
    type: dict
    default: {}
  huge_pages:
    description:
      - Huge pages for guests, per size, allocated immediately and at each boot. Pages of a size that is no longer listed are
        returned to the kernel as they become free.
      - If the kernel cannot allocate all of them because its memory is fragmented, a warning reports it, and the request is not
        repeated before the next reboot.
    type: list
    elements: dict
    default: []
    suboptions:
      size:
        description: Size of a page; a number without a unit is in MiB.
        type: str
        required: true
      count:
        description: Number of pages.
        type: int
        required: true
  nested:
    description:
      - Whether guests may use nested virtualization with KVM. If omitted, the setting of the host is not changed.
      - A loaded kernel module keeps its setting until it is reloaded; RV(restart_required) reports this. Modules are never unloaded.
    type: bool
  mask_broken_kvm:
    description:
      - Hide C(/dev/kvm) from libvirt if the device exists and a test guest failed to run. As long as libvirt sees such a device it
        probes QEMU again at every define, which takes tens of seconds each time.
      - It is hidden from the daemon and its guests only, by an empty file that systemd mounts over it for the daemon's unit. The daemon
        then has its own mount namespace; network file systems that libvirt mounts for a pool are not visible to other processes.
      - The proof is read from O(facts_file) if it is still valid, otherwise the test guest is run.
      - The device is visible again when this option is off or a new proof succeeds.
    type: bool
    default: false
  users:
    description: Users to add to the group C(libvirt), which has full access to all guests. Members are never removed.
    type: list
    elements: str
    default: []
  pool_paths:
    description:
      - Folders of storage pools. If SELinux is enabled they get the type C(virt_image_t) in the policy and on disk, and are
        created if missing. SELinux is never disabled.
      - AppArmor needs no configuration; libvirt adds each disk to the profile of its guest.
    type: list
    elements: path
    default: []
  facts_file:
    description: File with the hypervisor proofs recorded by M(reduced.footprint.virt_node).
    type: path
    default: /etc/ansible/facts.d/reduced_footprint.fact
  proof_timeout:
    description: Seconds after which the test guest of a proof is considered hung.
    type: int
    default: 15
seealso:
  - module: reduced.footprint.virt_node
  - name: libvirt daemons
    description: Monolithic and modular daemons.
    link: https://libvirt.org/daemons.html
"""

EXAMPLES = r"""
- name: Configure libvirt
  reduced.footprint.virt_host_settings:
    qemu_conf:
      vnc_listen: 127.0.0.1
      max_processes: 4096
    guests_conf:
      ON_SHUTDOWN: shutdown
      SHUTDOWN_TIMEOUT: 120
      URIS: qemu:///system lxc:///system
    sysctl:
      fs.inotify.max_user_instances: 1024

- name: Configure huge pages and nested virtualization
  reduced.footprint.virt_host_settings:
    huge_pages:
      - {size: 1 GiB, count: 32}
      - {size: 2 MiB, count: 1024}
    nested: true

- name: Hide an unusable KVM device
  reduced.footprint.virt_host_settings:
    mask_broken_kvm: true

- name: Label a pool folder on a host with SELinux
  reduced.footprint.virt_host_settings:
    guests_file: /etc/sysconfig/libvirt-guests
    pool_paths: [/srv/guests]
"""

RETURN = r"""
actions:
  description: The actions that were performed, or would be in check mode, in order.
  returned: success
  type: list
  elements: str
  sample: [write /etc/libvirt/qemu.conf, restart libvirtd.service]
daemon:
  description: The unit of libvirt's QEMU daemon; null if libvirt is not installed (check mode only).
  returned: success
  type: str
  sample: libvirtd.service
restarted:
  description: Whether the daemon was restarted.
  returned: success
  type: bool
kvm:
  description: The KVM device.
  returned: success
  type: dict
  contains:
    device:
      description: Whether C(/dev/kvm) exists.
      type: bool
    usable:
      description: Whether a test guest ran under it; null if no proof exists.
      type: bool
    reason:
      description: What was proven, or why the proof failed.
      type: str
    hidden:
      description: Whether it is hidden from libvirt.
      type: bool
huge_pages:
  description: The requested huge pages. Check mode assumes that the kernel can allocate all pages that were not requested before.
  returned: success
  type: list
  elements: dict
  contains:
    size_kib:
      description: Size of a page in KiB.
      type: int
    asked:
      description: Number of requested pages.
      type: int
    given:
      description: Number of allocated pages.
      type: int
restart_required:
  description: Settings that take effect only after a reboot of the host or a reload of a kernel module.
  returned: success
  type: list
  elements: str
  sample: []
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_module import answer, quiet
from ansible_collections.reduced.footprint.plugins.module_utils._host.settings.run_settings import hidden_values, set_host


def main() -> None:
    """Entry point."""
    pages = {"size": {"type": "str", "required": True}, "count": {"type": "int", "required": True}}
    module = quiet(AnsibleModule)(
        argument_spec={
            "qemu_conf": {"type": "dict", "default": {}},
            "guests_conf": {"type": "dict", "default": {}},
            "guests_file": {"type": "path", "default": "/etc/default/libvirt-guests"},
            "sysctl": {"type": "dict", "default": {}},
            "huge_pages": {"type": "list", "elements": "dict", "default": [], "options": pages},
            "nested": {"type": "bool"},
            "mask_broken_kvm": {"type": "bool", "default": False},
            "users": {"type": "list", "elements": "str", "default": []},
            "pool_paths": {"type": "list", "elements": "path", "default": []},
            "facts_file": {"type": "path", "default": "/etc/ansible/facts.d/reduced_footprint.fact"},
            "proof_timeout": {"type": "int", "default": 15},
        },
        supports_check_mode=True,
    )
    module.no_log_values.update(hidden_values(module.params))
    answer(module, lambda: set_host(module.params, check_mode=module.check_mode))


if __name__ == "__main__":
    main()
