#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: virt_host_settings
short_description: Set a host's virtualisation as a whole
version_added: 0.1.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Brings all that a host's libvirt lives by in one call, namely C(qemu.conf), what libvirt-guests does at the host's
    shutdown, units of systemd, limits of the kernel, huge pages, nested guests, who may use libvirt, and labels of SELinux.
  - Works with a single C(libvirtd) and with a daemon per driver (C(virtqemud) and its like), whichever the host runs.
  - The daemon is restarted only when what it reads is younger than its start, so a run that was killed between writing and
    restarting is completed by the next. Guests run on.
  - When libvirt does not live with new settings, the old ones are put back, the daemon is started with them, and the
    module fails with libvirt's own words.
  - What this module wrote and is no longer asked for, it takes away again.
requirements:
  - systemd and libvirt on the server
  - semanage, restorecon and matchpathcon where SELinux is on and O(pool_paths) are given
attributes:
  check_mode:
    support: full
    description:
      - Tells the same actions. With O(mask_broken_kvm) a proof is made all the same, its guest leaves nothing behind.
      - How many huge pages the kernel can give is known only when it is asked for them.
  diff_mode:
    support: full
    description: Shows each file, numbers and units before and after; values of settings that hold a password are hidden.
  platform:
    support: full
    platforms: linux
    description: Linux with systemd and libvirt.
options:
  qemu_conf:
    description:
      - Settings of C(/etc/libvirt/qemu.conf), name to value; text, whole numbers, truth values and lists of text.
      - They stand in a block at the top of the file; libvirt takes the first of two settings with the same name.
    type: dict
    default: {}
  guests_conf:
    description: Settings of libvirt-guests, name to value, in a block at the end of O(guests_file).
    type: dict
    default: {}
  guests_file:
    description: Where libvirt-guests has its settings, C(/etc/sysconfig/libvirt-guests) in the RHEL family.
    type: path
    default: /etc/default/libvirt-guests
  sysctl:
    description: Limits of the kernel, name to number, raised to at least these values, now and with every start of the host.
    type: dict
    default: {}
  huge_pages:
    description:
      - Huge pages for guests, per size, now and with every start of the host. Pages of a size that is no longer named are
        given back to the kernel as they become free.
      - When the kernel cannot give them all, because its memory is in pieces, that is told; it is not tried again before
        the host was restarted.
    type: list
    elements: dict
    default: []
    suboptions:
      size:
        description: Size of a page; a number counts in MiB.
        type: str
        required: true
      count:
        description: How many.
        type: int
        required: true
  nested:
    description:
      - Whether guests may run guests of their own under KVM. Not given, the host's own setting stays.
      - A module that is loaded keeps its setting until it is loaded anew; that is told, and nothing is unloaded.
    type: bool
  mask_broken_kvm:
    description:
      - Hide C(/dev/kvm) from libvirt where it exists and is proven to run no guest. In sight of such a device libvirt examines
        QEMU anew at every define, which takes tens of seconds each time.
      - It is hidden from the daemon and its guests only, by an empty file that systemd mounts over it for the daemon's unit. The daemon has
        mounts of its own then; network file systems that libvirt itself mounts for a pool are not seen by others.
      - The proof is taken from O(facts_file) where it still holds, otherwise made.
      - The device comes back when this is no longer asked for or a new proof succeeds.
    type: bool
    default: false
  users:
    description: Users to be members of the group C(libvirt), who may do all with all guests. Nobody is taken out of it.
    type: list
    elements: str
    default: []
  pool_paths:
    description:
      - Folders of storage pools. Where SELinux is on they get the type C(virt_image_t), in the policy and on the disk, and are
        made where there are none. SELinux is never switched off.
      - AppArmor stays on and needs nothing; libvirt adds each disk to the profile of its guest.
    type: list
    elements: path
    default: []
  facts_file:
    description: Where the node's proofs are recorded by M(reduced.footprint.virt_node).
    type: path
    default: /etc/ansible/facts.d/reduced_footprint.fact
  proof_timeout:
    description: Seconds after which the guest of a proof counts as hung.
    type: float
    default: 15.0
seealso:
  - module: reduced.footprint.virt_node
  - name: daemons of libvirt
    description: A single daemon and a daemon per driver.
    link: https://libvirt.org/daemons.html
"""

EXAMPLES = r"""
- name: Set the host's virtualisation
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

- name: Large guests, some of them with guests of their own
  reduced.footprint.virt_host_settings:
    huge_pages:
      - {size: 1 GiB, count: 32}
      - {size: 2 MiB, count: 1024}
    nested: true

- name: A server whose firmware has virtualisation switched off
  reduced.footprint.virt_host_settings:
    mask_broken_kvm: true

- name: Disks in a folder of their own, on a host with SELinux
  reduced.footprint.virt_host_settings:
    guests_file: /etc/sysconfig/libvirt-guests
    pool_paths: [/srv/guests]
"""

RETURN = r"""
actions:
  description: What was done, or would be in check mode, in this order.
  returned: success
  type: list
  elements: str
  sample: [write /etc/libvirt/qemu.conf, restart libvirtd.service]
daemon:
  description: The unit of the daemon that speaks to QEMU; null where libvirt is not installed, in check mode only.
  returned: success
  type: str
  sample: libvirtd.service
restarted:
  description: Whether the daemon was restarted.
  returned: success
  type: bool
kvm:
  description: The device of KVM.
  returned: success
  type: dict
  contains:
    device:
      description: Whether C(/dev/kvm) exists.
      type: bool
      returned: always
    usable:
      description: Whether a guest ran under it; null where nothing was proven.
      type: bool
      returned: always
    reason:
      description: What was proven, or why not.
      type: str
      returned: always
    hidden:
      description: Whether it is hidden from libvirt.
      type: bool
      returned: always
huge_pages:
  description: The huge pages asked for. In check mode the kernel is taken to give what it was not yet asked for.
  returned: success
  type: list
  elements: dict
  contains:
    size_kib:
      description: Size of a page in KiB.
      type: int
      returned: always
    asked:
      description: How many were asked for.
      type: int
      returned: always
    given:
      description: How many the kernel has.
      type: int
      returned: always
restart_required:
  description: What only a restart of the host, or a module loaded anew, brings.
  returned: success
  type: list
  elements: str
  sample: []
error:
  description: What was wrong.
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

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_quiet_module import quiet
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_zip_imports import compile_once, keep_compiled


def main() -> None:
    """Entry point."""
    compile_once()
    from ansible_collections.reduced.footprint.plugins.module_utils._host.settings.run_settings import hidden_values, set_host

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
            "proof_timeout": {"type": "float", "default": 15.0},
        },
        supports_check_mode=True,
    )
    module.no_log_values.update(hidden_values(module.params))
    try:
        result = set_host(module.params, check_mode=module.check_mode)
        keep_compiled(module.check_mode)
    except FootprintError as error:
        module.fail_json(**error.as_result())
    for warning in result.warnings:
        module.warn(warning)
    module.exit_json(**result.as_dict())


if __name__ == "__main__":
    main()
