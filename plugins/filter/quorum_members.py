# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: the members of each quorum, from the inventory."""

from __future__ import annotations

import typing as t

DOCUMENTATION = r"""
name: quorum_members
short_description: List the members of each quorum and the servers they run on
version_added: 0.1.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Converts inventory groups to the option C(quorums) of M(reduced.footprint.virt_node).
  - A host runs on the server that its variable C(vm_host) names, or is a server itself. It is alive if the result of
    M(reduced.footprint.galera_info) in its variable C(removal_member) shows that it is ready, or that it has no database at all.
positional: groups, names
options:
  _input:
    description: Variables of all hosts, C(hostvars).
    type: dict
    required: true
  groups:
    description: Groups of the inventory, C(groups).
    type: dict
    required: true
  names:
    description: Groups that form a quorum; a group that is not in the inventory is ignored.
    type: list
    elements: str
    required: true
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
    quorums: "{{ hostvars | reduced.footprint.quorum_members(groups, ['controller']) }}"
"""

RETURN = r"""
_value:
  description: The members of each quorum, each a mapping of C(name), C(server) and C(alive).
  type: dict
"""

from ansible.errors import AnsibleFilterError
from ansible_collections.reduced.footprint.plugins.module_utils._host.removal.plan_removal import quorums_from_variables


def quorum_members(hostvars: t.Mapping[str, t.Any], groups: t.Mapping[str, t.Sequence[str]], names: t.Sequence[str]) -> dict[str, list[dict[str, t.Any]]]:
    """Return the members of each quorum; see :func:`quorums_from_variables`."""
    try:
        return quorums_from_variables(hostvars, groups, names)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise AnsibleFilterError(f"quorum_members: expected the variables and groups of an inventory: {error!r}") from error


class FilterModule:
    """Filters of this plugin."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return name → filter."""
        return {"quorum_members": quorum_members}
