# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: the VMs of a server that are copied to another one."""

from __future__ import annotations

import typing as t

DOCUMENTATION = r"""
name: vm_standbys
short_description: List the VMs of a server that are copied to another server
version_added: 1.0.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Reads the key C(standby) of VM details and validates it against the servers of the inventory. A standby that is the server of the VM, that
    is unknown, or that lacks the role C(virt) is an error with the path of the value; so is one of a container or of a VM with a shared disk.
positional: server, servers, cluster, name
options:
  _input:
    description: The VM details of the server, a list or the same list as JSON text.
    type: raw
    required: true
  server:
    description: Name of the server.
    type: str
    required: true
  servers:
    description: Each physical server with its roles.
    type: dict
    required: true
  cluster:
    description: Name of the cluster.
    type: str
    default: default
  name:
    description: Name of the variable that contains the VM details, for messages.
    type: str
    default: vms
seealso:
  - module: reduced.footprint.vm_standby
"""

EXAMPLES = r"""
- name: Show which VMs of a server are copied
  ansible.builtin.debug:
    msg: "{{ vms | reduced.footprint.vm_standbys('metal1', {'metal1': ['virt'], 'metal2': ['virt']}) }}"
"""

RETURN = r"""
_value:
  description:
    - For each of these VMs V(id), V(name), V(server) (the standby), V(interval), V(copies), V(automatic), V(path) (of the value in the VM details) and
      V(needed_bytes) (the space on the standby at most, except for what changes between copies).
  type: list
  elements: dict
"""

from ansible.errors import AnsibleFilterError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError


def vm_standbys(
    vms: t.Any, server: str, servers: t.Mapping[str, t.Sequence[str]], cluster: str = "default", name: str = "vms"
) -> list[dict[str, t.Any]]:
    """Return the VMs with a standby; see :func:`standbys_of`."""
    from ansible_collections.reduced.footprint.plugins.module_utils._standby.plan_request import standbys_of

    try:
        return standbys_of(vms, server, servers, cluster, name)
    except FootprintError as error:
        raise AnsibleFilterError(f"vm_standbys: {error}") from None


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filters by name."""
        return {"vm_standbys": vm_standbys}
