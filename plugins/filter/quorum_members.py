# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: the members of each quorum, from the inventory."""

from __future__ import annotations

import typing as t

DOCUMENTATION = r"""
name: quorum_members
short_description: List the members of each quorum and the servers they run on
version_added: 1.0.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Converts inventory groups to the option C(quorums) of M(reduced.footprint.virt_node).
  - A host is alive if its database is ready, or if it has no database at all.
positional: names, members, vm_hosts, witnesses
options:
  _input:
    description: Groups of the inventory, C(groups).
    type: dict
    required: true
  names:
    description: Groups that form a quorum; a group that is not in the inventory is ignored.
    type: list
    elements: str
    required: true
  members:
    description: Hosts with RV(reduced.footprint.galera_info#module:galera), empty for a host that does not answer.
    type: dict
    required: true
  vm_hosts:
    description: Hosts with the server they run on, empty for a host that is a server itself.
    type: dict
    default: {}
  witnesses:
    description: Hosts that vote in each quorum and have no data. In O(members) they have the service V(witness) of M(reduced.footprint.controlplane_info).
    type: list
    elements: str
    default: []
seealso:
  - module: reduced.footprint.virt_node
"""

EXAMPLES = r"""
- name: Remove a virt node
  reduced.footprint.virt_node:
    name: metal2
    cluster: lab
    state: absent
    confirm: metal2
    quorums: "{{ groups | reduced.footprint.quorum_members(['controller'], {'c1': result1.galera, 'c2': {}}, {'c1': 'metal1', 'c2': 'metal2'}) }}"
"""

RETURN = r"""
_value:
  description: The members of each quorum, each a mapping of C(name), C(server) and C(alive).
  type: dict
"""

from ansible.errors import AnsibleFilterError
from ansible_collections.reduced.footprint.plugins.module_utils._host.removal.plan_removal import quorums_of_groups


def quorum_members(
    groups: t.Mapping[str, t.Sequence[str]],
    names: t.Sequence[str],
    members: t.Mapping[str, t.Mapping[str, t.Any]],
    vm_hosts: t.Mapping[str, str] | None = None,
    witnesses: t.Sequence[str] = (),
) -> dict[str, list[dict[str, t.Any]]]:
    """Return the members of each quorum; see :func:`quorums_of_groups`."""
    try:
        return quorums_of_groups(groups, names, members, vm_hosts or {}, witnesses)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise AnsibleFilterError(f"quorum_members: expected groups of an inventory and results of galera_info: {error!r}") from None


class FilterModule:
    """Filters of this plugin."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return name → filter."""
        return {"quorum_members": quorum_members}
