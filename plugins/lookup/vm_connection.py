# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: vm_connection
author:
  - reduced.footprint authors (@reduced-footprint)
version_added: 1.0.0
short_description: Addresses and host keys of virtual machines, as they are now
description:
  - Returns the variables with which Ansible connects to virtual machines, that is, the address and the pinned ssh host key.
  - The inventory plugin P(reduced.footprint.nodes#inventory) finds them when the inventory is read. A VM that is created later has none,
    in the same run, and in the next jobs of AWX until it updates the inventory. This lookup queries the same sources again, with the options that
    the plugin recorded in the variable C(vm_address_lookup).
  - The address in the inventory is returned for a VM that none of the sources knows.
options:
  _terms:
    description: Names of virtual machines.
    type: list
    elements: str
    required: true
  new:
    description: Whether to leave out VMs whose address and host key are in the inventory, and those of other inventory plugins.
    type: bool
    default: false
  wait_timeout:
    description: Seconds to wait until every VM has an address. V(0) searches once.
    type: int
    default: 0
seealso:
  - plugin: reduced.footprint.nodes
    plugin_type: inventory
"""

EXAMPLES = r"""
- name: Connect to VMs that were created after the inventory was read
  hosts: footprint_vms
  gather_facts: false
  tasks:
    - name: Find their addresses
      ansible.builtin.add_host:
        name: "{{ item.name }}"
        ansible_host: "{{ item.ansible_host }}"
      loop: "{{ query('reduced.footprint.vm_connection', *groups['footprint_vms'], wait_timeout=120) | selectattr('ansible_host', 'defined') }}"
      changed_when: false
"""

RETURN = r"""
_raw:
  description:
    - One dictionary per VM, with C(name), and if the address is known C(ansible_host) and C(vm_address_source), and if the host key is known
      C(vm_host_key), C(ansible_ssh_extra_args), C(ansible_sftp_extra_args) and C(ansible_scp_extra_args).
  type: list
  elements: dict
  sample: [{name: controller1, ansible_host: 192.0.2.31, vm_address_source: lease}]
"""

import time
import typing as t

from ansible.errors import AnsibleError
from ansible.plugins.lookup import LookupBase
from ansible.utils.display import Display
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._inventory import run_connections

display = Display()
# seconds between two searches
_PAUSE = 3.0


class LookupModule(LookupBase):
    """Names of VMs to connection variables."""

    def run(self, terms: list[t.Any], variables: t.Any = None, **kwargs: t.Any) -> list[dict[str, t.Any]]:
        """Return the connection variables of each VM.

        :raises AnsibleError: an unknown VM, or one whose inventory source is not the plugin.
        """
        self.set_options(var_options=variables, direct=kwargs)
        until = time.monotonic() + self.get_option("wait_timeout")
        names = [str(term) for term in terms]
        hosts = (variables or {}).get("hostvars") or {}
        if self.get_option("new"):
            names = [name for name in names if run_connections.is_new(hosts[name])]
        try:
            while True:
                found, warnings = run_connections.connections(names, hosts)
                left = until - time.monotonic()
                if left <= 0 or all("ansible_host" in found[name] for name in names):
                    break
                time.sleep(min(_PAUSE, left))
        except FootprintError as error:
            raise AnsibleError(f"vm_connection: {error}") from error
        for warning in warnings:
            display.warning(warning)
        return [{"name": name, **found[name]} for name in names]
