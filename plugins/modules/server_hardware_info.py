#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: server_hardware_info
short_description: Read the hardware of a server
version_added: 1.0.0
description:
  - Returns identity, memory, CPUs, disks with serial numbers, network cards with their links and neighbors, firmware and virtualization of a server.
  - The playbook C(discover_servers) runs it on servers that booted over the network, and compares the result with the inventory.
requirements:
  - root
  - lldpd for the neighbors; without it they are null
extends_documentation_fragment:
  - reduced.footprint.attributes.reads
options:
  lldp_timeout:
    description: Maximum number of seconds to wait until every network card with a link has a neighbor. Most switches send every 30 seconds.
    type: int
    default: 0
seealso:
  - module: reduced.footprint.virt_node_info
"""

EXAMPLES = r"""
- name: Read the hardware
  reduced.footprint.server_hardware_info:
    lldp_timeout: 35
  become: true
  register: result

- name: Show the serial numbers of the disks
  ansible.builtin.debug:
    msg: "{{ result.hardware.disks | map(attribute='serial') }}"
"""

RETURN = r"""
hardware:
  description: The hardware.
  returned: success
  type: dict
  contains:
    system:
      description: The identity according to the firmware; empty texts for what it does not contain.
      type: dict
      contains:
        uuid: {description: UUID of the system., type: str, returned: always, sample: 4c4c4544-0042-3510-8052-b4c04f4d3132}
        serial: {description: Serial number of the system., type: str, returned: always, sample: B5RMM12}
        vendor: {description: Its vendor., type: str, returned: always, sample: Dell Inc.}
        product: {description: Its model., type: str, returned: always, sample: PowerEdge R640}
    memory_bytes:
      description: Memory that the kernel uses, in bytes.
      type: int
      sample: 67285970944
    memory_installed_bytes:
      description: Bytes of all memory modules according to the firmware. Null if it does not list them.
      type: int
      sample: 68719476736
    cpus:
      description: Number of logical CPUs.
      type: int
      sample: 16
    cpu_model:
      description: Name of the CPU.
      type: str
      sample: Intel(R) Xeon(R) Silver 4208 CPU @ 2.10GHz
    disks:
      description: The disks, by name.
      type: list
      elements: dict
      contains:
        name: {description: Name of the device., type: str, returned: always, sample: sda}
        serial: {description: Serial number; empty if it has none., type: str, returned: always, sample: S4EVNX0}
        size_bytes: {description: Size in bytes., type: int, returned: always, sample: 960197124096}
        model: {description: Model., type: str, returned: always, sample: SAMSUNG MZ7LH960}
        wwn: {description: World Wide Name. Null if it has none., type: str, returned: always, sample: '0x5002538e00000001'}
        transport: {description: Kind of connection. Null if unknown., type: str, returned: always, sample: sata}
        rotational: {description: Whether it is a hard disk., type: bool, returned: always, sample: false}
        removable: {description: Whether it can be removed; also virtual media of a controller., type: bool, returned: always, sample: false}
        content:
          description: Partition table, file systems, LVM and RAID signatures on it. Empty for a disk without any.
          type: list
          elements: str
          sample: [LVM2_member, ext4, gpt]
    nics:
      description: The physical network cards, by name.
      type: list
      elements: dict
      contains:
        name: {description: Name of the interface., type: str, returned: always, sample: eno1}
        mac: {description: Its MAC., type: str, returned: always, sample: '52:54:00:12:34:56'}
        link: {description: Whether it has a link., type: bool, returned: always, sample: true}
        speed_mbit: {description: Speed of the link in Mbit per second. Null if unknown., type: int, returned: always, sample: 10000}
        driver: {description: Kernel driver., type: str, returned: always, sample: ixgbe}
        neighbor: {description: The machine at the other end according to LLDP. Null if unknown., type: str, returned: always, sample: switch1}
        port: {description: Its port. Null if unknown., type: str, returned: always, sample: Ethernet1/3}
    firmware:
      description: V(uefi) or V(bios), as it booted.
      type: str
      sample: uefi
    virtualization:
      description: Flag of the CPU for hardware virtualization, V(vmx) or V(svm). Null if it has none, or if it is disabled in the firmware.
      type: str
      sample: vmx
    iommu:
      description: Whether an IOMMU is in use.
      type: bool
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_module import answer
from ansible_collections.reduced.footprint.plugins.module_utils._metal import run_hardware


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec={"lldp_timeout": {"type": "int", "default": 0}}, supports_check_mode=True)
    answer(module, lambda: {"changed": False, "hardware": run_hardware.read(module.params["lldp_timeout"])})


if __name__ == "__main__":
    main()
