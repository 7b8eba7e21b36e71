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
  - Returns the option C(quorums) of M(reduced.footprint.virt_node).
  - A host is alive if it answers and is healthy in each service with a majority of which it is a member - database, queue, network databases.
positional: groups, names, environments, places
options:
  _input:
    description: Each host of the control plane with RV(reduced.footprint.controlplane_info#module:controlplane), empty for a host that does not answer.
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
  environments:
    description:
      - The members of each environment of the inventory, as returned by P(reduced.footprint.controlplane_members#filter) with C(environments).
        Witnesses vote in each group. A service with other voters than the groups is a quorum of its own.
    type: dict
    required: true
  places:
    description: Hosts with the server they run on, empty for a host that is a server itself.
    type: dict
    default: {}
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
    quorums: "{{ looks | reduced.footprint.quorum_members(groups, ['controller'], environments, {'c1': 'metal1', 'c2': 'metal2'}) }}"
"""

RETURN = r"""
_value:
  description: The members of each quorum, each a mapping of C(name), C(server) and C(alive).
  type: dict
"""

from ansible.errors import AnsibleFilterError


def quorum_members(
    looks: t.Mapping[str, t.Mapping[str, t.Any] | None],
    groups: t.Mapping[str, t.Sequence[str]],
    names: t.Sequence[str],
    environments: t.Mapping[str, t.Mapping[str, t.Sequence[str]]],
    places: t.Mapping[str, str] | None = None,
) -> dict[str, list[dict[str, t.Any]]]:
    """Return the members of each quorum; see :func:`quorums_of`."""
    from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_quorums import quorums_of

    try:
        return quorums_of(looks, groups, names, environments, places or {})
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise AnsibleFilterError(f"quorum_members: expected results of controlplane_info, groups and environments: {error!r}") from None


class FilterModule:
    """Filters of this plugin."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return name → filter."""
        return {"quorum_members": quorum_members}
