# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: list the members of each service of the control plane, of each environment."""

from __future__ import annotations

import typing as t

DOCUMENTATION = r"""
name: controlplane_environments
short_description: List the members of each service of the control plane, of each environment of the inventory
version_added: 1.0.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Returns P(reduced.footprint.controlplane_members#filter) for each C(footprint_environment) of the inventory. Use it for what concerns servers,
    which may have members of several environments.
positional: groups
options:
  _input:
    description: The variables of all hosts, C(hostvars).
    type: dict
    required: true
  groups:
    description: The groups of the inventory, C(groups).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the environments
  ansible.builtin.debug:
    msg: "{{ hostvars | reduced.footprint.controlplane_environments(groups) | list }}"
"""

RETURN = r"""
_value:
  description: Each environment, with an empty name if no host has one, with its services and the names of their hosts.
  type: dict
"""

from ansible.errors import AnsibleFilterError


def controlplane_environments(
    hostvars: t.Mapping[str, t.Any], groups: t.Mapping[str, t.Sequence[str]]
) -> dict[str, dict[str, list[str]]]:
    """Return environment → service → its hosts; see :func:`environments_of`."""
    from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_controlplane import environments_of

    try:
        return environments_of(groups, hostvars)
    except (TypeError, AttributeError, KeyError) as error:
        raise AnsibleFilterError(f"controlplane_environments: expected hostvars and groups: {error!r}") from None


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filters by name."""
        return {"controlplane_environments": controlplane_environments}
