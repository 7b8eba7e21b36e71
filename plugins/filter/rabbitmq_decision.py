# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: which member starts a RabbitMQ cluster and which members join."""

from __future__ import annotations

import typing as t

DOCUMENTATION = r"""
name: rabbitmq_decision
short_description: Decide which member starts a RabbitMQ cluster and which members join
version_added: 1.0.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - A running cluster is joined; a second one is never started. Otherwise the member that has contents starts a cluster, else the
    first. A stopped cluster is started by a member that served last.
  - A member that does not answer while no cluster is running, nodes of another cluster, a cookie that differs from that of the
    running cluster, and contents that joining would wipe are refused, with the reason.
positional: nodes, force, gone, witnesses
options:
  _input:
    description:
      - All members by name, in order, each with the result C(rabbitmq) of M(reduced.footprint.rabbitmq_info), or nothing for a
        member that does not answer.
    type: dict
    required: true
  nodes:
    description: Erlang node name of each member, by name of the member.
    type: dict
    required: true
  force:
    description: Name of the member to start from, although others do not answer.
    type: str
  gone:
    description: Nodes that left permanently and may be forgotten.
    type: list
    elements: str
  witnesses:
    description: Members that vote only.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Decide which member starts the cluster
  ansible.builtin.set_fact:
    decision: "{{ {'m1': member1.rabbitmq, 'm2': none} | reduced.footprint.rabbitmq_decision({'m1': 'rabbit@m1', 'm2': 'rabbit@m2'}) }}"
"""

RETURN = r"""
_value:
  description:
    - The decision with V(action) (V(none), V(start), V(join), V(bootstrap) or V(refuse)), V(reason), V(hint), V(first) (the
      member that must run before the others), V(start) and V(join) (members in order), V(forget) (nodes), V(forced) and
      V(warnings).
  type: dict
"""

from ansible.errors import AnsibleFilterError


def rabbitmq_decision(
    looks: t.Mapping[str, t.Mapping[str, t.Any] | None],
    nodes: t.Mapping[str, str],
    force: str | None = None,
    gone: t.Sequence[str] = (),
    witnesses: t.Sequence[str] = (),
) -> dict[str, t.Any]:
    """Return the decision as plain values; see :func:`decide`."""
    from ansible_collections.reduced.footprint.plugins.module_utils._rabbitmq.plan_rabbitmq import Member, decide

    try:
        members = {name: Member.from_facts(name, nodes[name], facts) if facts else None for name, facts in looks.items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise AnsibleFilterError(f"rabbitmq_decision: expected results of rabbitmq_info: {error!r}") from None
    return decide(members, nodes, force or None, tuple(gone or ()), tuple(witnesses or ())).as_dict()


class FilterModule:
    """Filters of this plugin."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return name → filter."""
        return {"rabbitmq_decision": rabbitmq_decision}
