# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Filter plugin: check whether the next member of a component may be restarted or updated."""

from __future__ import annotations

import typing as t

DOCUMENTATION = r"""
name: rolling_restart_verdict
short_description: Check whether the next member of a component may be restarted or updated
version_added: 0.1.0
author:
  - reduced.footprint authors (@reduced-footprint)
description:
  - Lists the reasons against restarting or updating another member of a component, from the results of
    M(reduced.footprint.controlplane_info) on every host. There are none if all members are healthy.
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
    description: The service being restarted or updated.
    type: str
    required: true
  failed:
    description: Members of it that failed and were skipped. The service must keep its majority without them and one more.
    type: list
    elements: str
    default: []
  back:
    description: The member that was restarted or updated last. The load balancers must send clients to it again.
    type: str
    default: ""
  accept_outage:
    description: Whether to accept that the service is interrupted.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Continue only if all members are healthy
  ansible.builtin.assert:
    that: (hostvars | reduced.footprint.rolling_restart_verdict(groups, 'galera')).why | length == 0
"""

RETURN = r"""
_value:
  description:
    - The result with V(why) (the reasons against it, empty if there are none), V(writers) (frontend to the only member to which its clients
      are sent), V(holders) (virtual address to its holder) and V(ports) (virtual address to the ports served there).
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
    """Return the result as plain values; see :func:`verdict`."""
    try:
        members = members_of(groups, hostvars)
        return verdict(component, members, looks_of(hostvars, members), failed, back, accept_outage).as_dict()
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise AnsibleFilterError(f"rolling_restart_verdict: expected the results registered by the playbook rolling_restart: {error!r}") from error


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        """Return the filters by name."""
        return {"rolling_restart_verdict": rolling_restart_verdict}
