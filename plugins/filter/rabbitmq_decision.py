# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: who starts a RabbitMQ cluster and who joins."""

from __future__ import annotations

import typing as t

DOCUMENTATION = r"""
name: rabbitmq_decision
short_description: Decide who starts a RabbitMQ cluster and who joins it
version_added: 0.1.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - A running cluster is joined, never rivalled. Without one, the member that has contents starts it, else the first. A cluster
    that was stopped is started by the member that stopped last.
  - A member that does not answer while nobody runs a cluster, nodes of a foreign cluster, a cookie that a running cluster does
    not have, and contents that joining would wipe are refused, with the reason.
positional: nodes, force, gone
options:
  _input:
    description:
      - All members by name, in order, each with what M(reduced.footprint.rabbitmq_info) returns as C(rabbitmq), or nothing for a
        member that does not answer.
    type: dict
    required: true
  nodes:
    description: The Erlang name of each member by name.
    type: dict
    required: true
  force:
    description: Name of the member to start from although others are missing.
    type: str
  gone:
    description: Nodes that left for good and may be forgotten.
    type: list
    elements: str
"""

EXAMPLES = r"""
- name: Decide
  ansible.builtin.set_fact:
    decision: "{{ {'m1': look1.rabbitmq, 'm2': none} | reduced.footprint.rabbitmq_decision({'m1': 'rabbit@m1', 'm2': 'rabbit@m2'}) }}"
"""

RETURN = r"""
_value:
  description:
    - The decision with V(action) (V(none), V(start), V(join), V(bootstrap) or V(refuse)), V(reason), V(hint), V(first) (the
      member that has to run before the others), V(start) and V(join) (members in order), V(forget) (nodes), V(forced) and
      V(warnings).
  type: dict
"""

from ansible.errors import AnsibleFilterError
from ansible_collections.reduced.footprint.plugins.module_utils._rabbitmq.plan_rabbitmq import Member, decide


def rabbitmq_decision(
    looks: t.Mapping[str, t.Mapping[str, t.Any] | None],
    nodes: t.Mapping[str, str],
    force: str | None = None,
    gone: t.Sequence[str] = (),
) -> dict[str, t.Any]:
    """The decision on the members as plain values; see :func:`decide`."""
    try:
        members = {name: Member.from_facts(name, nodes[name], facts) if facts else None for name, facts in looks.items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise AnsibleFilterError(f"rabbitmq_decision: not what rabbitmq_info returns: {error!r}") from error
    return decide(members, nodes, force or None, tuple(gone or ())).as_dict()


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Their names."""
        return {"rabbitmq_decision": rabbitmq_decision}
