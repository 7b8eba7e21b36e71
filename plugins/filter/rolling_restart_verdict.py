# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: whether the next member of a component may be taken."""

from __future__ import annotations

import typing as t

DOCUMENTATION = r"""
name: rolling_restart_verdict
short_description: Judge whether the next member of a component may be taken
version_added: 0.1.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Says what speaks against restarting or updating another member of a component, after
    M(reduced.footprint.controlplane_info) looked at every host. Nothing does when all members are well.
positional: groups, component, failed, back, accept_outage
options:
  _input:
    description: The variables of all hosts, C(hostvars), with what the playbook registered as C(rolling_restart_look).
    type: dict
    required: true
  groups:
    description: The groups of the inventory, C(groups).
    type: dict
    required: true
  component:
    description: The service that is worked at.
    type: str
    required: true
  failed:
    description: Members of it that failed and were given up. The service has to do without them and one more.
    type: list
    elements: str
    default: []
  back:
    description: A member that was just worked at. The load balancers have to send clients to it again.
    type: str
    default: ""
  accept_outage:
    description: Whether the service may stand still.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Go on only while all is well
  ansible.builtin.assert:
    that: (hostvars | reduced.footprint.rolling_restart_verdict(groups, 'galera')).why | length == 0
"""

RETURN = r"""
_value:
  description:
    - The judgement with V(why) (what speaks against it, nothing when it may be done), V(writers) (members to which clients of a
      service are sent alone), V(holders) (who holds which virtual address) and V(ports) (what is served at each).
  type: dict
"""

from ansible.errors import AnsibleFilterError
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_controlplane import members_of
from ansible_collections.reduced.footprint.plugins.module_utils._controlplane.plan_rolling import looks_of, verdict


def rolling_restart_verdict(
    hostvars: t.Mapping[str, t.Any],
    groups: t.Mapping[str, t.Sequence[str]],
    component: str,
    failed: t.Sequence[str] = (),
    back: str = "",
    accept_outage: bool = False,
) -> dict[str, t.Any]:
    """The judgement as plain values; see :func:`verdict`."""
    try:
        members = members_of(groups, hostvars)
        return verdict(component, members, looks_of(hostvars, members), failed, back, accept_outage).as_dict()
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise AnsibleFilterError(f"rolling_restart_verdict: not what the playbook rolling_restart registers: {error!r}") from error


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Their names."""
        return {"rolling_restart_verdict": rolling_restart_verdict}
