# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: which member of a Galera cluster makes the backup."""

from __future__ import annotations

import typing as t

DOCUMENTATION = r"""
name: galera_backup_member
short_description: Choose the member that makes the backup
version_added: 0.1.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Of the members that are Primary and Synced the one with the fewest clients, so not the one that is written to; at a tie the
    last. Nobody who is not ready, and an error when nobody is.
positional: member
options:
  _input:
    description: All members by name, in order, each with what M(reduced.footprint.galera_info) returns as C(galera), or nothing.
    type: dict
    required: true
  member:
    description: The member an operator wants.
    type: str
"""

EXAMPLES = r"""
- name: Choose
  ansible.builtin.set_fact:
    chosen: "{{ {'c1': look1.galera, 'c2': look2.galera} | reduced.footprint.galera_backup_member }}"
"""

RETURN = r"""
_value:
  description: The member's name.
  type: str
"""

from ansible.errors import AnsibleFilterError
from ansible_collections.reduced.footprint.plugins.module_utils._core.model_errors import FootprintError
from ansible_collections.reduced.footprint.plugins.module_utils._galera.plan_backup import choose_member


def galera_backup_member(looks: t.Mapping[str, t.Mapping[str, t.Any] | None], member: str | None = None) -> str:
    """The member's name; see :func:`choose_member`."""
    try:
        return choose_member(looks, member or None)
    except FootprintError as error:
        raise AnsibleFilterError(str(error)) from error
    except (AttributeError, TypeError, ValueError) as error:
        raise AnsibleFilterError(f"galera_backup_member: not what galera_info returns: {error!r}") from error


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Their names."""
        return {"galera_backup_member": galera_backup_member}
