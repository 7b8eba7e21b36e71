#!/usr/bin/python
# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: server_power
short_description: Power, boot device and boot mode of a server or VM
version_added: 1.0.0
description:
  - Controls a server through its management controller (BMC) with Redfish, or a VM through libvirt, with the same options.
  - Reads the state first, and requests only what differs. With O(wait=true), V(off) is returned only after the controller has confirmed it.
  - An operation that a machine does not have fails with C(unsupported) and the reason, before anything is changed.
  - For a server, the task runs on a machine that reaches the controllers, usually the control node (C(delegate_to=localhost)); for a VM on
    its virt host. No library for Redfish is required.
requirements:
  - for VMs, python3-libvirt and python3-lxml on the host
extends_documentation_fragment:
  - reduced.footprint.attributes.changes
  - reduced.footprint.power
options:
  state:
    description:
      - V(on) and V(off) switch the power, V(soft) requests a shutdown from the operating system, V(cycle) is off and on again.
      - V(cycle) powers a machine on that is off. Any other machine is seen off before it is powered on, also with O(wait=false). Otherwise it fails after
        O(wait_timeout).
    type: str
    choices: ["on", "off", soft, cycle]
  boot_device:
    description:
      - First device from the next boot on. V(bios) enters the setup of the firmware, V(none) removes the boot device.
      - It is set and read back before the power state is changed. A controller that has not stored it is an error.
    type: str
    choices: [pxe, disk, cdrom, bios, none]
  boot_once:
    description: Use O(boot_device) for the next boot only.
    type: bool
    default: false
  boot_mode:
    description: Boot mode of the firmware.
    type: str
    choices: [uefi, bios]
  wait:
    description: Wait until the power state is confirmed. Without it, a change is only requested.
    type: bool
    default: true
  wait_timeout:
    description: Maximum number of seconds to wait for the power state; with O(state=cycle) until it is off, and then until it is on.
    type: int
    default: 300
seealso:
  - module: reduced.footprint.server_power_info
  - plugin: reduced.footprint.bmc
    plugin_type: lookup
"""

EXAMPLES = r"""
- name: Power off a server, and return when its BMC confirms it
  reduced.footprint.server_power:
    bmc: "{{ lookup('reduced.footprint.bmc', 'metal1') }}"
    state: "off"
  delegate_to: localhost

- name: Boot a server over the network, once
  reduced.footprint.server_power:
    bmc: "{{ lookup('reduced.footprint.bmc', 'metal1') }}"
    boot_device: pxe
    boot_once: true
    state: cycle
  delegate_to: localhost

- name: Shut down a VM
  reduced.footprint.server_power:
    vm: controller1
    state: soft
  delegate_to: metal1
"""

RETURN = r"""
power:
  description: The state afterwards, as RV(reduced.footprint.server_power_info#module:power). In check mode the state after a real run.
  returned: success
  type: dict
  sample: {state: "on", boot_device: pxe, boot_once: true, boot_mode: uefi, uuid: 4c4c4544-0042-3510-8052-b4c04f565231, supported: ["on", "off"]}
actions:
  description: What was done, or in check mode would be.
  returned: success
  type: list
  elements: str
  sample: [boot from pxe once, power cycle]
error: {description: 'C(message), and C(path) of the invalid value and C(hint), which are null if unknown.', returned: failure, type: dict}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.reduced.footprint.plugins.module_utils._core.run_module import answer, quiet
from ansible_collections.reduced.footprint.plugins.module_utils._power import model_power, run_power


def main() -> None:
    """Run the module."""
    module = quiet(AnsibleModule)(
        argument_spec={
            **model_power.MACHINE_ARGUMENTS,
            "state": {"type": "str", "choices": list(model_power.STATES)},
            "boot_device": {"type": "str", "choices": list(model_power.DEVICES)},
            "boot_once": {"type": "bool", "default": False},
            "boot_mode": {"type": "str", "choices": list(model_power.MODES)},
            "wait": {"type": "bool", "default": True},
            "wait_timeout": {"type": "int", "default": 300},
        },
        supports_check_mode=True,
    )
    answer(module, lambda: run_power.ensure(module.params, module.check_mode).as_result())


if __name__ == "__main__":
    main()
