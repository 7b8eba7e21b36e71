#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: server_install
short_description: Install Debian on a disk of a server
version_added: 1.0.0
description:
  - With O(state=present) it runs on a server that booted over the network with the role C(boot_server). It writes partitions, file systems, the system that
    the boot server has built, the files of this server and the boot loader for the firmware that booted.
  - The disk is the one with the given serial number; other disks are not written. It must be empty, or contain an interrupted installation of the same
    server, which is started again. A complete installation is not changed. One whose system was started, but never confirmed, is only written
    again if O(erase) names the disk.
  - With O(state=confirmed) it runs on the installed server, and marks its installation as complete. The mark is the id of the partition table.
  - The playbook C(install_server) does both.
requirements:
  - root
extends_documentation_fragment:
  - reduced.footprint.attributes.changes
attributes:
  diff_mode:
    details:
      - The diff contains the actions.
options:
  name:
    description: Name of the server in the inventory.
    type: str
    required: true
  state:
    description: V(present) installs, V(confirmed) marks the running installation as complete.
    type: str
    choices: [present, confirmed]
    default: present
  disk:
    description: Serial number of the disk.
    type: str
    required: true
  erase:
    description: Serial numbers of disks whose data may be lost. A complete installation of this server is not erased.
    type: list
    elements: str
    default: []
  lvm:
    description: Creates a volume group on the disk, with the root file system in a volume. Without it, the root file system is the rest of the disk.
    type: dict
    suboptions:
      group:
        description: Name of the volume group.
        type: str
        required: true
      root:
        description: Size of the volume C(root), for example V(32 GiB). The rest of the group is free.
        type: str
        required: true
  hostname:
    description: Host name. Defaults to O(name).
    type: str
  address:
    description: IPv4 address of the server.
    type: str
    required: true
  network:
    description: The network of the address.
    type: dict
    required: true
    suboptions:
      prefix:
        description: Length of the prefix.
        type: int
        required: true
      gateway:
        description: Address of the router.
        type: str
      dns:
        description: Addresses of DNS servers.
        type: list
        elements: str
        default: []
      mac:
        description: MAC of the network card that gets the address.
        type: str
        required: true
  authorized_keys:
    description: Public ssh keys of the operators, which root accepts.
    type: list
    elements: str
    required: true
  host_private_key:
    description: Private ssh host key of the server, an ed25519 key in OpenSSH format. Required with O(state=present).
    type: str
seealso:
  - module: reduced.footprint.server_hardware_info
  - module: reduced.footprint.server_power
  - plugin: reduced.footprint.ssh_host_key
    plugin_type: lookup
"""

EXAMPLES = r"""
- name: Install Debian on a server that booted over the network
  reduced.footprint.server_install:
    name: metal1
    disk: S4EVNX0
    lvm: {group: vms, root: 32 GiB}
    address: 192.0.2.11
    network: {prefix: 24, gateway: 192.0.2.1, dns: [192.0.2.1], mac: "52:54:00:12:34:56"}
    authorized_keys: ["{{ lookup('ansible.builtin.file', '~/.ssh/id_ed25519.pub') }}"]
    host_private_key: "{{ lookup('reduced.footprint.ssh_host_key', 'metal1') }}"
"""

RETURN = r"""
actions:
  description: What was done, or in check mode would be.
  returned: success
  type: list
  elements: str
  sample: [install Debian on /dev/sda (S4EVNX0), "create partition 1: 512 MiB, vfat at /boot/efi"]
installation:
  description: The installation.
  returned: success
  type: dict
  contains:
    device: {description: Device of the disk., type: str, returned: always, sample: /dev/sda}
    state:
      description: V(complete) for a complete installation; what the disk was for one that was written, V(write) or V(continue) after an interrupted one.
      type: str
      sample: write
    layout:
      description: Partitions and volumes. Empty with O(state=confirmed).
      type: list
      elements: dict
      contains:
        name: {description: The partition or volume., type: str, returned: always, sample: partition 1}
        content: {description: File system or use. Null for the partition of the boot loader with BIOS., type: str, returned: always, sample: vfat}
        mount: {description: Its mount point. Null if it has none., type: str, returned: always, sample: /boot/efi}
        size_bytes: {description: Its size in bytes., type: int, returned: always, sample: 536870912}
host_key:
  description: The public ssh host key of the installed system. Null with O(state=confirmed).
  returned: success
  type: str
  sample: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEcx...
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_module import answer, quiet
from ansible_collections.reduced.footprint.plugins.module_utils._metal import run_install


def main() -> None:
    """Run the module."""
    lvm = {"group": {"type": "str", "required": True}, "root": {"type": "str", "required": True}}
    network = {
        "prefix": {"type": "int", "required": True},
        "gateway": {"type": "str"},
        "dns": {"type": "list", "elements": "str", "default": []},
        "mac": {"type": "str", "required": True},
    }
    module = quiet(AnsibleModule)(
        argument_spec={
            "name": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["present", "confirmed"], "default": "present"},
            "disk": {"type": "str", "required": True},
            "erase": {"type": "list", "elements": "str", "default": []},
            "lvm": {"type": "dict", "options": lvm},
            "hostname": {"type": "str"},
            "address": {"type": "str", "required": True},
            "network": {"type": "dict", "required": True, "options": network},
            "authorized_keys": {"type": "list", "elements": "str", "required": True, "no_log": False},
            "host_private_key": {"type": "str", "no_log": True},
        },
        required_if=[("state", "present", ["host_private_key"])],
        supports_check_mode=True,
    )
    answer(module, lambda: run_install.apply(module.params, module.check_mode).as_result())


if __name__ == "__main__":
    main()
