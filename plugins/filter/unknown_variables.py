# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: misspelt names of variables."""

from __future__ import annotations

import typing as t

DOCUMENTATION = r"""
name: unknown_variables
short_description: Find variables with the prefix of a role of this collection that no role has
version_added: 1.0.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Returns an error for each variable whose name begins with the name of a role of this collection, for example C(galera_), or with
    C(footprint_), but that neither the role nor a playbook knows. A misspelt variable would otherwise have no effect.
  - Names in the variable C(footprint_other_variables), a list that may contain wildcards, are not checked.
options:
  _input:
    description: The variables of all hosts, C(hostvars).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Check the names of variables
  ansible.builtin.assert:
    that: hostvars | reduced.footprint.unknown_variables | length == 0
"""

RETURN = r"""
_value:
  description: The errors.
  type: list
  elements: str
  sample: ['galera_setings: is not a variable of this collection (set for metal1). Did you mean galera_settings?']
"""

from ansible.errors import AnsibleFilterError


def unknown_variables(hostvars: t.Mapping[str, t.Mapping[str, t.Any]]) -> list[str]:
    """Return the errors."""
    from ansible_collections.reduced.footprint.plugins.module_utils._inventory import run_names

    try:
        return run_names.unknown_variables({name: hostvars[name] for name in hostvars}, run_names.known_variables())
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise AnsibleFilterError(f"unknown_variables: invalid variables of hosts: {error!r}") from None


class FilterModule:
    """The filters of this plugin."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filters by name."""
        return {"unknown_variables": unknown_variables}
