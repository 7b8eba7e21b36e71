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
requirements:
  - python3-libvirt and python3-lxml on the host
attributes:
  check_mode:
    support: full
    description: Changes nothing in any mode.
  diff_mode:
    support: none
    description: Changes nothing, so there is nothing to show.
  platform:
    support: full
    platforms: linux
    description: Linux with libvirt.
options:
  cluster:
    description: Only VMs of this cluster.
    type: str
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
    choices: [running, paused, shutdown, crashed]
    default: []
  owned:
    description: Only VMs made by this collection; V(false) lists the others too.
    type: bool
    default: true
  uri:
    description: Address of libvirt; without it all drivers of the host are asked.
    type: str
  xml:
    description: Give the documents of the domains too. They can be long.
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
    uuid:
      description: UUID of the domain.
      type: str
      sample: 7b45d8dd-c21e-583a-ba1c-10588e67640e
    state:
      description: V(running), V(paused), V(shutdown) or V(crashed).
      type: str
      sample: running
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
      description: Whether it runs with an older definition than it has.
      type: bool
      sample: false
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
from ansible_collections.reduced.footprint.plugins.module_utils._model.errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._run.info import InfoRequest, read_vms


def main() -> None:
    """Parameters in, use case, result out."""
    module = AnsibleModule(
        argument_spec={
            "cluster": {"type": "str"},
            "ids": {"type": "list", "elements": "str", "default": []},
            "names": {"type": "list", "elements": "str", "default": []},
            "states": {"type": "list", "elements": "str", "choices": ["running", "paused", "shutdown", "crashed"], "default": []},
            "owned": {"type": "bool", "default": True},
            "uri": {"type": "str"},
            "xml": {"type": "bool", "default": False},
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
