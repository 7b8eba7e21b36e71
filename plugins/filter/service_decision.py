# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: decisions about the members of clustered services."""

from __future__ import annotations

import typing as t

from ansible_collections.reduced.footprint.plugins.plugin_utils.filters import decision_module, imported

DOCUMENTATION = r"""
name: service_decision
short_description: Decide what the members of a clustered service do next
version_added: 1.0.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Makes the decisions of the roles of these services from the answers of all members; a member without an answer is unknown.
  - For internal use; the functions in its file document the arguments and results of each decision.
positional: decision
options:
  _input:
    description: Each member with the result of the C(_info) module of its service, empty for a member that does not answer.
    type: raw
    required: true
  decision:
    description:
      - V(fetched_from) lists the members from which backups are fetched, V(keystone_keys) finds the member whose Fernet keys the others get, V(ovn_database)
        the members that create or join the databases, V(rabbitmq) the member that must start first, V(rabbitmq_differences) lists what a run has to do with
        its cluster or to report about it, V(same_authority) compares two certificate authorities, V(settled) lists the services for which nothing is left
        to do.
    type: str
    required: true
    choices: [fetched_from, keystone_keys, ovn_database, rabbitmq, rabbitmq_differences, same_authority, settled]
"""

EXAMPLES = r"""
- name: Decide which member starts first
  ansible.builtin.debug:
    msg: "{{ {'c1': answers.c1.repository, 'c2': none} | reduced.footprint.service_decision('keystone_keys') }}"
"""

RETURN = r"""
_value:
  description: The decision.
  type: raw
"""

Looks = t.Mapping[str, t.Union[t.Mapping[str, t.Any], None]]


def keystone_keys(looks: Looks, rotate: bool = False, source: str | None = None) -> dict[str, t.Any]:
    """Return ``action``, ``leader`` and more; see :func:`plan_fernet.decide`.

    :arg looks: each member with the repository of ``keystone_keys_info``.
    :arg rotate: whether to request a new primary key, or only the same keys on all members.
    :arg source: the member whose keys are valid, whatever the others have.
    """
    from ansible_collections.reduced.footprint.plugins.module_utils._keystone.plan_fernet import decide

    members = {name: {int(number): str(mark) for number, mark in look["fingerprints"].items()} if look else None for name, look in looks.items()}
    return decide(members, rotate, source or None).as_dict()


def ovn_database(
    looks: Looks, addresses: t.Mapping[str, str], force: str | None = None, gone: t.Sequence[str] | None = None, started: bool = True
) -> dict[str, t.Any]:
    """Return the steps of each member for each database; see :func:`plan_ovn.decide_all`.

    :arg looks: each member with the databases of ``ovn_database_info``.
    :arg addresses: of all members.
    :arg force: the member whose data become a new cluster, if the majority is lost.
    :arg gone: addresses of members that left permanently.
    :arg started: whether this run has started the members that were stopped. Before that ``force`` has no effect, because together they may have a leader.
    """
    from ansible_collections.reduced.footprint.plugins.module_utils._ovn import plan_ovn

    members = {name: facts["databases"] if (facts := looks.get(name)) else None for name in addresses}
    return plan_ovn.decide_all(members, addresses, force or "", tuple(gone or ()), started)


def rabbitmq(
    looks: Looks, nodes: t.Mapping[str, str], force: str | None = None, gone: t.Sequence[str] = (), witnesses: t.Sequence[str] = ()
) -> dict[str, t.Any]:
    """Return ``action``, ``reason`` and more; see :func:`plan_rabbitmq.decide`.

    :arg looks: each member with the facts of ``rabbitmq_info``.
    :arg nodes: each member with its Erlang node name.
    :arg force: the member to start from, although others do not answer.
    :arg gone: nodes that left permanently and may be forgotten.
    :arg witnesses: members that vote only.
    """
    from ansible_collections.reduced.footprint.plugins.module_utils._rabbitmq.plan_rabbitmq import Member, decide

    members = {name: Member.from_facts(name, node, facts) if (facts := looks.get(name)) else None for name, node in nodes.items()}
    return decide(members, nodes, force or None, tuple(gone or ()), tuple(witnesses or ())).as_dict()


FilterModule = decision_module(
    "service_decision",
    fetched_from=imported("_galera.plan_backup", "fetched_from"),
    keystone_keys=keystone_keys,
    ovn_database=ovn_database,
    rabbitmq=rabbitmq,
    rabbitmq_differences=imported("_rabbitmq.plan_rabbitmq", "differences"),
    same_authority=imported("_certificate.run_certificate", "same_authority"),
    settled=imported("_service.plan_settled", "settled"),
)
