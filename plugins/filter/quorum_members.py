# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who forms a quorum, from the inventory."""

from __future__ import annotations

import typing as t

DOCUMENTATION = r"""
name: quorum_members
short_description: Tell which hosts form a quorum and where they stand
version_added: 0.1.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Turns groups of the inventory into what M(reduced.footprint.virt_node) takes as C(quorums).
  - A host stands on the server its variable C(vm_host) names, or is a server itself. It takes part when the result of
    M(reduced.footprint.galera_info) in its variable C(removal_member) says that it is ready, or that it has no database at all.
positional: groups, names
options:
  _input:
    description: The variables of all hosts, C(hostvars).
    type: dict
    required: true
  groups:
    description: The groups of the inventory, C(groups).
    type: dict
    required: true
  names:
    description: The groups that form a quorum; one that the inventory does not have is left out.
    type: list
    elements: str
    required: true
seealso:
  - module: reduced.footprint.virt_node
"""

EXAMPLES = r"""
- name: Make an ordinary server of a node again
  reduced.footprint.virt_node:
    name: metal2
    cluster: lab
    state: absent
    confirm: metal2
    quorums: "{{ hostvars | reduced.footprint.quorum_members(groups, ['controller']) }}"
"""

RETURN = r"""
_value:
  description: For each quorum its members, each a mapping of C(name), C(server) and C(alive).
  type: dict
"""

from ansible.errors import AnsibleFilterError
from ansible_collections.reduced.footprint.plugins.module_utils._host.removal.plan_removal import quorums_from_variables


def quorum_members(hostvars: t.Mapping[str, t.Any], groups: t.Mapping[str, t.Sequence[str]], names: t.Sequence[str]) -> dict[str, list[dict[str, t.Any]]]:
    """The members of each quorum; see :func:`quorums_from_variables`."""
    try:
        return quorums_from_variables(hostvars, groups, names)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise AnsibleFilterError(f"quorum_members: not the variables and groups of an inventory: {error!r}") from error


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Their names."""
        return {"quorum_members": quorum_members}
