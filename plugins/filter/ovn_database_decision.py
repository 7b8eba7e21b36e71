# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: how the clusters of the databases of OVN are formed."""

from __future__ import annotations

import typing as t

DOCUMENTATION = r"""
name: ovn_database_decision
short_description: Decide which member creates the databases of OVN and which members join
version_added: 1.0.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - A cluster that has a leader is joined; a second one is never created. If no member has data, the first one creates the cluster.
  - A member that does not answer while no other has data, two clusters, servers that are not listed, and a cluster without a majority are
    refused, with the reason.
positional: addresses, force, gone, started
options:
  _input:
    description:
      - All members by name, in order, each with the result C(ovn_database) of M(reduced.footprint.ovn_database_info), or nothing for a
        member that does not answer.
    type: dict
    required: true
  addresses:
    description: Address of each member, by name of the member.
    type: dict
    required: true
  force:
    description: Name of the member whose data become a new cluster, if the majority is lost.
    type: str
  gone:
    description: Addresses of members that left permanently.
    type: list
    elements: str
  started:
    description: Whether this run has started the members that were stopped. Before that O(force) has no effect, because together they may have a leader.
    type: bool
    default: true
"""

EXAMPLES = r"""
- name: Decide how the databases are formed
  ansible.builtin.set_fact:
    decision: "{{ {'m1': member1.ovn_database, 'm2': none} | reduced.footprint.ovn_database_decision({'m1': '192.0.2.11', 'm2': '192.0.2.12'}) }}"
"""

RETURN = r"""
_value:
  description:
    - C(refused) (text with reason and hint, empty if nothing is refused), C(reasons), C(warnings), C(begin) (member → database → how it
      starts the cluster), C(steps) (member → database → steps of M(reduced.footprint.ovn_database_member) after that), C(start)
      (members with stopped servers that must be started before the decision is made again) and C(kick) (member → database → steps that remove servers).
  type: dict
"""

from ansible.errors import AnsibleFilterError


def ovn_database_decision(
    looks: t.Mapping[str, t.Mapping[str, t.Any] | None],
    addresses: t.Mapping[str, str],
    force: str | None = None,
    gone: t.Sequence[str] | None = None,
    started: bool = True,
) -> dict[str, t.Any]:
    """Return the decisions for all databases as plain values; see :func:`plan_ovn.decide_all`."""
    from ansible_collections.reduced.footprint.plugins.module_utils._ovn import plan_ovn

    try:
        members = {name: facts["databases"] if facts else None for name, facts in looks.items()}
        return plan_ovn.decide_all(members, addresses, force or "", tuple(gone or ()), started)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise AnsibleFilterError(f"ovn_database_decision: expected results of ovn_database_info: {error!r}") from None


class FilterModule:
    """Filters of this plugin."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return name → filter."""
        return {"ovn_database_decision": ovn_database_decision}
