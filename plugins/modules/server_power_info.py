#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: server_power_info
short_description: Read power, boot device and boot mode of a server or VM
version_added: 1.0.0
description:
  - Reads the state of a server from its management controller (BMC) with Redfish, or that of a VM from libvirt.
  - Also returns the operations of M(reduced.footprint.server_power) that the machine has, and for the others the reason.
requirements:
  - for VMs, python3-libvirt and python3-lxml on the host
extends_documentation_fragment:
  - reduced.footprint.attributes.reads
  - reduced.footprint.power
seealso:
  - module: reduced.footprint.server_power
"""

EXAMPLES = r"""
- name: Read the power state of a server
  reduced.footprint.server_power_info:
    bmc: "{{ lookup('reduced.footprint.bmc', 'metal1') }}"
  delegate_to: localhost
  register: found

- name: Show what its BMC cannot do
  ansible.builtin.debug:
    var: found.power.unsupported
"""

RETURN = r"""
power:
  description: The state.
  returned: success
  type: dict
  contains:
    state:
      description: V(on), V(off), or V(transition) while it changes.
      type: str
      sample: "on"
    boot_device:
      description: First boot device, V(none) for the order of the firmware. Null if unknown, or if there is none.
      type: str
      sample: disk
    boot_once:
      description: Whether the boot device is for the next boot only.
      type: bool
    boot_mode:
      description: V(uefi) or V(bios). Null if unknown, or if there is none.
      type: str
      sample: uefi
    uuid:
      description: UUID of the machine as its BMC or libvirt reports it. Empty if unknown.
      type: str
      sample: 4c4c4544-0042-3510-8052-b4c04f565231
    supported:
      description: The operations of this machine.
      type: list
      elements: str
      sample: ["on", "off", soft, cycle, boot_device]
    unsupported:
      description: Operations that this machine does not have.
      type: list
      elements: dict
      contains:
        operation: {description: The operation., type: str, returned: always, sample: boot_once}
        reason: {description: Why it is not supported., type: str, returned: always, sample: libvirt has no boot device for the next boot only}
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_module import answer, quiet
from ansible_collections.reduced.footprint.plugins.module_utils._power import model_power, run_power


def main() -> None:
    """Run the module."""
    module = quiet(AnsibleModule)(argument_spec=model_power.MACHINE_ARGUMENTS, supports_check_mode=True)
    answer(module, lambda: {"changed": False, **run_power.read(module.params)})


if __name__ == "__main__":
    main()
