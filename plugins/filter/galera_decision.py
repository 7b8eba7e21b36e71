# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: who starts a Galera cluster and who joins."""

from __future__ import annotations

import typing as t

DOCUMENTATION = r"""
name: galera_decision
short_description: Decide who starts a Galera cluster and who joins it
version_added: 0.1.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - A living Primary Component is joined, never rivalled. Without one, the only fresh cluster is started by its first member,
    and one with data by the member with the highest position.
  - A member that does not answer, a position nobody can read, a foreign cluster, several Primary Components of one cluster and
    databases that joining would wipe are refused, with the reason.
positional: force
options:
  _input:
    description:
      - All members by name, in order, each with what M(reduced.footprint.galera_info) returns as C(galera), or nothing for a
        member that does not answer.
    type: dict
    required: true
  force:
    description: Name of the member to recover from, although others are missing or unreadable.
    type: str
"""

EXAMPLES = r"""
- name: Decide
  ansible.builtin.set_fact:
    decision: "{{ {'c1': look1.galera, 'c2': look2.galera, 'c3': none} | reduced.footprint.galera_decision(force='c1') }}"
"""

RETURN = r"""
_value:
  description:
    - The decision with V(action) (V(none), V(join), V(bootstrap) or V(refuse)), V(reason), V(hint), V(bootstrap) (the member
      that starts), V(join) (the others in order), V(discard) (those of them whose own data have to be set aside before),
      V(uuid), V(warnings), and V(members), one line for each to be read by a person.
  type: dict
"""

from ansible.errors import AnsibleFilterError
from ansible_collections.reduced.footprint.plugins.module_utils._galera.plan_galera import Member, decide, describe


def galera_decision(looks: t.Mapping[str, t.Mapping[str, t.Any] | None], force: str | None = None) -> dict[str, t.Any]:
    """The decision on the members as plain values; see :func:`decide`."""
    try:
        members = {name: Member.from_facts(name, facts) if facts else None for name, facts in looks.items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise AnsibleFilterError(f"galera_decision: not what galera_info returns: {error!r}") from error
    decision = decide(members, force or None)
    return {**decision.as_dict(), "members": describe(members, decision)}


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Their names."""
        return {"galera_decision": galera_decision}
