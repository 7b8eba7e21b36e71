# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: the next step with keystone's keys."""

from __future__ import annotations

import typing as t

DOCUMENTATION = r"""
name: keystone_keys_decision
short_description: Decide the next step with the keys that several keystones share
version_added: 0.1.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Nobody promotes a key before all members know it, so no token is refused while keys are exchanged.
  - Repositories that differ are what a killed rotation leaves; it is completed before another one begins.
  - Members that do not answer and members with keys nobody else knows are refused, with the reason.
positional: rotate, source
options:
  _input:
    description:
      - All members by name, in order, each with what M(reduced.footprint.keystone_keys_info) returns as C(repository), or nothing
        for a member that does not answer.
    type: dict
    required: true
  rotate:
    description: Whether a new primary key is wanted, or only that all have the same keys.
    type: bool
    default: false
  source:
    description: Name of the member whose keys are the right ones, whatever the others have.
    type: str
"""

EXAMPLES = r"""
- name: Decide
  ansible.builtin.set_fact:
    decision: "{{ {'c1': look1.repository, 'c2': look2.repository, 'c3': none} | reduced.footprint.keystone_keys_decision(rotate=true) }}"
"""

RETURN = r"""
_value:
  description:
    - The decision with V(action) of the leader (V(none), V(create), V(promote), V(restage) or V(refuse)), V(reason), V(hint),
      V(leader), V(followers) (who take over its keys afterwards, in order), V(missing) and V(rotated).
  type: dict
"""

from ansible.errors import AnsibleFilterError
from ansible_collections.reduced.footprint.plugins.module_utils._keystone.plan_fernet import decide


def keystone_keys_decision(
    looks: t.Mapping[str, t.Mapping[str, t.Any] | None], rotate: bool = False, source: str | None = None
) -> dict[str, t.Any]:
    """The decision on the members as plain values; see :func:`decide`."""
    try:
        members = {
            name: {int(number): str(mark) for number, mark in look["fingerprints"].items()} if look else None for name, look in looks.items()
        }
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise AnsibleFilterError(f"keystone_keys_decision: not what keystone_keys_info returns: {error!r}") from error
    return decide(members, rotate, source or None).as_dict()


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Their names."""
        return {"keystone_keys_decision": keystone_keys_decision}
