# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: the next step with keystone's key repositories."""

from __future__ import annotations

import typing as t

DOCUMENTATION = r"""
name: keystone_keys_decision
short_description: Decide the next step with the keys that keystone members share
version_added: 1.0.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - A member promotes a key only after all members have it, so no valid token is rejected during a rotation.
  - If repositories differ, a rotation was interrupted; it is completed before another one starts.
  - Members that do not answer, and members with a primary key that the others do not have, are refused, with the reason.
positional: rotate, source
options:
  _input:
    description:
      - All members by name, in order, each with the result C(repository) of M(reduced.footprint.keystone_keys_info), or nothing
        for a member that does not answer.
    type: dict
    required: true
  rotate:
    description: Whether to request a new primary key, or only the same keys on all members.
    type: bool
    default: false
  source:
    description: Name of the member whose keys are valid, whatever the others have.
    type: str
"""

EXAMPLES = r"""
- name: Decide the next step
  ansible.builtin.set_fact:
    decision: "{{ {'c1': member1.repository, 'c2': member2.repository, 'c3': none} | reduced.footprint.keystone_keys_decision(rotate=true) }}"
"""

RETURN = r"""
_value:
  description:
    - The decision with V(action) of the leader (V(none), V(create), V(promote), V(restage) or V(refuse)), V(reason), V(hint),
      V(leader), V(followers) (members that get its keys afterwards, in order), V(missing) and V(rotated).
  type: dict
"""

from ansible.errors import AnsibleFilterError


def keystone_keys_decision(
    looks: t.Mapping[str, t.Mapping[str, t.Any] | None], rotate: bool = False, source: str | None = None
) -> dict[str, t.Any]:
    """Return the decision as plain values; see :func:`decide`."""
    from ansible_collections.reduced.footprint.plugins.module_utils._keystone.plan_fernet import decide

    try:
        members = {
            name: {int(number): str(mark) for number, mark in look["fingerprints"].items()} if look else None for name, look in looks.items()
        }
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise AnsibleFilterError(f"keystone_keys_decision: expected results of keystone_keys_info: {error!r}") from None
    return decide(members, rotate, source or None).as_dict()


class FilterModule:
    """Filters of this plugin."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return name → filter."""
        return {"keystone_keys_decision": keystone_keys_decision}
